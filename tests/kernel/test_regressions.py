"""Histories that once went wrong, found by the random walks of tests/property; smallest form, one sentence each.

Every run here is also given to the checker of `perdure.invariants`, which saw most of them first.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.invariants import check
from perdure.kernel import commands as c
from perdure.kernel import continuations
from perdure.kernel.address import Address
from perdure.kernel.values import Error, Wait
from tests.kernel import driver
from tests.kernel.driver import Run, compiled
from tests.kernel.rules.graphs import pick

UNDO = {"type": "task", "config": {"function": "m:undo"}}
MAP = {"type": "map", "config": {"over": "{{ inputs.x }}", "node": {"type": "task", "config": {"function": "m:f"}}}}


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every command: the checker finds nothing."""
    plain = driver.Run.do

    def do(self: Run, command: c.Command) -> Any:
        result = plain(self, command)
        assert check(self.journal, self.state.library) == []
        return result

    monkeypatch.setattr(driver.Run, "do", do)


def again(head: str, **fields: Any) -> dict[str, Any]:
    return {"condition": "true", "max_iterations": 3, "loop_back_to": head, **fields}


# -- joins -------------------------------------------------------------------------------------------------------------


def test_a_join_whose_losers_are_cancelled_in_the_same_append_fires_once() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["a", "b", "c"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.complete("a")
    assert run.states() == {"a": "completed", "b": "cancelled", "c": "cancelled", "j": "queued"}


def test_a_required_dependency_that_only_its_own_race_cancels_does_not_skip_the_winner() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b"},
        {
            "id": "j",
            "dependencies": [{"node": "a", "required": True}, "b"],
            "join": {"at_least": 1, "cancel_rest": True},
        },
    )
    run.complete("b")
    assert run.states() == {"a": "cancelled", "b": "completed", "j": "queued"}


def test_a_required_dependency_skipped_further_up_in_the_same_append_skips_an_any_join() -> None:
    run = Run.of(
        {"id": "a", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["q"]}},
        {"id": "p"},
        {"id": "q"},
        {"id": "r", "dependencies": ["q"]},
        {"id": "j", "dependencies": ["a", {"node": "r", "required": True}], "join": "any"},
        answers={"branch": True},
    )
    run.complete("a")
    assert run.state_of("j") == "skipped"


def test_a_when_that_cannot_be_evaluated_keeps_the_others_of_its_append_from_being_routed() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "when": "inputs.x"},
        {"id": "c", "dependencies": ["a"], "when": "inputs.x"},
        answers={("when", "b"): Error("bad", "no"), ("when", "c"): False},
    )
    run.complete("a")
    assert run.status == "failed"
    assert run.state_of("c") != "skipped"


# -- attempts ----------------------------------------------------------------------------------------------------------


def test_a_late_choice_that_is_not_allowed_does_not_fail_an_attempt_that_failed_already() -> None:
    run = Run.of(
        {"id": "a", "branch": {"type": "agent_driven", "available_next_nodes": ["b"]}}, {"id": "b"}, {"id": "z"}
    )
    run.fail("a", retryable=True)
    run.complete("a", choice=("z",))
    assert run.state_of("a") == "retrying"


def test_at_most_once_does_not_begin_while_the_run_is_failing() -> None:
    run = Run.of({"id": "a"}, {"id": "b", "effect": "at_most_once"}, {"id": "k"})
    run.begin("k")
    run.fail("a")
    run.begin("b")
    assert run.status == "failing"
    assert run.state_of("b") == "held"
    run.complete("k")
    assert run.status == "failed"


def test_what_is_requeued_while_the_run_is_paused_waits_for_it_to_be_resumed() -> None:
    run = Run.of({"id": "a", "on_failure": "park"})
    run.fail("a")
    run.tell(c.Pause)
    run.requeue("a")
    assert run.state_of("a") == "held"
    run.tell(c.Resume)
    assert run.state_of("a") == "queued"


