"""Adapters of the port `weft.blobs`: one object store each. They must not know runs or journals."""
