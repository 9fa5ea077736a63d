"""Histories of attempts and their timers that once went wrong."""

from __future__ import annotations

from typing import Any

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from tests.kernel.driver import Run


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


def test_clearing_several_timers_is_told_in_the_same_order_every_time() -> None:
    run = Run.of({"id": "a"}, limits={"deadline_seconds": 60})
    run.tell(c.Cancel)
    run.complete("a")  # the driver compares what `decide` foresees with what `advance` does
    assert run.status == "cancelled"


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
