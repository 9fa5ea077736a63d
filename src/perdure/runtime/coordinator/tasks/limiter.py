"""The limiter: lets attempts into their limits before they are published, and keeps their slots while they are out.

Owns the slots this process holds, which attempts must wait, and when to look again. How many may be in at once over all
processes is counted by the `Limits` port; the order of attempts is the dispatcher's. The process that takes a run over
rebuilds its slots (PROTOCOL 23): see `Publisher`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.limits import EVERYBODY, Ask, Entered, Full, Limit, Limits, in_order
from perdure.runtime.coordinator.tasks.dispatcher import Dispatcher, Entry
from perdure.runtime.patience import first_of
from perdure.transport import TransportClosed, TransportUnavailable

logger = logging.getLogger("perdure.limiter")

POLL_SECONDS = 1.0
"""How often to look for a free slot without being told that one was left."""
RENEW_SECONDS = 5.0
"""How often slots are renewed, and so how long after a loss of all data in Redis they are known again."""

Place = tuple[str, str]


class Limiter:
    def __init__(
        self,
        limits: Limits | None,
        dispatcher: Dispatcher,
        clock: Clock,
        look: Callable[[], None],
        queue_limits: Mapping[str, Sequence[Limit]] | None = None,
    ) -> None:
        """`look` is called when a task that had to wait may be published."""
        self._limits = limits
        self._dispatcher = dispatcher
        self._clock = clock
        self._look = look
        self._of_queues = {queue: tuple(some) for queue, some in (queue_limits or {}).items()}
        self._held: dict[str, tuple[Limit, ...]] = {}
        """The slots of tasks that are out, by task."""
        self._counts: dict[Place, int] = {}
        """How many slots this process holds in each limit."""
        self._lingering: dict[str, tuple[tuple[Limit, ...], float]] = {}
        """Slots this process no longer renews, until their leases end: another process renews them, or the task was
        told to stop and has not confirmed it."""
        self._leaving: list[tuple[str, Limit]] = []
        self._asked: dict[Limit, int] = {}
        """How many slots will be asked for next, or are asked for and not yet answered."""
        self._full: dict[Limit, float | None] = {}
        """Limits that refused, and until when, where that is known."""
        self._waited_for: dict[Place, dict[Limit, set[str]]] = {}
        """Limits that attempts stand aside for, or that stop a queue, with the queues in which those attempts wait."""
        self._flushing = False
        self._heard: dict[Place, None] = {}
        """Limits in which a slot was left while this process was leaving some itself."""
        self._renewed_at = 0.0
        self._again = False
        """Whether `look` must be called again because the transport did not answer."""
        self._to_do = asyncio.Event()
        self._sooner = asyncio.Event()
        if limits is not None:
            limits.on_room(self._hear)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def is_limited(self, queue: str) -> bool:
        return queue in self._of_queues

    def add_queue(self, entry: Entry, limits: Sequence[Limit]) -> tuple[Limit, ...]:
        """The limits of an attempt together with those of its queue, in order."""
        return in_order([*limits, *self._of_queues.get(entry.queue, ())])

    def admits(self, name: str, entry: Entry, limits: tuple[Limit, ...]) -> bool:
        """Whether it is worth asking for these limits. If not, the attempt stands aside until it is."""
        for limit in limits:
            used = self._asked.get(limit, 0)
            if limit.per_seconds is None:
                used += self._counts.get(_place(limit), 0)
            if limit in self._full or used >= limit.limit:
                self._turn_away(name, entry, limit)
                return False
        for limit in limits:
            self._asked[limit] = self._asked.get(limit, 0) + 1
        return True

    async def enter(self, asks: Sequence[tuple[str, Entry, tuple[Limit, ...]]]) -> list[bool]:
        """Enter the limits of these attempts, all of them admitted, and return which may be published. The others stand
        aside."""
        try:
            answers = await self._port().enter([Ask(name, limits) for name, _, limits in asks])
        except TransportUnavailable as error:
            _note(error, f"{len(asks)} tasks must wait")
            answers = [Full(limits[0], POLL_SECONDS) for _, _, limits in asks]
        finally:
            self._asked.clear()
        entered: list[bool] = []
        refused: list[tuple[str, Entry, Limit]] = []
        room: dict[Limit, int] = {}
        for (name, entry, limits), answer in zip(asks, answers, strict=True):
            entered.append(isinstance(answer, Entered) and self._dispatcher.is_out(name))
            if isinstance(answer, Full):
                self._refuse(answer)
                refused.append((name, entry, answer.limit))
                self._pass_on([limit for limit in limits if limit != answer.limit])
                continue
            self._own(name, limits)
            if not entered[-1]:  # over before it was published
                self.done(name)
            room |= zip(limits, answer.free, strict=True)  # the last answer counts
        for limit, free in room.items():
            self._call_up(limit, free)
        for name, entry, limit in refused:
            self._turn_away(name, entry, limit)
        self._to_do.set()
        return entered

    def forgo(self, limits: tuple[Limit, ...]) -> None:
        """Give up limits that were admitted and will not be asked for after all: other attempts may use them."""
        for limit in limits:
            self._asked[limit] -= 1
        self._pass_on(limits)

    def occupy(self, name: str, limits: tuple[Limit, ...]) -> None:
        """Occupy the slots of an attempt that a worker has, even beyond the limit."""
        self._own(name, limits)
        self._renewed_at = -math.inf
        self._to_do.set()
        self._sooner.set()

    def done(self, name: str, *, keep: bool = False) -> None:
        """Leave the slots of an attempt that is over. With `keep` they stay until their leases end or `done` is called
        again."""
        slots = self._held.pop(name, None)
        if slots is not None:
            for slot in slots:
                self._count(slot, -1)
        elif self._lingering:
            slots, _ = self._lingering.pop(name, ((), 0.0))
        if slots and keep and self._limits is not None:
            self._lingering[name] = (slots, self._clock.monotonic() + self._limits.lease_seconds)
        elif slots:
            self._leaving += [(name, slot) for slot in slots]
        if slots:
            self._to_do.set()

    async def flush(self) -> None:
        """Tell the port about the slots that were left."""
        if not self._leaving:
            return
        leaving, self._leaving = self._leaving, []
        try:
            self._flushing = True
            await self._port().leave(leaving)
        except TransportUnavailable as error:
            _note(error, f"{len(leaving)} slots are left when their leases end")
        finally:
            self._flushing = False
        heard, self._heard = self._heard, {}
        for place in heard | {_place(limit): None for _, limit in leaving}:
            self._hear(*place)

    # -- looking again -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        polled_at = self._clock.monotonic()
        while True:
            if not (self._held or self._full or self._leaving or self._lingering or self._waited_for or self._again):
                self._to_do.clear()
                await self._to_do.wait()
            now = self._clock.monotonic()
            due = self.next_room()
            pause = max(0.0, min(polled_at + POLL_SECONDS, math.inf if due is None else due) - now)
            await first_of(self._clock.sleep(pause), self._sooner.wait())
            self._sooner.clear()
            now = self._clock.monotonic()
            if now >= polled_at + POLL_SECONDS:
                polled_at = now
                await self._poll(now)
            await self._renew(now)
            for limit in [limit for limit, until in self._full.items() if until is not None and until <= now]:
                self._room_for(limit)

    def look_later(self) -> None:
        """Call `look` at the next poll: the transport does not answer now, and nothing else may cause another look."""
        self._again = True
        self._to_do.set()

    def next_room(self) -> float | None:
        """When a rate lets the next waiting attempt pass, by the monotonic clock."""
        return min((until for until in self._full.values() if until is not None), default=None)

    async def _renew(self, now: float) -> None:
        """Renew the slots of everything that is out; a slot that was lost is entered again."""
        if not self._held or now - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = now
        try:
            await self._port().occupy([(name, slot) for name, slots in self._held.items() for slot in slots])
        except TransportUnavailable as error:
            _note(error, "slots could not be renewed")

    async def _poll(self, now: float) -> None:
        for name in [name for name, (_, until) in self._lingering.items() if until <= now]:
            del self._lingering[name]
        await self.flush()
        self._hear("", "")
        if self._again:
            self._again = False
            self._look()

    def _hear(self, tenant: str, key: str) -> None:
        """Hear that a slot of this limit was left; with two empty texts, that one of any limit may have been."""
        if self._flushing:
            self._heard[tenant, key] = None
            return
        some = [self._waited_for.get((tenant, key), {})] if key else list(self._waited_for.values())
        for limits in some:
            for limit in list(limits):
                self._room_for(limit)

    def _room_for(self, limit: Limit) -> None:
        until = self._full.get(limit)
        if until is not None and until > self._clock.monotonic():
            return
        self._full.pop(limit, None)
        if limit.per_seconds is not None or self._counts.get(_place(limit), 0) < limit.limit:
            self._call_up(limit, 1)

    def _pass_on(self, limits: Iterable[Limit]) -> None:
        """Call up the next attempts for limits that the attempt whose turn it was did not use."""
        for limit in limits:
            if limit not in self._full:
                self._call_up(limit, 1)

    def _call_up(self, limit: Limit, number: int) -> None:
        """Call up so many attempts of each queue: a queue that sends nothing now must not keep the room from the
        others."""
        waited_for = self._waited_for.get(_place(limit), {})
        queues = waited_for.get(limit)
        if queues is None or number <= 0:
            return
        for queue in sorted(queues):
            if limit.tenant == EVERYBODY:
                self._dispatcher.resume_queue(queue)
            else:
                self._dispatcher.call_up((limit, queue), number)
            if not self._dispatcher.has_aside((limit, queue)):
                queues.discard(queue)
        if not queues:
            del waited_for[limit]
            if not waited_for:
                del self._waited_for[_place(limit)]
        self._look()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _turn_away(self, name: str, entry: Entry, limit: Limit) -> None:
        self._waited_for.setdefault(_place(limit), {}).setdefault(limit, set()).add(entry.queue)
        if limit.tenant == EVERYBODY:
            self._dispatcher.put_back([name])
            self._dispatcher.stop_queue(entry.queue, f"queue {entry.queue}: {_used(limit)}")
        else:
            self._dispatcher.set_aside(name, (limit, entry.queue), f"waits for {limit}" + _count_slots(limit))
        self._to_do.set()

    def _own(self, name: str, limits: tuple[Limit, ...]) -> None:
        slots = tuple(limit for limit in limits if limit.per_seconds is None)
        if slots and name not in self._held:
            self._lingering.pop(name, None)
            self._held[name] = slots
            for slot in slots:
                self._count(slot, 1)

    def _count(self, slot: Limit, change: int) -> None:
        place = _place(slot)
        number = self._counts.get(place, 0) + change
        if number:
            self._counts[place] = number
        else:
            self._counts.pop(place, None)

    def _refuse(self, answer: Full) -> None:
        until = None if answer.retry_seconds is None else self._clock.monotonic() + answer.retry_seconds
        self._full[answer.limit] = until
        if until is not None:
            self._sooner.set()

    def _port(self) -> Limits:
        if self._limits is None:
            raise PerdureError("a node has a limit, and this process was put together without anything that counts")
        return self._limits


def _place(limit: Limit) -> Place:
    return limit.tenant, limit.key


def _note(error: TransportUnavailable, what: str) -> None:
    if isinstance(error, TransportClosed):
        raise error
    logger.warning("limits cannot be checked: %s; %s", error, what)


def _used(limit: Limit) -> str:
    if limit.per_seconds is None:
        return f"{limit.limit} of {limit.limit} slots taken"
    return f"{limit.limit} in {limit.per_seconds:g} s have passed"


def _count_slots(limit: Limit) -> str:
    return f" ({limit.limit} of {limit.limit})" if limit.per_seconds is None else ""
