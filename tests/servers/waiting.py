"""Waiting for a server, in a thread: until a condition holds, but not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 120.0


def wait_until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE_SECONDS:g} s in vain until {what}"
        tick.wait(0.02)
