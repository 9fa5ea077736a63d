"""The heartbeat: says from a thread of its own that the worker lives, and hears which tasks to stop (PROTOCOL 18).

This file owns when to beat and how the lag of the loop is measured. A wedged loop does not stop the beats: it shows in
the lag they report.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from perdure.clock import Clock

_log = logging.getLogger(__name__)


class LoopLag:
    """How long the loop takes to come around: asked from the heartbeat thread, answered on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._asked: float | None = None
        self._seconds = 0.0

    def measure(self) -> float:
        """The last known lag, or how long the loop has not answered if that is longer. Asks anew if it has answered."""
        now = self._clock.monotonic()
        asked = self._asked
        if asked is not None:
            return max(self._seconds, now - asked)
        self._asked = now
        self._loop.call_soon_threadsafe(self._answer)
        return self._seconds

    def _answer(self) -> None:
        asked = self._asked
        if asked is not None:
            self._seconds = self._clock.monotonic() - asked
            self._asked = None


class Heartbeat:
    def __init__(
        self,
        beat: Callable[[], None],
        seconds: float,
        name: str,
        *,
        has_news: Callable[[], bool] | None = None,
        look_seconds: float = 0.5,
    ) -> None:
        """`has_news` is asked every `look_seconds`; if it is true, the next beat comes at once."""
        self._beat = beat
        self._seconds = seconds
        self._has_news = has_news
        self._look_seconds = look_seconds
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-heartbeat", daemon=True)
        self._failing = False

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Beat now. May be called from any thread."""
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._beat()
                self._failing = False
            except Exception:  # noqa: BLE001  an unreachable transport must not end the thread
                if not self._failing:
                    _log.warning("%s failed; trying again every %g s", self._thread.name, self._seconds, exc_info=True)
                self._failing = True
            self._wait()
            self._wake.clear()

    def _wait(self) -> None:
        if self._has_news is None or self._failing:
            self._wake.wait(self._seconds)
            return
        left = self._seconds
        while left > 0:
            if self._wake.wait(min(left, self._look_seconds)) or self._has_news():
                return
            left -= self._look_seconds
