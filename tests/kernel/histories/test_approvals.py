"""Histories of approvals that once went wrong."""

from __future__ import annotations

from typing import Any

from tests.kernel.driver import Run


def test_an_escalation_to_fewer_people_than_the_quorum_can_still_be_approved() -> None:
    run = Run.of({"id": "a", "type": "human", "config": {"approvers": ["ann", "bob"], "quorum": 2}})
    name = run.ask(
        "a", approvers=("ann", "bob"), quorum=2, timeout_seconds=5, on_timeout="escalate", escalate_to=("eve",)
    )
    run.pass_time(5)
    run.vote(name, "approve", "eve")
    assert run.status == "completed"
    assert run.get("a").output["decision"] == "approve"


def test_an_escalation_counts_those_who_voted_before_and_nobody_else() -> None:
    run = Run.of({"id": "a", "type": "human", "config": {"approvers": ["ann"]}})
    escalation: dict[str, Any] = {"timeout_seconds": 5, "on_timeout": "escalate", "escalate_to": ("eve",)}
    name = run.ask("a", approvers=("ann", "bob", "eve"), quorum=2, **escalation)
    run.vote(name, "reject", "ann")
    run.vote(name, "approve", "eve")
    run.pass_time(5)
    assert run.get("a").output["decision"] == "approve"
