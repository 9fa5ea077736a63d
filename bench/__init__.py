"""Measurements of the embedded engine, each beside the raw limit of the same machine. `make bench` runs them."""
