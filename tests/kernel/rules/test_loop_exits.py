"""Loops: rules 17 to 19."""

import pytest

from perdure.kernel import effects as fx
from perdure.kernel.causal_past import evidence, parents
from perdure.model.ir import Reference
from tests.kernel.rules.graphs import AGAIN, DONE, again, effects, human, node, pick, start


def test_rule_17_going_back_cancels_what_is_open_in_the_same_append():
    run = start(node("h"), node("slow", "h"), node("slower", "slow"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    run.begin("slow", (1,))
    before = len(run.journal)
    run.complete("x", AGAIN, (1,))
    assert run.types()[before:] == ["node.completed", "node.cancelled", "loop.advanced", "node.scheduled"]
    assert run.state_of("slow", (1,)) == "cancelled"
    assert run.state_of("h", (2,)) == "queued"
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["slow"]
    run.complete("slow", "late", (1,), attempt=1)
    assert run.types()[-1] == "result.ignored"
    assert run.state_of("slower", (1,)) in ("pending", "cancelled")


def test_rule_17_leaving_cancels_what_is_open_in_the_same_append():
    run = start(node("h"), node("slow", "h"), node("ask", "h"), node("x", "h", loop=again("h")), node("z", "x"))
    run.complete("h", scope=(1,))
    run.ask("ask", (1,))
    before = len(run.journal)
    run.complete("x", DONE, (1,))
    assert run.types()[before:] == ["node.completed", "nodes.cancelled", "loop.ended", "node.scheduled"]
    assert run.state_of("slow", (1,)) == run.state_of("ask", (1,)) == "cancelled"
    run.complete("z")
    assert run.status == "completed"


def test_rule_17_tokens_that_wait_in_the_iteration_go_with_it():
    run = start(node("h"), node("slow", "h"), node("j", "h", "slow"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    assert run.counter == 3
    run.complete("x", DONE, (1,))
    assert run.counter == 0
    assert run.status == "completed"


def test_rule_17_at_most_once_is_waited_for():
    run = start(node("h"), node("pay", "h", effect="at_most_once"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    run.begin("pay", (1,))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("pay", (1,)) == "running"
    assert run.state_of("h", (2,)) == "pending"
    run.complete("pay", "paid", (1,))
    assert run.state_of("h", (2,)) == "queued"
    assert run.get("pay", (1,)).output == "paid"


def test_rule_17_at_most_once_that_never_started_is_cancelled():
    run = start(node("h"), node("pay", "h", effect="at_most_once"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("pay", (1,)) == "cancelled"
    assert run.state_of("h", (2,)) == "queued"


def test_rule_17_the_inner_loop_closes_with_the_outer_iteration():
    run = start(node("o"), node("i", "o"), node("y", "i", loop=again("i")), node("x", "o", loop=again("o")))
    run.complete("o", scope=(1,))
    run.complete("i", scope=(1, 1))
    run.complete("y", AGAIN, (1, 1))
    assert run.state_of("i", (1, 2)) == "queued"
    run.complete("x", AGAIN, (1,))
    assert run.state_of("i", (1, 2)) == "cancelled"
    assert run.state_of("o", (2,)) == "queued"


@pytest.mark.parametrize("how", ["skip", "fail", "continue"])
def test_rule_17_a_person_who_discards_what_is_waited_for_lets_the_loop_go_on(how):
    run = start(
        node("h"), node("pay", "h", effect="at_most_once"), node("after", "pay"), node("x", "h", loop=again("h"))
    )
    run.complete("h", scope=(1,))
    run.begin("pay", (1,))
    run.complete("x", AGAIN, (1,))
    run.lapse("pay", (1,))
    assert run.state_of("pay", (1,)) == "parked"
    assert run.state_of("h", (2,)) == "pending"
    run.discard("pay", how, (1,))
    assert run.state_of("h", (2,)) == "queued"
    assert run.state_of("after", (1,)) not in ("queued", "completed")


def test_rule_17_a_failure_in_a_closing_iteration_cannot_fail_the_run():
    run = start(node("h"), node("pay", "h", effect="at_most_once"), node("x", "h", loop=again("h")))
    run.complete("h", scope=(1,))
    run.begin("pay", (1,))
    run.complete("x", AGAIN, (1,))
    run.fail("pay", "connection", (1,), not_done=True)
    assert run.state_of("h", (2,)) == "queued"
    assert run.status == "running"


def test_rule_18_taking_a_named_exit_edge_of_a_body_node_is_a_break():
    run = start(
        node("h", branch=pick(["stop"], default=["m"])),
        node("m"),
        node("x", "m", loop=again("h")),
        node("stop", "x"),
        node("z", "x"),
    )
    run.complete("h", {}, (1,))
    run.complete("m", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", {"rule": 0}, (2,))
    assert run.events("loop.ended")[-1].reason == "break"
    assert run.state_of("stop") == "queued"
    assert run.state_of("z") == "skipped"
    run.complete("stop")
    assert run.status == "completed"


def test_rule_18_a_break_closes_the_iteration():
    run = start(
        node("h"),
        node("slow", "h"),
        node("b", "h", branch=pick(["stop"])),
        node("x", "slow", "b", loop=again("h")),
        node("stop", "x"),
    )
    run.complete("h", scope=(1,))
    run.complete("b", {"rule": 0}, (1,))
    assert run.state_of("slow", (1,)) == "cancelled"
    assert run.state_of("stop") == "queued"


def test_rule_18_a_named_exit_edge_that_is_not_chosen_is_no_break():
    run = start(node("h", branch=pick(["stop"])), node("x", "h", loop=again("h")), node("stop", "x"), node("z", "x"))
    run.complete("h", {}, (1,))
    assert run.state_of("x", (1,)) == "queued"
    run.complete("x", DONE, (1,))
    assert run.state_of("stop") == "queued"
    assert run.state_of("z") == "queued"


def test_rule_18_a_break_out_of_two_loops_ends_both():
    run = start(
        node("o"),
        node("i", "o", branch=pick(["stop"], default=["y"])),
        node("y", loop=again("i")),
        node("x", "y", loop=again("o")),
        node("stop", "x"),
    )
    run.complete("o", scope=(1,))
    run.complete("i", {"rule": 0}, (1, 1))
    assert run.state_of("stop") == "queued"
    assert run.state_of("x", (1,)) in ("pending", "cancelled", "skipped")
    run.complete("stop")
    assert run.status == "completed"


def test_rule_18_unnamed_exit_edges_resolve_when_the_loop_ends():
    run = start(node("h"), node("m", "h"), node("x", "m", loop=again("h")), node("z", "x"), node("log", "m", "z"))
    run.complete("h", scope=(1,))
    run.complete("m", "first", (1,))
    run.complete("x", AGAIN, (1,))
    run.complete("h", scope=(2,))
    run.complete("m", "second", (2,))
    run.complete("x", DONE, (2,))
    run.complete("z")
    assert {name: seen.output for name, seen in parents(run.state, run.get("log")).items()} == {
        "m": "second",
        "z": None,
    }


def test_rule_18_a_skipped_looping_node_ends_its_loop_with_its_exits_skipped():
    run = start(
        node("h", branch=pick(["x"], default=["side"])), node("side"), node("x", loop=again("h")), node("z", "x")
    )
    run.complete("h", {}, (1,))
    assert run.events("loop.ended")[-1].reason == "skipped"
    assert run.state_of("x", (1,)) == "skipped"
    assert run.state_of("z") == "skipped"
    run.complete("side", scope=(1,))
    assert run.status == "completed"


def test_rule_18_a_loop_nobody_enters_is_skipped_with_what_follows():
    run = start(
        node("a", branch=pick(["h"], default=["d"])),
        node("h"),
        node("x", "h", loop=again("h")),
        node("z", "x"),
        node("d"),
    )
    run.complete("a", {})
    assert run.state_of("z") == "skipped"
    run.complete("d")
    assert run.status == "completed"


def test_rule_18_a_failure_path_that_leaves_the_loop_is_a_break():
    run = start(
        node("h"),
        node("m", "h", on_failure={"path": ["fix"]}),
        node("x", "m", loop=again("h")),
        node("z", "x"),
        node("fix", "x"),
    )
    run.complete("h", scope=(1,))
    run.fail("m", scope=(1,))
    assert run.events("loop.ended")[0].reason == "break"
    assert (run.state_of("fix"), run.state_of("z")) == ("queued", "skipped")


def test_rule_19_from_outside_a_body_node_means_its_last_closed_iteration():
    run = start(node("h"), node("m", "h"), node("x", "m", loop=again("h")), node("z", "x"))
    for iteration in (1, 2):
        run.complete("h", scope=(iteration,))
        run.complete("m", f"round {iteration}", (iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
    seen = evidence(run.state, run.get("z"), (Reference("node", "m"), Reference("node", "x"))).nodes
    assert seen["m"].output == "round 2"
    assert seen["x"].output == DONE


def test_rule_19_an_inner_loop_means_its_last_iteration_of_the_readers_own():
    run = start(node("o"), node("i", "o", loop=again("i")), node("x", "i", loop=again("o")))
    run.complete("o", scope=(1,))
    run.complete("i", {"again": True, "n": 1}, (1, 1))
    run.complete("i", {"again": False, "n": 2}, (1, 2))
    run.complete("x", AGAIN, (1,))
    run.complete("o", scope=(2,))
    run.complete("i", {"again": False, "n": 3}, (2, 1))
    seen = [evidence(run.state, run.get("x", (n,)), (Reference("node", "i"),)).nodes["i"].output["n"] for n in (1, 2)]
    assert seen == [2, 3]


def test_rule_19_the_outputs_of_the_run_are_those_of_the_last_iteration():
    run = start(human("ask"), node("x", "ask", loop=again("ask")))
    for iteration in (1, 2):
        run.vote(run.ask("ask", (iteration,)), "approve")
        run.complete("x", {"again": iteration == 1, "n": iteration}, (iteration,))
    assert run.state.outputs == {"x": {"again": False, "n": 2}}
