"""What is foreseen of a decision is what it asks: the same questions with the same evidence, and nothing where it asks otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel.decide import advance, decide
from perdure.kernel.foresight import foresee, foresee_workflow
from perdure.kernel.triggers.mailbox import run_of_moment
from perdure.kernel.values import Error
from tests.kernel.mailboxes import TriggerRun, trigger


def hook(**policy: Any) -> TriggerRun:
    run = trigger()
    run.webhook(**policy)
    return run


def pushed(run: TriggerRun, *names: str, **fields: Any) -> c.Deliver:
    items = tuple(c.Delivered(id=name, inputs={"n": name}) for name in names)
    return c.Deliver(at=run.now, id="d", items=items, revision=run.box.revision, **fields)


def asked(run: TriggerRun, command: c.Command) -> list[c.Question]:
    found = advance(run.state, command, {})
    return list(found.questions) if isinstance(found, c.Needs) else []


def test_what_a_push_will_ask_is_foreseen():
    run = hook(open=100)
    push = pushed(run, "a", "b")
    fire = c.Fire(at=run.now, id="f", firing="f1", revision=1, inputs={"n": 1})
    for command in (push, fire):
        assert foresee_workflow(run.state, command) == "report"
        assert foresee(run.state, command, {}) == asked(run, command) != []
    run.deliver("a")
    assert [one.evidence.item.id for one in foresee(run.state, pushed(run, "a", "b"), {})] == ["b"]
    assert foresee(run.state, pushed(run, "a", "b"), {}) == asked(run, pushed(run, "a", "b"))


@pytest.mark.parametrize("case", ["paused", "waiting", "stale", "poison", "known"])
def test_nothing_is_foreseen_where_nothing_is_asked_about_it(case):
    run = hook(open=1)
    push = pushed(run, "b")
    if case == "paused":
        run.tell(c.Pause)
    elif case == "waiting":
        run.deliver("x", "y")
    elif case == "stale":
        push = c.Deliver(at=run.now, id="d", items=push.items, revision=7)
    elif case == "poison":
        push = c.Deliver(at=run.now, id="d", items=(c.Delivered(id="b", error=Error("bad", "x")),), revision=1)
    else:
        run.deliver("b")
        push = pushed(run, "b")
    assert foresee(run.state, push, {}) == asked(run, push) == []
    if case in ("paused", "waiting", "stale"):
        assert foresee_workflow(run.state, push) == ""


def find_all(run: TriggerRun, find: Any) -> list[c.Question]:
    """All that is asked, with the answers that the run gives."""
    verdicts: dict[c.Need, c.Verdict] = {}
    found: list[c.Question] = []
    while questions := find(verdicts):
        found += questions
        verdicts |= {one.need: run._answer(one) for one in questions}
    return found


@pytest.mark.parametrize(
    ("case", "wanted"),
    [("one", 2), ("several", 1), ("paused", 0), ("full", 1), ("late", 1), ("known", 1), ("waiting", 1), ("allow", 2)],
)
def test_what_a_moment_that_is_due_will_ask_is_foreseen_in_two_steps(case: str, wanted: int):
    run = trigger()
    run.schedule(overlap="allow" if case == "allow" else "buffer", catchup="all", within=1000.0)
    if case in ("full", "waiting", "allow"):
        run.pass_time(60)
    if case == "waiting":
        run.pass_time(60)
    if case == "known":
        run.state.triggers["receive"].seen[run_of_moment("tr", 1_000_020.0)] = 1
    if case == "paused":
        run.tell(c.Pause)
    run.now += {"several": 200, "late": 100_000}.get(case, 60)
    command = c.FireTimer(at=run.now, timer="trigger:receive")

    def ask(verdicts: dict[c.Need, c.Verdict]) -> list[c.Question]:
        result = decide(run.state, command, verdicts)
        return list(result.questions) if isinstance(result, c.Needs) else []

    foreseen = find_all(run, lambda verdicts: foresee(run.state, command, verdicts))
    asked = find_all(run, ask)
    assert len(foreseen) == wanted
    assert foresee_workflow(run.state, command) == ("" if case in ("paused", "full", "waiting") else "report")
    assert asked[:wanted] == foreseen
    if case in ("one", "allow"):
        assert asked == foreseen