def test_an_escalation_to_fewer_people_than_the_quorum_can_still_be_approved() -> None:
    run = Run.of({"id": "a", "type": "human", "config": {"approvers": ["ann", "bob"], "quorum": 2}})
    name = run.ask(
        "a", approvers=("ann", "bob"), quorum=2, timeout_seconds=5, on_timeout="escalate", escalate_to=("eve",)
    )
    run.pass_time(5)
    run.vote(name, "approve", "eve")
    assert run.status == "completed"
    assert run.get("a").output["decision"] == "approve"


def test_clearing_several_timers_is_told_in_the_same_order_every_time() -> None:
    run = Run.of({"id": "a"}, limits={"deadline_seconds": 60})
    run.tell(c.Cancel)
    run.complete("a")  # the driver compares what `decide` foresees with what `advance` does
    assert run.status == "cancelled"


# -- maps --------------------------------------------------------------------------------------------------------------


def test_trying_a_map_again_runs_items_that_its_failure_cancelled() -> None:
    run = Run.of({"id": "m", **MAP, "on_failure": "park"})
    run.suspend("m", Wait(kind="items", count=3))
    run.complete("m", item=0)
    run.fail("m", item=1)
    assert run.state_of("m", item=2) == "cancelled"
    run.requeue("m")
    run.suspend("m", Wait(kind="items", count=3))
    assert run.dispatched() == {"m#1", "m#2"}
    run.complete("m", item=1)
    run.complete("m", item=2)
    assert run.status == "completed"


def test_a_map_whose_items_were_compensated_does_them_again() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "compensator": UNDO}
    run = Run.of(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}},
        {"id": "b", "dependencies": ["m"]},
        on_failure={"compensate": True},
    )
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.complete("m", item=0, undo=True)
    run.tell(c.Retry)
    assert run.state_of("m") == "queued"
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.complete("b")
    assert run.status == "completed"


def test_a_map_that_runs_out_of_time_takes_its_items_with_it() -> None:
    run = Run.of(
        {"id": "m", **MAP, "total_timeout_seconds": 5, "on_failure": "continue"}, {"id": "b", "dependencies": ["m"]}
    )
    run.suspend("m", Wait(kind="items", count=2))
    run.pass_time(5)
    assert run.state_of("m", item=0) == run.state_of("m", item=1) == "cancelled"
    run.complete("b")
    assert run.status == "completed"


def test_a_map_that_loses_a_race_takes_its_items_with_it() -> None:
    run = Run.of(
        {"id": "m", **MAP},
        {"id": "b"},
        {"id": "j", "dependencies": ["m", "b"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.suspend("m", Wait(kind="items", count=2))
    run.complete("b")
    run.complete("j")
    assert run.status == "completed"


# -- loops -------------------------------------------------------------------------------------------------------------


def test_an_iteration_that_was_closing_when_the_run_failed_closes_after_a_retry() -> None:
    run = Run.of(
        {"id": "x", "loop": {"condition": "true", "max_iterations": 2}},
        {"id": "z", "dependencies": ["x"]},
        limits={"max_bytes": 1},
        answers={"loop": False},
    )
    run.complete("x", scope=(1,), size=2)
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.state_of("z") == "queued"


def test_a_compensated_loop_is_left_again_by_those_who_wait_for_it() -> None:
    run = Run.of(
        {"id": "x", "compensator": UNDO, "loop": {"condition": "true", "max_iterations": 2, "timeout_path": ["t"]}},
        {"id": "t"},
        {"id": "y", "dependencies": ["x"]},
        {"id": "z", "dependencies": ["t", "y"]},
        on_failure={"compensate": True},
        answers={"loop": False},
    )
    run.complete("x", scope=(1,))
    run.complete("y")
    run.fail("z")
    run.complete("x", scope=(1,), undo=True)
    run.tell(c.Retry)
    run.complete("x", scope=(1,))
    run.complete("z")
    assert run.status == "completed"


def test_a_loop_that_ended_by_a_failure_goes_on_after_a_retry_with_what_that_cut_off() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "s", "dependencies": ["h"]},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        {"id": "y", "dependencies": ["x"]},
        {"id": "j", "dependencies": ["y"], "join": "any"},
        answers={"loop": False},
    )
    run.complete("h", scope=(1,))
    run.fail("x", scope=(1,))
    assert run.status == "failed"
    run.tell(c.Retry)
    assert run.state_of("x", (1,)) == run.state_of("s", (1,)) == "queued"
    run.complete("s", scope=(1,))
    run.complete("x", scope=(1,))
    run.complete("y")
    run.complete("j")
    assert run.status == "completed"


def test_a_draining_iteration_takes_exits_of_nodes_it_had_not_reached_yet() -> None:
    run = Run.of(
        {"id": "h", "branch": {"rules": [{"condition": "true", "next_nodes": ["p"]}], "default": ["x"]}},
        {"id": "p"},
        {"id": "q", "dependencies": ["p"]},
        {"id": "x", "loop": again("h")},
        {"id": "z", "dependencies": ["x", "q"]},
        answers={"branch": True},
    )
    run.complete("h", scope=(1,))
    assert run.state_of("x", (1,)) == "skipped"
    run.complete("p", scope=(1,))
    run.complete("q", scope=(1,))
    run.complete("z")
    assert run.status == "completed"


def test_a_token_for_a_join_that_fired_before_a_retry_is_consumed() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b"},
        {"id": "f"},
        {"id": "j", "dependencies": ["a", "b"], "join": "any"},
    )
    run.begin("b")
    run.complete("a")
    run.begin("j")
    run.fail("f")
    run.complete("b")
    run.lapse("j")
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("j")
    run.complete("f")
    assert run.status == "completed"


