"""Joins: rules 8 to 13."""

import pytest

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.causal_past import evidence, parents
from perdure.kernel.values import Wait
from perdure.model.ir import Reference
from tests.kernel.rules.graphs import (
    AGAIN,
    DONE,
    UNDO,
    again,
    effects,
    items,
    node,
    pick,
    problems,
    start,
    undone,
    violations,
)


def test_rule_08_an_all_join_waits_until_every_edge_has_resolved():
    run = start(node("a"), node("b"), node("j", "a", "b"))
    run.complete("a")
    assert run.state_of("j") == "pending"
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_rule_08_an_all_join_behind_branches_fires_when_every_edge_has_resolved():
    run = start(node("a", branch=pick(["b"], ["c"])), node("b"), node("c"), node("d", "c"), node("j", "b", "d"))
    run.complete("a", {"rule": 0})
    assert run.states() == {"a": "completed", "b": "queued", "c": "skipped", "d": "skipped", "j": "pending"}
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_rule_08_an_all_join_whose_edges_were_all_skipped_is_skipped():
    run = start(node("a", branch=pick(["b", "c"], default=["d"])), node("b"), node("c"), node("d"), node("j", "b", "c"))
    run.complete("a", {})
    assert run.state_of("j") == "skipped"
    run.complete("d")
    assert run.status == "completed"


def test_rule_08_an_any_join_fires_at_the_first_edge_taken():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_rule_08_any_is_at_least_one():
    one = start(node("a"), node("b"), node("j", "a", "b", join={"at_least": 1}))
    assert one.ir.hash == start(node("a"), node("b"), node("j", "a", "b", join="any")).ir.hash


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_rule_08_an_at_least_join_fires_at_the_kth_edge_taken(needed):
    run = start(node("a"), node("b"), node("d"), node("j", "a", "b", "d", join={"at_least": needed}))
    for number, name in enumerate("abd", start=1):
        assert run.state_of("j") == ("pending" if number <= needed else "queued")
        run.complete(name)
    assert run.state_of("j") == "queued"


def test_rule_08_skipped_edges_do_not_count_for_at_least():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("d"),
        node("j", "b", "c", "d", join={"at_least": 2}),
    )
    run.complete("a", {"rule": 0})
    run.complete("b")
    assert run.state_of("j") == "pending"
    run.complete("d")
    assert run.state_of("j") == "queued"


def test_rule_08_an_any_join_whose_edges_were_all_skipped_is_skipped():
    run = start(
        node("a", branch=pick(["b", "c"], default=["d"])),
        node("b"),
        node("c"),
        node("d"),
        node("j", "b", "c", join="any"),
    )
    run.complete("a", {})
    assert run.state_of("j") == "skipped"


def test_rule_08_more_edges_than_there_are_is_a_compile_error():
    found = problems(node("a"), node("b"), node("j", "a", "b", join={"at_least": 3}))
    assert "impossible_join" in found
    assert "impossible_join" not in problems(node("a"), node("b"), node("j", "a", "b", join={"at_least": 2}))


def test_rule_08_late_arrivals_are_absorbed():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("a")
    run.complete("j")
    run.complete("b")
    assert run.status == "completed"
    assert [event.node for event in run.events("node.completed")] == ["a", "j", "b"]
    assert run.get("j").attempt == 1


@pytest.mark.parametrize("join", ["all", "any", {"at_least": 2}])
def test_rule_08_a_node_without_edges_runs_whatever_its_join(join):
    needed = {"any": 1, "all": 0}.get(join, 2) if isinstance(join, str) else 2
    if needed:
        assert "impossible_join" in problems(node("a", join=join))
    else:
        assert start(node("a", join=join)).state_of("a") == "queued"


