"""Adapters of the transport port, one module each. Only `perdure.engine` imports them."""
