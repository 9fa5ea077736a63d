"""Adapters of the port `perdure.blobs`, one object store each. They must not know runs or journals."""
