"""Projections: the rows that a journal keeps beside a run's events, each derived from its state alone.

Owns what a run, an approval and a dead letter look like in a list. These rows can be thrown away and derived anew (J5):
the doctor compares them, and its repair derives them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from perdure.journal import ApprovalRow, DeadLetterRow, LedgerRow, RunRow
from perdure.kernel import events as e
from perdure.kernel.address import Address
from perdure.kernel.child_runs import list_left, waits_for_child
from perdure.kernel.lifecycle import OPEN, TERMINAL, N, R
from perdure.kernel.segments import show
from perdure.kernel.state import Activation, State
from perdure.kernel.values import Money
from perdure.model.money import AMOUNTS, NOTHING

MOST_CHILDREN = 10_000
"""How many children are examined when a run is written, to see whether the run still waits for one of them."""


def is_parked(activation: Activation) -> bool:
    return activation.state is N.PARKED or (activation.undo is not None and activation.undo.state == "parked")


def letter_id(state: State, activation: Activation) -> str:
    return state.address(activation).dead_letter_id


def resolve_letter(
    row: DeadLetterRow, activation: Activation | None, at: float, asked: tuple[str, str] = ("", "")
) -> DeadLetterRow:
    """The row of a dead letter that is no longer parked. `asked` is what an operator asked for and who that was, if
    there was one; otherwise the activation is being tried again, or was given up with its run."""
    again = activation is not None and activation.state in OPEN
    body = msgspec.json.encode({**msgspec.json.decode(row.body), "by": asked[1] or None})
    state = asked[0] or ("requeued" if again else "discarded")
    return msgspec.structs.replace(row, state=state, resolved_at=at, body=body)


def asked_for(run_id: str, events: Iterable[e.Event]) -> dict[str, tuple[str, str]]:
    """What was asked for and by whom, by dead letter; under the empty name, who changed the whole run."""
    found = {"": ("", "")}
    for event in events:
        if isinstance(event, e.NodeRequeued | e.NodeDiscarded):
            state = "requeued" if isinstance(event, e.NodeRequeued) else "discarded"
            found[Address(run_id, event.node, event.scope, event.item).dead_letter_id] = (state, event.by)
        elif isinstance(event, e.RunRetried | e.RunCancelling | e.RunCancelled) and event.by:
            found[""] = ("", event.by)
    return found


def dead_letter_row(state: State, activation: Activation, status: str, at: float) -> DeadLetterRow:
    undo = activation.undo if activation.undo is not None and activation.undo.state == "parked" else None
    body = {
        "scope": activation.scope,
        "item": activation.item_index,
        "attempt": activation.tries,
        "undo": undo is not None,
        "error": activation.error if undo is None else undo.error,
        "by": None,
        "seq": state.seq,
    }
    return DeadLetterRow(
        dead_letter_id=letter_id(state, activation),
        run_id=state.run_id,
        node=state.name(activation.node),
        state=status,
        tenant=state.tenant,
        created_at=at,
        body=msgspec.json.encode(body),
    )


def approval_row(state: State, name: str) -> ApprovalRow:
    approval = state.approvals[name]
    activation = state.activations[approval.key]
    body = {
        "approvers": approval.approvers,
        "quorum": approval.quorum,
        "votes": approval.votes,
        "on_timeout": approval.on_timeout,
        "escalated": approval.escalated,
        "shown": show(approval.shown),
        "scope": activation.scope,
        "comments": approval.comments,
    }
    if approval.notify is not None:
        body = {
            "notify": approval.notify,
            **body,
        }  # first: databases recognise by it that a notification is wanted (WANTS_NOTIFICATION)
    return ApprovalRow(
        approval_id=name,
        run_id=state.run_id,
        node=state.name(activation.node),
        state=approval.state,
        tenant=state.tenant,
        requested_at=approval.requested_at,
        expires_at=approval.expires_at,
        decided_at=approval.decided_at,
        body=msgspec.json.encode(body),
    )


def row_of(state: State, partition: int) -> RunRow:
    return RunRow(
        state=state.state._value_,  # `value` is a function in Python
        workflow=state.workflow,
        workflow_version=state.workflow_version,
        ir=state.ir_hashes[-1],
        partition=partition,
        tenant=state.tenant,
        tags=msgspec.json.encode(state.tags) if state.tags else b"{}",
        generation=state.generation,
        counter=state.counter,
        # A parent's process may have died before the child was durable: the parent must ask for it again.
        busy=_is_busy(state),
        created_at=state.created_at,
        started_at=state.started_at,
        ended_at=state.ended_at if state.state in TERMINAL else None,
        error=None if state.error is None else msgspec.json.encode(state.error),
        parent=None if state.parent is None else state.parent[0],
    )


def _is_busy(state: State) -> bool:
    """Whether a process that takes the run over has something to send for it, a patch to make, or a child to look for."""
    return (
        works(state)
        or bool(state.patching)
        or bool(state.children and (_waits_for_child(state) or _leaves_child(state)))
    )


def works(state: State) -> bool:
    """Whether something of the run itself is with a worker, or is to be. A node held in a running run waits for a
    worker."""
    tally = state.tally
    held = state.state is R.RUNNING and tally.get(N.HELD)
    return bool(tally.get(N.QUEUED) or tally.get(N.RUNNING) or held or _undoing(state))


def only_waits(state: State) -> bool:
    """Whether the run is under way with nothing of it at a worker or in a child, as its row says too. `service.waiting`
    knows whether the children themselves only wait."""
    return state.state is R.RUNNING and not _is_busy(state)


def _waits_for_child(state: State) -> bool:
    """Whether the run waits for a child, the newest being examined first. Of very many not all are examined: one is
    assumed to be waited for."""
    if not state.tally.get(N.WAITING):
        return False
    newest = islice(reversed(state.children.values()), MOST_CHILDREN)
    return len(state.children) > MOST_CHILDREN or any(waits_for_child(state.activations[key]) for key in newest)


def _leaves_child(state: State) -> bool:
    """Whether one of the newest children has still to be stopped (rule 35): the stop may be lost with this process."""
    newest = islice(reversed(state.children.values()), MOST_CHILDREN)
    return state.state not in TERMINAL and any(list_left(state, state.activations[key]) for key in newest)


def _undoing(state: State) -> int:
    if not state.plan:
        return 0
    undo = state.activations[state.plan[-1]].undo
    return int(undo is not None and undo.state in ("queued", "running"))


def list_used(state: State, before: Money, at: float) -> tuple[LedgerRow, ...]:
    """What the run itself has used since it had used `before`, by model: what its children use is in rows of their own (rule 85).
    And what more, or less, is set aside for its calls."""
    now, day = state.money, day_of(at)
    about: dict[str, Any] = {"tenant": state.tenant, "day": day, "workflow": state.workflow}
    changes = {name: getattr(now.reserved, name) - getattr(before.reserved, name) for name in AMOUNTS}
    found = [LedgerRow(**{**about, "day": ""}, **changes)] if any(changes.values()) else []
    if now.models is before.models:
        return tuple(found)
    for model, usage in now.models.items():
        new = usage - before.models.get(model, NOTHING)
        amounts = {name: getattr(new, name) for name in AMOUNTS}
        unpriced = int(not usage.priced and usage != before.models.get(model))
        if any(amounts.values()) or unpriced:
            found.append(LedgerRow(**about, model=model, **amounts, unpriced=unpriced))
    if lost := now.unsettled - before.unsettled:
        found.append(LedgerRow(**about, unsettled_calls=lost.calls, unsettled_usd=lost.usd))
    return tuple(found)


def day_of(at: float) -> str:
    """The day of a moment in UTC, as the ledger has it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
