"""Adapters of the journal port, one folder per database. Only `weft.engine` chooses between them."""
