"""`reason_of` and `find_first`: what `explain` says to people, in codes and ids; and what holds a run up first."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.reasons import FIRST, find_first, reason_of
from perdure.kernel.readings.seen import Seen, Working
from perdure.kernel.state import key_of
from perdure.kernel.values import Wait
from tests.kernel.rules.graphs import AGAIN, again, child, human, items, node, pick, start

MAP = {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}}


def paused():
    run = start(node("a"), node("b", "a"))
    run.begin("a")
    run.tell(c.Pause, by="eve", reason="stocktaking")
    run.complete("a")
    return run, "b", {"code": "paused", "queue": "default"}


def no_worker():
    run = start(node("a", queue="gpu"))
    run.tell(c.HoldBack, address=Address("run", "a"))
    return run, "a", {"code": "no_worker", "queue": "gpu"}


def queued():
    return start(node("a")), "a", {"code": "queued", "queue": "default"}


def running():
    run = start(node("a"))
    run.begin("a", worker="w1")
    return run, "a", {"code": "running", "queue": "default", "worker": "w1"}


def retrying():
    run = start(node("a", retry={"jitter": False}))
    run.fail("a", "http:503", retryable=True)
    return run, "a", {"code": "retry", "until": 1001.0, "error": "http:503"}


def approval():
    run = start(human("ask"))
    name = run.ask("ask", approvers=("ann",), timeout_seconds=60)
    return run, "ask", {"code": "approval", "approval_id": name, "until": 1060.0}


def timer():
    run = start(node("a"))
    run.suspend("a", Wait(kind="timer", until=1_700_000_000.0))
    return run, "a", {"code": "timer", "until": 1_700_000_000.0}


def signal():
    run = start(node("a"))
    run.suspend("a", Wait(kind="signal", name="go"))
    return run, "a", {"code": "signal", "signal": "go", "until": None}


def event():
    run = start(node("a"))
    run.suspend("a", Wait(kind="event", name="order.paid", key="o7"))
    return run, "a", {"code": "event", "event": "order.paid", "key": "o7", "until": None}


def waits_for_child():
    run = start({"id": "w", "type": "workflow", "config": {"workflow": "inner"}})
    return run, "w", {"code": "child", "child": child(run, "w")}


def of_items():
    run = start(MAP)
    items(run, "m", 4, limit=2, tolerated=1)
    run.complete("m", item=0)
    return run, "m", {"code": "items", "open": 2}


def delay():
    run = start(node("x", loop=again("x", delay_ms=5000)))
    run.complete("x", AGAIN, (1,))
    return run, "x", {"code": "delay", "until": 1005.0}


def parked():
    run = start(node("a", on_failure="park"))
    run.fail("a", "broken")
    return run, "a", {"code": "parked", "dead_letter_id": "run:a", "error": "broken"}


WAITS = [paused, no_worker, queued, retrying, approval, timer, signal, event, waits_for_child, of_items, delay, parked]


@pytest.mark.parametrize("case", [*WAITS, running], ids=lambda case: case.__name__)
def test_each_way_to_wait_has_its_code_and_what_one_needs_to_go_on(case):
    run, name, expected = case()
    assert reason_of(run.state, name) == expected
    assert name in explain(run.state, name)


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.__name__)
def test_what_holds_a_run_up_is_told_with_its_node(case):
    run, name, expected = case()
    if case is paused:
        assert find_first(run.state) == {"code": "paused", "by": "eve", "reason": "stocktaking"}
    elif case is of_items:  # one of its items is what is queued
        assert find_first(run.state) == {"node": "m", "code": "items", "open": 2}
    else:
        assert find_first(run.state) == {"node": name, **expected}
    assert expected["code"] in FIRST


def test_nothing_holds_up_a_run_that_works_or_has_ended():
    run, _, _ = running()
    assert find_first(run.state) is None
    run.complete("a")
    assert find_first(run.state) is None
    assert reason_of(run.state, "a") == {"code": "completed"}


def test_what_a_worker_says_it_executes_is_running():
    run, _, _ = queued()
    seen = Seen({key_of(run.state.ir.numbers["a"], ()): Working("w7")})
    assert reason_of(run.state, "a", seen) == {"code": "running", "queue": "default", "worker": "w7"}
    assert find_first(run.state, seen) is None


def test_what_a_person_can_do_most_about_comes_first():
    run = start(node("a"), human("ask"), node("p", on_failure="park"))
    run.fail("p", "broken")
    assert find_first(run.state) == {"node": "p", "code": "parked", "dead_letter_id": "run:p", "error": "broken"}
    name = run.ask("ask")
    assert find_first(run.state) == {"node": "ask", "code": "approval", "approval_id": name, "until": None}


def test_dependencies_that_came_and_that_are_missing():
    run = start(node("a"), node("b"), node("d"), node("j", "a", "b", "d", join={"at_least": 2}))
    run.complete("a")
    run.begin("d")
    assert reason_of(run.state, "j") == {
        "code": "dependencies",
        "waits_for": [{"node": "b", "state": "queued"}, {"node": "d", "state": "running"}],
        "arrived": ["a"],
        "at_least": 2,
    }
    run = start(node("a"), node("b", "a"), node("d", "b"))
    assert reason_of(run.state, "d")["waits_for"] == [{"node": "b", "state": "pending"}]


def test_nodes_that_will_not_run():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("z", "d"))
    run.fail("a", "broken")
    assert reason_of(run.state, "a") == {"code": "failed", "error": "broken"}
    assert reason_of(run.state, "z")["code"] in ("run_ended", "upstream_failed", "skipped", "cancelled")
