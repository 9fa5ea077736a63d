"""Keeping what handlers print, log and say with `ctx.log` with their runs.

Lines wait in a bounded buffer and are written in batches, so that a handler never waits for the database. When the
buffer is full the oldest lines are dropped, and their number is logged. This file must not know handlers or workers:
they call `add`, from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from perdure.archive import Archive
from perdure.archive.stored_lines import LogLine
from perdure.clock import Clock
from perdure.errors import StoreUnavailable

logger = logging.getLogger("perdure.logs")

MOST_WAITING = 20_000
BATCH = 1000
LONGEST = 10_000
"""The most characters of one line; the rest is cut."""
PAUSE_SECONDS = 0.5


class LogKeeper:
    def __init__(self, archive: Archive, clock: Clock) -> None:
        self._archive = archive
        self._clock = clock
        self._waiting: deque[LogLine] = deque()
        self._dropped = 0
        self._lock = threading.Lock()

    def add(self, line: LogLine) -> None:
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(line)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(PAUSE_SECONDS)
            try:
                await self.flush()
            except StoreUnavailable as error:
                logger.warning("lines that functions logged cannot be stored: %s; trying again", error)

    async def flush(self) -> None:
        """Write the lines that wait. Lines that could not be written are kept for the next try: they may be stored
        twice, but are not lost."""
        while True:
            with self._lock:
                lines = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                dropped, self._dropped = self._dropped, 0
            if dropped:
                logger.warning(
                    "%d lines that functions logged were dropped: they came faster than they could be stored", dropped
                )
            if not lines:
                return
            try:
                await self._archive.append_logs(lines)
            except BaseException:
                with self._lock:
                    self._waiting.extendleft(reversed(lines))
                raise

    async def flush_last(self) -> None:
        """Write the last lines of a process. Lines that cannot be written now are lost, and a warning says so."""
        try:
            await self.flush()
        except StoreUnavailable as error:
            logger.warning("the last lines that functions logged are lost: %s", error)
