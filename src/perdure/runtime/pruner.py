"""The pruner: deletes ended runs after the retention, and old answers, idempotency keys, links, sessions,
callbacks, and what agents left for later runs.

Every coordinator may run a pruner: what one deletes the others do not find. It works in small transactions and rests
between them, so that runs do not wait for it. Blobs are left to `perdure gc`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from perdure.archive import Archive
from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import Journal, RunFilter

logger = logging.getLogger("perdure.pruner")

DAY = 86_400.0
DAYS = ("retention_days", "event_days", "session_days")
"""The settings that say how long things are kept."""
ANSWERS_SECONDS = 3600.0
"""How long a command and its answer are kept; the caller has read the answer by then."""
KEYS_SECONDS = 7 * DAY
"""How long an idempotency key is kept after the end of its run, or longer if the run itself is kept (PROTOCOL 11)."""
LINKS_SECONDS = 7 * DAY
CALLBACKS_SECONDS = DAY
"""How long callbacks are remembered; their signatures are refused long before."""
PAUSE_SECONDS = 600.0
_REST_SECONDS = 0.05


class Pruner:
    def __init__(
        self,
        journal: Journal,
        archive: Archive,
        clock: Clock,
        *,
        retention_days: float,
        event_days: float,
        session_days: float,
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._clock = clock
        self._retention = retention_days * DAY
        self._event_seconds = event_days * DAY
        self._session_seconds = session_days * DAY

    async def run(self) -> None:
        while True:
            # Jitter: coordinators that started together should not prune together.
            await self._clock.sleep(PAUSE_SECONDS * (0.5 + self._clock.random()))
            try:
                await self.prune()
            except StoreUnavailable as error:
                logger.warning("old runs cannot be deleted: %s; trying again later", error)

    async def prune(self) -> int:
        """Delete what is past its time, and return the number of runs deleted."""
        now = self._clock.now()
        runs = await self._repeat(partial(self._archive.prune_runs, now - self._retention))
        await self._repeat(partial(self._journal.prune_commands, now - ANSWERS_SECONDS))
        await self._repeat(partial(self._journal.prune_occurrences, now - self._event_seconds))
        await self._repeat(partial(self._archive.prune_idempotency, now - KEYS_SECONDS))
        await self._repeat(partial(self._archive.prune_links, now - LINKS_SECONDS))
        await self._repeat(partial(self._archive.prune_sessions, now))
        await self._repeat(partial(self._archive.prune_callbacks, now - CALLBACKS_SECONDS))
        for space in ("session", "note", "shape"):
            await self._repeat(partial(self._archive.prune_entries, space, now - self._session_seconds))
        if runs:
            logger.info("deleted %d runs that ended more than %g days ago", runs, self._retention / DAY)
        return runs

    async def count(self) -> int:
        """How many runs would be deleted, as far as can be told without trying: some wait for a child or a parent."""
        before, total, cursor = self._clock.now() - self._retention, 0, None
        ended = RunFilter(until=before, quarantined=False)  # a run that ended before then was created before then
        while True:
            page = await self._journal.list_runs(ended, limit=1000, cursor=cursor)
            total += sum(one.row.ended_at is not None and one.row.ended_at < before for one in page.items)
            if (cursor := page.next_cursor) is None:
                return total

    async def _repeat(self, some: Callable[[], Awaitable[int]]) -> int:
        total = 0
        while done := await some():
            total += done
            await self._clock.sleep(_REST_SECONDS)
        return total
