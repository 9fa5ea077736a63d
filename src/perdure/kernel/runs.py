"""Commands about a whole run: start, pause, resume, cancel, retry, roll back, patch; and repair of what is parked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import compensation, guards, loops, patches, waits
from perdure.kernel import events as e
from perdure.kernel.causal_past import lacks_past
from perdure.kernel.decider import Decider, Refusal, sorted_by_schedule
from perdure.kernel.edges import in_closed_iteration, is_unlet, touch
from perdure.kernel.generations import in_order
from perdure.kernel.lifecycle import N, R
from perdure.kernel.outcomes import fail_unhandled, is_to_be_routed, route_kept
from perdure.kernel.settle import end_loop_of_skipped, finish, schedule
from perdure.kernel.state import Activation, key_of
from perdure.kernel.steps.asked_people import lacks_yes
from perdure.kernel.steps.money import OF_SCOPE, TIMER, raise_budget
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.carried import carry_on
from perdure.kernel.triggers.poll_stops import stop_polls
from perdure.kernel.triggers.receivers import starts_runs
from perdure.kernel.triggers.trigger_nodes import find_changed
from perdure.kernel.values import Error, Route
from perdure.kernel.waits import advance_items, items_of
from perdure.model.ir import Node
from perdure.model.money import changed, least

_SAID = 20
"""The most reasons a refusal gives."""


def start(d: Decider, command: c.Start) -> None:
    state = d.state
    if state.seq:
        raise Refusal("exists", f"run {state.run_id} exists already")
    seconds = command.deadline_seconds
    if seconds is None:
        seconds = command.ir.limits.deadline_seconds
    state.library.setdefault(command.ir.hash, command.ir)
    d.emit(
        e.RunCreated,
        run_id=command.run_id,
        workflow=command.ir.name,
        workflow_version=command.workflow_version,
        ir=command.ir.hash,
        inputs=command.inputs,
        tags=command.tags,
        tenant=command.tenant,
        deadline_at=d.at + seconds if command.deadline_at is None and seconds is not None else command.deadline_at,
        deadline_seconds=None if command.deadline_at is None else seconds,
        parent=command.parent,
        origin=command.origin,
        overrides=command.overrides,
        by=command.by,
        depth=command.depth,
        signals_seen=command.signals_seen,
        alias=command.alias,
        correlation_id=command.correlation_id,
        sealed_for=command.sealed_for,
        asked_by=command.asked_by,
        generation=command.generation,
        trigger=command.trigger,
        **_newer(command),
    )
    _adopt(d, command.adopted)
    for name, payload in command.signals:
        d.emit(e.RunSignalled, name=name, payload=payload)
    carry_on(d, command.mailboxes)
    for reason, by in command.pauses:
        if not reason.startswith(OF_SCOPE):  # what wants room finds out anew, and has a timer then
            d.emit(e.RunPaused, by=by, reason=reason)


def _newer(command: c.Start) -> dict[str, Any]:
    """What older processes cannot read, with the version that they know it by."""
    budget = least(command.ir.limits.budget, command.budget)
    fields: dict[str, Any] = {} if budget is None else {"budget": budget, "version": 2}
    return fields if command.heard is None else {**fields, "heard": command.heard, "version": 3}


def _adopt(d: Decider, adopted: tuple[c.Adopted, ...]) -> None:
    """Begin with outcomes of another run, in the order they had there (rule 40). Here a loop has one iteration."""
    for outcome in adopted:
        scope = (0 if outcome.previous else 1,) * len(d.state.node(d.state.index(outcome.node)).loops)
        d.emit(
            e.NodeCompleted,
            node=outcome.node,
            scope=scope,
            visit=1,
            output=outcome.output,
            output_ref=outcome.output_ref,
            size=outcome.size,
            route=None if outcome.previous else Route(rule="adopted", taken=outcome.taken),
            rejected=outcome.rejected,
            adopted=True,
        )
        if (flow := outcome.flow) is not None:
            fields: dict[str, Any] = {"edition": flow.edition, "ports": flow.ends, "parts": flow.parts, "version": 2}
            d.emit(e.StreamClosed, node=outcome.node, scope=scope, visit=1, **fields)
        activation = d.state.find(outcome.node, scope)
        if activation is not None and scope and not outcome.previous:
            d.ended.append(activation)
            loops.close_iterations(d, [])  # nothing goes back: what follows the loop is adopted or runs now


def pause(d: Decider, command: c.Pause) -> None:
    """Pause the run. Each reason is a pause of its own: none of them swallows another (rule 30)."""
    paused = d.state.state is R.PAUSED
    if paused and command.reason in d.state.pauses:
        return
    if not paused and d.state.state is not R.RUNNING:
        raise Refusal("not_running", f"run {d.state.run_id} is {d.state.state}; only a running run can be paused")
    if not paused:
        trigger_commands.look_at_all(d)  # what was due before the pause is not lost to it
        stop_polls(d)
    d.emit(e.RunPaused, by=command.by, reason=command.reason)
    if not paused:
        d.recall_queued()


def resume(d: Decider, command: c.Resume) -> None:
    if d.state.state is R.RUNNING and command.budget is None:
        return
    if d.state.state is not R.PAUSED:
        raise Refusal("not_paused", f"run {d.state.run_id} is {d.state.state}; only a paused run can be resumed")
    if command.reason is not None and command.reason not in d.state.pauses:
        return  # the run is paused for other reasons, and stays so
    left = () if command.reason is None else tuple(sorted(d.state.pauses.keys() - {command.reason}))
    budget = raise_budget(d, command)
    raised: dict[str, Any] = {} if budget is None else {"budget": budget, "version": 2}
    if not left:
        trigger_commands.look_at_all(d)  # what was due during the pause is over with it
        if command.catch_up:
            trigger_commands.catch_up(d, command)
    d.emit(e.RunResumed, by=command.by, reason=command.reason or "", left=left, **raised)
    if left:
        return
    held = [a for a in sorted_by_schedule(d.state, N.HELD) if a.reason != "no_worker"]
    schedule(d, held)
    for owner in sorted_by_schedule(d.state, N.WAITING):
        if owner.wait is not None and owner.wait.kind == "items":
            advance_items(d, owner)


def fire_timer(d: Decider, command: c.FireTimer) -> None:
    """Fire a timer. That of budgets over several runs ends the pauses for them, and no other (rule 85)."""
    waits.fire_timer(d, command)
    if command.timer == TIMER:
        for reason in sorted(one for one in d.state.pauses if one.startswith(OF_SCOPE)):
            if d.state.state is R.PAUSED:
                resume(d, c.Resume(at=d.at, reason=reason))


def cancel(d: Decider, command: c.Cancel) -> None:
    state = d.state
    if state.terminal:
        if state.state is R.CANCELLED:
            return
        raise Refusal("run_ended", f"run {state.run_id} is {state.state} and cannot be cancelled")
    if state.state is R.COMPENSATING:
        if not command.force:
            raise Refusal("compensating", f"run {state.run_id} is compensating; use force to end it uncompensated")
        for activation in _undoing(d):
            d.stop(activation, undo=True)
        compensation.give_up(d)
        return
    if state.state is not R.CANCELLING:
        grace = None if command.force else d.at + command.grace_seconds
        fields = {"by": command.by, "reason": command.reason, "orphaned": command.orphaned}
        stop_polls(d)
        d.emit(e.RunCancelling, **fields, grace_until=grace)
        if not command.force:
            d.recall_queued()
            for activation in sorted_by_schedule(state, N.RUNNING):
                d.stop(activation)
        d.stop_children()
        trigger_commands.give_up(d)
    if command.force:
        finish(d)


def _undoing(d: Decider) -> list[Activation]:
    found = [d.state.activations[key] for key in d.state.plan]
    return [a for a in found if a.undo is not None and a.undo.state in ("queued", "running")]


def retry(d: Decider, command: c.Retry) -> None:
    """Begin a new generation: completed nodes keep their outputs, what failed runs again (rule 26)."""
    state = d.state
    wanted_again = command.orphaned and state.state is R.CANCELLED and state.orphaned
    if state.state is not R.FAILED and not wanted_again:
        code = "compensating" if state.state is R.COMPENSATING else "not_failed"
        raise Refusal(code, f"run {state.run_id} is {state.state}; only a failed run can be retried")
    deadline_at = None if state.deadline_seconds is None else d.at + state.deadline_seconds
    budget = None if command.budget is None else changed(state.money.budget, command.budget)
    raised: dict[str, Any] = {} if budget is None else {"budget": budget, "version": 2}
    d.emit(e.RunRetried, generation=state.generation + 1, deadline_at=deadline_at, by=command.by, **raised)
    if command.ir is not None and command.ir.hash != state.ir_hashes[-1]:
        _refuse([*find_changed(state, command.ir), *patches.check_mend(state, command.ir)])
        state.library.setdefault(command.ir.hash, command.ir)
        d.emit(e.RunPatched, ir=command.ir.hash, by=command.by, reason=command.reason, mends=True)
    again = [a for a in in_order(state) if a.state is N.PENDING and a.fired and a.item < 0]
    for activation in in_order(state):
        if is_to_be_routed(d, activation):
            route_kept(d, activation)
    if not _ending(d):
        for activation in in_order(state):
            if activation.state is N.PENDING and not activation.fired:
                touch(state, activation.key)
        for _, run in sorted(state.loops.items()):
            cause = None if run.cause is None else state.activations[run.cause]
            if run.status == "closing" and cause is not None and not in_closed_iteration(state, cause):
                d.ended.append(cause)  # the end of the run came before its iteration closed
        schedule(d, again)


def _ending(d: Decider) -> bool:
    return d.state.state is not R.RUNNING


def undeliver(d: Decider, command: c.Undeliver) -> None:
    """Record that the continuing run cannot begin: once, however often its delivery is tried."""
    if d.state.continued_as == command.to and d.state.error is None:
        d.emit(e.RunUndelivered, to=command.to, error=command.error)


def rollback(d: Decider, command: c.Rollback) -> None:
    state = d.state
    if state.state not in (R.COMPLETED, R.FAILED, R.CANCELLED):
        raise Refusal("not_ended", f"run {state.run_id} is {state.state}; only a run that has ended can be rolled back")
    compensation.begin(d, "rolled_back", state.generation + 1)


def patch(d: Decider, command: c.Patch) -> None:
    state = d.state
    if state.state not in (R.RUNNING, R.PAUSED):
        raise Refusal("not_running", f"run {state.run_id} is {state.state}; only a live run can be patched")
    if command.ir.hash == state.ir_hashes[-1]:
        return
    if starts_runs(state):
        raise Refusal("patch_refused", f"run {state.run_id} is a trigger; register it anew to change it")
    _refuse([*find_changed(state, command.ir), *patches.check(state, command.ir)])
    state.library.setdefault(command.ir.hash, command.ir)
    d.emit(e.RunPatched, ir=command.ir.hash, by=command.by, reason=command.reason, patch=command.patch)


def _refuse(problems: list[str]) -> None:
    if problems:
        more = f"; and {len(problems) - _SAID} more" if len(problems) > _SAID else ""
        raise Refusal("patch_refused", "; ".join(problems[:_SAID]) + more)


# -- repair ------------------------------------------------------------------------------------------------------------


def requeue(d: Decider, command: c.Requeue) -> None:
    activation = d.get(command)
    if command.address.undo:
        _parked_undo(d, activation)
        d.emit_for(e.NodeRequeued, activation, by=command.by, config=command.config, undo=True)
        return
    _parked(d, activation)
    if activation.accepted:  # only its routing failed: nothing is executed again (R7)
        if lacks_past(d.state, activation):
            d.emit_for(e.NodeRequeued, activation, by=command.by)  # it is routed once its past has been done again
        else:
            route_kept(d, activation)
        return
    if is_unlet(d.state, activation):
        name = d.state.name(activation.node)
        raise Refusal("join_failed", f"{name} never ran: what its join needs has failed; discard it, or rerun the run")
    if command.config is not None:
        node = d.state.pinned(activation)
        _refuse(
            [
                *guards.asks_otherwise(node, command.config),
                *_asks_others(activation, node, command.config),
                *_exchanges_child(activation, node, command.config),
            ]
        )
    if command.steps:
        _refuse(list(_bad_results(d, activation, command)))
    for step, result in command.steps.items():
        size = len(step) + len(msgspec.json.encode(result))
        d.emit_for(e.NodeCheckpointed, activation, step=step, data=result, size=size, version=6)
    d.emit_for(e.NodeRequeued, activation, by=command.by, config=command.config)
    schedule(d, [activation])


def _bad_results(d: Decider, activation: Activation, command: c.Requeue) -> Iterator[str]:
    """The reasons against what a person says that steps of a parked node gave."""
    node, begun = d.state.pinned(activation), activation.begun_steps or {}
    unknown = [step for step in command.steps if step not in begun]
    if unknown:
        those = ", ".join(map(repr, begun)) or "none"
        yield f"{node.id!r} has no step {', '.join(map(repr, unknown))} that began and has no result; there are: {those}"
    if node.sensitive:
        yield f"{node.id!r} seals what it keeps, and what a person gives is kept in the open"
    if node.type == "agent":
        yield f"{node.id!r} is an agent, whose calls are more than their results; let it ask people (approvals), or discard it"


def _asks_others(activation: Activation, node: Node, config: Any) -> Iterator[str]:
    """The reasons against requeuing a node with another config after its handler has asked people: it could ask others."""
    if lacks_yes(activation) and config != node.config:
        yield f"{node.id!r} has asked people and has no yes, so its config stays; requeue it as it is, or rerun the run"


def _exchanges_child(activation: Activation, node: Node, config: Any) -> Iterator[str]:
    """The reasons against requeuing a node with another workflow than the one it has started: whatever that one asks, the
    other one need not ask (rule 39)."""
    started = activation.child_workflow
    if node.type == "workflow" and started and (not isinstance(config, dict) or config.get("workflow") != started):
        yield f"{node.id!r} has started {started!r}, which stays; rerun the run to start another workflow"


def _parked(d: Decider, activation: Activation) -> None:
    if activation.state is not N.PARKED or d.state.terminal:
        name = d.state.name(activation.node)
        raise Refusal("not_parked", f"{name} of run {d.state.run_id} is {activation.state}, not parked")
    if d.state.state not in (R.RUNNING, R.PAUSED):
        raise Refusal("not_running", f"run {d.state.run_id} is {d.state.state}")
    if activation.item >= 0 and d.state.activations[key_of(activation.node, activation.scope)].state is not N.WAITING:
        name = d.state.name(activation.node)
        raise Refusal("not_waiting", f"the map {name} of run {d.state.run_id} does not wait for its items now")


def _parked_undo(d: Decider, activation: Activation) -> None:
    if activation.undo is None or activation.undo.state != "parked" or d.state.state is not R.COMPENSATING:
        name = d.state.name(activation.node)
        raise Refusal("not_parked", f"the compensation of {name} of run {d.state.run_id} is not parked")


def discard(d: Decider, command: c.Discard) -> None:
    activation = d.get(command)
    fields: dict[str, Any] = {"as_": command.as_, "by": command.by}
    if command.address.undo:
        _parked_undo(d, activation)
        d.emit_for(e.NodeDiscarded, activation, **fields, undo=True)
        return
    _parked(d, activation)
    if command.as_ == "continue":
        _may_continue(d, activation)
    error = activation.error or Error("discarded", "discarded by a person")
    d.emit_for(e.NodeDiscarded, activation, **fields)
    if command.as_ == "skip":
        d.emit_for(e.NodeSkipped, activation, reason="discarded")
        if activation.item < 0:
            end_loop_of_skipped(d, activation)
    elif command.as_ == "continue" and activation.item < 0:
        d.emit_for(e.NodeFailed, activation, error=error, outcome="continue", route=_onward(d, activation))
    elif activation.item >= 0:
        d.emit_for(e.ItemFailed, activation, error=error)
    else:
        fail_unhandled(d, activation, error)
    d.leave_children(activation)
    items_of(d, activation)


def _may_continue(d: Decider, activation: Activation) -> None:
    """Refuse `continue` where an operator would give an approval by it."""
    why = _cannot_continue(d.state.pinned(activation), activation)
    if why is not None:
        raise Refusal("approval_not_given", why)
    if is_unlet(d.state, activation):
        name = d.state.name(activation.node)
        raise Refusal("join_failed", f"{name} never ran: what its join needs has failed; discard it as skip or as fail")


def _cannot_continue(node: Node, activation: Activation) -> str | None:
    """Why a parked node may not be discarded as `continue`: an operator would thereby give an approval (rule 28)."""
    kind = node.type if node.item is None else node.item.type
    if kind == "human":
        why, again = "is an approval, which was not given", "asks again"
    elif kind == "workflow":
        why, again = "starts a run of its own, whose approvals cannot be seen from here", "retries that run"
    elif lacks_yes(activation):
        why, again = "has asked people, and has no yes", "enters it again with their answers"
    elif activation.ask_children:
        why, again = "has started runs, whose approvals cannot be seen from here", "enters it again"
    else:
        return None
    return f"{node.id!r} {why}; requeue it, which {again}, or discard it as skip or as fail"


def _onward(d: Decider, activation: Activation) -> Route:
    """The route of a node discarded as `continue`: the edges no routing names, and the break path of a loop."""
    node, ir = d.node(activation), d.state.irs[d.state.iteration_ir(activation.scope, activation.node)]
    ways = set(node.loop.break_path or ()) if node.loop is not None else set()
    targets = [ir.edges[i].target for i in node.edges_out if not ir.edges[i].named or ir.edges[i].target in ways]
    return Route(rule="discard", taken=tuple(d.state.name(t) for t in targets))
