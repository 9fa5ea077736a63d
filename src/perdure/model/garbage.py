"""Reading and compiling without the collector of garbage. Must not know what is read."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MANY = 50
_lock = threading.Lock()
_inside = 0
_enabled = True
"""Whether the collector was at work before the first of those who are inside came."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend garbage collection, which takes several times as long as reading or compiling: both make a great number
    of small objects and no garbage, and while the collector looks at them all, no other thread has a turn."""
    global _inside, _enabled  # noqa: PLW0603  the collector is one for the process, whose threads come and go here
    with _lock:
        if not _inside:
            _enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _enabled:
                gc.enable()


def collect_later(count: int) -> AbstractContextManager[None]:
    """Suspend garbage collection while so many messages are decided, if they are many: all that is made for their decisions lives until
    these are written, and to look at it again and again takes a sixth of the time."""
    return no_collection() if count >= MANY else nullcontext()
