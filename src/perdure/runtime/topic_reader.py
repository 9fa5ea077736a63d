"""Reads topics for the runs of this process: what happened behind their cursors is put to them, in order (rule 53).

Keeps nothing that it needs: how far a place has read is in its row, written with its run. A process that takes runs over reads everything from the
first occurrence on, which finds whatever the one before left. It must not decide: what was read behind another cursor is refused, and
read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from perdure import weight
from perdure.budget import ANSWER_BYTES, ANSWER_REFERENCES, Budget
from perdure.clock import Clock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import Journal, Occurrence, Subscription, Topic
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.run_ids import place as spot
from perdure.kernel.state import State
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.event_waits import hear_for_wait
from perdure.runtime.coordinator.heard import make_hearing, read_end
from perdure.runtime.coordinator.triggers.firings import is_mailbox
from perdure.runtime.patience import OutageLog, first_of

logger = logging.getLogger("perdure.topics")

SeeRun = Callable[[str, Budget], Awaitable[Any]]
"""Gives a run as the API shows it, within a budget; None if it is gone."""
PAGE = 100
"""The most occurrences that are put to a place at once."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of them, and of the values of runs that have ended: as many as a poll brings."""
PLACES = 200
"""The places that are read for side by side."""
_TOPICS = 10_000
_LOOK_SECONDS = 0.1
"""How often the journal is looked at: what happens elsewhere cannot call into this process, and the look costs one indexed
query."""
_HELD_SECONDS = 30.0
"""How often a place is tried again that took nothing in, though nothing has happened to its run here."""
_MOST_PASSED = 100_000
"""The waits whose reading is remembered."""
_BEGINS = (e.TriggerRegistered, e.TriggerCarried, e.RunResumed, e.RunRetried)
"""After these a run may have something to read that happened before."""


