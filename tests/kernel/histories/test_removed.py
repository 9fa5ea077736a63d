"""Histories of nodes that a patch removed, while an iteration that began before it goes on with them, or that come back."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.kernel import commands as c
from tests.kernel.driver import compiled
from tests.kernel.rules.graphs import AGAIN, DONE, UNDO, again, human, node, pick, start


def patch(run: Any, *nodes: dict[str, Any], **workflow: Any) -> str:
    """Patch the run. Gives the reasons against it, or nothing."""
    run.tell(c.Patch, ir=compiled(*nodes, **workflow))
    return "" if run.refused is None else str(run.refused.message)


def graph(*more: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (node("h"), *more, node("x", "h", loop=again("h")), node("z", "x"))


def without_side(side: dict[str, Any]) -> Any:
    """A run in its first iteration, which still has the node `side`; the ones after it do not."""
    run = start(*graph(side), on_failure={"compensate": True})
    assert not patch(run, *graph(), on_failure={"compensate": True})
    run.complete("h", None, (1,))
    return run


@pytest.mark.parametrize("report", ["complete", "fail", "lapse", "withdraw", "begin"])
def test_a_report_from_a_node_that_later_iterations_do_not_have_comes_too_late(report: str) -> None:
    run = without_side(node("side", "h"))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("side", (1,)) == "cancelled"
    getattr(run, report)("side", scope=(1,))
    assert run.state_of("side", (1,)) == "cancelled"
    run.complete("h", None, (2,))
    run.complete("x", DONE, (2,))
    run.complete("z")
    assert run.status == "completed"


@pytest.mark.parametrize("mended", [False, True])
def test_what_was_undone_in_an_iteration_before_is_done_again_though_a_patch_removed_its_node(mended: bool) -> None:
    run = without_side(node("side", "h", compensator=UNDO))
    run.complete("side", "S", (1,))
    run.complete("x", AGAIN, (1,))
    run.fail("h", scope=(2,))
    assert run.status == "compensating"
    run.begin("side", (1,), undo=True)
    run.complete("side", None, (1,), undo=True)
    assert run.status == "failed"
    better = compiled(*graph(), node("more", "z"), on_failure={"compensate": True})
    run.tell(c.Retry, ir=better if mended else None)
    assert (run.status, run.state_of("side", (1,))) == ("running", "queued")
    run.complete("side", "S", (1,))
    run.complete("h", None, (2,))
    run.complete("x", DONE, (2,))
    run.complete("z")
    if mended:
        run.complete("more")
    assert run.status == "completed"


def test_a_node_that_was_guarded_in_a_loop_comes_back_only_behind_its_approval() -> None:
    """The iteration under way has a node that the definition with `pay` did not have: nothing it says makes `pay` free."""

    def loop(*between: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        last = between[-1]["id"] if between else "ask"
        rest = (node("y", last), node("x", "y", loop=again("h")))
        return (node("o"), node("h", "o"), human("ask", "h"), *between, *rest)

    run = start(*loop(), node("pay", "x"))
    assert not patch(run, *loop(node("new", "ask")))
    run.complete("o")
    why = patch(run, *loop(node("new", "ask")), node("pay", "o"))
    assert "'pay' runs only after the approval 'ask'; it would run without it" in why
    assert not patch(run, *loop(node("new", "ask")), node("pay", "x"))
    run.complete("h", None, (1,))
    run.vote(run.ask("ask", (1,)), "approve")
    for name, output in (("new", None), ("y", None), ("x", DONE)):
        run.complete(name, output, (1,))
    run.complete("pay")
    assert run.status == "completed"


@pytest.mark.parametrize("begun", [False, True])
def test_a_node_that_the_iteration_under_way_still_has_cannot_come_back_in_another_loop(begun: bool) -> None:
    def both(*more: dict[str, Any], behind: str = "g") -> tuple[dict[str, Any], ...]:
        return (*graph(), node("o"), node("g", "o"), *more, node("y", behind, loop=again("g")))

    run = start(*both(node("side", "h")))
    assert not patch(run, *both())
    if begun:
        run.complete("h", None, (1,))
        assert run.state_of("side", (1,)) == "queued"
    why = patch(run, *both(node("side", "g"), behind="side"))
    assert "node 'side'" in why
    if not begun:
        run.complete("h", None, (1,))
    run.complete("side", "S", (1,))
    run.complete("x", DONE, (1,))
    run.complete("z")
    run.complete("o")
    run.complete("g", None, (1,))
    run.complete("y", DONE, (1,))
    assert run.status == "completed"


def test_the_region_of_a_race_is_that_of_the_iteration_though_a_patch_removed_part_of_it() -> None:
    def race(*more: dict[str, Any], before: str = "first") -> tuple[dict[str, Any], ...]:
        head = node("h", "pick", "fast", "slow", join={"at_least": 1, "cancel_rest": True})
        ways = (node("pick", branch=pick(["h"], ["other"])), node("other"), node("fast"), node("first"))
        return (*ways, *more, node("slow", before), head, node("x", "h", loop=again("h")))

    run = start(*race(node("second", "first"), before="second"))
    run.complete("pick", {"rule": 1})
    assert not patch(run, *race())
    run.complete("fast")
    assert (run.state_of("first"), run.state_of("slow"), run.state_of("h", (1,))) == ("cancelled", "skipped", "queued")
    run.complete("other")
    run.complete("h", None, (1,))
    run.complete("x", DONE, (1,))
    assert run.status == "completed"


def test_a_loop_inside_the_iteration_under_way_begins_though_a_patch_removed_it() -> None:
    def nested(*inner: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        return (node("h"), *inner, node("x", *(one["id"] for one in inner or (node("h"),)), loop=again("h")))

    run = start(*nested(node("i", "h", loop=again("i"))))
    assert not patch(run, *nested())
    run.complete("h", None, (1,))
    run.complete("i", AGAIN, (1, 1))
    run.complete("i", DONE, (1, 2))
    run.complete("x", AGAIN, (1,))
    run.complete("h", None, (2,))
    assert (run.state_of("i", (2, 1)), run.state_of("x", (2,))) == ("pending", "queued")
    run.complete("x", DONE, (2,))
    assert run.status == "completed"