def test_rule_09_when_k_is_out_of_reach_and_an_edge_failed_the_node_fails():
    run = start(node("a"), node("b"), node("d"), node("j", "a", "b", "d", join={"at_least": 2}))
    run.fail("a")
    assert run.state_of("j") == "pending"
    run.fail("b")
    assert run.state_of("j") == "upstream_failed"
    assert run.state.error.code == "upstream_failed"
    assert run.status == "failing"


def test_rule_09_when_k_is_out_of_reach_and_none_failed_the_node_is_skipped():
    run = start(
        node("a", branch=pick(["b"], ["c"])),
        node("b"),
        node("c"),
        node("j", "b", "c", join={"at_least": 2}),
        node("z", "j"),
    )
    run.complete("a", {"rule": 0})
    assert run.state_of("j") == "skipped"
    assert run.state_of("z") == "skipped"
    run.complete("b")
    assert run.status == "completed"


def test_rule_09_error_outputs_of_continue_count_as_taken_for_all():
    run = start(node("a", on_failure="continue"), node("b"), node("j", "a", "b"))
    run.fail("a")
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_rule_09_error_outputs_of_continue_do_not_count_for_any():
    run = start(node("a", on_failure="continue"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a")
    assert run.state_of("j") == "pending"
    run.complete("b")
    assert run.state_of("j") == "queued"


def test_rule_09_error_outputs_of_continue_do_not_count_for_at_least():
    run = start(node("a", on_failure="continue"), node("b"), node("d"), node("j", "a", "b", "d", join={"at_least": 2}))
    run.fail("a")
    run.complete("b")
    assert run.state_of("j") == "pending"
    run.complete("d")
    assert run.state_of("j") == "queued"


def test_rule_09_only_error_outputs_leave_an_any_join_failed():
    run = start(node("a", on_failure="continue"), node("b", on_failure="continue"), node("j", "a", "b", join="any"))
    run.fail("a")
    run.fail("b")
    assert run.state_of("j") == "upstream_failed"
    assert run.status == "failed"


@pytest.mark.parametrize(("policy", "state"), [("continue", "failed"), ({"path": ["z"]}, "failed"), ("park", "parked")])
def test_rule_09_a_join_out_of_reach_is_a_failure_its_node_may_handle(policy, state):
    run = start(node("a"), node("b"), node("j", "a", "b", join="any", on_failure=policy), node("z", "j"))
    run.fail("a")
    run.fail("b")
    assert run.state_of("j") == state
    assert run.get("j").error.code == "upstream_failed"
    assert run.state_of("z") == ("pending" if policy == "park" else "queued")
    assert run.status == "running"


def test_rule_10_the_loser_of_a_race_is_not_an_error():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a")
    assert run.status == "running"
    assert run.events("node.failed")[0].outcome == "absorbed"
    run.complete("b")
    run.complete("j")
    assert run.status == "completed"


def test_rule_10_the_last_racer_to_fail_fails_the_run_through_the_join():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.fail("a")
    run.fail("b")
    assert run.status == "failed"
    assert run.state.error.code == "upstream_failed"
    assert run.state.failed_node == "j"


def test_rule_10_a_failure_on_the_way_to_the_join_travels_there():
    run = start(node("a"), node("a2", "a"), node("b"), node("j", "a2", "b", join="any"))
    run.fail("a")
    assert run.state_of("a2") == "upstream_failed"
    assert run.status == "running"
    run.complete("b")
    run.complete("j")
    assert run.status == "completed"


def test_rule_10_a_node_with_another_edge_fails_the_run():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"), node("other", "a"))
    run.fail("a")
    assert run.status == "failing"


def test_rule_10_a_join_that_fails_may_lose_a_race_itself():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"), node("d"), node("k", "j", "d", join="any"))
    run.fail("a")
    run.fail("b")
    assert run.state_of("j") == "upstream_failed"
    assert run.status == "running"
    run.complete("d")
    run.complete("k")
    assert run.status == "completed"


def test_rule_11_cancel_rest_cancels_what_only_leads_to_the_join():
    run = start(
        node("a"),
        node("b"),
        node("b2", "b"),
        node("j", "a", "b2", join={"at_least": 1, "cancel_rest": True}),
        node("z", "j"),
    )
    run.begin("b")
    run.complete("a")
    assert run.states() == {"a": "completed", "b": "cancelled", "b2": "skipped", "j": "queued", "z": "pending"}
    assert [stop.address.node for stop in effects(run, fx.Stop)] == ["b"]
    run.complete("j")
    run.complete("z")
    assert run.status == "completed"


def test_rule_11_cancel_rest_cancels_nothing_else():
    run = start(
        node("a"),
        node("b"),
        node("elsewhere", "b"),
        node("free"),
        node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}),
    )
    run.complete("a")
    assert run.state_of("b") == "queued"
    assert run.state_of("free") == "queued"
    run.complete("b")
    assert run.state_of("elsewhere") == "queued"


