"""The watch: ends attempts whose time is over.

It owns no list of its own: it looks at the attempts that run, at most as many as the worker has slots, and sleeps until
the earliest deadline it saw. An attempt that begins with an earlier deadline wakes it. Heartbeats only postpone
deadlines, so they need not wake it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from perdure.clock import Clock
from perdure.runtime.patience import wait_at_most
from perdure.runtime.worker.attempt import Attempt


class Watch:
    def __init__(self, running: Mapping[str, Attempt], clock: Clock, due: Callable[[Attempt, float], None]) -> None:
        self._running = running
        self._clock = clock
        self._due = due
        self._changed = asyncio.Event()
        self._next: float | None = None

    def add(self, attempt: Attempt) -> None:
        """Take account of an attempt whose deadline is new, or nearer than it was."""
        deadline = attempt.deadline()
        if deadline is not None and (self._next is None or deadline < self._next):
            self._next = deadline
            self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            self._look()
            if self._changed.is_set():
                continue
            if self._next is None:
                await self._changed.wait()
            else:
                await wait_at_most(self._clock, max(0.0, self._next - self._clock.monotonic()), self._changed.wait)

    def _look(self) -> None:
        now = self._clock.monotonic()
        self._next = None
        for attempt in list(self._running.values()):
            deadline = attempt.deadline()
            if deadline is not None and deadline <= now:
                self._due(attempt, now)
                deadline = attempt.deadline()
            if deadline is not None and (self._next is None or deadline < self._next):
                self._next = deadline
