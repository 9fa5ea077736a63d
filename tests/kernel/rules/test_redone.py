"""SEMANTICS, rule 26: an outcome that is kept is routed when what it builds upon has been done again, and not before."""

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel import settle
from perdure.kernel.causal_past import find_lacking
from perdure.kernel.readings.explain import explain
from perdure.kernel.values import Error
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, child, end_child, node, start, undone, violations
from tests.kernel.rules.test_patches import patch

READS_A = {
    "type": "conditional",
    "rules": [{"condition": "ctx.a.output.ok", "next_nodes": ["yes"]}],
    "default": ["no"],
}


def of_a(question: c.Question) -> Any:
    found = question.evidence.nodes.get("a")
    return Error("no_such_key", "ctx has no a") if found is None else found.output["ok"]


def kept(*more: dict[str, Any], between: bool = False, **keys: Any) -> Any:
    """`b` has completed while its run failed, and `a` was undone: a retry keeps the one and does the other again."""
    before = [node("m", "a")] if between else []
    nodes = (
        node("a", compensator=UNDO),
        *before,
        node("b", "m" if between else "a", branch=READS_A, **keys),
        node("yes"),
        node("no"),
        node("f"),
        *more,
    )
    run = start(*nodes, answers={"branch": of_a}, on_failure={"compensate": True})
    run.complete("a", {"ok": False})
    if between:
        run.complete("m")
    run.begin("b")
    run.fail("f")
    run.complete("b", "done")
    undone(run, "a")
    assert (run.status, run.state_of("b"), run.get("b").routed) == ("failed", "completed", False)
    return run


@pytest.mark.parametrize("between", [False, True])
def test_rule_26_a_kept_outcome_waits_for_what_its_condition_reads_and_sees_what_was_done_again(between):
    run = kept(between=between)
    run.tell(c.Retry)
    assert (run.status, run.state_of("b"), run.get("b").routed) == ("running", "completed", False)
    assert "something it builds upon is being done again" in explain(run.state, "b")
    run.complete("f")
    run.complete("a", {"ok": True})
    assert (run.state_of("yes"), run.state_of("no")) == ("queued", "skipped")
    assert run.get("b").attempt == 1
    run.complete("yes")
    assert run.status == "completed"


def test_rule_26_a_kept_outcome_that_waits_is_routed_in_the_append_that_makes_its_past_whole():
    """R1: nothing else is open then, and the run does not end before its outcome has gone on."""
    run = kept()
    run.tell(c.Retry)
    run.complete("f")
    ruling = run.complete("a", {"ok": False})
    assert [event.type for event in ruling.events][:2] == ["node.completed", "node.routed"]
    assert run.dispatched() == {"no"}


def test_rule_26_a_kept_outcome_waits_over_generations_and_pauses():
    run = kept()
    run.tell(c.Retry)
    run.fail("f")
    run.withdraw("a")
    assert run.status == "failed"
    run.tell(c.Retry)
    run.tell(c.Pause)
    run.complete("f")
    assert not run.get("b").routed
    run.begin("a")
    run.complete("a", {"ok": True})
    assert (run.get("b").route.taken, run.state_of("yes")) == (("yes",), "held")  # a pause gates dispatch only
    run.tell(c.Resume)
    assert run.state_of("yes") == "queued"


def test_rule_26_a_kept_outcome_that_builds_upon_nothing_undone_is_routed_at_once():
    nodes = (node("a"), node("b", "a", branch=READS_A), node("yes"), node("no"), node("f"))
    run = start(*nodes, answers={"branch": of_a})
    run.complete("a", {"ok": True})
    run.begin("b")
    run.fail("f")
    run.complete("b")
    ruling = run.tell(c.Retry)
    assert "node.routed" in [event.type for event in ruling.events]
    assert run.state_of("yes") == "queued"


