"""Journals as this version writes them: small runs that together record every event type that can be produced today.

    python -m tests.replay.record            what is missing is written; what is there stays as it is
    python -m tests.replay.record --again    all of them anew, before this version is released

A file is one scenario, a JSON object per line: the IRs the run needs, its events byte for byte as they are stored, and last
what they evolve to. Later versions evolve these files; they never write them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import continuations, reruns
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.readings.run_view import activation_view, run_view
from perdure.kernel.state import State
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import sort
from perdure.kernel.values import Ask, Error, Part, PortEnd, Wait
from perdure.model import ir as irs
from perdure.model.money import Budget, Usage
from tests.kernel.driver import Run, compiled
from tests.kernel.inner_triggers import Inner
from tests.kernel.mailboxes import TriggerRun
from tests.kernel.rules.graphs import UNDO, again, child, end_child, human, items, node, pick, start, undone

JOURNALS = Path(__file__).with_name("journals")
VERSION = "v1"
Scenario = Callable[[], Run]
SCENARIOS: dict[str, Scenario] = {}


def scenario(make: Scenario) -> Scenario:
    SCENARIOS[make.__name__] = make
    return make


@scenario
def diamond_with_inputs_tags_and_outputs() -> Run:
    ir = compiled(node("a"), node("b", "a"), node("c", "a"), node("z", "b", "c"), outputs={"all": "{{ z.n }}"})
    run = Run(
        ir, inputs={"n": 1}, answers={"outputs": {"all": 3}}, tags={"team": "one"}, deadline_seconds=60.0, by="ann"
    )
    run.begin("a", worker="w1")
    run.complete("a", {"n": 1}, worker="w1", size=7, started_at=run.now)
    run.complete("c", {"n": 2})
    run.complete("b", {"n": 1, "text": "ä “quoted” \\ \u2028"})
    run.complete("z", {"n": 3})
    return run


@scenario
def branch_skips_and_a_join_goes_on() -> Run:
    run = start(
        node("a", branch=pick(["b"], ["d"])),
        node("b"),
        node("b2", "b"),
        node("d"),
        node("z", "b2", "d"),
        node("e", "b"),
    )
    run.complete("a", {"rule": 1})
    run.complete("d", None)
    run.complete("z", [1, 2.5, None])
    return run


@scenario
def loop_in_a_loop() -> Run:
    run = start(node("h"), node("i", "h", loop=again("i")), node("o", "i", loop=again("h")), node("z", "o"))
    for outer in (1, 2):
        run.complete("h", {}, (outer,))
        for inner in (1, 2):
            run.complete("i", {"again": inner == 1}, (outer, inner))
        run.complete("o", {"again": outer == 1}, (outer,))
    run.complete("z", "end")
    return run


@scenario
def race_that_cancels_the_rest() -> Run:
    run = start(
        node("a"),
        node("b"),
        node("c"),
        node("b2", "b"),
        node("j", "a", "b2", "c", join={"at_least": 1, "cancel_rest": True}),
    )
    run.begin("b")
    run.complete("a", 1)
    run.complete("b", "too late")
    run.complete("j", 2)
    return run


@scenario
def one_loser_of_a_race_is_cancelled() -> Run:
    run = start(node("a"), node("b"), node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}))
    run.complete("b", 1)
    return run


@scenario
def retry_lapse_and_an_old_result() -> Run:
    run = start(node("a", retry={"max_attempts": 3, "backoff_ms": 1000, "jitter": False}), node("b", "a"))
    run.begin("a", worker="w1")
    run._command(c.Checkpoint, "a", (), None, data={"at": 5})
    run.fail("a", "http:503", retryable=True)
    run.pass_time(2)
    run.lapse("a", reason="crashed")
    run.lapse("a", reason="handed_back")
    run.begin("a")
    run.complete("a", "stale", attempt=1)
    run.complete("a", "fresh")
    return run


@scenario
def failure_is_retried_in_a_new_generation() -> Run:
    run = start(node("a"), node("b"), node("z", "a", "b"), deadline_seconds=900)
    run.begin("b")
    run.fail("a", "broken")
    run.complete("b", "kept")
    run.tell(c.Retry, by="ann")
    run.complete("a", "now")
    run.complete("z", "end")
    return run


@scenario
def failures_that_the_graph_handles() -> Run:
    run = start(
        node("a", on_failure={"path": ["repair"]}),
        node("repair"),
        node("b", on_failure="continue"),
        node("c"),
        node("d"),
        node("j", "c", "d", join={"at_least": 2}),
        node("k", "j", "b", join={"at_least": 1}),
    )
    run.fail("a", "one")
    run.fail("b", "two")
    run.fail("c", "three")
    run.complete("d")
    run.complete("repair")
    run.complete("k")
    return run


@scenario
def parked_requeued_and_discarded() -> Run:
    run = start(
        node("a", on_failure="park"),
        node("b", on_failure="park"),
        node("once", effect="at_most_once"),
        node("way", branch=pick(["x"]), on_failure="park"),
        node("x"),
        answers={"branch": Error("routing_failed", "no such field")},
    )
    run.fail("a")
    run.requeue("a", config={"function": "m:g"}, by="ann")
    run.complete("a")
    run.fail("b")
    run.discard("b", "continue", by="bob")
    run.begin("once")
    run.lapse("once")
    run.discard("once", "skip", by="bob")
    run.complete("way", {"n": 1})
    run.answers["branch"] = True
    run.requeue("way", by="ann")
    run.complete("x")
    return run


@scenario
def compensation_in_reverse() -> Run:
    fast = {**UNDO, "retry": {"max_attempts": 2, "backoff_ms": 1000, "jitter": False}}
    run = start(
        node("a", compensator=fast), node("b", "a", compensator=fast), node("z", "b"), on_failure={"compensate": True}
    )
    run.complete("a", 1)
    run.complete("b", 2)
    run.fail("z")
    run.begin("b", undo=True)
    run.fail("b", undo=True, retryable=True)
    run.pass_time(5)
    run.complete("b", undo=True)
    run.fail("a", undo=True, retryable=False)
    run.requeue("a", undo=True, by="ann")
    run.fail("a", undo=True, retryable=False)
    run.discard("a", undo=True, by="ann")
    return run


@scenario
def completed_and_rolled_back() -> Run:
    run = start(node("a", compensator=UNDO))
    run.complete("a", 1)
    run.tell(c.Rollback, by="ann")
    run.complete("a", undo=True)
    return run


@scenario
def approvals_votes_and_escalation() -> Run:
    run = start(human("h"), human("i"), node("z", "h", "i"))
    first = run.ask("h", approvers=("ann", "bob"), quorum=2, shown={"sum": 5}, form={"type": "object"})
    second = run.ask("i", approvers=("ann",), timeout_seconds=60, on_timeout="escalate", escalate_to=("eve",))
    run.vote(first, "approve", by="ann", comments="fine", data={"k": 1})
    run.vote(first, "approve", by="bob")
    run.pass_time(61)
    run.vote(second, "approve", by="eve")
    run.complete("z")
    return run


@scenario
def approvals_by_roles_and_handed_over() -> Run:
    run = start(human("ask"), node("z", "ask"))
    approval = run.ask("ask", approvers=("role:finance", "ann"), quorum=2)
    run.tell(c.Vote, approval=approval, decision="approve", by="bob", approver="role:finance")
    run.tell(c.Delegate, approval=approval, by="ann", to="cat", comments="on holiday")
    run.vote(approval, "approve", by="cat")
    run.complete("z", 1)
    return run


@scenario
def waits_for_signals_and_times() -> Run:
    wait = {"type": "wait", "config": {"seconds": 5}}
    run = start({"id": "s", **wait}, {"id": "t", **wait}, {"id": "late", **wait, "on_failure": "continue"})
    run.tell(c.Signal, name="go", payload={"n": 1}, signal="s1", by="ann")
    run.suspend("s", Wait(kind="signal", name="go"))
    run.suspend("t", Wait(kind="timer", until=run.now + 5))
    run.suspend("late", Wait(kind="signal", name="never", until=run.now + 9))
    run.pass_time(10)
    return run


@scenario
def waits_for_events() -> Run:
    wait = {"type": "wait", "config": {"event": "paid"}}
    run = start(
        {"id": "a", **wait},
        {"id": "late", **wait, "on_failure": "continue"},
        {"id": "b", **wait, "dependencies": ["a"]},
    )
    run.suspend("a", Wait(kind="event", name="paid", key="o1", match="event.n > given", given=3))
    run.suspend("late", Wait(kind="event", name="never", until=run.now + 9))
    for name, position in (("a", 7), ("b", 8)):
        if name == "b":
            run.suspend("b", Wait(kind="event", name="paid", since_at=run.now))
        address = run.state.address(run.get(name))
        run.do(
            c.HearEvent(at=run.now, address=address, position=position, event=f"e{position}", output={"n": position})
        )
    run.pass_time(10)
    return run


@scenario
def a_handler_that_adds_to_its_run() -> Run:
    """A patch that is refused, and one that is applied: its nodes run after the one that asked."""
    choosing = {"type": "agent_driven", "available_next_nodes": ["b"], "default": ["b"]}
    run = start(node("a", branch=choosing), node("b", "a"))
    wanted: dict[str, Any] = {
        "kind": "patch",
        "content": "abc",
        "operations": [{"op": "add", "path": "/nodes/-", "value": {"id": "n"}}],
    }
    wider = {**choosing, "available_next_nodes": ["b", "n"]}
    for name, nodes in (
        ("p", (node("a", branch=choosing), node("b", "a"), node("n"))),
        ("q", (node("a", branch=wider), node("b", "a", "n"), node("n", "a"))),
    ):
        address = run.state.address(run.get("a"))
        run.do(c.AskFor(at=run.now, address=address, asks=(Ask(name=name, reason="more to do", **wanted),)))
        about = {"ask": name, "content": "abc", "base": run.state.ir_hashes[-1], "ir": compiled(*nodes)}
        run.do(c.ApplyPatch(at=run.now, address=run.state.address(run.get("a")), **about))
    run.complete("a", 1, choice=("n",))
    run.complete("n", 2)
    run.complete("b", 3)
    return run


@scenario
def handlers_that_ask() -> Run:
    """All kinds of asks, an answer of each kind, a new generation that asks for the rest, and children that are undone."""
    nodes = (node("a", compensator=UNDO), node("f", "a"))
    run = start(*nodes, on_failure={"compensate": True})

    def ask(*asks: Ask) -> None:
        run.do(c.AskFor(at=run.now, address=run.state.address(run.get("a")), asks=asks))

    paid, nap = Ask(name="paid", kind="signal", signal="payment"), Ask(name="nap", kind="sleep", seconds=5)
    late = Ask(name="late", kind="signal", signal="payment", seconds=5)
    people = Ask(name="ok", kind="approval", approvers=("ann",), shown={"sum": 1}, content="abc")
    sub = Ask(name="sub", kind="child", workflow="inner", inputs={"n": 1})
    ask(paid, nap, people, sub)
    run.tell(c.Signal, name="payment", payload={"n": 1})
    run.vote(run.get("a").asks["ok"].approval, "approve", "ann", comments="fine")
    end_child(run, "run:a~~~sub", "completed", output={"n": 2}, size=7)
    run.pass_time(5)
    ask(late)
    run.pass_time(5)
    run.complete("a", 1)
    run.fail("f")
    end_child(run, "run:a~~~sub", "rolled_back", generation=2)
    undone(run, "a")
    run.tell(c.Retry)
    ask(people, sub)
    run.tell(c.Cancel)
    end_child(run, "run:a~~~sub~2", "cancelled")
    return run


@scenario
def retried_with_more() -> Run:
    run = start(node("a"), limits={"budget": {"calls": 2, "on_exceed": "fail"}})
    run.lapse("a", reason="handed_back", step="x", wants=Usage(calls=4))
    run.tell(c.Retry, by="ann", budget=Budget(calls=30))
    run.complete("a")
    return run


@scenario
def calls_under_a_budget() -> Run:
    workflow = {"id": "w", "type": "workflow", "config": {"workflow": "inner"}}
    run = start(node("a"), node("b"), workflow, limits={"budget": {"calls": 9, "usd": 0.5}})

    def begin(name: str, step: str, calls: int) -> None:
        reserve = Usage(calls=calls, input=10, usd=700)
        about: dict[str, Any] = {"step": step, "wish": f"{name}/{step}", "effect": "idempotent", "model": "small"}
        run._command(c.BeginStep, name, (), None, reserve=reserve, limit=Budget(calls=9), **about)

    inner = child(run, "w", budget=Budget(calls=2))
    begin("a", "one", 4)
    run.lapse("b", reason="handed_back", step="x", wants=Usage(calls=4))
    run.checkpoint("a", step="one", data=1, number=1, usage=Usage(calls=1, input=7, usd=400))
    end_child(run, inner, "completed", spent=Usage(calls=2))
    begin("b", "x", 4)
    run.lapse("b")
    run.lapse("b", reason="handed_back", step="y", wants=Usage(calls=4))
    run.tell(c.Resume, by="ann", budget=Budget(calls=20))
    run.complete("b")
    run.complete("a")
    return run


@scenario
def steps_that_may_happen_once() -> Run:
    run = start(node("a", retry={"max_attempts": 3, "backoff_ms": 0, "jitter": False}))

    def begin(wish: str, **fields: Any) -> None:
        run.do(c.BeginStep(at=run.now, address=run.state.address(run.get("a")), step="pay", wish=wish, **fields))

    begin("w1", worker="w")
    begin("w1", not_done=True)
    begin("w2")
    run.lapse("a")
    run.fail("a", "step_ambiguous")
    run.requeue("a", by="ann")
    begin("w3")
    run.checkpoint("a", data="paid", step="pay", number=1)
    run.complete("a")
    return run


@scenario
def stream_that_breaks_off_and_begins_anew() -> Run:
    edges = [{"from": "a", "to": "b.words"}, {"from": "b", "to": "d.words"}]
    run = start(node("a"), node("b"), node("d", stream={"early": True}), node("z", "d"), edges=edges)

    def tell(kind: Any, name: str, **fields: Any) -> None:
        run.do(kind(at=run.now, address=run.state.address(run.get(name)), **fields))

    ref = "sha256:" + "a" * 64
    tell(c.OpenStream, "a", ports=("out",))
    tell(c.OpenStream, "b", ports=("out",))
    tell(c.Checkpoint, "b", data={"sum": 3}, number=1, cursors={"a.out": (1, 2)})
    run.lapse("a")
    tell(c.OpenStream, "a", ports=("out",))
    tell(c.KeepStream, "a", part=Part("out", 40, ref, 9000))
    tell(c.OpenStream, "b", ports=("out",))
    run.complete("d", "enough")
    ended = {"ended": (PortEnd("out", 41, 9001),), "parts": (Part("out", 41, ref, 1),)}
    tell(c.Complete, "a", output=41, **ended)
    tell(c.Complete, "b", output=41, **ended)
    run.complete("z")
    return run


@scenario
def streams_that_go_on() -> Run:
    edges = [{"from": "a", "to": "b.words"}, {"from": "b", "to": "d.words"}]
    goes_on, repeats = {"restart": "checkpoint"}, {"restart": "repeat"}
    run = start(node("a", stream=repeats), node("b", stream=goes_on), node("d"), node("z", "d"), edges=edges)

    def tell(kind: Any, name: str, **fields: Any) -> None:
        run.do(kind(at=run.now, address=run.state.address(run.get(name)), **fields))

    ref = "sha256:" + "a" * 64
    tell(c.OpenStream, "a", ports=("out",))
    tell(c.OpenStream, "b", ports=("out",))
    tell(c.KeepStream, "a", part=Part("out", 40, ref, 9000), chain=77)
    for number, (after, upto) in enumerate(((0, 10), (0, 20), (20, 25)), 1):
        kept = ((after, Part("out", upto, ref, 10)),)
        tell(c.Checkpoint, "b", data={"n": upto}, number=number, cursors={"a.out.words": (1, upto, 5)}, kept=kept)
    run.lapse("a")
    run.lapse("b")
    tell(c.TellStreams, "b")
    tell(c.OpenStream, "a", ports=("out",))
    tell(c.OpenStream, "b", ports=("out",))
    tell(c.Fail, "a", error=Error("stream_diverged", "another chunk"))
    tell(c.OpenStream, "a", ports=("out",))
    tell(c.OpenStream, "b", ports=("out",))
    for name in "ab":
        tell(c.Complete, name, ended=(PortEnd("out", 41, 9001),), parts=(Part("out", 41, ref, 9001),))
    run.complete("d")
    run.complete("z")
    return run


@scenario
def children_that_fail_and_succeed() -> Run:
    inner: dict[str, Any] = {"type": "workflow", "config": {"workflow": "inner"}}
    run = start({"id": "w", **inner, "retry": {"max_attempts": 2, "jitter": False}}, node("z", "w"))
    name = child(run, "w", inputs={"n": 1})
    end_child(run, name, "failed", error=Error("broken", "it broke"))
    run.pass_time(60)
    child(run, "w", inputs={"n": 1})
    end_child(run, name, "completed", generation=2, output={"n": 2})
    run.complete("z")
    return run


@scenario
def map_with_a_tolerated_failure() -> Run:
    each = {"type": "task", "config": {}, "retry": {"max_attempts": 1}}
    over = {"over": "{{ inputs.list }}", "node": each, "tolerated_failures": 1}
    run = start({"id": "m", "type": "map", "config": over}, node("z", "m"), inputs={"list": [1, 2, 3]})
    items(run, "m", 3, limit=2, tolerated=1)
    run.complete("m", 10, item=0)
    run.fail("m", item=1)
    run.complete("m", 30, item=2)
    run.complete("z")
    return run


@scenario
def paused_resumed_and_cancelled() -> Run:
    run = start(node("a"), node("b", "a"), node("c", "a"), node("d"), node("e", "d"))
    run.tell(c.Pause, by="ann", reason="lunch")
    run.complete("a")
    run.complete("d")
    run.tell(c.Resume, by="ann")
    run.begin("b")
    run.tell(c.Cancel, by="bob", reason="enough")
    run.withdraw("c")
    run.withdraw("e")
    run.fail("b", "cancelled")
    return run


@scenario
def deadline_passes_while_running() -> Run:
    run = start(node("a"), node("b"), deadline_seconds=30)
    run.begin("a")
    run.pass_time(31)
    run.withdraw("b")
    run.pass_time(60)
    return run


@scenario
def limits_are_reached() -> Run:
    run = start(node("a"), node("b", "a"), node("c", "b"), limits={"max_hops": 1})
    run.complete("a")
    run.complete("b")
    return run


@scenario
def patched_while_it_runs() -> Run:
    run = start(node("a"), node("b", "a"))
    run.complete("a", 1)
    run.tell(c.Patch, ir=compiled(node("a"), node("b", "a"), node("c", "a", "b")), by="ann", reason="better")
    run.complete("b", 2)
    run.complete("c", 3)
    return run


@scenario
def patched_out_and_in_again() -> Run:
    """A node that was never activated is removed, and comes back as another one; the old one was a loop away."""
    graph = (
        node("a", branch=pick(["b"], ["d"])),
        node("b"),
        node("d"),
        node("h", "d"),
        node("x", "h", loop=again("h")),
    )
    last = node("z", "b", "x", join="any")
    run = start(*graph, last)
    run.complete("a", {"rule": 1})
    run.tell(c.Patch, ir=compiled(*graph), by="ann", patch=[{"op": "remove", "path": "/nodes/5"}])
    run.complete("d", {})
    run.complete("h", 1, (1,))
    run.tell(c.Patch, ir=compiled(*graph, {**last, "retry": {"max_attempts": 1}}), by="bob")
    run.complete("x", {"again": True}, (1,))
    run.complete("h", 2, (2,))
    run.complete("x", {"again": False}, (2,))
    run.complete("z", "end")
    return run


@scenario
def rerun_from_a_node_with_other_inputs() -> Run:
    graph = (node("a"), node("h", "a"), node("x", "h", loop=again("h")), node("b", "x"), node("side"), node("z", "b"))
    first = start(*graph)
    first.complete("a", {"n": 1})
    for iteration, output in ((1, {"again": True}), (2, {"again": False, "n": 7})):
        first.complete("h", iteration, (iteration,))
        first.complete("x", output, (iteration,))
    start_again = c.Start(
        at=2000.0,
        run_id="again",
        ir=first.ir,
        adopted=reruns.adopt(first.state, "b"),
        overrides={"b": {"x": {"n": 9}}},
        origin=("run", "b"),
        by="ann",
    )
    run = Run(first.ir, start=False)
    run.do(start_again)
    run.complete("b", 1)
    run.complete("side", 2)
    run.complete("z", 3)
    return run


# -- files -------------------------------------------------------------------------------------------------------------


@scenario
def endless_run_that_is_paused_twice_and_cannot_be_continued() -> Run:
    loop = {"condition": "output.again", "loop_back_to": "w"}
    wait = {"id": "w", "type": "wait", "config": {"signal": "go"}}
    run = start(wait, node("x", "w", loop=loop), endless=True, answers={"loop": True})
    run.tell(c.Signal, name="go", payload=1, signal="s1")
    run.suspend("w", Wait(kind="signal", name="go"), (1,))
    run.begin("x", (1,))
    run.tell(c.Pause, by="ann", reason="audit")
    run.tell(c.Pause, by="meter", reason="budget")
    run.tell(c.Resume, by="meter", reason="budget")
    with patch.object(continuations, "LONG_JOURNAL", 3):
        run.complete("x", {"again": True}, (1,))
    run.tell(c.Undeliver, to="run~2", error=Error("continuation_failed", "its definition is gone"))
    return run


@scenario
def rejection_kept_while_failing_and_a_child_that_is_stopped_with_its_parent() -> Run:
    work = {"type": "workflow", "config": {"workflow": "inner"}}
    run = start(human("ask", rejection_path=["no"]), node("no"), node("yes", "ask"), node("w", **work), node("bad"))
    approval = run.ask("ask")
    name = child(run, "w")
    run.fail("bad")
    run.vote(approval, "reject", by="bob")
    end_child(run, name, "cancelled", orphaned=True)
    run.tell(c.Retry)
    child(run, "w")
    end_child(run, name, "completed", 2)
    for one in ("bad", "no"):
        run.complete(one)
    return run


@scenario
def child_that_its_parent_stopped_and_wanted_again() -> Run:
    run = start(node("a"), node("b", "a"))
    run.complete("a", 1)
    run.begin("b")
    run.tell(c.Cancel, by="run parent", orphaned=True)
    run.fail("b", "cancelled")
    run.tell(c.Retry, by="run parent", orphaned=True)
    run.complete("b", 2)
    return run


@scenario
def schedule_with_a_backfill_and_poison() -> Run:
    run = TriggerRun()
    run.schedule(overlap="buffer_one")
    run.pass_time(200)
    run.end(*run.box.open, state="failed")
    run.tell(c.Backfill, since=999_000.0, until=999_100.0, by="ann")
    run.fire("poison", inputs={"bad": True}, by="ann", overlap="allow")
    run.tell(c.Settle, number=max(run.box.parked), as_="skip", by="ann")
    run.tell(c.Pause, by="ann")
    run.pass_time(60)
    run.schedule(7.0, overlap="skip")
    return run


@scenario
def hook_that_goes_on_as_a_new_run() -> Run:
    with patch.object(trigger_commands, "LONG_MAILBOX", 8):
        run = TriggerRun()
        run.webhook(open=1, per_key=1)
        for name in "abcd":
            if not run.state.terminal:
                run.deliver(name, inputs={"n": name}, key="k")
    (went,) = [effect for effect in run.effects if isinstance(effect, fx.ContinueRun)]
    after = TriggerRun(now=run.now, went=went)
    after.end(*after.box.open)
    return after


@scenario
def trigger_inside_a_loop() -> Run:
    run = Inner()
    run.wait()
    run.receive("a", "b")
    run.work((1,))
    run.wait((2,))
    run.work((2,))
    run.receive(items=(), cursor="9", scope=(3,), filtered=2)
    return run


@scenario
def schedule_that_knows_its_last_success() -> Run:
    run = TriggerRun()
    run.schedule(overlap="skip")
    run.pass_time(21)
    run.end(*run.box.open)
    run.pass_time(60)
    run.pass_time(60)
    return run


def expected(state: State) -> dict[str, Any]:
    """What a journal evolves to, in words that do not depend on how a state is stored."""
    nodes = {}
    for activation in state.activations.values():
        scope = list(activation.scope)
        place = f"{state.name(activation.node)}{scope or ''}{'' if activation.item < 0 else f'#{activation.item}'}"
        nodes[place] = activation_view(state, activation) | {"attempt": activation.attempt}
    shown = [index for index, one in enumerate(state.ir.nodes) if one is not None and find_latest(state, index) is None]
    begun = [one.started_at for one in state.activations.values() if one.started_at is not None]
    view = run_view(state) | {"started_at": min(begun, default=None)}
    for name, one in view["nodes"].items():  # the fence, which the journal holds; people are shown their own count
        latest = find_latest(state, state.index(name))
        one["attempt"] = 0 if latest is None else latest.attempt
    result = {
        "view": view,
        "seq": state.seq,
        "counter": state.counter,
        "timers": {name: timer.due_at for name, timer in sorted(state.timers.items())},
        "activations": dict(sorted(nodes.items())),
        "never_activated": [state.name(index) for index in shown],
    }
    if state.triggers:
        result["triggers"] = {name: sort(box) for name, box in sorted(state.triggers.items())}
    return msgspec.json.decode(msgspec.json.encode(result))


def lines_of(run: Run) -> Iterable[bytes]:
    for name in sorted(set(run.state.ir_hashes)):
        yield b'{"ir":' + irs.encode(run.state.library[name]) + b"}"
    for event in run.journal:
        yield b'{"event":' + e.encode(event) + b"}"
    yield msgspec.json.encode({"expected": expected(run.state)})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay.record")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    for name, make in SCENARIOS.items():
        file = JOURNALS / VERSION / f"{name}.jsonl"
        if options.again or not file.exists():
            file.write_bytes(b"\n".join(lines_of(make())) + b"\n")
            sys.stdout.write(f"{file.relative_to(JOURNALS)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
