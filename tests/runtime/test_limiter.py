"""The limiter: never more out than a limit allows, over two coordinators; never idle while something fits."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.kernel.address import Address
from perdure.limits import EVERYBODY, Ask, Entered, Full, Limit
from perdure.runtime.coordinator.tasks import limiter as limiters
from perdure.runtime.coordinator.tasks.dispatcher import Dispatcher, Entry
from perdure.runtime.coordinator.tasks.limiter import Limiter
from perdure.transport import TransportUnavailable
from perdure.transports.local_limits import LocalLimits
from tests.doubles.fake_clock import FakeClock

ONE, TWO = Limit("t", "one", 1), Limit("t", "two", 2)
RATE = Limit("t", "rate", 3, 10.0)
GPU, MAIL = Limit(EVERYBODY, "queue:gpu", 2), Limit(EVERYBODY, "queue:mail", 2, 5.0)
OF_QUEUES = {"gpu": [GPU], "mail": [MAIL]}


def now(awaitable: Any) -> Any:
    """The result of what never waits."""
    try:
        awaitable.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("it waits")


class Coordinator:
    """As much of one as publishes."""

    def __init__(self, limits: Any, clock: FakeClock, window: int = 4, run: str = "r1") -> None:
        self.clock = clock
        self.run = run
        self.looks = 0
        self.dispatcher = Dispatcher(window)
        self.limiter = Limiter(limits, self.dispatcher, clock, self.look, OF_QUEUES)
        self.limits: dict[str, tuple[Limit, ...]] = {}
        self.published: list[str] = []
        self.number = 0

    def look(self) -> None:
        self.looks += 1

    def add(self, *limits: Limit, queue: str = "default", many: int = 1) -> list[str]:
        names = []
        for _ in range(many):
            self.number += 1
            entry = Entry(Address(self.run, f"n{self.number}"), queue, "t", 0, True)
            self.dispatcher.add(entry)
            self.limits[entry.address.task_id] = self.limiter.add_queue(entry, limits)
            names.append(entry.address.task_id)
        return names

    def publish(self) -> list[str]:
        """The loop of the publisher, without rendering."""
        before = len(self.published)
        while True:
            now(self.limiter.flush())
            asks = [
                (name, entry, self.limits[name])
                for name, entry in self.dispatcher.take()
                if self.limiter.admits(name, entry, self.limits[name])
            ]
            if not asks:
                return self.published[before:]
            may = now(self.limiter.enter(asks))
            self.published += [name for (name, _, _), ok in zip(asks, may, strict=True) if ok]

    def done(self, name: str, **more: Any) -> None:
        self.limiter.done(name, **more)
        self.dispatcher.done(name)

    def poll(self) -> None:
        now(self.limiter._poll(self.clock.monotonic()))
        for limit in list(self.limiter._full):
            self.limiter._room_for(limit)
        self.publish()


def test_no_more_are_published_than_the_limit_and_the_next_when_one_is_done():
    one = Coordinator(LocalLimits(FakeClock()), FakeClock())
    first, second, third, fourth = one.add(TWO, many=4)
    assert one.publish() == [first, second]
    one.done(second)
    assert one.publish() == [third]
    assert one.dispatcher.why(fourth) == "waits for concurrency key 'two' (2 of 2)"


def test_who_waits_for_a_key_delays_nobody_else():
    one = Coordinator(LocalLimits(FakeClock()), FakeClock(), window=2)
    names = one.add(ONE, many=50)
    [free] = one.add(TWO)
    assert one.publish() == [names[0], free]


def test_a_slot_left_in_one_process_is_heard_of_in_another():
    clock = FakeClock()
    limits = LocalLimits(clock)
    one, other = Coordinator(limits, clock), Coordinator(limits, clock, run="r2")
    [first] = one.add(ONE)
    [second] = other.add(ONE)
    one.publish()
    assert other.publish() == []
    one.done(first)
    one.publish()
    assert other.looks == 1
    assert other.publish() == [second]


def test_a_queue_may_be_limited_as_a_whole():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock, window=100)
    names = one.add(queue="gpu", many=5)
    assert one.publish() == names[:2]
    assert one.dispatcher.why(names[2]) == "queue gpu: 2 of 2 slots taken"
    one.done(names[0])
    assert one.publish() == [names[2]]
    assert one.add(queue="default") == one.publish()


async def test_a_rate_goes_on_by_itself_when_its_time_has_come():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock, window=10)
    names = one.add(RATE, many=7)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        assert one.publish() == names[:3]
        assert one.dispatcher.why(names[3]) == "waits for rate key 'rate' (3 in 10 s)"
        await clock.advance(9.9)
        assert one.publish() == []
        await clock.advance(1.2)
        assert one.looks > 0
        assert one.publish() == names[3:6]
        running.cancel()


async def test_a_mail_queue_with_a_rate_is_slow_and_not_stuck():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock)
    names = one.add(queue="mail", many=5)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        one.publish()
        for _ in range(12):
            await clock.advance(1.0)
            for name in one.publish():
                one.done(name)
        running.cancel()
    assert one.published == names


def test_what_is_refused_by_a_second_limit_leaves_the_first_to_others():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock)
    one.add(RATE, many=3)
    one.publish()
    blocked = one.add(ONE, RATE)
    [free] = one.add(ONE)
    assert one.publish() == [free]
    assert one.dispatcher.why(blocked[0]) == "waits for rate key 'rate' (3 in 10 s)"


async def test_slots_are_renewed_while_their_tasks_are_out():
    clock = FakeClock()
    limits = LocalLimits(clock)
    one, other = Coordinator(limits, clock), Coordinator(limits, clock, run="r2")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        one.add(ONE)
        one.publish()
        await clock.advance(3 * limits.lease_seconds)
        other.add(ONE)
        assert other.publish() == []
        running.cancel()


async def test_after_the_loss_of_everything_slots_are_held_again_within_seconds():
    clock = FakeClock()
    limits = LocalLimits(clock)
    one, other = Coordinator(limits, clock), Coordinator(limits, clock, run="r2")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        one.add(TWO, many=2)
        one.publish()
        await clock.advance(limiters.RENEW_SECONDS)
        limits._slots.clear()
        await clock.advance(limiters.RENEW_SECONDS + limiters.POLL_SECONDS)
        other.add(TWO)
        assert other.publish() == []
        running.cancel()


def test_what_was_told_to_stop_keeps_its_slot_until_it_says_that_it_has():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock)
    first, second = one.add(ONE, many=2)
    one.publish()
    one.done(first, keep=True)
    one.poll()
    assert second not in one.published
    one.done(first)
    assert one.publish() == [second]


async def test_a_slot_whose_task_never_says_that_it_stopped_is_free_after_its_lease():
    clock = FakeClock()
    limits = LocalLimits(clock)
    one = Coordinator(limits, clock)
    first, second = one.add(ONE, many=2)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        one.publish()
        one.done(first, keep=True)
        await clock.advance(limits.lease_seconds - 2)
        assert one.publish() == []
        await clock.advance(4)
        assert one.publish() == [second]
        running.cancel()


def test_what_a_worker_has_holds_its_slot_whatever_the_limit():
    clock = FakeClock()
    limits = LocalLimits(clock)
    one, other = Coordinator(limits, clock), Coordinator(limits, clock, run="r2")
    other.add(ONE)
    other.publish()
    one.limiter.occupy("a", (ONE, RATE))
    now(one.limiter._renew(clock.monotonic()))
    assert set(limits._slots["t", "one"]) >= {"a"}
    other.done(other.published[0])
    other.add(ONE)
    assert other.publish() == []


class Away:
    """Limits that cannot be asked."""

    lease_seconds = 30.0

    def __init__(self, limits: LocalLimits) -> None:
        self.limits, self.away = limits, True

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            if self.away:
                raise TransportUnavailable("it is away")
            return await getattr(self.limits, name)(*arguments)

        return self.limits.on_room if name == "on_room" else call


async def test_while_limits_cannot_be_asked_limited_work_waits_and_goes_on_afterwards():
    clock = FakeClock()
    limits = Away(LocalLimits(clock))
    one = Coordinator(limits, clock)
    names = one.add(TWO, many=3)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        assert one.publish() == []
        await clock.advance(3)
        assert one.publish() == []
        limits.away = False
        await clock.advance(1.1)
        assert one.publish() == names[:2]
        limits.away = True
        one.done(names[0])
        assert one.publish() == []
        limits.away = False
        await clock.advance(limits.lease_seconds + 2)
        assert one.publish() == [names[2]], "the slot that could not be left was free after its lease"
        running.cancel()


async def test_who_waits_for_nothing_wakes_nobody():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        await clock.advance(1)
        assert clock.sleeping == []
        [name] = one.add(ONE)
        one.publish()
        await clock.advance(1)
        assert len(clock.sleeping) == 1
        one.done(name)
        one.publish()
        await clock.advance(10)
        assert clock.sleeping == []
        running.cancel()


async def test_what_could_not_be_looked_at_is_looked_at_again_though_nothing_else_happens():
    clock = FakeClock()
    one = Coordinator(LocalLimits(clock), clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.limiter.run())
        await clock.advance(1)
        one.limiter.look_later()
        await clock.advance(2 * limiters.POLL_SECONDS)
        assert one.looks == 1
        await clock.advance(10)
        assert (one.looks, clock.sleeping) == (1, [])
        running.cancel()


ROUNDS = 12
"""Looks until whoever can go on has: an attempt may be refused by one limit after another."""
CHOICES = [(), (ONE,), (TWO,), (RATE,), (ONE, RATE), (TWO, RATE)]


class Model(RuleBasedStateMachine):
    """Two coordinators that share their limits, any order of work and time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.limits = LocalLimits(self.clock, lease_seconds=1e9)
        self.coordinators = [Coordinator(self.limits, self.clock, run=run) for run in ("r1", "r2")]
        self.out: dict[str, tuple[Coordinator, tuple[Limit, ...]]] = {}
        self.passed: list[tuple[float, Limit]] = []

    def note(self, coordinator, names):
        for name in names:
            self.out[name] = (coordinator, coordinator.limits[name])
            self.passed += [(self.clock.now(), limit) for limit in coordinator.limits[name] if limit.per_seconds]

    @rule(
        which=st.integers(0, 1),
        choice=st.sampled_from(CHOICES),
        queue=st.sampled_from(["default", "gpu", "mail"]),
        many=st.integers(1, 6),
    )
    def add(self, which, choice, queue, many):
        self.coordinators[which].add(*choice, queue=queue, many=many)

    @rule(which=st.integers(0, 1))
    def publish(self, which):
        self.note(self.coordinators[which], self.coordinators[which].publish())

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def finish(self, data):
        name = data.draw(st.sampled_from(sorted(self.out)))
        coordinator, _ = self.out.pop(name)
        coordinator.done(name)

    @rule(data=st.data(), which=st.integers(0, 1))
    def withdraw(self, data, which):
        coordinator = self.coordinators[which]
        names = sorted(one.address.task_id for one in coordinator.dispatcher.entries())
        waiting = [name for name in names if not coordinator.dispatcher.is_out(name)]
        if waiting:
            coordinator.done(data.draw(st.sampled_from(waiting)))

    @rule(seconds=st.floats(0.1, 12.0))
    def wait(self, seconds):
        self.clock._now += seconds

    @rule()
    def settle(self):
        """After everybody has looked once, whoever waits has a reason."""
        for coordinator in self.coordinators * ROUNDS:
            before = len(coordinator.published)
            coordinator.publish()
            coordinator.poll()
            self.note(coordinator, coordinator.published[before:])
        for coordinator in self.coordinators:
            dispatcher = coordinator.dispatcher
            room = Counter(dict.fromkeys(("default", "gpu", "mail"), 4))
            room.subtract(dispatcher.find(name).queue for name in dispatcher.out())
            for one in dispatcher.entries():
                name = one.address.task_id
                if not dispatcher.is_out(name) and room[one.queue] > 0:
                    assert any(self.is_full(limit) for limit in coordinator.limits[name]), dispatcher.why(name)

    def is_full(self, limit):
        return isinstance(now(self.limits.enter([Ask("probe", (limit,))]))[0], Full) or self.undo(limit)

    def undo(self, limit):
        if limit.per_seconds is None:
            now(LocalLimits.leave(Quiet(self.limits), [("probe", limit)]))
        else:
            passed = self.limits._rates[limit.tenant, limit.key, limit.per_seconds]
            passed[max(passed)] -= 1
        return False

    @invariant()
    def no_limit_is_exceeded(self):
        taken = Counter(limit for _, limits in self.out.values() for limit in limits if limit.per_seconds is None)
        assert all(number <= limit.limit for limit, number in taken.items()), taken
        for limit in (RATE, MAIL):
            times = [at for at, one in self.passed if one == limit]
            assert all(
                last - first > limit.per_seconds - 1e-6
                for first, last in zip(times, times[limit.limit :], strict=False)
            )

    def teardown(self):
        for _ in range(400):
            for name in list(self.out):
                self.finish_one(name)
            self.clock._now += 3
            for coordinator in self.coordinators:
                before = len(coordinator.published)
                coordinator.publish()
                coordinator.poll()
                self.note(coordinator, coordinator.published[before:])
            if not any(len(coordinator.dispatcher) for coordinator in self.coordinators):
                break
        assert [len(coordinator.dispatcher) for coordinator in self.coordinators] == [0, 0], "all of it was done"
        self.clock._now += 100
        for coordinator in self.coordinators:
            coordinator.publish()
            coordinator.poll()
            assert coordinator.limiter._held == {}
            assert coordinator.limiter._counts == {}
            assert coordinator.limiter._waited_for == {}
        assert self.limits._slots == {}

    def finish_one(self, name):
        coordinator, _ = self.out.pop(name)
        coordinator.done(name)


class Quiet:
    """To take a probe back without telling anybody."""

    def __init__(self, limits: LocalLimits) -> None:
        self._leave, self._rooms = limits._leave, ()


TestModel = Model.TestCase


async def test_an_ask_for_many_limits_says_how_many_more_each_lets_in():
    limits = LocalLimits(FakeClock())
    assert await limits.enter([Ask("a", (TWO, RATE))]) == [Entered((1, 2))]