def test_rule_11_cancel_rest_cancels_waits_and_retries_too():
    run = start(
        node("a"),
        node("b"),
        {"id": "w", "type": "wait", "config": {"signal": "go"}},
        node("j", "a", "b", "w", join={"at_least": 1, "cancel_rest": True}),
    )
    run.fail("b", retryable=True)
    run.suspend("w", Wait(kind="signal", name="go"))
    run.complete("a")
    assert run.state_of("b") == "cancelled"
    assert run.state_of("w") == "cancelled"
    assert not run.state.timers
    run.complete("j")
    assert run.status == "completed"


def test_rule_11_the_region_of_an_inner_join_is_cancelled_with_it():
    run = start(
        node("a"),
        node("b"),
        node("d"),
        node("i", "b", "d", join="any"),
        node("j", "a", "i", join={"at_least": 1, "cancel_rest": True}),
    )
    run.complete("a")
    assert run.state_of("b") == "cancelled"
    assert run.state_of("d") == "cancelled"
    run.complete("j")
    assert run.status == "completed"


def test_rule_11_without_cancel_rest_they_run_on_and_cannot_fail_the_run():
    run = start(node("a"), node("b"), node("b2", "b"), node("j", "a", "b2", join="any"))
    run.complete("a")
    assert run.state_of("b") == "queued"
    run.complete("j")
    run.complete("b")
    assert run.state_of("b2") == "queued"
    run.fail("b2")
    assert run.status == "completed"


def test_rule_11_a_branch_in_the_region_cannot_fail_the_run_once_the_race_is_over():
    run = start(
        node("a"), node("b"), node("s", "b"), node("t", "b"), node("u", "s", "t"), node("j", "a", "u", join="any")
    )
    run.complete("a")
    run.complete("j")
    run.complete("b")
    run.fail("s")
    run.complete("t")
    assert run.status == "completed"


def test_rule_11_cancel_rest_cancels_the_items_of_a_map():
    config = {"over": "{{ inputs.list }}", "node": {"type": "task", "config": {}}}
    run = start(
        node("a"),
        {"id": "m", "type": "map", "config": config},
        node("j", "a", "m", join={"at_least": 1, "cancel_rest": True}),
    )
    items(run, "m", 3, limit=2)
    run.begin("m", item=0)
    run.complete("a")
    assert run.state_of("m") == "cancelled"
    assert [run.state_of("m", item=i) for i in range(3)] == ["cancelled", "cancelled", "pending"]
    run.complete("j")
    assert run.status == "completed"


def test_rule_11_cancel_rest_cancels_a_loop_on_the_way_to_the_join():
    run = start(
        node("a"),
        node("h"),
        node("x", "h", loop=again("h")),
        node("y", "x"),
        node("j", "a", "y", join={"at_least": 1, "cancel_rest": True}),
    )
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    run.complete("a")
    assert run.state_of("h", (2,)) == "cancelled"
    run.complete("j")
    assert run.status == "completed"


