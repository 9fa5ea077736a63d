"""The dispatcher: one window per queue, priority before turns, turns before age, and nobody is delayed by who must wait."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.kernel.address import Address
from perdure.runtime.coordinator.tasks.dispatcher import Dispatcher, Entry


def entry(node: str, queue: str = "default", tenant: str = "default", priority: int = 0) -> Entry:
    return Entry(Address("run", node), queue, tenant, priority)


def add(dispatcher: Dispatcher, *nodes: str, **more) -> list[str]:
    entries = [entry(node, **more) for node in nodes]
    assert all(dispatcher.add(one) for one in entries)
    return [one.address.task_id for one in entries]


def take(dispatcher: Dispatcher) -> list[str]:
    return [one.address.node for _, one in dispatcher.take()]


def finish(dispatcher: Dispatcher, number: int = 1) -> None:
    for name in dispatcher.out()[:number]:
        dispatcher.done(name)


# -- windows and order -------------------------------------------------------------------------------------------------


def test_no_more_are_out_than_the_window_has_room_for():
    dispatcher = Dispatcher(2)
    add(dispatcher, *"abcde")
    assert take(dispatcher) == ["a", "b"]
    assert take(dispatcher) == []
    finish(dispatcher)
    assert take(dispatcher) == ["c"]
    assert (len(dispatcher), dispatcher.backlog) == (4, 2)


def test_every_queue_has_a_window_of_its_own():
    dispatcher = Dispatcher(2)
    dispatcher.set_window("gpu", 1)
    add(dispatcher, *"abc")
    add(dispatcher, *"xyz", queue="gpu")
    assert take(dispatcher) == ["x", "a", "b"]
    dispatcher.set_window("gpu", 3)
    assert take(dispatcher) == ["y", "z"]


def test_a_window_may_shrink_below_what_is_out_and_go_back_to_the_default():
    dispatcher = Dispatcher(3)
    add(dispatcher, *"abcdef")
    take(dispatcher)
    dispatcher.set_window("default", 1)
    finish(dispatcher, 2)
    assert take(dispatcher) == []
    dispatcher.set_window("default", None)
    assert take(dispatcher) == ["d", "e"]


def test_a_queue_with_a_window_of_nothing_sends_nothing_and_says_why():
    dispatcher = Dispatcher(3)
    dispatcher.set_window("gpu", 0)
    [name] = add(dispatcher, "a", queue="gpu")
    assert take(dispatcher) == []
    assert dispatcher.why(name) == "queue gpu: no worker listens"


def test_higher_priority_goes_first_whoever_it_belongs_to():
    dispatcher = Dispatcher(10)
    add(dispatcher, "low", "lower", priority=-1)
    add(dispatcher, "a", "b", tenant="one")
    add(dispatcher, "urgent", tenant="two", priority=7)
    assert take(dispatcher) == ["urgent", "a", "b", "low", "lower"]


def test_what_is_known_is_not_added_twice():
    dispatcher = Dispatcher(1)
    add(dispatcher, *"ab")
    assert not dispatcher.add(entry("a"))
    take(dispatcher)
    assert not dispatcher.add(entry("a"))
    assert not dispatcher.adopt(entry("b"))
    assert dispatcher.adopt(entry("c"))
    assert not dispatcher.add(entry("c"))


def test_what_is_withdrawn_is_not_sent_and_may_come_back_last():
    dispatcher = Dispatcher(1)
    a, b, _ = add(dispatcher, *"abc")
    take(dispatcher)
    assert not dispatcher.withdraw(a), "it is out"
    assert dispatcher.withdraw(b)
    assert not dispatcher.withdraw(b)
    finish(dispatcher)
    assert take(dispatcher) == ["c"]


def test_what_a_worker_has_counts_in_its_window():
    dispatcher = Dispatcher(2)
    dispatcher.adopt(entry("x"))
    add(dispatcher, *"ab")
    assert take(dispatcher) == ["a"]


def test_nothing_is_left_when_all_is_done():
    dispatcher = Dispatcher(2)
    names = [*add(dispatcher, *"abc"), *add(dispatcher, *"xyz", queue="gpu", tenant="t")]
    for name, _ in dispatcher.take():
        dispatcher.set_aside(name, "limit", "full")
    dispatcher.call_up("limit", 2)
    for name in names:
        assert dispatcher.done(name) is not None
    assert len(dispatcher) == 0
    assert (dispatcher._queues, dispatcher._limits, dispatcher._ages) == ({}, {}, {})


# -- tenants -----------------------------------------------------------------------------------------------------------


def test_tenants_take_turns():
    dispatcher = Dispatcher(6)
    add(dispatcher, *"abcdef", tenant="one")
    add(dispatcher, *"uv", tenant="two")
    assert take(dispatcher) == ["a", "u", "b", "v", "c", "d"]


def test_a_tenant_with_very_many_delays_another_by_one_turn():
    dispatcher = Dispatcher(10)
    add(dispatcher, *(f"n{number}" for number in range(10_000)), tenant="loud")
    take(dispatcher)
    add(dispatcher, "quiet", tenant="calm")
    finish(dispatcher, 2)
    assert "quiet" in take(dispatcher)


def test_what_was_withdrawn_costs_its_tenant_no_turn():
    dispatcher = Dispatcher(1)
    add(dispatcher, *(f"x{number}" for number in range(5)), tenant="other")
    for name in add(dispatcher, *(f"n{number}" for number in range(50)), tenant="one"):
        dispatcher.withdraw(name)
    add(dispatcher, "wanted", tenant="one")
    seen = []
    for _ in range(2):
        seen += take(dispatcher)
        finish(dispatcher)
    assert "wanted" in seen


def test_where_several_tenants_are_known_none_has_all_slots_whatever_the_priority():
    dispatcher = Dispatcher(200)
    add(dispatcher, *(f"n{number}" for number in range(300)), tenant="loud", priority=9)
    assert len(take(dispatcher)) == 200  # nobody else was ever here
    finish(dispatcher, 200)
    add(dispatcher, "quiet", tenant="calm")
    assert len(take(dispatcher)) == 88 + 1
    assert take(dispatcher) == []
    add(dispatcher, "later", tenant="calm")
    assert take(dispatcher) == ["later"]
    finish(dispatcher, 1)
    assert len(take(dispatcher)) == 1


def test_a_tenant_that_comes_and_goes_does_not_get_ahead_by_it():
    dispatcher = Dispatcher(1)
    add(dispatcher, *(f"steady{number}" for number in range(100)), tenant="one")
    served = []
    for number in range(40):
        add(dispatcher, f"again{number}", tenant="two")
        served += take(dispatcher)
        finish(dispatcher)
    assert 18 <= sum(name.startswith("steady") for name in served) <= 22


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), min_size=2, max_size=8),
    st.integers(1, 5),
)
def test_while_two_tenants_wait_none_is_served_more_than_one_turn_ahead(arrivals, window):
    dispatcher = Dispatcher(window)
    number = 0
    for tenant, many in arrivals:
        for _ in range(many):
            number += 1
            dispatcher.add(entry(f"n{number}", tenant=tenant))
    waiting = Counter(tenant for tenant, many in arrivals for _ in range(many))
    served: Counter[str] = Counter()
    while any(waiting.values()):
        for name, one in list(dispatcher.take()):
            waiting[one.tenant] -= 1
            served[one.tenant] += 1
            dispatcher.done(name)
        still = [tenant for tenant, left in waiting.items() if left > 0]
        assert max((served[tenant] for tenant in still), default=0) - min((served[t] for t in still), default=0) <= 1


# -- standing aside ----------------------------------------------------------------------------------------------------


def test_who_waits_for_a_limit_takes_no_window_and_delays_nobody():
    dispatcher = Dispatcher(2)
    add(dispatcher, *"abcd")
    out = []
    for name, one in dispatcher.take():
        if one.address.node in "abc":
            dispatcher.set_aside(name, "limit", "waits for concurrency key 'k' (3 of 3)")
        else:
            out.append(one.address.node)
    assert out == ["d"]
    assert dispatcher.why(entry("a").address.task_id) == "waits for concurrency key 'k' (3 of 3)"
    assert dispatcher.why(entry("d").address.task_id) is None
    assert (dispatcher.backlog, len(dispatcher)) == (3, 4)


def test_who_stood_aside_is_called_up_by_priority_and_age_and_is_next():
    dispatcher = Dispatcher(10)
    add(dispatcher, *"abc")
    add(dispatcher, "urgent", priority=1)
    for name, _ in dispatcher.take():
        dispatcher.set_aside(name, "limit", "full")
    add(dispatcher, "new")
    assert dispatcher.call_up("limit", 3) == 3
    assert take(dispatcher) == ["urgent", "a", "b", "new"]
    assert dispatcher.call_up("limit", 3) == 1
    assert dispatcher.call_up("limit", 3) == 0


def test_who_is_called_up_in_vain_keeps_its_place():
    dispatcher = Dispatcher(10)
    add(dispatcher, *"abc")
    for _ in range(3):
        for name, _ in dispatcher.take():
            dispatcher.set_aside(name, "limit", "full")
        dispatcher.call_up("limit", 2)
    assert take(dispatcher) == ["a", "b"]
    dispatcher.call_up("limit", 5)
    assert take(dispatcher) == ["c"]


def test_what_is_put_back_is_next_in_the_same_order():
    dispatcher = Dispatcher(3)
    add(dispatcher, *"abcd")
    dispatcher.put_back([name for name, _ in list(dispatcher.take())])
    assert take(dispatcher) == ["a", "b", "c"]


def test_a_queue_that_is_held_sends_nothing_until_it_is_released():
    dispatcher = Dispatcher(3)
    dispatcher.stop_queue("default", "queue default: 2 of 2 slots taken")
    [name] = add(dispatcher, "a")
    add(dispatcher, "b", queue="other")
    assert take(dispatcher) == ["b"]
    assert dispatcher.why(name) == "queue default: 2 of 2 slots taken"
    dispatcher.resume_queue("default")
    assert take(dispatcher) == ["a"]


def test_who_stands_aside_can_be_found_withdrawn_or_turn_out_to_be_out():
    dispatcher = Dispatcher(3)
    assert dispatcher.add_aside(entry("a"), "limit", "full")
    assert dispatcher.add_aside(entry("b"), "limit", "full")
    assert not dispatcher.add(entry("a"))
    a, b = (entry(node).address.task_id for node in "ab")
    assert dispatcher.list_aside("limit") == [a, b]
    assert dispatcher.find(a) == entry("a")
    assert dispatcher.withdraw(b)
    dispatcher.send(a)
    assert dispatcher.out() == [a]
    assert not dispatcher.has_aside("limit")


@pytest.mark.parametrize("waits", [False, True])
def test_why_says_how_many_are_before_it(waits):
    dispatcher = Dispatcher(1 if waits else 3)
    add(dispatcher, "a")
    take(dispatcher)
    [b] = add(dispatcher, "b")
    said = "queue default: 1 tasks are with its workers or on the way, 1 wait"
    assert dispatcher.why(b) == (said if waits else "queue default: about to be sent")
    assert dispatcher.why("unknown") is None


class Model(RuleBasedStateMachine):
    """Against a plain model: three queues, two limits, everything in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatcher = Dispatcher(2)
        self.windows = {"q0": 2, "q1": 2, "q2": 2}
        self.stopped: set[str] = set()
        self.waiting: dict[str, Entry] = {}
        self.out: dict[str, Entry] = {}
        self.aside: dict[str, str] = {}
        self.all: dict[str, Entry] = {}
        self.number = 0

    @rule(queue=st.integers(0, 2), tenant=st.sampled_from("ab"), priority=st.integers(0, 2))
    def add(self, queue, tenant, priority):
        self.number += 1
        one = entry(f"n{self.number}", f"q{queue}", tenant, priority)
        assert self.dispatcher.add(one)
        self.waiting[one.address.task_id] = self.all[one.address.task_id] = one

    @rule(decide=st.lists(st.sampled_from(["keep", "aside0", "aside1", "back"]), max_size=8))
    def take(self, decide):
        choices = deque(decide)
        back = []
        for name, one in self.dispatcher.take():
            assert self.waiting.pop(name) == one
            same = [other for other in self.waiting.values() if other.queue == one.queue]
            assert one.priority >= max((other.priority for other in same), default=-1)
            self.out[name] = one
            assert sum(other.queue == one.queue for other in self.out.values()) <= self.windows[one.queue]
            choice = choices.popleft() if choices else "keep"
            if choice.startswith("aside"):
                del self.out[name]
                self.aside[name] = choice
                self.dispatcher.set_aside(name, choice, "full")
            elif choice == "back":
                back.append(name)
        self.dispatcher.put_back(back)
        for name in back:
            self.waiting[name] = self.out.pop(name)

    @precondition(lambda self: self.all)
    @rule(data=st.data(), how=st.sampled_from(["done", "withdraw"]))
    def end(self, data, how):
        name = data.draw(st.sampled_from(sorted(self.all)))
        if how == "withdraw":
            assert self.dispatcher.withdraw(name) == (name in self.waiting or name in self.aside)
            if name in self.out:
                return
        else:
            assert self.dispatcher.done(name) == self.all[name]
        for where in (self.waiting, self.out, self.aside, self.all):
            where.pop(name, None)

    @rule(limit=st.sampled_from(["aside0", "aside1"]), number=st.integers(0, 3))
    def call_up(self, limit, number):
        before = [name for name, found in self.aside.items() if found == limit]
        assert self.dispatcher.call_up(limit, number) == min(number, len(before))
        now = set(self.dispatcher.list_aside(limit))
        for name in set(before) - now:
            del self.aside[name]
            self.waiting[name] = self.all[name]

    @rule(queue=st.integers(0, 2), size=st.integers(0, 3))
    def resize(self, queue, size):
        self.windows[f"q{queue}"] = size
        self.dispatcher.set_window(f"q{queue}", size)

    @rule(queue=st.integers(0, 2), stop=st.booleans())
    def stop_queue(self, queue, stop):
        name = f"q{queue}"
        if stop:
            self.stopped.add(name)
            self.dispatcher.stop_queue(name, "held")
        else:
            self.stopped.discard(name)
            self.dispatcher.resume_queue(name)

    @invariant()
    def nothing_is_lost_and_nothing_is_known_twice(self):
        assert set(self.dispatcher.out()) == set(self.out)
        assert sorted(one.address.task_id for one in self.dispatcher.entries()) == sorted(self.all)
        assert self.dispatcher.backlog == len(self.waiting) + len(self.aside)
        for name in self.all:
            assert self.dispatcher.find(name) is self.all[name]
            assert (self.dispatcher.why(name) is None) == (name in self.out)

    def teardown(self):
        """Never idle while something fits: with every window open, all of it comes out."""
        for queue in self.windows:
            self.dispatcher.resume_queue(queue)
            self.dispatcher.set_window(queue, 10_000)
        for limit in ("aside0", "aside1"):
            self.dispatcher.call_up(limit, 10_000)
        assert {name for name, _ in self.dispatcher.take()} == set(self.waiting) | set(self.aside)


TestModel = Model.TestCase
