"""Rule 40: which outcomes a rerun from a node keeps."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import reruns
from tests.kernel.driver import Run
from tests.kernel.rules.graphs import AGAIN, ANSWERS, DONE, UNDO, again, node, pick, start
from tests.kernel.rules.test_patches import patch


def kept(run: Run, frm: str) -> list[str]:
    return [outcome.node for outcome in reruns.adopt(run.state, frm)]


def rerun(run: Run, frm: str) -> Run:
    ir = run.state.library[run.state.ir_hashes[-1]]
    return Run(ir, answers=ANSWERS, adopted=reruns.adopt(run.state, frm), origin=("run", frm))


def test_rule_40_kept_is_what_leads_to_the_node_and_nothing_else():
    run = start(node("a"), node("b", "a"), node("d", "b"), node("side"), node("other", "a"))
    for name in ("a", "b", "d", "side", "other"):
        run.complete(name, name.upper())
    assert kept(run, "d") == ["a", "b"]
    second = rerun(run, "d")
    assert second.dispatched() == {"d", "other", "side"}


def test_rule_40_what_failed_is_not_kept_nor_what_was_made_of_it():
    run = start(node("a", on_failure="continue"), node("b", "a"), node("d", "b"))
    run.fail("a")
    run.complete("b")
    run.complete("d")
    assert kept(run, "d") == []
    assert rerun(run, "d").dispatched() == {"a"}


def test_rule_40_the_loser_of_a_race_runs_again_and_its_winner_does_not():
    run = start(node("a"), node("b"), node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}), node("z", "j"))
    run.complete("a", 1)
    run.complete("j")
    run.complete("z")
    assert kept(run, "z") == ["a", "j"]
    second = rerun(run, "z")
    assert second.dispatched() == {"b", "z"}
    second.complete("z")
    second.complete("b")
    assert second.status == "completed"


def test_rule_40_routes_are_kept_also_those_a_patch_brought():
    run = start(node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("j", "b", "d"))
    run.complete("a", {"rule": 1})
    patch(run, node("a", branch=pick(["b"], ["d"])), node("b"), node("d"), node("n", "a"), node("j", "b", "d", "n"))
    run.complete("d", "D")
    run.complete("n", "N")
    run.complete("j")
    second = rerun(run, "j")
    assert second.states() == {"a": "completed", "b": "skipped", "d": "completed", "n": "completed", "j": "queued"}


LOOPED = (node("a"), node("h", "a"), node("leaf", "h"), node("x", "h", loop=again("h")), node("z", "x"))


def test_rule_40_a_loop_is_kept_with_its_last_iteration():
    run = start(*LOOPED)
    run.complete("a")
    for iteration, output in ((1, AGAIN), (2, DONE)):
        run.complete("h", iteration, (iteration,))
        run.complete("leaf", iteration, (iteration,))
        run.complete("x", output, (iteration,))
    run.complete("z")
    assert kept(run, "z") == ["a", "h", "leaf", "x"]
    assert [outcome.output for outcome in reruns.adopt(run.state, "z")][1:3] == [2, 2]
    second = rerun(run, "z")
    assert second.dispatched() == {"z"}
    second.complete("z")
    assert second.status == "completed"


@pytest.mark.parametrize("frm", ["z", "end"])
def test_rule_40_a_loop_of_which_a_part_was_done_again_is_adopted_in_an_order_that_it_can_have(frm):
    """`h` and `leaf` were undone, and done again by the retry, after `x` had left: the rerun was quarantined."""
    undo = {"compensator": UNDO}
    nodes = (node("h", **undo), node("leaf", "h", **undo), node("x", "h", loop=again("h")), node("z", "x"), node("f"))
    run = start(*nodes, node("end", "z"), on_failure={"compensate": True})
    run.complete("h", 1, (1,))
    run.complete("leaf", 1, (1,))
    run.complete("x", DONE, (1,))
    run.complete("z")
    run.fail("f")
    run.withdraw("end")
    for name in ("leaf", "h"):
        run.begin(name, (1,), undo=True)
        run.complete(name, None, (1,), undo=True)
    run.tell(c.Retry)
    run.complete("h", 2, (1,))
    run.complete("leaf", 2, (1,))
    run.complete("f")
    assert kept(run, frm)[:3] == (["h", "leaf", "x"] if frm == "z" else ["z", "h", "leaf"])
    second = rerun(run, frm)
    assert frm in second.dispatched()
    for name in (*(["z"] if frm == "z" else []), "end", "f"):
        second.complete(name)
    assert second.status == "completed"


def test_rule_40_a_loop_that_has_not_ended_well_runs_from_its_start():
    run = start(
        node("a"),
        node("h", "a"),
        node("y", "h", on_failure="continue"),
        node("x", "y", loop=again("h")),
        node("z", "x"),
    )
    run.complete("a")
    run.complete("h", 1, (1,))
    run.fail("y", scope=(1,))
    run.complete("x", DONE, (1,))
    run.complete("z")
    assert kept(run, "z") == ["a"]
    assert rerun(run, "z").dispatched() == {"h[1]"}


def test_rule_40_a_loop_that_was_left_by_a_break_is_kept():
    graph = (
        node("h"),
        node("y", "h", branch=pick(["out"], ["x"])),
        node("x", loop=again("h")),
        node("out", "x"),
        node("z", "out"),
    )
    run = start(*graph)
    run.complete("h", 1, (1,))
    run.complete("y", {"rule": 0}, (1,))
    assert run.state_of("out") == "queued"
    run.complete("out")
    run.complete("z")
    assert kept(run, "z") == ["h", "y", "out"]
    second = rerun(run, "z")
    assert second.dispatched() == {"z"}
    second.complete("z")
    assert second.status == "completed"


def test_rule_40_what_left_a_loop_is_adopted_after_what_had_completed_in_it():
    run = start(
        node("h"),
        node("y", "h", branch=pick(["z"], ["x"])),
        node("w", "h"),
        node("x", "w", loop=again("h")),
        node("z", "x"),
    )
    run.complete("h", 1, (1,))
    run.complete("w", 2, (1,))
    run.complete("y", {"rule": 0}, (1,))
    run.complete("z")
    assert kept(run, "z") == ["h", "w", "y"]
    second = rerun(run, "z")
    assert second.state_of("w", (1,)) == "completed"
    assert second.dispatched() == {"z"}


def test_rule_40_the_node_and_its_inputs_must_be_there():
    run = start(*LOOPED)
    assert reruns.check(run.state, "z", ["x", "h"]) == []
    assert reruns.check(run.state, "h", ["a"]) == []
    assert "no node 'q'; known are a, h, leaf, x, z" in reruns.check(run.state, "q", [])[0]
    assert len(reruns.check(run.state, "x", ["z", "q"])) == 3


@pytest.mark.parametrize("frm", ["o", "z"])
def test_rule_40_nested_loops_are_kept_or_run_as_a_whole(frm):
    graph = (
        node("e"),
        node("o", "e"),
        node("i", "o"),
        node("y", "i", loop=again("i")),
        node("x", "y", loop=again("o")),
        node("z", "x"),
    )
    run = start(*graph)
    run.complete("e")
    for outer in (1, 2):
        run.complete("o", scope=(outer,))
        run.complete("i", scope=(outer, 1))
        run.complete("y", AGAIN, (outer, 1))
        run.complete("i", scope=(outer, 2))
        run.complete("y", DONE, (outer, 2))
        run.complete("x", AGAIN if outer == 1 else DONE, (outer,))
    run.complete("z")
    second = rerun(run, frm)
    assert second.dispatched() == {"o[1]" if frm == "o" else "z"}
    if frm == "z":
        second.complete("z")
        assert second.status == "completed"


def test_rule_40_a_rerun_keeps_only_what_the_limits_allow_now():
    run = start(node("a"), node("b", "a"), node("d", "a"), node("z", "b"))
    run.complete("a", {"text": "x"}, size=50)
    graph = (node("a"), node("b", "a"), node("d", "a"), node("z", "b"))
    patch(run, *graph, limits={"max_fanout": 1, "max_bytes": 20})
    found = reruns.check(run.state, "b", [])
    assert found == [
        "'a' took 2 edges; max_fanout allows 1 now",
        "the outputs before 'b' have 50 bytes; max_bytes allows 20 now",
    ]
    assert reruns.check(run.state, "a", []) == []