def test_rule_26_a_parked_outcome_is_routed_when_what_it_reads_has_been_done_again():
    """R7: its work is done. It is requeued too early, and goes on by itself; before, it was parked again."""
    run = start(
        node("a", compensator=UNDO),
        node("b", "a", branch=READS_A, on_failure="park"),
        node("yes"),
        node("no"),
        node("f"),
        answers={"branch": Error("no_such_key", "a has no ok")},
        on_failure={"compensate": True},
    )
    run.complete("a", {})
    run.complete("b")
    assert run.state_of("b") == "parked"
    run.fail("f")
    undone(run, "a")
    run.tell(c.Retry)
    run.answers["branch"] = of_a
    run.requeue("b")
    assert (run.state_of("b"), run.get("b").routed) == ("completed", False)
    run.complete("f")
    run.complete("a", {"ok": True})
    assert (run.state_of("yes"), run.get("b").attempt) == ("queued", 1)


def test_rule_35_a_parked_parent_whose_past_is_done_again_is_released_and_goes_on_after_that():
    run = start(
        node("a", compensator=UNDO),
        {"id": "b", "type": "workflow", "config": {"workflow": "inner"}, "dependencies": ["a"], "branch": READS_A}
        | {"on_failure": "park"},
        node("yes"),
        node("no"),
        node("f"),
        answers={"branch": of_a},
        on_failure={"compensate": True},
    )
    run.complete("a", {"ok": False})
    inner = child(run, "b")
    end_child(run, inner, "failed")
    assert run.state_of("b") == "parked"
    run.fail("f")
    undone(run, "a")
    run.tell(c.Retry)
    end_child(run, inner, "completed", 2, output="later")
    assert (run.state_of("b"), run.get("b").routed) == ("completed", False)
    run.complete("f")
    run.complete("a", {"ok": True})
    assert run.state_of("yes") == "queued"


def test_rule_26_a_looping_outcome_waits_too_and_its_iteration_with_it():
    run = start(
        node("h", compensator=UNDO),
        node("x", "h", loop={"condition": "ctx.h.output.more", "max_iterations": 3, "loop_back_to": "h"}),
        node("z", "x"),
        node("f"),
        answers={"loop": lambda question: question.evidence.nodes["h"].output["more"]},
        on_failure={"compensate": True},
    )
    run.complete("h", {"more": False}, (1,))
    run.begin("x", (1,))
    run.fail("f")
    run.complete("x", None, (1,))
    run.begin("h", (1,), undo=True)
    run.complete("h", None, (1,), undo=True)
    run.tell(c.Retry)
    assert run.state_of("h", (1,)) == "queued"
    run.complete("h", {"more": True}, (1,))
    assert run.state_of("h", (2,)) == "queued"
    run.complete("h", {"more": False}, (2,))
    run.complete("x", None, (2,))
    assert run.state_of("z") == "queued"


UNDONE = {"on_failure": {"compensate": True}}
LOOPING = {"compensator": UNDO, "loop": again("h")}
BODY = (node("h", compensator=UNDO), node("m", "h"), node("f"))
CHANGES = {
    "an edge is gone": (*BODY, node("x", "h", **LOOPING)),
    "the other edge is gone": (*BODY, node("x", "m", **LOOPING)),
    "a node comes before it": (*BODY, node("p", "h"), node("x", "m", "h", "p", **LOOPING)),
    "a node comes between": (*BODY, node("p", "m"), node("x", "p", "h", **LOOPING)),
    "a node outside comes before it": (*BODY, node("e"), node("x", "m", "h", "e", **LOOPING)),
    "another join": (*BODY, node("x", "m", "h", join="any", **LOOPING)),
}


def undo_in_a_loop(run: Any, scope: tuple[int, ...]) -> None:
    """The run fails, and what it did in this iteration is undone but for `m`."""
    run.fail("f", retryable=False)
    for activation in list(run.state.activations.values()):
        if activation.state == "queued":
            run.withdraw(run.state.name(activation.node), activation.scope)
    for name in ("x", "h"):
        if run.state_of(name, scope) == "completed":
            run.begin(name, scope, undo=True)
            run.complete(name, None, scope, undo=True)
    assert run.status == "failed"


