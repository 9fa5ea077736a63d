"""The rows of triggers: what lists show of one, derived from the state of the run that it is (TG11)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.journal import TriggerRow
from perdure.kernel.facts.trigger_facts import timer_of
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.segments import encode_shown
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.kernel.values import Error
from perdure.runtime.coordinator.triggers.poll_tasks import custom_source

_LIFE = re.compile(r"trigger~x[0-9a-f]+\.([0-9]{1,9})")
LONGEST_CURSOR = 1000
"""The most bytes of a cursor that a row holds."""


def trigger_row(state: State) -> TriggerRow | None:
    """The row of a trigger. None for other runs, for what has gone on as another run, and for what starts nothing."""
    box = state.triggers.get(NODE)
    if box is None or state.workflow != TRIGGER.name or state.continued_as is not None or not box.policy.workflow:
        return None
    timer, error = state.timers.get(timer_of(NODE)), _error_of(state, box)
    return TriggerRow(
        tenant=state.tenant,
        name=box.name,
        trigger_id=box.trigger,
        life=life_of(box.trigger),
        head=state.run_id,
        kind=box.kind,
        state=_state_of(state, box),
        revision=box.revision,
        workflow=box.policy.workflow,
        hook=box.hook or None,
        cursor=msgspec.json.encode(box.cursor)[:LONGEST_CURSOR],
        next_at=None if timer is None else timer.due_at,
        last_at=box.last_at or None,
        waiting=len(box.waiting),
        open=len(box.open),
        parked=len(box.parked),
        error=None if error is None else msgspec.json.encode(error),
        body=msgspec.json.encode(_body_of(state, box)),
    )


def life_of(trigger_id: str) -> int:
    """How many triggers of the same name were deleted before this one, as its id says."""
    found = _LIFE.fullmatch(trigger_id)
    return 0 if found is None else int(found[1])


def _state_of(state: State, box: Mailbox) -> str:
    if state.state is RunState.PAUSED:
        return "paused"
    if state.state is not RunState.RUNNING:
        return "deleted"
    return "done" if box.kind == "schedule" and timer_of(NODE) not in state.timers else "active"


def _body_of(state: State, box: Mailbox) -> dict[str, Any]:
    body: dict[str, Any] = {"spec": encode_shown(box.spec), "failures": box.failures, "received": box.position}
    if box.skipped:
        body["skipped"] = dict(sorted(box.skipped.items()))
    if box.succeeded is not None:
        body["last_success"] = box.succeeded
    if state.state is RunState.PAUSED:
        body["pauses"] = [{"reason": reason, "by": by} for reason, by in sorted(state.pauses.items())]
    return body


def _error_of(state: State, box: Mailbox) -> Error | None:
    """Why the trigger has stopped by itself, or why its source could not be polled the last time."""
    said = {
        "failures": f"{box.failures} runs in a row have failed: see why, then resume the trigger",
        "poison": f"{len(box.parked)} items could start no run: requeue or discard them, then resume the trigger",
        "bad_schedule": "the schedule has no moments that can be found: change it, then resume the trigger",
    }
    for reason, by in sorted(state.pauses.items()) if state.state is RunState.PAUSED else ():
        if by == "trigger":
            return Error(reason, said.get(reason, reason))
    polling = state.find(NODE) if box.source else None
    if polling is None:
        return None
    if polling.state is NodeState.HELD and polling.reason == "no_worker":
        if (name := custom_source(box)) and polling.detail.endswith(repr(name)):
            message = f"{polling.detail}; start one with --import MODULE, or install what has it"
            return Error("no_worker", f"nobody polls: {message}")
        message = "nobody polls: start `perdure worker`, or one that has triggers among its --queues"
        return Error("no_worker", message)
    return polling.error
