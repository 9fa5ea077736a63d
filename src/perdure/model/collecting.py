"""Reading and compiling without the collector of garbage. Must not know what is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend garbage collection, which takes several times as long as reading or compiling: both make a great number
    of small objects and no garbage, and while the collector looks at them all, no other thread has a turn."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