def test_a_second_required_dependency_that_was_skipped_still_counts_after_a_retry() -> None:
    run = Run.of(
        {"id": "a", "when": "inputs.x"},
        {"id": "b", "compensator": UNDO},
        {"id": "f"},
        {
            "id": "j",
            "dependencies": [{"node": "a", "required": True}, {"node": "b", "required": True}],
            "join": {"at_least": 1},
        },
        on_failure={"compensate": True},
        answers={"when": False},
    )
    run.complete("b")
    run.fail("f")
    run.complete("b", undo=True)
    run.tell(c.Retry)
    run.complete("b")
    assert run.state_of("j") == "skipped"


# -- patches -----------------------------------------------------------------------------------------------------------


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


# -- found later -------------------------------------------------------------------------------------------------------


def test_a_required_dependency_that_its_when_skips_in_the_same_append_skips_an_any_join() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "when": "inputs.x"},
        {"id": "j", "dependencies": ["a", {"node": "b", "required": True}], "join": "any"},
        answers={"when": False},
    )
    run.complete("a")
    assert run.state_of("j") == "skipped"
    assert run.status == "completed"


def test_a_loop_whose_looping_node_loses_a_race_is_over_for_those_outside() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        {"id": "o", "dependencies": ["h", "k"]},
        {"id": "k"},
        {"id": "b"},
        {"id": "j", "dependencies": ["x", "b"], "join": {"at_least": 1, "cancel_rest": True}},
    )
    run.complete("h", scope=(1,))
    run.complete("b")
    assert run.state_of("x", (1,)) == "cancelled"
    run.complete("k")
    run.complete("j")
    run.complete("o")
    assert run.status == "completed"


def test_an_at_most_once_map_that_a_closing_iteration_waits_for_keeps_its_items() -> None:
    run = Run.of(
        {"id": "h"},
        {"id": "m", **MAP, "dependencies": ["h"], "effect": "at_most_once"},
        {"id": "x", "dependencies": ["h"], "loop": again("h")},
        answers={"loop": False},
    )
    run.complete("h", scope=(1,))
    run.begin("m", (1,))
    run.suspend("m", Wait(kind="items", count=1), (1,))
    run.complete("x", scope=(1,))
    assert run.state_of("m", (1,), item=0) == "queued"
    run.complete("m", scope=(1,), item=0)
    assert run.status == "completed"


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


