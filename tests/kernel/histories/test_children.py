"""Histories of child runs that once went wrong."""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.values import Error, Wait
from tests.kernel.driver import Run


def test_a_child_that_ends_later_does_not_give_a_second_outcome_to_a_node_whose_routing_failed() -> None:
    branch = {"rules": [{"condition": "true", "next_nodes": ["b"]}]}
    run = Run.of(
        {"id": "a", "type": "workflow", "config": {"workflow": "w"}, "on_failure": "park", "branch": branch},
        {"id": "b"},
        answers={"branch": Error("bad", "no")},
    )
    run.suspend("a", Wait(kind="child"), workflow="w")
    child = run.get("a").child
    run.tell(c.EndChild, child=child, generation=1, state="completed", output={"n": 1})
    run.tell(c.EndChild, child=child, generation=2, state="completed", output={"n": 2})
    assert run.state_of("a") == "parked"
    assert run.get("a").output == {"n": 1}


def test_a_parked_node_whose_child_succeeds_may_park_again() -> None:
    run = Run.of(
        {
            "id": "a",
            "type": "workflow",
            "config": {"workflow": "w"},
            "on_failure": "park",
            "loop": {"condition": "true", "max_iterations": 1},
        },
        answers={"loop": True},
    )
    run.suspend("a", Wait(kind="child"), (1,), workflow="w")
    child = run.get("a", (1,)).child
    run.tell(c.EndChild, child=child, generation=1, state="cancelled")
    run.tell(c.EndChild, child=child, generation=2, state="completed", output={})
    assert run.state_of("a", (1,)) == "parked"


def test_a_child_that_was_undone_has_a_successor_whose_generations_begin_anew() -> None:
    call = {"id": "call", "type": "workflow", "config": {"workflow": "inner"}}
    run: Any = Run.of(call, {"id": "b", "dependencies": ["call"]}, on_failure={"compensate": True})
    names = []
    for _ in range(3):
        run.suspend("call", Wait(kind="child"), workflow="inner")
        child = run.get("call").child
        names.append(child)
        old = names[:-1]
        for name in old:  # what an earlier one says late is not meant
            run.tell(c.EndChild, child=name, state="completed", generation=9)
        assert run.state_of("call") == "waiting"
        assert [effect.generation for effect in run.effects if isinstance(effect, fx.StartChild)] in ([1], [])
        run.tell(c.EndChild, child=child, state="completed", generation=1)
        assert run.state_of("call") == "completed"
        run.fail("b")
        assert run.status == "compensating"
        run.tell(c.EndChild, child=child, state="rolled_back", generation=2)
        assert run.status == "failed"
        run.tell(c.Retry)
    assert names == ["run:call", "run:call:1", "run:call:2"]
