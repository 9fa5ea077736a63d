"""Weft, a durable workflow engine. The public surface is `__all__`; everything else may change."""

__version__ = "0.1.0"

__all__ = ["__version__"]