def test_rule_11_a_race_inside_a_loop_cancels_in_its_own_iteration():
    run = start(
        node("h"),
        node("a", "h"),
        node("b", "h"),
        node("j", "a", "b", join={"at_least": 1, "cancel_rest": True}),
        node("x", "j", loop=again("h")),
    )
    for iteration in (1, 2):
        run.complete("h", scope=(iteration,))
        run.complete("a", scope=(iteration,))
        assert run.state_of("b", (iteration,)) == "cancelled"
        run.complete("j", scope=(iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
    assert run.status == "completed"


def test_rule_12_an_any_join_that_mixes_entry_and_inner_edges_is_a_compile_error():
    found = problems(node("w"), node("h"), node("m", "h", "w", join="any"), node("x", "m", loop=again("h")))
    assert "mixed_join" in found
    found = problems(node("w"), node("h"), node("m", "h", "w", join={"at_least": 2}), node("x", "m", loop=again("h")))
    assert "mixed_join" in found


def test_rule_12_an_all_join_may_mix_them():
    assert "mixed_join" not in problems(node("w"), node("h"), node("m", "h", "w"), node("x", "m", loop=again("h")))


def test_rule_12_the_head_may_be_an_any_join():
    run = start(node("v"), node("w"), node("h", "v", "w", join="any"), node("x", "h", loop=again("h")))
    run.complete("v")
    run.complete("h", scope=(1,))
    run.complete("x", AGAIN, (1,))
    assert run.state_of("h", (2,)) == "queued"
    run.complete("w")
    assert run.get("h", (2,)).attempt == 1
    run.complete("h", scope=(2,))
    run.complete("x", DONE, (2,))
    assert run.status == "completed"


def test_rule_12_an_any_join_inside_a_loop_races_in_every_iteration():
    run = start(node("h"), node("a", "h"), node("b", "h"), node("x", "a", "b", join="any", loop=again("h")))
    for iteration in (1, 2):
        run.complete("h", scope=(iteration,))
        run.complete("a", scope=(iteration,))
        run.complete("x", {"again": iteration == 1}, (iteration,))
        assert run.state_of("b", (iteration,)) == "cancelled"
    assert run.status == "completed"


def test_rule_13_inputs_are_the_causal_past_at_the_moment_of_scheduling():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("a", 1)
    run.complete("b", 2)
    assert {name: seen.output for name, seen in parents(run.state, run.get("j")).items()} == {"a": 1}


def test_rule_13_inputs_stay_the_same_over_attempts():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("a", 1)
    run.fail("j", retryable=True)
    run.complete("b", 2)
    run.pass_time(60)
    assert run.get("j").attempt == 2
    assert set(parents(run.state, run.get("j"))) == {"a"}


def test_rule_13_inputs_stay_the_same_over_generations():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("a", 1)
    run.complete("b", 2)
    run.fail("j")
    run.tell(c.Retry)
    assert run.state_of("j") == "queued"
    assert set(parents(run.state, run.get("j"))) == {"a"}


def test_rule_13_what_templates_read_is_the_causal_past_too():
    run = start(node("a"), node("b"), node("j", "a", "b", join="any"))
    run.complete("a", 1)
    run.complete("b", 2)
    seen = evidence(run.state, run.get("j"), (Reference("node", "a"), Reference("node", "b"))).nodes
    assert {name: value.output for name, value in seen.items()} == {"a": 1}


def test_rule_13_a_skipped_parent_is_no_input():
    run = start(node("a", branch=pick(["b"], ["c"])), node("b"), node("c"), node("j", "b", "c"))
    run.complete("a", {"rule": 0})
    run.complete("b", "from b")
    assert {name: seen.output for name, seen in parents(run.state, run.get("j")).items()} == {"b": "from b"}


def test_rule_7_what_is_required_and_skipped_skips_a_node_though_another_dependency_failed_in_the_same_moment():
    """The end of a loop says that `h` failed, and skips what `n` requires: which was heard first decided."""
    loop = again("h", break_path=["y"], timeout_path=[])
    run = start(
        node("h"),
        node("x", {"node": "h", "required": True}, loop=loop, on_failure="park"),
        node("y"),
        node("n", "h", {"node": "y", "required": True}),
        node("w"),
        node("j", "n", "w", join="any"),
    )
    run.complete("w")
    run.fail("h", scope=(1,))
    run.discard("x", "skip", (1,))
    assert (run.state_of("y"), run.state_of("n")) == ("skipped", "skipped")


def test_rule_7_a_loser_stays_forgiven_when_another_required_dependency_is_done_again():
    """`r` is skipped after the race, and a retry chooses anew: the edge of `l`, which lost, skipped the winner then."""
    run = start(
        node("a"),
        node("l"),
        node("u", compensator=UNDO, branch=pick(["r"], ["o"])),
        node("r"),
        node("o"),
        node("z", "r"),
        node("w", "a", {"node": "l", "required": True}, {"node": "r", "required": True}, compensator=UNDO)
        | {"join": {"at_least": 1, "cancel_rest": True}},
        node("f"),
        on_failure={"compensate": True},
    )
    run.complete("a")
    run.complete("w")
    run.complete("u", {"rule": 1})
    assert (run.state_of("l"), run.state_of("r")) == ("cancelled", "skipped")
    run.fail("f", retryable=False)
    run.withdraw("o")
    undone(run, "u", "w")
    run.tell(c.Retry)
    assert (run.state_of("w"), violations(run)) == ("queued", [])


RACE = {"at_least": 1, "cancel_rest": True}


def _lost_before(*between, **keys):
    """`w` requires `m`, which is skipped because `l` before it lost to `w`; then everything that was done is undone and retried."""
    return start(
        node("a", compensator=UNDO),
        node("l"),
        *between,
        node("w", "a", {"node": "m", "required": True}, compensator=UNDO, join=RACE),
        node("f"),
        on_failure={"compensate": True},
        **keys,
    )


def test_rule_7_a_dependency_that_was_skipped_behind_a_loser_is_forgiven_in_a_later_generation():
    run = _lost_before(node("k", "l"), node("m", "k"))
    run.complete("a")
    run.complete("w")
    assert (run.state_of("l"), run.state_of("m")) == ("cancelled", "skipped")
    run.fail("f", retryable=False)
    undone(run, "w", "a")
    run.tell(c.Retry)
    run.complete("a")
    assert (run.state_of("w"), violations(run)) == ("queued", [])


def test_rule_7_what_is_skipped_behind_a_loser_once_more_is_forgiven_once_more():
    """`x` is done again, which decides `m` anew; that still lacks `l`, which stays cancelled."""
    needs = node("m", "x", {"node": "l", "required": True})
    run = _lost_before(node("x", compensator=UNDO), node("z", "x"), needs)
    run.complete("a")
    run.complete("w")
    run.complete("x")
    run.complete("z")
    assert (run.state_of("l"), run.state_of("m")) == ("cancelled", "skipped")
    run.fail("f", retryable=False)
    undone(run, "x", "w", "a")
    run.tell(c.Retry)
    run.complete("x")
    assert run.state_of("m") == "skipped"
    run.complete("a")
    assert (run.state_of("w"), violations(run)) == ("queued", [])


def test_rule_7_what_is_skipped_after_the_race_for_a_reason_of_its_own_skips_the_winner_in_a_later_generation():
    run = _lost_before(
        node("x"), node("z", "x"), node("m", "l", "x", when="inputs.go"), answers={"when": lambda question: False}
    )
    run.complete("a")
    run.complete("w")
    run.complete("x")
    assert (run.state_of("l"), run.state_of("m")) == ("cancelled", "skipped")
    run.complete("z")
    run.fail("f", retryable=False)
    undone(run, "w", "a")
    run.tell(c.Retry)
    run.complete("a")
    assert (run.state_of("w"), violations(run)) == ("skipped", [])