def fit(happened: list[Occurrence]) -> list[Occurrence]:
    """The first of them, at least one, as many as are light enough together to be put at once."""
    size = heavy = 0
    for number, one in enumerate(happened):
        size += len(one.body)
        heavy += weight.weigh(one.body)
        if number and (size > MOST_BYTES or heavy > weight.MOST // 2):
            return happened[:number]
    return happened


class TopicReader:
    def __init__(self, journal: Journal, coordinator: Coordinator, clock: Clock, see_run: SeeRun) -> None:
        self._journal = journal
        self._coordinator = coordinator
        self._clock = clock
        self._see_run = see_run
        self._seen = 0
        """The occurrence up to which every place of this process was told."""
        self._due: dict[str, set[str] | None] = {}
        """Runs whose places are to be read for, whatever happens; None: all of their places."""
        self._passed: dict[str, int] = {}
        """How far a wait was read for that has not found its event. Forgotten, it is read for once more."""
        self._reading = ""
        """The run of these whose places are being read for."""
        self._looked = False
        """Whether everything was read once that had happened when this process took its runs."""
        self._taken = False
        """Whether runs were taken over since everything began to be read: their places may have been listed without them, so that it
        begins once more."""
        self._held: set[str] = set()
        """Runs that have a place which took nothing in: they are paused, full, or have gone on as another."""
        self._held_at = 0.0
        self._woken = asyncio.Event()
        self.leaves_triggers = False
        """Whether triggers are left to another process."""
        self._outages = OutageLog(clock, logger, "topics cannot be read")

    def look_soon(self) -> None:
        self._woken.set()

    def look_again(self) -> None:
        """Read for every place, after runs were taken over."""
        self._taken = True
        self.look_soon()

    def is_read(self, run_id: str) -> bool:
        """Whether what a run waits for is still to come: it is not among what had happened when it began to wait."""
        return self._looked and not self._taken and run_id not in self._due and run_id != self._reading

    def note(self, state: State, events: Sequence[Any]) -> None:
        """A run was written: perhaps it has something to read now."""
        run_id = state.run_id
        begun = []
        if e.NodeWaiting in map(type, events):
            begun = [event for event in events if type(event) is e.NodeWaiting and event.wait.kind == "event"]
        if run_id in self._held or (state.triggers and any(isinstance(event, _BEGINS) for event in events)):
            self._held.discard(run_id)
            self._due[run_id] = None
        elif begun:
            known = self._due.setdefault(run_id, set())
            if known is not None:
                known |= {f"{run_id}/{spot(event.node, event.scope, event.item)}" for event in begun}
        else:
            return
        self.look_soon()

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreUnavailable as error:
                self._outages.say(error)
            await first_of(self._clock.sleep(_LOOK_SECONDS), self._woken.wait())
            self._woken.clear()

    async def look(self) -> None:
        """Read once for every place that has something to read."""
        now = self._clock.monotonic()
        if now >= self._held_at:
            self._held_at = now + _HELD_SECONDS
            self._due |= dict.fromkeys(self._held)
            self._held.clear()
        while True:
            await self._read_due()
            if self._taken:
                self._seen, self._looked, self._taken = 0, False, False
            topics = await self._journal.list_topics(self._seen, _TOPICS)
            if not topics:
                break
            for topic in topics:
                for key in sorted({topic.key, ""}):
                    await self._tell(msgspec.structs.replace(topic, key=key))
            self._seen = max(topic.position for topic in topics)
        self._looked = True

    async def _read_due(self) -> None:
        while self._due:
            run_id, spots = self._due.popitem()
            self._reading = run_id
            try:
                places = await self._journal.read_subscriptions(run_id)
                await self._read_all([one for one in places if spots is None or one.place.rpartition("/")[0] in spots])
            except StoreUnavailable:
                self._due[run_id] = None
                raise
            finally:
                self._reading = ""

    async def _tell(self, topic: Topic) -> None:
        after = ""
        partitions = self._coordinator.share.partitions
        while places := await self._journal.list_subscribers(topic, partitions, after=after, limit=PLACES):
            await self._read_all(places)
            after = places[-1].place
            if len(places) < PLACES:
                return

    async def _read_all(self, places: list[Subscription]) -> None:
        for number in range(0, len(places), PLACES):
            ends = await asyncio.gather(*map(self._read, places[number : number + PLACES]), return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end

    async def _read(self, place: Subscription) -> None:
        if place.since_at is None:
            await self._read_for_trigger(place)
        else:
            await self._read_for_wait(place)

    async def _read_for_wait(self, place: Subscription) -> None:
        """Look for the event that a wait is for. What does not match is passed over without a fact: the wait goes on."""
        passed = self._passed.pop(place.place, place.since)
        while True:
            fields: dict[str, Any] = {"after": passed, "since": place.since_at, "limit": PAGE}
            happened = await self._journal.read_occurrences(place.tenant, place.topic, key=place.key or None, **fields)
            happened = fit(happened)
            answer = await self._put(place, happened, {}) if happened else None
            if not isinstance(answer, c.Refused) or answer.code == "not_waiting":
                if not happened and passed > place.since:
                    self._pass(place, passed)
                return
            if answer.code != "no_match":
                self._held.add(place.run_id)
                return
            passed = happened[-1].position

    def _pass(self, place: Subscription, position: int) -> None:
        if len(self._passed) >= _MOST_PASSED:
            self._passed.clear()
        self._passed[place.place] = position

    async def _read_for_trigger(self, place: Subscription) -> None:
        """Put what happened behind the cursor of a place to its run, until nothing is left."""
        while not (self.leaves_triggers and is_mailbox(place.run_id)):
            fields: dict[str, Any] = {"after": place.since, "limit": PAGE}
            happened = await self._journal.read_occurrences(place.tenant, place.topic, key=place.key or None, **fields)
            if not happened:
                return
            happened = fit(happened)
            seen = await self._see_runs(place, happened)
            if seen:
                happened = happened[: len(seen)]
            answer = await self._put(place, happened, seen)
            if isinstance(answer, c.Refused):
                again = await self._find(place)
                if answer.code != "stale_cursor" or again is None or again.since == place.since:
                    self._held.add(place.run_id)
                    return
                place = again
            else:
                place = msgspec.structs.replace(place, since=happened[-1].position)

    async def _put(self, place: Subscription, happened: list[Occurrence], seen: dict[str, Any]) -> Any:
        coordinator = self._coordinator

        def make(state: State) -> c.Command:
            at_hand = coordinator.renderer.find_at_hand(state.tenant)
            if place.since_at is not None:
                return hear_for_wait(state, place, happened, self._clock.now(), at_hand)
            return make_hearing(state, place, happened, seen, self._clock.now(), at_hand)

        return await coordinator.ask(place.run_id, make)

    async def _find(self, place: Subscription) -> Subscription | None:
        found = await self._journal.read_subscriptions(place.run_id)
        return next((one for one in found if one.place == place.place), None)

    async def _see_runs(self, place: Subscription, happened: list[Occurrence]) -> dict[str, Any]:
        """The runs whose ends were read, in order, as many as are put at once. One that is gone, or cannot be read, is known by its end
        alone."""
        seen: dict[str, Any] = {}
        left = MOST_BYTES
        for one in happened if place.topic.startswith("run:") else ():
            if left <= 0:
                break
            end = read_end(one)
            seen[one.id] = None
            budget = Budget(size=ANSWER_BYTES, references=ANSWER_REFERENCES, partial=True)
            try:
                seen[one.id] = await self._see_run(end.run_id, budget)
                left -= ANSWER_BYTES - budget.bytes
            except StoreUnavailable:
                raise
            except PerdureError as error:
                logger.warning("run %s, which has ended, cannot be read: %s", end.run_id, error)
        return seen