def test_what_was_completed_twice_is_compensated_once() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "compensator": UNDO}
    run = Run.of(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}, "compensator": UNDO},
        {"id": "b", "dependencies": ["m"]},
        on_failure={"compensate": True},
    )
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.fail("m", undo=True)
    run.discard("m", undo=True)
    run.complete("m", item=0, undo=True)
    run.tell(c.Retry)
    run.suspend("m", Wait(kind="items", count=1))
    run.complete("m", item=0)
    run.fail("b")
    run.complete("m", undo=True)
    run.complete("m", item=0, undo=True)
    assert run.status == "failed"


def test_a_loop_that_was_closing_by_a_failure_is_open_again_when_what_failed_runs_again() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "x", "dependencies": ["b"], "loop": {"condition": "true", "max_iterations": 2}},
        {"id": "y", "dependencies": ["x"]},
        {"id": "j", "dependencies": ["y", "b"], "join": {"at_least": 2}},
        answers={"loop": False},
    )
    run.fail("a")
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("a")
    run.complete("b")
    run.complete("x", scope=(1,))
    run.complete("y")
    run.complete("j")
    assert run.status == "completed"


def test_an_item_is_not_repaired_while_its_map_does_not_wait() -> None:
    item = {"type": "task", "config": {"function": "m:f"}, "effect": "at_most_once"}
    run = Run.of({"id": "m", "type": "map", "config": {"over": "{{ inputs.x }}", "node": item}}, {"id": "f"})
    run.suspend("m", Wait(kind="items", count=1))
    run.begin("m", item=0)
    run.lapse("m", item=0)
    run.fail("f")
    run.tell(c.Retry)
    assert run.state_of("m", item=0) == "parked"
    run.requeue("m", item=0)
    assert run.refused is not None
    run.suspend("m", Wait(kind="items", count=1))
    run.requeue("m", item=0)
    assert run.state_of("m", item=0) == "queued"


def test_a_late_token_does_not_lengthen_the_way_of_a_join_that_has_fired() -> None:
    run = Run.of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "j", "dependencies": ["a", "b"], "join": "any"},
        limits={"max_hops": 1},
    )
    run.complete("a")
    run.complete("b")
    run.fail("j", retryable=True)
    run.pass_time(60)
    assert run.state_of("j") == "queued"


def test_an_escalation_counts_those_who_voted_before_and_nobody_else() -> None:
    run = Run.of({"id": "a", "type": "human", "config": {"approvers": ["ann"]}})
    escalation: dict[str, Any] = {"timeout_seconds": 5, "on_timeout": "escalate", "escalate_to": ("eve",)}
    name = run.ask("a", approvers=("ann", "bob", "eve"), quorum=2, **escalation)
    run.vote(name, "reject", "ann")
    run.vote(name, "approve", "eve")
    run.pass_time(5)
    assert run.get("a").output["decision"] == "approve"


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


def test_a_node_cannot_be_patched_out_of_a_loop_that_runs() -> None:
    def nodes(*after: str) -> list[dict[str, Any]]:
        side = {"id": "s", "dependencies": list(after)} if after else {"id": "s"}
        return [{"id": "h"}, side, {"id": "x", "dependencies": ["h", "s"], "loop": again("h")}]

    run = Run.of(*nodes("h"), answers={"loop": False})
    run.tell(c.Patch, ir=compiled(*nodes()))
    assert run.refused is not None
    assert run.refused.code == "patch_refused"


def test_work_done_again_in_a_closed_iteration_does_not_leave_a_loop_that_still_runs() -> None:
    run = Run.of(
        {"id": "x", "compensator": UNDO, "loop": {"condition": "true", "max_iterations": 2, "timeout_path": []}},
        {"id": "f"},
        {"id": "z", "dependencies": ["x", "f"], "join": {"at_least": 2}},
        on_failure={"compensate": True},
        answers={"loop": lambda question: question.need.scope == (1,)},
    )
    run.complete("x", scope=(1,))
    run.tell(c.FireTimer, timer="none")
    run.fail("x", scope=(2,))
    run.fail("f")
    for _ in range(3):
        if run.status == "compensating":
            run.complete("x", scope=(1,), undo=True)
    assert run.status == "failed"
    run.tell(c.Retry)
    run.complete("x", scope=(1,))
    assert run.state_of("z") == "pending"
    run.complete("f")
    run.complete("x", scope=(2,))
    run.complete("z")
    assert run.status == "completed"


