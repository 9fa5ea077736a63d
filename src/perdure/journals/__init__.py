"""Adapters of the journal port, one folder per database. Only `perdure.engine` chooses between them."""