@pytest.mark.parametrize("when", ["before", "after", "with"])
@pytest.mark.parametrize("change", CHANGES)
def test_rule_39_an_iteration_that_is_over_is_done_again_by_the_definition_it_began_with(change, when):
    """`x` began before `h` was done again, on a token whose edge was gone (seed 464369), or waited for ever for one that
    its iteration never had."""
    new = CHANGES[change]
    run = start(*BODY, node("x", "m", "h", **LOOPING), **UNDONE)
    run.complete("h", None, (1,))
    run.complete("m", None, (1,))
    run.complete("x", AGAIN, (1,))
    if when == "before":
        patch(run, *new, **UNDONE)
    undo_in_a_loop(run, (1,))
    run.tell(c.Retry, **({"ir": compiled(*new, **UNDONE)} if when == "with" else {}))
    if when == "after":
        patch(run, *new, **UNDONE)
    assert run.refused is None
    assert (run.state_of("h", (1,)), run.state_of("x", (1,))) == ("queued", "pending")
    run.complete("h", None, (1,))
    assert run.state_of("x", (1,)) == "queued"
    while sent := [a for a in run.state.activations.values() if a.state == "queued"]:
        run.complete(run.state.name(sent[0].node), DONE, sent[0].scope)
    assert run.status == "completed"
    assert violations(run) == []


@pytest.mark.parametrize("closed", [False, True])
def test_rule_26_what_is_done_again_in_a_loop_is_done_as_mended(closed):
    """Also where its join is decided anew, in this generation and in those after it."""
    new = {"function": "m:new"}
    run = start(*BODY, node("x", "m", "h", **LOOPING), **UNDONE)
    run.complete("h", None, (1,))
    run.complete("m", None, (1,))
    if closed:
        run.complete("x", AGAIN, (1,))
    undo_in_a_loop(run, (1,))
    run.tell(c.Retry, ir=compiled(*BODY, node("x", "m", "h", config=new, **LOOPING), **UNDONE))
    run.complete("h", None, (1,))
    assert run.state.pinned(run.get("x", (1,))).config == new
    undo_in_a_loop(run, (1,))
    run.tell(c.Retry)
    run.complete("h", None, (1,))
    assert (run.state_of("x", (1,)), run.state.pinned(run.get("x", (1,))).config) == ("queued", new)
    assert violations(run) == []


def test_a_decision_does_not_look_at_everything_that_waits_for_something_else(monkeypatch):
    """What waits is looked at when that has ended for which it waits, not at every step: 10,000 may wait."""
    wide = [node(f"m{n}", "a") for n in range(20)] + [node(f"z{n}", f"m{n}") for n in range(20)]
    run: Run = start(
        node("a", compensator=UNDO), *wide, node("f"), node("g"), node("h"), on_failure={"compensate": True}
    )
    run.complete("a")
    for n in range(20):
        run.complete(f"m{n}")
    run.fail("f")
    for name in (*(f"z{n}" for n in range(20)), "g", "h"):
        run.withdraw(name)
    undone(run, "a")
    run.tell(c.Retry)
    assert {run.state_of(f"z{n}") for n in range(20)} == {"held"}
    looked: list[Any] = []

    def noticed(state: Any, activation: Any) -> Any:
        looked.append(activation)
        return find_lacking(state, activation)

    monkeypatch.setattr(settle, "find_lacking", noticed)
    run.replay_each_step, run.restored = False, None
    run.complete("g")
    run.complete("h")
    run.complete("f")
    assert looked == []
    run.complete("a")
    assert {run.state_of(f"z{n}") for n in range(20)} == {"queued"}