def test_attempts_of_a_compensation_never_fall_however_often_a_run_is_rolled_back() -> None:
    run = Run.of({"id": "a", "compensator": UNDO})
    run.complete("a")
    run.tell(c.Rollback)
    run.tell(c.Cancel, force=True)
    run.tell(c.Rollback)
    assert [event.attempt for event in run.events("node.compensating")] == [1, 2]
    run.complete("a", undo=True)
    assert run.status == "rolled_back"


def test_what_began_and_then_vanished_from_the_transport_is_tried_again() -> None:
    """A recall found it claimed, and the next one nowhere: its result was of a time that never was."""
    run: Any = Run.of({"id": "a"}, {"id": "b"})
    run.fail("b")
    assert run.status == "failing"
    run.begin("a")
    run.tell(c.Withdraw, address=Address("run", "a"))
    assert (run.state_of("a"), run.status) == ("cancelled", "failed")
    run.tell(c.Retry)
    assert (run.state_of("a"), run.get("a").attempt) == ("queued", 2)


def test_a_withdrawal_of_another_attempt_or_generation_changes_nothing() -> None:
    run: Any = Run.of({"id": "a"})
    run.begin("a")
    others = Address("run", "a", attempt=7), Address("run", "a", generation=3), Address("run", "a", undo=True)
    for other in others:
        run.tell(c.Withdraw, address=other)
        assert run.state_of("a") == "running"


def test_an_endless_run_goes_on_as_another_one_also_when_its_last_iteration_cancels_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    loop = {"condition": "true", "loop_back_to": "tick"}
    wait = {"id": "tick", "type": "wait", "config": {"seconds": 3}}
    nodes = (wait, {"id": "side", "dependencies": ["tick"]}, {"id": "turn", "dependencies": ["tick"], "loop": loop})
    run: Any = Run.of(*nodes, endless=True, answers={"loop": True})
    run.suspend("tick", Wait(kind="timer", until=run.now + 3), scope=(1,))
    run.pass_time(3)
    assert {run.state_of("side", (1,)), run.state_of("turn", (1,))} == {"queued"}
    run.complete("turn", {}, (1,))
    assert (run.status, run.state_of("side", (1,))) == ("completed", "cancelled")
    assert [effect.run_id for effect in run.effects if isinstance(effect, c.ContinueRun)] == ["run~2"]


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
        assert [effect.generation for effect in run.effects if isinstance(effect, c.StartChild)] in ([1], [])
        run.tell(c.EndChild, child=child, state="completed", generation=1)
        assert run.state_of("call") == "completed"
        run.fail("b")
        assert run.status == "compensating"
        run.tell(c.EndChild, child=child, state="rolled_back", generation=2)
        assert run.status == "failed"
        run.tell(c.Retry)
    assert names == ["run:call", "run:call:1", "run:call:2"]


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


def test_a_head_whose_required_dependency_was_skipped_runs_when_its_loop_brings_it_back() -> None:
    """Its first iteration went by another way in."""
    nodes = (
        {"id": "a", "branch": pick(["b"])},
        {"id": "b"},
        {"id": "h", "dependencies": [{"node": "b", "required": True}]},
        {"id": "y", "dependencies": ["h", "a"], "join": "all"},
        {"id": "x", "dependencies": ["y"], "loop": again("h")},
        {"id": "z", "dependencies": ["x"]},
    )
    run: Any = Run.of(*nodes, answers={"branch": False, "loop": lambda question: question.evidence.loop.iteration < 2})
    run.complete("a")
    assert run.state_of("h", (1,)) == "skipped"
    run.complete("y", scope=(1,))
    run.complete("x", scope=(1,))
    assert run.state_of("h", (2,)) == "queued"
    for name in ("h", "y", "x"):
        run.complete(name, scope=(2,))
    run.complete("z")
    assert run.status == "completed"
