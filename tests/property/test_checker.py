"""The checker is not blind: valid journals pass, and each planted corruption is caught under the right invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure.invariants import check, checker
from perdure.kernel import commands as c
from perdure.kernel.events import TYPES, Event, NodeEvent, NodeFailed
from perdure.kernel.values import Ask, Error, Route, Wait
from tests.kernel.driver import Run

Journal = list[Any]
UNDO = {"type": "task", "config": {"function": "m:undo"}}


# -- valid journals ----------------------------------------------------------------------------------------------------


def diamond() -> Run:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]},
    )
    run.begin("a")
    for node in "abcd":
        run.complete(node)
    return run


def branch() -> Run:
    run = Run.of(
        {"id": "a", "branch": {"rules": [{"condition": "true", "next_nodes": ["b"]}], "default": ["c"]}},
        {"id": "b"},
        {"id": "c"},
        {"id": "d", "dependencies": ["b", "c"]},
        answers={"branch": True},
    )
    for node in "abd":
        run.complete(node)
    return run


def retry() -> Run:
    run = Run.of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    run.begin("a")
    run.fail("a", retryable=True)
    run.pass_time(60)
    run.begin("a")
    run.complete("a")
    run.complete("b")
    return run


def loop() -> Run:
    run = Run.of(
        {"id": "h"},
        {"id": "x", "dependencies": ["h"], "loop": {"condition": "true", "max_iterations": 3, "loop_back_to": "h"}},
        {"id": "z", "dependencies": ["x"]},
        answers={"loop": lambda question: question.need.scope[0] < 3},
    )
    for iteration in (1, 2, 3):
        run.complete("h", scope=(iteration,))
        run.complete("x", scope=(iteration,))
    run.complete("z")
    return run


def approval() -> Run:
    run = Run.of(
        {"id": "a", "type": "human", "config": {"approvers": ["ann", "bob"]}}, {"id": "b", "dependencies": ["a"]}
    )
    name = run.ask("a", approvers=("ann", "bob"), quorum=2, timeout_seconds=60)
    run.vote(name, "approve", "ann")
    run.vote(name, "approve", "bob")
    run.complete("b")
    return run


def wait() -> Run:
    run = Run.of({"id": "a", "type": "wait", "config": {"seconds": 9}}, {"id": "b", "dependencies": ["a"]})
    run.suspend("a", Wait(kind="timer", until=run.now + 9))
    run.pass_time(9)
    run.complete("b")
    return run


def child() -> Run:
    run = Run.of({"id": "a", "type": "workflow", "config": {"workflow": "w"}})
    run.suspend("a", Wait(kind="child"), workflow="w")
    run.tell(c.EndChild, child=run.get("a").child, generation=1, state="completed", output={})
    return run


def failure() -> Run:
    run = Run.of({"id": "a", "compensator": UNDO}, {"id": "b", "dependencies": ["a"]}, on_failure={"compensate": True})
    run.complete("a")
    run.fail("b")
    run.complete("a", undo=True)
    run.tell(c.Retry)
    run.complete("a")
    run.complete("b")
    return run


def once() -> Run:
    run = Run.of({"id": "a", "effect": "at_most_once"})
    run.begin("a")
    run.lapse("a")
    run.requeue("a")
    run.begin("a")
    run.complete("a")
    return run


def steps() -> Run:
    run = Run.of({"id": "a"})
    run.begin("a")
    run.checkpoint("a", data=1, step="x", number=1)
    run.checkpoint("a", data=2, step="y", number=2)
    run.complete("a")
    return run


def once_in_a_step() -> Run:
    run = Run.of({"id": "a"})
    for wish in ("w1", "w2"):
        run._command(c.BeginStep, "a", (), None, step="pay", wish=wish)
        if wish == "w1":
            run._command(c.BeginStep, "a", (), None, step="pay", wish=wish, not_done=True)
    run.checkpoint("a", data=1, step="pay", number=1)
    run.complete("a")
    return run


def asker() -> Run:
    run = Run.of({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    sub, nap = Ask(name="sub", kind="child", workflow="inner"), Ask(name="nap", kind="sleep", seconds=5)
    paid = Ask(name="paid", kind="signal", signal="payment")
    run._command(c.AskFor, "a", (), None, asks=(sub, nap, paid))
    run.tell(c.Signal, name="payment", payload=1)
    run.tell(c.EndChild, child="run:a~~~sub", generation=1, state="completed")
    run.pass_time(5)
    run.complete("a")
    run.complete("b")
    return run


def agent() -> Run:
    run = Run.of(
        {"id": "a", "branch": {"type": "agent_driven", "available_next_nodes": ["b"]}},
        {"id": "b"},
        {"id": "c", "dependencies": ["b"]},
    )
    run.complete("a", choice=("b",))
    run.complete("b")
    run.complete("c")
    return run


def looping_agent() -> Run:
    """It goes back once, and then leaves by its break path and by what it chose. A last one was kept while the run failed."""
    leave = {"condition": "true", "max_iterations": 2, "loop_back_to": "a", "break_path": ["out"]}
    run = Run.of(
        {"id": "a", "branch": {"type": "agent_driven", "available_next_nodes": ["b"], "default": ["g"]}, "loop": leave},
        {"id": "b"},
        {"id": "out"},
        {"id": "d", "dependencies": ["b", "out", "k"]},
        {"id": "k", "branch": {"type": "agent_driven", "available_next_nodes": ["e"], "default": ["g"]}},
        {"id": "e"},
        {"id": "g"},
        {"id": "f"},
        answers={"loop": lambda question: question.need.scope == (1,)},
    )
    run.complete("a", None, (1,), choice=("b",))
    run.complete("a", None, (2,), choice=("b",))
    run.begin("k")
    run.fail("f")
    run.complete("k", choice=("e",))
    run.withdraw("b")
    run.withdraw("out")
    run.tell(c.Retry)
    for name in ("b", "out", "e", "f", "d"):
        run.complete(name)
    return run


def kept() -> Run:
    """A rejection without a way on, and an outcome with one, were kept while the run failed (rule 25)."""
    run = Run.of({"id": "ask", "type": "human"}, {"id": "a"}, {"id": "z", "dependencies": ["ask", "a"]}, {"id": "f"})
    approval = run.ask("ask")
    run.begin("a")
    run.fail("f")
    run.vote(approval, "reject")
    run.complete("a")
    run.tell(c.Retry)
    run.withdraw("f")
    run.tell(c.Retry)
    run.vote(run.ask("ask"), "approve")
    run.complete("f")
    run.complete("z")
    return run


RUNS = [
    diamond,
    branch,
    retry,
    loop,
    approval,
    wait,
    child,
    failure,
    once,
    steps,
    once_in_a_step,
    asker,
    agent,
    looping_agent,
    kept,
]


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
def test_a_valid_journal_passes(make: Callable[[], Run]) -> None:
    run = make()
    assert run.status in ("completed", "failed")
    assert check(run.journal, run.state.library) == []


# -- corruptions -------------------------------------------------------------------------------------------------------


def find(journal: Journal, type_: str, node: str | None = None, nth: int = 0) -> int:
    found = [i for i, x in enumerate(journal) if x.type == type_ and (node is None or getattr(x, "node", None) == node)]
    return found[nth]


def change(journal: Journal, position: int, **fields: Any) -> Journal:
    return [*journal[:position], msgspec.structs.replace(journal[position], **fields), *journal[position + 1 :]]


def drop(journal: Journal, position: int) -> Journal:
    return renumber([*journal[:position], *journal[position + 1 :]])


def repeat(journal: Journal, position: int) -> Journal:
    return renumber([*journal[: position + 1], *journal[position:]])


def move(journal: Journal, position: int, before: int) -> Journal:
    rest = [*journal[:position], *journal[position + 1 :]]
    return renumber([*rest[:before], journal[position], *rest[before:]])


def renumber(journal: list[Event]) -> Journal:
    """So that only the deed itself shows, not the gap it leaves."""
    return [msgspec.structs.replace(event, seq=number) for number, event in enumerate(journal, 1)]


def no_seq(journal: Journal) -> Journal:
    return [*journal[:3], *journal[4:]]


def fail_routed(journal: Journal) -> Journal:
    position = find(journal, "node.routed", "a")
    routed = {name: getattr(journal[position], name) for name in NodeEvent.__struct_fields__}
    failed = NodeFailed(**routed, error=Error("rejected", "a was rejected"), outcome="absorbed")
    return [*journal[:position], failed, *journal[position + 1 :]]


CORRUPTIONS: dict[str, tuple[str, Callable[[], Run], Callable[[Journal], Journal]]] = {
    "an event is missing": ("J2", diamond, no_seq),
    "an event is there twice": ("J2", diamond, lambda j: [*j[:3], j[2], *j[3:]]),
    "the run is created twice": ("J4", diamond, lambda j: repeat(j, 0)),
    "something happens after the end": (
        "J4",
        diamond,
        lambda j: move(j, find(j, "run.completed"), find(j, "run.completed") - 1),
    ),
    "the attempt goes back": ("V1", retry, lambda j: change(j, find(j, "node.scheduled", "a", 1), attempt=1)),
    "a start was never scheduled": ("V2", diamond, lambda j: change(j, find(j, "node.started"), attempt=2)),
    "an outcome is accepted twice": ("V3", diamond, lambda j: repeat(j, find(j, "node.completed", "a"))),
    "an old attempt completes": ("V4", retry, lambda j: change(j, find(j, "node.completed", "a"), attempt=1)),
    "a skipped node runs": ("V5", branch, lambda j: repeat(j, find(j, "node.skipped"))),
    "at_most_once starts twice": ("V6", once, lambda j: drop(j, find(j, "node.requeued"))),
    "a retry does not wait": ("V8", retry, lambda j: change(j, find(j, "node.scheduled", "a", 1), at=1000.1)),
    "a step has two results": ("V9", steps, lambda j: change(j, find(j, "node.checkpointed", nth=1), step="x")),
    "a step that may happen once begins twice": ("V10", once_in_a_step, lambda j: drop(j, find(j, "step.released"))),
    "an ask is answered twice": ("V9", asker, lambda j: repeat(j, find(j, "node.checkpointed"))),
    "an answer was not asked for": ("V9", asker, lambda j: change(j, find(j, "node.checkpointed"), step="other")),
    "a worker writes an answer": ("V9", asker, lambda j: change(j, find(j, "node.checkpointed"), version=1, attempt=1)),
    "an asker goes on before its answer": ("rule 78", asker, lambda j: drop(j, find(j, "node.checkpointed"))),
    "the attempt that asked completes": ("V3", asker, lambda j: change(j, find(j, "node.completed", "a"), attempt=1)),
    "a signal answers that nobody sent": ("rule 37", asker, lambda j: drop(j, find(j, "run.signalled"))),
    "a child of an ask ends twice": ("R6", asker, lambda j: repeat(j, find(j, "child.ended"))),
    "an edge resolves twice": ("E1", diamond, lambda j: repeat(j, find(j, "node.completed", "b"))),
    "a join fires early": (
        "E2",
        diamond,
        lambda j: move(j, find(j, "node.scheduled", "d"), find(j, "node.completed", "c")),
    ),
    "a skip is missing": ("E2", branch, lambda j: drop(j, find(j, "node.skipped"))),
    "an edge is taken that is not there": (
        "E3",
        diamond,
        lambda j: change(j, find(j, "node.completed", "b"), route=Route(rule="all", taken=("d", "a"))),
    ),
    "the counter is off by one": ("E4", diamond, lambda j: change(j, 3, counter=j[3].counter + 1)),
    "a loop goes on too long": ("E5", loop, lambda j: change(j, find(j, "loop.advanced", nth=1), iteration=4)),
    "an iteration is left out": ("E7", loop, lambda j: change(j, find(j, "loop.advanced"), iteration=3)),
    "an iteration opens while one is open": ("E7", loop, lambda j: repeat(j, find(j, "loop.advanced"))),
    "the run completes with work open": ("R1", diamond, lambda j: drop(j, find(j, "node.completed", "d"))),
    "something starts after the failure": (
        "R3",
        failure,
        lambda j: move(j, find(j, "node.scheduled", "b", 1), find(j, "run.failing") + 1),
    ),
    "a failed run goes on by itself": ("R4", failure, lambda j: change(j, find(j, "run.retried"), generation=1)),
    "a child ends twice": ("R6", child, lambda j: repeat(j, find(j, "child.ended"))),
    "a timer fires early": ("W1", wait, lambda j: change(j, find(j, "timer.fired"), at=1001.0)),
    "a timer fires twice": ("W1", wait, lambda j: repeat(j, find(j, "timer.fired"))),
    "an approval is decided twice": ("W2", approval, lambda j: repeat(j, find(j, "approval.decided"))),
    "somebody else votes": ("W2", approval, lambda j: change(j, find(j, "approval.voted"), by="eve")),
    "one vote is enough for two": ("W2", approval, lambda j: drop(j, find(j, "approval.voted"))),
    "an approval times out early": ("W3", approval, lambda j: change(j, find(j, "approval.decided"), by="timeout")),
    "a kept rejection fails its run and not its node": (
        "rule 25",
        kept,
        lambda j: drop(j, find(j, "node.failed", "ask")),
    ),
    "a kept outcome that has a way on is taken back": ("V3", kept, fail_routed),
    "an agent goes where it may not": (
        "S3",
        agent,
        lambda j: change(
            j, find(j, "node.completed", "a"), choice=("c",), route=Route(rule="branch.agent", taken=("c",))
        ),
    ),
    "an agent that loops chooses what it may not": (
        "S3",
        looping_agent,
        lambda j: change(j, find(j, "node.completed", "a"), choice=("out",)),
    ),
    "an agent that leaves its loop goes where it may not": (
        "S3",
        looping_agent,
        lambda j: change(
            j,
            find(j, "node.completed", "a", 1),
            route=Route(rule="loop.break+branch.agent", taken=("out", "b", "g")),
        ),
    ),
    "the choice of an agent was kept, and leads where it may not": (
        "S3",
        looping_agent,
        lambda j: change(j, find(j, "node.routed", "k"), route=Route(rule="branch.agent", taken=("d", "e", "g"))),
    ),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_caught(name: str) -> None:
    invariant, make, corrupt = CORRUPTIONS[name]
    run = make()
    found = check(corrupt(run.journal), run.state.library)
    assert invariant in {violation.id for violation in found}, found


def test_a_patch_that_takes_a_token_away_is_caught() -> None:
    nodes: list[dict[str, Any]] = [{"id": "a"}, {"id": "b"}, {"id": "d", "dependencies": ["a", "b"]}]
    run, other = Run.of(*nodes), Run.of(*nodes[:2])
    run.complete("a")
    run.tell(c.Patch, ir=Run.of(*nodes, {"id": "e"}).ir)
    library = run.state.library | other.state.library
    broken = change(run.journal, find(run.journal, "run.patched"), ir=other.ir.hash)
    assert check(run.journal, library) == []
    assert "E6" in {violation.id for violation in check(broken, library)}


def test_every_event_has_a_rule_here_too() -> None:
    assert sorted(name for name, kind in TYPES.items() if kind not in checker._HANDLERS) == []


def test_an_unknown_event_is_refused() -> None:
    class Strange(Event, frozen=True, kw_only=True, tag="strange"):
        pass

    run = diamond()
    found = check([*run.journal[:2], Strange(seq=3, at=0.0)], run.state.library)
    assert [violation.id for violation in found] == ["J6"]
