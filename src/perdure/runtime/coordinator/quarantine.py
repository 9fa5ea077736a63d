"""Quarantine: a run that cannot be understood is marked and left alone, and a bad release is kept from marking all of
them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from math import ceil

import msgspec

from perdure.clock import Clock
from perdure.errors import IntegrityError, NotFound, Refused, StoreUnavailable
from perdure.journal import Journal, JournalCorrupt, RunRecord
from perdure.kernel import lifecycle
from perdure.kernel.events import UnknownEvent
from perdure.kernel.state import State
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import load

logger = logging.getLogger("perdure.coordinator")

QUARANTINES = 10
"""Runs that may be quarantined within `QUARANTINE_SECONDS` before the coordinator stops instead (PROTOCOL 9)."""
QUARANTINE_SECONDS = 60.0
LEAST_SHARE = 3
"""How many of them every tenant may contribute, however many tenants there are."""

_TROUBLE_SECONDS = 0.05


class TooManyQuarantines(Exception):
    """Too many runs were quarantined in a short time: a bad release must not quarantine everything."""


class Quarantined(Exception):
    """A quarantined run was asked for."""


@contextmanager
def explained(record: RunRecord) -> Iterator[None]:
    """A context for reading a run to show it: if it cannot be read, the error says why it is quarantined, or how to find
    out what is damaged."""
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception as error:
        if record.quarantined is None:
            if isinstance(error, lifecycle.IntegrityError | msgspec.DecodeError | UnicodeDecodeError):
                raise IntegrityError(
                    f"run {record.run_id}: its journal cannot be read, see 'perdure doctor': {error}"
                ) from error
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
        tenants: Collection[str],
    ) -> None:
        """`check` raises when the database was restored, in which case a run that changed unexpectedly is not broken.
        `lose` forgets a run. `tenants` are those whose runs were handled so far."""
        self._journal = journal
        self._lose = lose
        self._clock = clock
        self._check = check
        self._tenants = tenants
        self._marked: dict[str, deque[float]] = {}
        """When runs of each tenant were marked, within the last `QUARANTINE_SECONDS`."""
        self._unmarked: set[str] = set()
        """Runs that could not be marked: their rows are damaged."""
        self.stopping = False

    async def quarantine(self, run_id: str, error: Exception) -> None:
        """Mark a run that cannot be understood and leave it alone; all others go on."""
        self._lose(run_id)
        # An unknown event was written by a newer process; a run that is quarantined already needs no second mark.
        if not isinstance(error, UnknownEvent | Quarantined) and run_id not in self._unmarked:
            reason = f"{type(error).__name__}: {error}"
            logger.error("run %s is quarantined: %s", run_id, reason, exc_info=error, extra={"run_id": run_id})
            await self.mark(run_id, reason)

    async def mark(self, run_id: str, reason: str) -> None:
        while True:
            try:
                await self._check()
                await self._journal.mark_quarantined(run_id, reason[:1000])
                record = await self._journal.get_run(run_id)
                return self._count(record.row.tenant, reason)
            except NotFound:
                return None  # the run was never durable: there is nothing to mark, and its callers are told
            except JournalCorrupt as error:
                if await self._is_readable():
                    return self._leave_unmarked(run_id, error)
            except StoreUnavailable as error:
                if self.stopping:
                    raise
                logger.warning("the journal cannot be written: %s; trying again", error)
                await self._clock.sleep(_TROUBLE_SECONDS)

    async def _is_readable(self) -> bool:
        """Whether the damage is of this run alone."""
        try:
            await self._journal.incarnation()
        except StoreUnavailable as error:
            if self.stopping:
                raise
            logger.warning("the journal cannot be read: %s; trying again", error)
            await self._clock.sleep(_TROUBLE_SECONDS)
            return False
        return True

    def _leave_unmarked(self, run_id: str, error: Exception) -> None:
        """The mark would stand in what is damaged. So it is remembered here, and said once by each process."""
        self._unmarked.add(run_id)
        logger.error(
            "run %s cannot be marked as quarantined: %s; it is left alone, and its callers are told",
            run_id,
            error,
            extra={"run_id": run_id},
        )

    def _count(self, tenant: str, reason: str) -> None:
        """Stop the coordinator when too many runs were marked, unless they are of few of its tenants: what one tenant has
        written must not stop the others."""
        now = self._clock.monotonic()
        self._marked.setdefault(tenant, deque(maxlen=QUARANTINES)).append(now)
        for name, times in list(self._marked.items()):
            while times and now - times[0] >= QUARANTINE_SECONDS:
                times.popleft()
            if not times:
                del self._marked[name]
        share = max(LEAST_SHARE, ceil(QUARANTINES / len({*self._tenants, *self._marked})))
        if sum(min(share, len(times)) for times in self._marked.values()) >= QUARANTINES:
            raise TooManyQuarantines(f"{QUARANTINES} runs within {QUARANTINE_SECONDS:.0f} s; the last: {reason}")
