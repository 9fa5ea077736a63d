"""Histories of patched runs that once went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from tests.kernel.driver import Run, compiled
from tests.kernel.histories.helpers import UNDO, again
from tests.kernel.rules.graphs import pick


def test_a_patch_may_remove_a_node_that_only_skips_have_reached() -> None:
    nodes: list[dict[str, Any]] = [{"id": "a", "when": "inputs.x"}, {"id": "b"}]
    last = {"id": "z", "dependencies": ["a", "b"]}
    run = Run.of(*nodes, last, answers={"when": False})
    run.tell(c.Patch, ir=compiled(*nodes))
    run.complete("b")
    assert run.status == "completed"


def test_a_new_edge_out_of_a_loop_that_is_over_resolves_with_the_patch() -> None:
    first = {"id": "x", "loop": {"condition": "true", "max_iterations": 2}}
    run = Run.of(first, {"id": "b"}, {"id": "z", "dependencies": ["b"]}, answers={"loop": False})
    run.complete("x", scope=(1,))
    run.tell(c.Patch, ir=compiled(first, {"id": "b"}, {"id": "z", "dependencies": ["b", "x"]}))
    run.complete("b")
    run.complete("z")
    assert run.status == "completed"


def test_a_new_edge_into_a_loop_is_not_counted_by_the_iteration_under_way() -> None:
    def nodes(*before: str) -> list[dict[str, Any]]:
        return [
            {"id": "o"},
            {"id": "h"},
            {"id": "s", "dependencies": ["h"]},
            {"id": "x", "dependencies": ["h", "s", *before], "loop": again("h")},
        ]

    run = Run.of(*nodes(), answers={"loop": lambda question: question.need.scope == (1,)})
    run.complete("h", scope=(1,))
    run.tell(c.Patch, ir=compiled(*nodes("o")))
    run.complete("o")
    assert run.state_of("x", (1,)) == "pending"
    run.complete("s", scope=(1,))
    run.complete("x", scope=(1,))
    run.complete("h", scope=(2,))
    run.complete("s", scope=(2,))
    run.complete("x", scope=(2,))
    assert run.status == "completed"


def test_a_held_node_that_a_patch_removed_from_the_next_iteration_is_still_released() -> None:
    def nodes(*more: dict[str, Any]) -> list[dict[str, Any]]:
        after = ["h", *(node["id"] for node in more)]
        return [{"id": "h"}, *more, {"id": "x", "dependencies": after, "loop": again("h")}]

    side = {"id": "s", "dependencies": ["h"]}
    run = Run.of(*nodes(side), answers={"loop": False})
    run.tell(c.Patch, ir=compiled(*nodes()))
    run.complete("h", scope=(1,))
    run.do(c.HoldBack(at=run.now, address=Address("run", "s", (1,))))
    run.tell(c.Release, nodes=("s",))
    run.complete("s", scope=(1,))
    run.complete("x", scope=(1,))
    assert run.status == "completed"


def test_an_edge_patched_in_before_an_iteration_drains_does_not_leave_its_target_waiting() -> None:
    def nodes(*after: str) -> list[dict[str, Any]]:
        return [
            {"id": "h", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["x"]}},
            {"id": "p"},
            {"id": "x", "loop": again("h")},
            {"id": "z", "dependencies": ["x", *after]},
        ]

    run = Run.of(*nodes(), answers={"branch": True})
    run.tell(c.Patch, ir=compiled(*nodes("p")))
    run.complete("h", scope=(1,))
    run.complete("p", scope=(1,))
    assert run.status == "completed" or run.state_of("z") == "queued"


def test_a_patch_that_leaves_a_draining_iteration_is_refused() -> None:
    def nodes(*after: str) -> list[dict[str, Any]]:
        return [
            {"id": "h", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["x"]}},
            {"id": "p"},
            {"id": "x", "loop": again("h")},
            {"id": "k"},
            {"id": "z", "dependencies": ["x", "k", *after]},
        ]

    run = Run.of(*nodes(), answers={"branch": True})
    run.complete("h", scope=(1,))
    run.tell(c.Patch, ir=compiled(*nodes("p")))
    assert run.refused is not None
    assert run.refused.code == "patch_refused"


def test_an_edge_that_a_patch_removed_does_not_count_when_its_target_waits_again() -> None:
    def nodes(*after: str) -> list[dict[str, Any]]:
        return [
            {"id": "a", "compensator": UNDO},
            {"id": "b", "compensator": UNDO},
            {"id": "j", "dependencies": list(after)},
        ]

    run = Run.of(*nodes("a", "b"), on_failure={"compensate": True})
    run.complete("a")
    run.complete("b")
    run.tell(c.Patch, ir=compiled(*nodes("b"), on_failure={"compensate": True}))
    run.fail("j")
    run.complete("b", undo=True)
    run.complete("a", undo=True)
    run.tell(c.Retry)
    run.complete("a")
    assert run.state_of("j") == "pending"
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_a_node_cannot_be_patched_out_of_a_loop_that_runs() -> None:
    def nodes(*after: str) -> list[dict[str, Any]]:
        side = {"id": "s", "dependencies": list(after)} if after else {"id": "s"}
        return [{"id": "h"}, side, {"id": "x", "dependencies": ["h", "s"], "loop": again("h")}]

    run = Run.of(*nodes("h"), answers={"loop": False})
    run.tell(c.Patch, ir=compiled(*nodes()))
    assert run.refused is not None
    assert run.refused.code == "patch_refused"


def test_a_node_that_a_patch_removed_and_another_brought_back_is_a_new_one() -> None:
    graph = ({"id": "a", "branch": pick(["b"])}, {"id": "b"}, {"id": "d", "dependencies": ["a"]})
    last = {"id": "j", "dependencies": ["b", "d"], "join": "any"}
    run: Any = Run.of(*graph, last, answers={"branch": False})
    run.complete("a")
    assert (run.state_of("b"), run.state_of("j")) == ("skipped", "pending")
    run.tell(c.Patch, ir=compiled(*graph))
    run.tell(c.Patch, ir=compiled(*graph, {**last, "config": {"function": "m:new"}}))
    assert run.refused is None
    run.complete("d")
    assert run.state.pinned(run.get("j")).config == {"function": "m:new"}
    run.complete("j")
    assert run.status == "completed"


@pytest.mark.parametrize("began", [False, True])
def test_an_edge_into_a_loop_that_was_removed_and_brought_back_has_resolved(began: bool) -> None:
    def graph(*entry: str) -> tuple[dict[str, Any], ...]:
        return (
            {"id": "e"},
            {"id": "h"},
            {"id": "m", "dependencies": ["h", *entry]},
            {"id": "x", "dependencies": ["m"], "loop": again("h")},
            {"id": "z", "dependencies": ["x", "e"]},
        )

    run: Any = Run.of(*graph("e"), answers={"loop": lambda question: question.evidence.loop.iteration < 2})
    run.complete("e")
    if began:
        run.complete("h", scope=(1,))
    for entry in ((), ("e",)):
        run.tell(c.Patch, ir=compiled(*graph(*entry)))
        assert run.refused is None
    if not began:
        run.complete("h", scope=(1,))
    for iteration in (1, 2):
        run.complete("m", scope=(iteration,))
        run.complete("x", scope=(iteration,))
        if iteration == 1:
            run.complete("h", scope=(2,))
    run.complete("z")
    assert run.status == "completed"


def test_a_node_of_a_loop_that_was_removed_and_brought_back_goes_on_in_the_iteration_under_way() -> None:
    def graph(*more: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        first, second = {"id": "h"}, {"id": "x", "dependencies": ["h"], "loop": again("h")}
        return (first, *more, second, {"id": "z", "dependencies": ["x"]})

    side = {"id": "side", "dependencies": ["h"]}
    run: Any = Run.of(*graph(side), answers={"loop": lambda question: question.evidence.loop.iteration < 2})
    for nodes in (graph(), graph({"id": "new", "dependencies": ["h"]}), graph(side)):
        run.tell(c.Patch, ir=compiled(*nodes))
        assert run.refused is None
    run.complete("h", scope=(1,))
    assert run.state_of("side", (1,)) == "queued"
    run.complete("side", scope=(1,))
    run.complete("x", scope=(1,))
    run.complete("h", scope=(2,))
    assert (run.state_of("side", (2,)), run.state.find("new", (2,))) == ("queued", None)
    run.complete("x", scope=(2,))
    run.complete("z")
    assert run.status == "completed"


def test_an_edge_that_an_iteration_waits_for_cannot_be_removed() -> None:
    def graph(*before: str) -> tuple[dict[str, Any], ...]:
        loop = {"id": "x", "dependencies": ["h"], "loop": again("h")}
        return (
            {"id": "a"},
            {"id": "b"},
            {"id": "h", "dependencies": list(before)},
            loop,
            {"id": "z", "dependencies": ["x"]},
        )

    run: Any = Run.of(*graph("a", "b"), answers={"loop": False})
    run.complete("a")
    run.tell(c.Patch, ir=compiled(*graph("a")))
    assert "an iteration of the loop 'x' waits for the edge b -> h; remove it afterwards" in run.refused.message
    run.complete("b")
    assert run.state_of("h", (1,)) == "queued"
    run.tell(c.Patch, ir=compiled(*graph("a")))
    assert run.refused is None, "it has resolved"
    run.complete("h", scope=(1,))
    run.complete("x", scope=(1,))
    run.complete("z")
    assert run.status == "completed"
