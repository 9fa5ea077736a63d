"""Waits for events by name: rule 53."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel import continuations, snapshot
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.triggers import events_heard
from perdure.kernel.values import Heard, Wait
from tests.kernel.driver import Run
from tests.kernel.rules.graphs import AGAIN, ANSWERS, again, node, start

PAID = Wait(kind="event", name="paid", key="o1")


def listen(id: str, *after: str, **keys: Any) -> dict[str, Any]:
    return {"id": id, "type": "wait", "config": {"event": "paid"}, "dependencies": list(after), **keys}


def hear(run: Any, place: str, position: int, scope: tuple[int, ...] = (), **fields: Any) -> Any:
    item = fields.pop("item", None)
    activation = run.get(place, scope, item=item)
    fields = {"event": f"e{position}", "output": {"n": position}, **fields}
    return run.do(c.HearEvent(at=run.now, address=run.state.address(activation), position=position, **fields))


def waiting(*more: dict[str, Any], wait: Wait = PAID, **keys: Any) -> Any:
    run = start(listen("a"), *more, **keys)
    run.suspend("a", wait)
    return run


def test_rule_53_an_event_ends_the_wait_with_its_payload():
    run = waiting(node("z", "a"))
    wait = run.get("a").wait
    assert (wait.since, wait.since_at) == (0, run.state.created_at - events_heard.SKEW_SECONDS)
    hear(run, "a", 7)
    assert (run.get("a").output, run.state_of("z")) == ({"n": 7}, "queued")
    [resumed] = run.events("node.resumed")
    assert (resumed.event, resumed.position, resumed.reason) == ("e7", 7, "event paid")
    assert not run.state.timers


def test_rule_53_where_nothing_matches_nothing_is_written():
    run = waiting()
    before = run.state.seq
    hear(run, "a", 7, event="")
    assert (run.refused.code, run.state.seq, run.state_of("a")) == ("no_match", before, "waiting")


def test_rule_53_what_was_found_for_another_wait_is_refused():
    run = waiting(node("z", "a"))
    address = run.state.address(run.get("a"))
    hear(run, "a", 7)
    for again_at in (address, Address("run", "z"), Address("run", "a", attempt=2), Address("run", "a", generation=2)):
        run.do(c.HearEvent(at=run.now, address=again_at, position=8, event="e8"))
        assert run.refused.code == "not_waiting"
    assert run.get("a").output == {"n": 7}


def test_rule_53_the_next_iteration_begins_behind_the_event_that_was_taken():
    run = start(listen("a"), node("b", "a", loop=again("a")))
    run.suspend("a", PAID, (1,))
    hear(run, "a", 7, (1,))
    run.complete("b", AGAIN, scope=(1,))
    run.suspend("a", PAID, (2,))
    assert run.get("a", (2,)).wait.since == 7
    hear(run, "a", 7, (2,))
    assert run.refused.code == "not_waiting"
    hear(run, "a", 9, (2,))
    run.complete("b", AGAIN, scope=(2,))
    run.suspend("a", Wait(kind="event", name="paid", key="o2"), (3,))
    assert run.get("a", (3,)).wait.since == 0  # what has another key was not passed by


def test_rule_53_two_nodes_take_the_same_event():
    run = waiting(listen("b"))
    run.suspend("b", PAID)
    hear(run, "a", 7)
    hear(run, "b", 7)
    assert run.state.state == "completed"


def test_rule_53_items_of_a_map_take_each_their_own():
    config = {"over": "{{ inputs.list }}", "node": {"type": "wait", "config": {"event": "paid"}}}
    run = start({"id": "m", "type": "map", "config": config})
    run.suspend("m", Wait(kind="items", count=2))
    for item in (0, 1):
        run.suspend("m", Wait(kind="event", name="paid", key=str(item)), item=item)
    hear(run, "m", 9, item=0)
    hear(run, "m", 7, item=1)
    assert run.state.state == "completed"


def test_rule_53_an_event_that_does_not_come_in_time():
    run = waiting(wait=Wait(kind="event", name="paid", until=1010.0))
    run.pass_time(10)
    assert run.state.error.code == "event_timeout"


def test_rule_53_a_wait_may_count_from_now_on():
    run = start(listen("a"))
    run.pass_time(100)
    run.suspend("a", Wait(kind="event", name="paid", since_at=run.now))
    assert run.get("a").wait.since_at == run.now - events_heard.SKEW_SECONDS


def test_rule_53_a_paused_run_hears_and_a_failing_one_does_not():
    run = waiting(node("z", "a"), node("slow"), node("bad"))
    run.tell(c.Pause, by="ann")
    hear(run, "a", 7)
    assert run.state_of("z") == "held"
    run = waiting(node("slow"), node("bad"))
    run.begin("slow")
    run.fail("bad")
    hear(run, "a", 7)
    assert run.refused.code in ("run_ending", "not_waiting")
    run.complete("slow")
    run.tell(c.Retry)
    run.suspend("a", PAID)
    hear(run, "a", 7)
    assert run.get("a").output == {"n": 7}


def test_rule_53_a_snapshot_knows_what_was_heard():
    run = waiting(listen("b", "a"))
    hear(run, "a", 7)
    kept = snapshot.decode(snapshot.encode(run.state), run.state.library)
    assert kept is not None
    assert (kept.heard, kept.heard_since) == (run.state.heard, None) != ({}, None)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)


def go_on() -> tuple[Any, fx.ContinueRun]:
    nodes = (listen("a"), node("b", "a", loop={"condition": "output.again", "loop_back_to": "a"}))
    run = start(*nodes, endless=True)
    run.suspend("a", PAID, (1,))
    hear(run, "a", 7, (1,))
    run.complete("b", AGAIN, scope=(1,))
    [effect] = [one for one in run.effects if isinstance(one, fx.ContinueRun)]
    return run, effect


@pytest.mark.usefixtures("short")
def test_rule_53_a_run_that_goes_on_hears_what_came_between_and_nothing_twice():
    old, effect = go_on()
    assert effect.heard is not None
    assert effect.heard.since == old.state.created_at
    run: Any = Run(old.state.ir, answers=ANSWERS, heard=effect.heard)
    run.suspend("a", PAID, (1,))
    wait = run.get("a", (1,)).wait
    assert (wait.since, wait.since_at) == (7, old.state.created_at - events_heard.SKEW_SECONDS)


def test_rule_53_what_is_told_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events_heard, "MOST_HEARD", 2)
    run = waiting()
    run.state.heard = {"x": 5, "y": 9, "z": 3, "w": 4}
    told = events_heard.tell_heard(run.state)
    assert told == Heard(since=run.state.created_at, last={"x": 5, "y": 9, "": 4})
    run.state.heard = dict(told.last)
    assert (
        events_heard.begin_listening(run.state, run.get("a"), PAID).since == 4
    )  # older ones are passed by, not repeated
    assert events_heard.tell_heard(start(node("a")).state) is None
