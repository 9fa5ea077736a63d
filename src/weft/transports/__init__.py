"""Adapters of the transport port, one module each. Only `weft.engine` imports them."""
