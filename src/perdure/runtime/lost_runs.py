"""Finds runs of triggers that will never be heard to end: gone, quarantined, or ended without a word (rule 49).

A trigger counts a run as open until its end is heard. The end comes in the commit that ends the run, so what is found here is what
no commit can tell: a run that was deleted, that cannot be read, or that a restored database does not have. Decides nothing: the trigger is
told, and an end counts once.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Over
from perdure.runtime.coordinator.continuations import read_continuation
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.loaded import load
from perdure.runtime.coordinator.messages import Asked
from perdure.runtime.coordinator.triggers.firings import Ends, read_firing

logger = logging.getLogger("perdure.lost_runs")

PAUSE_SECONDS = 60.0
_PAGE = 1000
_LONGEST_CHAIN = 1000

_Firing = tuple[str, int]
"""A run and the number of the item that it was started for."""


class LostRuns:
    def __init__(
        self, journal: Journal, coordinator: Coordinator, clock: Clock, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._journal = journal
        self._coordinator = coordinator
        self._clock = clock
        self._pause = pause_seconds
        self._open_before: frozenset[_Firing] = frozenset()
        """The firings that were open at the look before. Only these are looked for: most runs end sooner."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._pause)
            try:
                await self.look()
            except StoreUnavailable as error:
                logger.warning("runs of triggers cannot be looked for: %s; trying again later", error)

    async def look(self) -> None:
        """Look once at all triggers that this process decides for."""
        opened: set[_Firing] = set()
        cursor: str | None = None
        while True:
            page = await self._journal.list_triggers(limit=_PAGE, cursor=cursor)
            for row in page.items:
                if row.open and self._coordinator.share.holds(row.head):
                    opened |= await self._look_at(row.head)
            cursor = page.next_cursor
            if cursor is None:
                break
        self._open_before = frozenset(opened)

    async def _look_at(self, head: str) -> set[_Firing]:
        record = await self._journal.find_run(head)
        if record is None or record.quarantined is not None:
            return set()
        try:
            state = await load(self._journal, self._coordinator.library, record)
        except StoreUnavailable:
            raise
        except PerdureError as error:  # its coordinator finds out too, and quarantines it
            logger.warning("trigger %s cannot be read: %s", head, error)
            return set()
        opened: set[_Firing] = set()
        for node, box in state.triggers.items():
            firings = {(run_id, firing.number) for run_id, firing in box.open.items()}
            opened |= firings
            ends = await self._find_ends(sorted(firings & self._open_before))
            if ends:
                logger.warning("trigger %s does not wait any more for %d runs", box.name, len(ends))
                self._tell(head, node, ends)
        return opened

    def _tell(self, head: str, node: str, ends: tuple[Over, ...]) -> None:
        def make(state: State) -> c.EndFiring:
            return c.EndFiring(at=self._clock.now(), id="lost", node=node, ends=ends)

        self._coordinator.put(Asked(head, make))

    async def _find_ends(self, firings: list[_Firing]) -> tuple[Over, ...]:
        """Which of these runs will not be heard to end, and how they ended. The notices are read before the runs: a run that is
        not there, though no notice is left for it either, was there."""
        suspects = [one for one in firings if await self._judge(one[0]) is not None]
        if not suspects:
            return ()
        expected = await self._read_expected()
        ends = []
        for run_id, number in suspects:
            found = await self._judge(run_id, expected)
            if found is not None:
                ends.append(Over(run_id, number, found))
        return tuple(ends)

    async def _judge(self, run_id: str, expected: frozenset[str] = frozenset()) -> Any:
        """How a run ended, `lost` if it cannot end any more, or None: it goes on, or a notice about it is on its way."""
        if run_id in expected:
            return None
        name = run_id
        for _ in range(_LONGEST_CHAIN):
            record = await self._journal.find_run(name)
            if record is None:
                return None if name in expected else "lost"
            if record.quarantined is not None:
                return "lost"
            if record.row.ended_at is None:
                return None
            if record.row.state != "completed":
                return record.row.state
            following = (await load(self._journal, self._coordinator.library, record)).continued_as
            if following is None:
                return "completed"
            name = following
        return None

    async def _read_expected(self) -> frozenset[str]:
        """The runs that a notice is to make, or tells the end of."""
        found: set[str] = set()
        after = 0
        while notices := await self._journal.read_notices(None, after, _PAGE):
            for notice in notices:
                after = notice.notice_id
                found.add(_about(notice.run_id, notice.body))
            if len(notices) < _PAGE:
                break
        return frozenset(found)


def _about(run_id: str, body: bytes) -> str:
    """The run that a notice makes or ends; none, if it is about something else."""
    firing = read_firing(body)
    if isinstance(firing, Ends):
        return firing.run_id
    if firing is None:
        try:
            read_continuation(body)
        except msgspec.ValidationError:
            return ""
    return run_id
