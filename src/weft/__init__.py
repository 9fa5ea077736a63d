"""Weft, a durable workflow engine. The public surface is `__all__`; everything else may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.outcomes import Abort, NotDone, RetryLater
    from weft.runtime.context import Context

__version__ = "0.1.0"

__all__ = ["Abort", "Context", "NotDone", "RetryLater", "__version__"]

_HOMES = {
    "Abort": "weft.outcomes",
    "Context": "weft.runtime.context",
    "NotDone": "weft.outcomes",
    "RetryLater": "weft.outcomes",
}


def __getattr__(name: str) -> Any:
    """Loaded on first use: `import weft` and `weft --help` stay fast."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft' has no attribute '{name}'")
