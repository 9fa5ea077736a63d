"""The timekeeper: tells the coordinator which timers are due. It sleeps until the next one instead of polling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal import Journal
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.messages import TimerDue
from perdure.runtime.coordinator.triggers.firings import is_mailbox
from perdure.runtime.patience import OutageLog, first_of

logger = logging.getLogger("perdure.timekeeper")

_LONGEST_SLEEP = 60.0
"""The longest time between two looks: a wall clock may jump and a database be restored, and this bounds what that
costs."""
_LIMIT = 1000
_TROUBLE_SECONDS = 0.2
_LEFT_SECONDS = 0.5
"""How often timers are looked at while all that are due are left to another process."""


class Timekeeper:
    def __init__(self, journal: Journal, coordinator: Coordinator, clock: Clock) -> None:
        self._journal = journal
        self._coordinator = coordinator
        self._clock = clock
        self._next: float | None = clock.now()
        """When to look next. At first now: a timer may have become due while no process ran."""
        self.leaves_triggers = False
        """Whether the timers of triggers are left to another process."""
        self.before_moments: Callable[[], Awaitable[None]] | None = None
        """What is waited for before a trigger is told that something is due: it hears first of runs that have ended (rule 48)."""
        self._checked = clock.monotonic()
        self._changed = asyncio.Event()
        self._told: set[tuple[str, str, float]] = set()
        self._outages = OutageLog(clock, logger, "timers cannot be read")
        coordinator.timer_set = self.note

    def note(self, due_at: float) -> None:
        """Take note of a timer that became durable."""
        if self._next is None or due_at < self._next:
            self._next = due_at
            self._changed.set()

    def look_soon(self) -> None:
        """Look at once, because runs were taken over and their timers may be due."""
        self.note(0.0)

    async def _look(self) -> None:
        """Read when the next timer is due. A timer noted meanwhile may not be in the journal's answer yet, and stays
        noted."""
        self._next = None
        found = await self._journal.next_timer(self._coordinator.share.partitions)
        if found is not None:
            self.note(found)

    async def run(self) -> None:
        while True:
            self._changed.clear()
            wait = _LONGEST_SLEEP if self._next is None else self._next - self._clock.now()
            if wait > 0:
                unchecked = self._clock.monotonic() - self._checked
                await first_of(self._clock.sleep(min(wait, _LONGEST_SLEEP - unchecked)), self._changed.wait())
            try:
                await self._coordinator.incarnation.learn()
                if self._clock.monotonic() - self._checked >= _LONGEST_SLEEP:
                    self._checked = self._clock.monotonic()
                    await self._coordinator.incarnation.check()
                    await self._look()
                if wait <= 0:
                    await self._tell()
            except StoreUnavailable as error:
                self._outages.say(error)
                if wait <= 0:
                    self._next = 0.0  # look again at once, even if the clock is set back meanwhile
                await self._clock.sleep(_TROUBLE_SECONDS)

    async def _tell(self) -> None:
        left, most = self.leaves_triggers, _LIMIT
        due = await self._journal.list_due_timers(self._clock.now(), most, self._coordinator.share.partitions)
        while left and len(due) == most and all(is_mailbox(one.run_id) for one in due):
            most *= 10  # those of triggers, which are left alone, would hide the others
            due = await self._journal.list_due_timers(self._clock.now(), most, self._coordinator.share.partitions)
        if left:
            due = [one for one in due if not is_mailbox(one.run_id)]
        fresh = [one for one in due if (one.run_id, one.timer_id, one.due_at) not in self._told]
        if self.before_moments is not None and any(is_mailbox(one.run_id) for one in fresh):
            await self.before_moments()
        for one in fresh:
            self._coordinator.put(TimerDue(one.run_id, one.timer_id, one.due_at))
        # A timer that was told and is still due is with the coordinator. It is forgotten once the journal no longer
        # lists it.
        self._told = {(one.run_id, one.timer_id, one.due_at) for one in due}
        await self._coordinator.drained()
        await self._look()
        if left and not due and self._next is not None and self._next <= self._clock.now():
            self._next = self._clock.now() + _LEFT_SECONDS
        elif due and not fresh and self._next is not None and self._next <= self._clock.now():
            self._told.clear()
            await self._clock.sleep(0.05)
