"""Quarantine: a run that cannot be understood is marked and left alone, and a bad release is kept from marking all of
them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from perdure.clock import Clock
from perdure.errors import NotFound, Refused, StoreUnavailable
from perdure.journal import Journal, RunRecord
from perdure.kernel.events import UnknownEvent
from perdure.kernel.state import State
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import load

logger = logging.getLogger("perdure.coordinator")

QUARANTINES = 10
"""Runs that may be quarantined within `QUARANTINE_SECONDS` before the coordinator stops instead (PROTOCOL 9)."""
QUARANTINE_SECONDS = 60.0

_TROUBLE_SECONDS = 0.05


class TooManyQuarantines(Exception):
    """Too many runs were quarantined in a short time: a bad release must not quarantine everything."""


class Quarantined(Exception):
    """A quarantined run was asked for."""


@contextmanager
def explained(record: RunRecord) -> Iterator[None]:
    """A context for reading a run to show it: if a quarantined run cannot be read, the error says why it is
    quarantined."""
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception as error:
        if record.quarantined is None:
            raise
        row = record.row
        known = f"workflow {row.workflow}, {row.state}, {record.seq} events"
        raise Refused(
            f"run {record.run_id} ({known}) is quarantined, and its journal cannot be read: {record.quarantined[:500]}",
            code="quarantined",
        ) from error


async def look(journal: Journal, library: Library, record: RunRecord) -> State:
    """The state of a run, to be shown."""
    with explained(record):
        return await load(journal, library, record)


class Quarantine:
    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        check: Callable[[], Awaitable[None]],
        lose: Callable[[str], None],
    ) -> None:
        """`check` raises when the database was restored, in which case a run that changed unexpectedly is not broken.
        `lose` forgets a run."""
        self._journal = journal
        self._lose = lose
        self._clock = clock
        self._check = check
        self._marked_at: deque[float] = deque(maxlen=QUARANTINES)
        self.stopping = False

    async def quarantine(self, run_id: str, error: Exception) -> None:
        """Mark a run that cannot be understood and leave it alone; all others go on."""
        self._lose(run_id)
        # An unknown event was written by a newer process; a run that is quarantined already needs no second mark.
        if not isinstance(error, UnknownEvent | Quarantined):
            reason = f"{type(error).__name__}: {error}"
            logger.error("run %s is quarantined: %s", run_id, reason, exc_info=error, extra={"run_id": run_id})
            await self.mark(run_id, reason)

    async def mark(self, run_id: str, reason: str) -> None:
        while True:
            try:
                await self._check()
                await self._journal.mark_quarantined(run_id, reason[:1000])
                break
            except NotFound:
                return  # the run was never durable: there is nothing to mark, and its callers are told
            except StoreUnavailable as error:
                if self.stopping:
                    raise
                logger.warning("journal: %s; trying again", error)
                await self._clock.sleep(_TROUBLE_SECONDS)
        now = self._clock.monotonic()
        self._marked_at.append(now)
        if len(self._marked_at) == QUARANTINES and now - self._marked_at[0] < QUARANTINE_SECONDS:
            raise TooManyQuarantines(f"{QUARANTINES} runs within {QUARANTINE_SECONDS:.0f} s; the last: {reason}")
