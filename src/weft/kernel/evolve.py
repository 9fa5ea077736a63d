"""`evolve(state, event)`: what each event does to a state. Deterministic, total on every prefix, and nothing else.

Whoever decides (`decide.py`) emits events through here too, so a live state and a replayed one cannot differ. An event
that does not fit the state is an `IntegrityError`: it quarantines this run and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.kernel import events as e
from weft.kernel.edges import (
    clear_timer,
    drop_members,
    ensure,
    fail_edges,
    fire,
    head_of,
    resolve_all,
    resolve_exits,
    set_state,
    set_timer,
    take_route,
    timer_name,
    touch_entries,
)
from weft.kernel.generations import make_ready, reopen
from weft.kernel.patches import install
from weft.kernel.state import (
    ERROR,
    OPEN,
    RUN_TRANSITIONS,
    SKIPPED,
    TAKEN,
    Activation,
    Approval,
    IntegrityError,
    NodeState,
    RunState,
    State,
    Timer,
)
from weft.kernel.values import Undo

N, R = NodeState, RunState


def evolve(state: State, event: e.Event) -> None:
    if event.seq != state.seq + 1:
        raise IntegrityError(f"run {state.run_id}: expected event {state.seq + 1}, got {event.seq} (J2)")
    apply(state, event)
    if event.counter != state.counter:
        raise IntegrityError(
            f"run {state.run_id}: event {event.seq} ({event.type}) says counter {event.counter}, it is {state.counter}"
        )


def apply(state: State, event: e.Event) -> None:
    """Apply an event whose place in the journal is known to be right."""
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise e.UnknownEvent(f"no rule for event {event.type}")
    if (state.seq == 0) != (type(event) is e.RunCreated):
        raise IntegrityError(f"run {state.run_id}: the first event, and only it, is run.created (J4)")
    handler(state, event)
    state.seq = event.seq


def _set_run_state(state: State, new: RunState) -> None:
    if new not in RUN_TRANSITIONS[state.state]:
        raise IntegrityError(f"run {state.run_id} cannot go from {state.state} to {new}")
    state.state = new


def _get(state: State, event: e.NodeEvent | e.Place) -> Activation:
    """The activation an event is about; made when this is the first event about it."""
    activation = ensure(state, state.index(event.node), event.scope, -1 if event.item is None else event.item)
    state.edit(activation)
    return activation


# -- runs --------------------------------------------------------------------------------------------------------------


def _run_created(state: State, event: e.RunCreated) -> None:
    if event.ir not in state.library:
        raise IntegrityError(f"run {event.run_id}: its IR {event.ir} is not at hand")
    state.run_id, state.workflow, state.workflow_version = event.run_id, event.workflow, event.workflow_version
    state.tenant, state.tags, state.inputs, state.by = event.tenant, event.tags, event.inputs, event.by
    state.parent, state.origin, state.overrides = event.parent, event.origin, event.overrides
    state.created_at = event.at
    state.irs, state.ir_hashes = [state.library[event.ir]], [event.ir]
    state.deadline_seconds = None if event.deadline_at is None else event.deadline_at - event.at
    _set_deadline(state, event.deadline_at)
    touch_entries(state)


def _set_deadline(state: State, deadline_at: float | None) -> None:
    state.deadline_at = deadline_at
    if deadline_at is not None:
        set_timer(state, "deadline", Timer(deadline_at, "deadline"))


def _run_paused(state: State, event: e.RunPaused) -> None:
    _set_run_state(state, R.PAUSED)


def _run_resumed(state: State, event: e.RunResumed) -> None:
    _set_run_state(state, R.RUNNING)


def _run_failing(state: State, event: e.RunFailing) -> None:
    _set_run_state(state, R.FAILING)
    state.error, state.failed_node, state.ending = event.error, event.node, "failed"


def _run_cancelling(state: State, event: e.RunCancelling) -> None:
    _set_run_state(state, R.CANCELLING)
    state.ending, state.by = "cancelled", event.by
    if event.grace_until is not None:
        set_timer(state, "grace", Timer(event.grace_until, "grace"))


def _run_failed(state: State, event: e.RunFailed) -> None:
    _end(state, event, R.FAILED)
    state.error = event.error


def _run_cancelled(state: State, event: e.RunCancelled) -> None:
    _end(state, event, R.CANCELLED)


def _run_rolled_back(state: State, event: e.RunRolledBack) -> None:
    _end(state, event, R.ROLLED_BACK)


def _run_completed(state: State, event: e.RunCompleted) -> None:
    if event.continued_as is None and state.counter:
        raise IntegrityError(f"run {state.run_id} completes while its counter is {state.counter} (R1)")
    _end(state, event, R.COMPLETED)
    state.outputs, state.outputs_ref, state.continued_as = event.outputs, event.outputs_ref, event.continued_as


def _end(state: State, event: e.Event, new: RunState) -> None:
    """A terminal event closes everything open and sets the counter to zero (rule 43)."""
    _set_run_state(state, new)
    close_open(state)
    for name in list(state.timers):
        clear_timer(state, name)
    state.tokens = state.undoing = 0
    state.plan, state.ending = [], ""
    state.ended_at = event.at


def close_open(state: State) -> None:
    if not state.open:
        return
    for activation in state.activations.values():
        if activation.state in OPEN:
            state.edit(activation)
            activation.resume = activation.state
            _stop_waiting(state, activation)
            set_state(state, activation, N.CANCELLED)


def _run_compensating(state: State, event: e.RunCompensating) -> None:
    _set_run_state(state, R.COMPENSATING)
    close_open(state)
    for name in list(state.timers):
        clear_timer(state, name)
    state.tokens = 0
    state.generation, state.ending = event.generation, event.ends
    state.plan = []
    for place in reversed(event.plan):
        activation = _get(state, place)
        activation.undo = Undo()
        state.plan.append(activation.key)
    state.undoing = len(state.plan)


def _run_retried(state: State, event: e.RunRetried) -> None:
    _set_run_state(state, R.RUNNING)
    state.generation = event.generation
    state.error = state.failed_node = state.ended_at = None
    state.ending = ""
    reopen(state)
    _set_deadline(state, event.deadline_at)


def _run_patched(state: State, event: e.RunPatched) -> None:
    install(state, event.ir)


def _run_signalled(state: State, event: e.RunSignalled) -> None:
    if event.signal:
        state.put(state.signals_seen, event.signal, event.seq)
    state.signals = [*state.signals, (event.seq, event.name, event.payload)]


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node_scheduled(state: State, event: e.NodeScheduled) -> None:
    _schedule(state, event, event)
    _count_crash(state, event)


def _count_crash(state: State, event: e.NodeScheduled | e.NodeHeld) -> None:
    if event.after == "crashed":
        _get(state, event).crashes += 1


def _nodes_scheduled(state: State, event: e.NodesScheduled) -> None:
    for place in event.places:
        _schedule(state, event, place)


def _schedule(state: State, event: e.Event, place: e.NodeScheduled | e.Place) -> None:
    activation = _get(state, place)
    if place.attempt <= activation.attempt:
        raise IntegrityError(f"run {state.run_id}: attempt {place.attempt} of {place.node} is not new (V1)")
    _ready(state, activation, event)
    if activation.retry_at is not None:
        clear_timer(state, timer_name(state, "retry", activation))
        activation.retry_at = None
    _stop_waiting(state, activation)
    activation.attempt, activation.begun, activation.started_at = place.attempt, False, None
    activation.reason, activation.scheduled_at, activation.worker = "", event.at, ""
    set_state(state, activation, N.QUEUED)
    node = state.pinned(activation)
    if node.queue_timeout_seconds is not None:
        due_at = event.at + node.queue_timeout_seconds
        name = timer_name(state, "queue", activation)
        set_timer(state, name, Timer(due_at, "queue", activation.key, place.attempt))
    if node.total_timeout_seconds is not None and (name := timer_name(state, "total", activation)) not in state.timers:
        set_timer(state, name, Timer(event.at + node.total_timeout_seconds, "total", activation.key))


def _ready(state: State, activation: Activation, event: e.Event) -> None:
    """The join fired: from here its inputs and its pinned definition do not change."""
    if not activation.fired:
        activation.ir = state.iteration_ir(activation.scope, activation.node)
        fire(state, activation)
        activation.scheduled_seq = event.seq
    activation.guarded = True
    if activation.item >= 0:
        owner = state.edit(ensure(state, activation.node, activation.scope))
        activation.visit, activation.hop, activation.ir = owner.visit, owner.hop, owner.ir
        owner.items_started = max(owner.items_started, activation.item + 1)


def _node_held(state: State, event: e.NodeHeld) -> None:
    _hold(state, event, event, event.reason)
    _count_crash(state, event)


def _nodes_held(state: State, event: e.NodesHeld) -> None:
    for place in event.places:
        _hold(state, event, place, event.reason)


def _hold(state: State, event: e.Event, place: e.NodeHeld | e.Place, reason: str) -> None:
    activation = _get(state, place)
    _ready(state, activation, event)
    if activation.retry_at is not None:
        clear_timer(state, timer_name(state, "retry", activation))
        activation.retry_at = None
    _stop_waiting(state, activation)
    clear_timer(state, timer_name(state, "queue", activation))
    activation.reason = reason
    set_state(state, activation, N.HELD)


def _node_started(state: State, event: e.NodeStarted) -> None:
    activation = _get(state, event)
    if event.undo:
        undo = _undo(state, activation)
        undo.state, undo.started_at = "running", event.at
        return
    activation.begun, activation.started_at, activation.worker = True, event.at, event.worker
    clear_timer(state, timer_name(state, "queue", activation))
    set_state(state, activation, N.RUNNING)


def _node_checkpointed(state: State, event: e.NodeCheckpointed) -> None:
    _get(state, event).checkpoint = event.data


def _finish(state: State, activation: Activation, seq: int, at: float) -> None:
    """The activation ended: timers and waits go."""
    _stop_waiting(state, activation)
    if state.timers:
        for kind in ("retry", "queue", "total"):
            clear_timer(state, timer_name(state, kind, activation))
    activation.retry_at = None
    activation.ended_at, activation.ended_seq = at, seq


def _stop_waiting(state: State, activation: Activation) -> None:
    wait = activation.wait
    if wait is None:
        return
    activation.wait = None
    if wait.kind in ("timer", "delay"):
        clear_timer(state, timer_name(state, wait.kind if wait.kind == "delay" else "wait", activation))
    elif wait.kind == "signal":
        rest = [key for key in state.signal_waits.get(wait.name, ()) if key != activation.key]
        state.put(state.signal_waits, wait.name, rest)
        clear_timer(state, timer_name(state, "wait", activation))
    elif wait.kind == "approval":
        clear_timer(state, timer_name(state, "approval", activation))
        approval = state.approvals.get(wait.name)
        if approval is not None and approval.state == "pending":
            state.edit(approval)
            approval.state = "decided"


def _succeed(state: State, activation: Activation, event: e.NodeCompleted | e.ItemCompleted) -> None:
    activation.output, activation.output_ref, activation.size = event.output, event.output_ref, event.size
    activation.error, activation.reason = None, ""
    if event.started_at is not None:
        activation.started_at = event.started_at
    if event.worker:
        activation.worker = event.worker
    state.bytes += event.size
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.COMPLETED)
    if state.pinned(activation).compensator is not None or activation.child:
        state.push(state.undoable, activation.key)


def _node_completed(state: State, event: e.NodeCompleted) -> None:
    activation = _get(state, event)
    if event.adopted:
        fire(state, activation)
        activation.scheduled_seq = event.seq
        activation.routed = True
    _succeed(state, activation, event)
    activation.choice = event.choice
    if event.route is not None:
        take_route(state, activation, event.route)


def _node_routed(state: State, event: e.NodeRouted) -> None:
    activation = _get(state, event)
    if activation.state is N.PARKED:
        activation.error = None
        set_state(state, activation, N.COMPLETED)
    take_route(state, activation, event.route, ERROR if activation.state is N.FAILED else TAKEN)


def _node_failed(state: State, event: e.NodeFailed) -> None:
    activation = _get(state, event)
    fire(state, activation)
    activation.error = event.error
    activation.handled = event.outcome in ("absorbed", "continue", "path")
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.FAILED)
    if event.outcome == "absorbed":
        fail_edges(state, activation)
    elif activation.handled:
        activation.output = event.error.as_output()
        if event.route is not None:
            take_route(state, activation, event.route, ERROR)


def _node_upstream_failed(state: State, event: e.NodeUpstreamFailed) -> None:
    activation = _get(state, event)
    fire(state, activation)
    activation.error = event.error
    activation.handled = event.outcome == "absorbed"
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.UPSTREAM_FAILED)
    if activation.handled:
        fail_edges(state, activation)


def _node_retrying(state: State, event: e.NodeRetrying) -> None:
    activation = _get(state, event)
    activation.failures += 1
    activation.error, activation.retry_at = event.error, event.retry_at
    _stop_waiting(state, activation)
    clear_timer(state, timer_name(state, "queue", activation))
    set_state(state, activation, N.RETRYING)
    name = timer_name(state, "retry", activation)
    set_timer(state, name, Timer(event.retry_at, "retry", activation.key, activation.attempt))


def _node_skipped(state: State, event: e.NodeSkipped) -> None:
    _skip(state, event, event)


def _nodes_skipped(state: State, event: e.NodesSkipped) -> None:
    for place in event.places:
        _skip(state, event, place)


def _skip(state: State, event: e.Event, place: e.NodeSkipped | e.Place) -> None:
    skip(state, _get(state, place), event.seq, event.at)


def skip(state: State, activation: Activation, seq: int, at: float) -> None:
    fire(state, activation)
    _finish(state, activation, seq, at)
    set_state(state, activation, N.SKIPPED)
    if activation.item < 0:
        resolve_all(state, activation, SKIPPED)
    else:
        _count_item(state, activation, failed=False)


def _node_waiting(state: State, event: e.NodeWaiting) -> None:
    activation = _get(state, event)
    wait = event.wait
    _ready(state, activation, event)
    clear_timer(state, timer_name(state, "queue", activation))
    activation.wait = wait
    activation.started_at = event.at if wait.kind != "delay" else None
    set_state(state, activation, N.WAITING)
    if wait.kind == "signal":
        state.put(state.signal_waits, wait.name, [*state.signal_waits.get(wait.name, ()), activation.key])
    if wait.until is not None and wait.kind in ("timer", "delay", "signal"):
        kind: Any = "delay" if wait.kind == "delay" else "wait"
        set_timer(state, timer_name(state, kind, activation), Timer(wait.until, kind, activation.key))
    if wait.kind == "items":
        activation.items_started = 0
        activation.items_completed = activation.items_failed = 0
        for item in range(wait.count):
            done = state.activations.get((activation.node, activation.scope, item))
            if done is None:
                continue
            if done.state in (N.FAILED, N.CANCELLED):  # the map is tried again: what failed, or was cut off, runs again
                make_ready(state, state.edit(done))
            elif done.state in (N.COMPLETED, N.COMPENSATED, N.SKIPPED):
                activation.items_completed += 1


def _node_resumed(state: State, event: e.NodeResumed) -> None:
    """A wait is over. What follows (completion, failure, scheduling) has its own event."""
    activation = _get(state, event)
    wait = activation.wait
    if wait is not None and wait.kind == "signal":
        taken = next((i for i, signal in enumerate(state.signals) if signal[1] == wait.name), None)
        if taken is not None:
            state.signals = state.signals[:taken] + state.signals[taken + 1 :]


def _node_parked(state: State, event: e.NodeParked) -> None:
    activation = _get(state, event)
    if event.undo:
        _undo(state, activation).state = "parked"
        return
    fire(state, activation)
    activation.error = event.error
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.PARKED)


def _node_requeued(state: State, event: e.NodeRequeued) -> None:
    activation = _get(state, event)
    if event.undo:
        undo = _undo(state, activation)
        undo.state, undo.failures = "planned", 0
        return
    activation.failures = activation.crashes = 0
    activation.error, activation.reason = None, "requeued"
    if event.config is not None:
        activation.config = event.config
    set_state(state, activation, N.HELD)


def _node_discarded(state: State, event: e.NodeDiscarded) -> None:
    activation = _get(state, event)
    if event.undo:
        _undo(state, activation).state = "done"
        _planned_done(state, activation)
        return
    activation.reason = f"discarded as {event.as_}"


def _node_cancelled(state: State, event: e.NodeCancelled) -> None:
    _cancel(state, event, event, event.reason)


def _nodes_cancelled(state: State, event: e.NodesCancelled) -> None:
    for place in event.places:
        _cancel(state, event, place, event.reason)


def _cancel(state: State, event: e.Event, place: e.NodeCancelled | e.Place, reason: str) -> None:
    activation = _get(state, place)
    state.tokens -= activation.tokens
    activation.tokens = 0
    activation.reason = reason
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.CANCELLED)
    if reason == "join" and activation.item < 0:
        activation.fired = True
        resolve_all(state, activation, SKIPPED)


# -- compensation ------------------------------------------------------------------------------------------------------


def _undo(state: State, activation: Activation) -> Undo:
    if activation.undo is None:
        raise IntegrityError(f"run {state.run_id}: {state.name(activation.node)} is not being compensated")
    undo: Undo = state.edit(activation.undo)
    return undo


def _node_compensating(state: State, event: e.NodeCompensating) -> None:
    activation = _get(state, event)
    undo = _undo(state, activation)
    name = timer_name(state, "undo", activation)
    if event.retry_at is not None:
        undo.state, undo.failures = "retrying", undo.failures + 1
        set_timer(state, name, Timer(event.retry_at, "undo", activation.key, event.attempt))
        return
    clear_timer(state, name)
    undo.state, undo.attempt = "queued", event.attempt


def _node_compensated(state: State, event: e.NodeCompensated) -> None:
    activation = _get(state, event)
    _undo(state, activation).state = "done"
    activation.undone += 1
    set_state(state, activation, N.COMPENSATED)
    _planned_done(state, activation)


def _planned_done(state: State, activation: Activation) -> None:
    clear_timer(state, timer_name(state, "undo", activation))
    if not state.plan or state.plan[-1] != activation.key:
        raise IntegrityError(f"run {state.run_id}: compensation out of order (rule 34)")
    state.pull(state.plan)
    if state.undoable and state.undoable[-1] == activation.key:
        state.pull(state.undoable)
    else:
        state.undoable = [key for key in state.undoable if key != activation.key]
    state.undoing -= 1


# -- loops -------------------------------------------------------------------------------------------------------------


def _loop_advanced(state: State, event: e.LoopAdvanced) -> None:
    run = state.loops[(state.index(event.node), event.scope)]
    if event.iteration != run.iteration + 1:
        raise IntegrityError(
            f"run {state.run_id}: loop {event.node} goes from {run.iteration} to {event.iteration} (E7)"
        )
    if run.cause is None:
        raise IntegrityError(f"run {state.run_id}: loop {event.node} goes on without a cause")
    hop = state.activations[run.cause].hop
    state.edit(run)
    drop_members(state, run)
    run.iteration, run.status, run.cause = event.iteration, "open", None
    if not run.scope:
        run.ir = len(state.irs) - 1
    head = state.edit(head_of(state, run))
    head.hop = max(head.hop, hop + 1)


def _loop_ended(state: State, event: e.LoopEnded) -> None:
    run = state.loops[(state.index(event.node), event.scope)]
    state.edit(run)
    run.cause = None
    if event.reason == "skipped":
        run.status = "draining"
    else:
        drop_members(state, run)
        run.status = "ended"
    resolve_exits(state, run, event.taken, event.failed)


# -- waits -------------------------------------------------------------------------------------------------------------


def _approval_requested(state: State, event: e.ApprovalRequested) -> None:
    activation = _get(state, event)
    approval = Approval(
        key=activation.key,
        approvers=event.approvers,
        quorum=event.quorum,
        on_timeout=event.on_timeout,
        escalate_to=event.escalate_to,
        requested_at=event.at,
        expires_at=event.expires_at,
        shown=event.shown,
    )
    state.put(state.approvals, event.approval, approval)
    _set_expiry(state, activation, event.expires_at)


def _set_expiry(state: State, activation: Activation, expires_at: float | None) -> None:
    if expires_at is not None:
        set_timer(state, timer_name(state, "approval", activation), Timer(expires_at, "approval", activation.key))


def _approval_voted(state: State, event: e.ApprovalVoted) -> None:
    approval = state.edit(state.approvals[event.approval])
    state.put(approval.votes, event.by, event.decision)
    approval.comments, approval.data = event.comments, event.data


def _approval_decided(state: State, event: e.ApprovalDecided) -> None:
    approval = state.edit(state.approvals[event.approval])
    if approval.state != "pending":
        raise IntegrityError(f"run {state.run_id}: approval {event.approval} was decided already (W2)")
    approval.state = "decided"
    clear_timer(state, timer_name(state, "approval", _get(state, event)))


def _approval_escalated(state: State, event: e.ApprovalEscalated) -> None:
    approval = state.edit(state.approvals[event.approval])
    approval.approvers, approval.expires_at, approval.escalated = event.approvers, event.expires_at, True
    if event.approvers:  # fewer people than the quorum could never approve
        approval.quorum = min(approval.quorum, len(event.approvers))
    _set_expiry(state, _get(state, event), event.expires_at)


def _timer_set(state: State, event: e.TimerSet) -> None:
    set_timer(state, event.timer, Timer(event.due_at, "grace" if event.timer == "grace" else "wait"))


def _timer_fired(state: State, event: e.TimerFired) -> None:
    if event.timer not in state.timers:
        raise IntegrityError(f"run {state.run_id}: timer {event.timer} fired without being set (W1)")
    clear_timer(state, event.timer)


def _child_started(state: State, event: e.ChildStarted) -> None:
    activation = _get(state, event)
    activation.child, activation.child_workflow, activation.child_inputs = event.child, event.workflow, event.inputs
    state.put(state.children, event.child, activation.key)


def _child_ended(state: State, event: e.ChildEnded) -> None:
    _get(state, event).child_generation = event.generation


def _item_completed(state: State, event: e.ItemCompleted) -> None:
    activation = _get(state, event)
    _succeed(state, activation, event)
    activation.routed = True
    _count_item(state, activation, failed=False)


def _item_failed(state: State, event: e.ItemFailed) -> None:
    activation = _get(state, event)
    activation.error, activation.output = event.error, event.error.as_output()
    _finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.FAILED)
    _count_item(state, activation, failed=True)


def _count_item(state: State, item: Activation, *, failed: bool) -> None:
    owner = state.edit(ensure(state, item.node, item.scope))
    owner.items_failed += failed
    owner.items_completed += not failed


# -- streams, triggers, audit ------------------------------------------------------------------------------------------


def _stream_opened(state: State, event: e.StreamOpened) -> None:
    state.put(state.streams, f"{event.node}.{event.port}", event.seq)


def _stream_closed(state: State, event: e.StreamClosed) -> None:
    state.drop(state.streams, f"{event.node}.{event.port}")


def _trigger_registered(state: State, event: e.TriggerRegistered) -> None:
    if event.node not in state.triggers:
        state.put(state.triggers, event.node, "")


def _trigger_advanced(state: State, event: e.TriggerAdvanced) -> None:
    state.put(state.triggers, event.node, event.cursor)


def _nothing(state: State, event: e.Event) -> None:
    """A fact that is recorded and changes nothing a decision depends on."""


def _result_ignored(state: State, event: e.ResultIgnored) -> None:
    _get(state, event).ignored = event.attempt


_HANDLERS: dict[type[e.Event], Callable[[State, Any], None]] = {
    e.RunCreated: _run_created,
    e.RunPaused: _run_paused,
    e.RunResumed: _run_resumed,
    e.RunFailing: _run_failing,
    e.RunFailed: _run_failed,
    e.RunCancelling: _run_cancelling,
    e.RunCancelled: _run_cancelled,
    e.RunCompensating: _run_compensating,
    e.RunRolledBack: _run_rolled_back,
    e.RunCompleted: _run_completed,
    e.RunRetried: _run_retried,
    e.RunPatched: _run_patched,
    e.RunSignalled: _run_signalled,
    e.NodeScheduled: _node_scheduled,
    e.NodesScheduled: _nodes_scheduled,
    e.NodeStarted: _node_started,
    e.NodeCheckpointed: _node_checkpointed,
    e.NodeCompleted: _node_completed,
    e.NodeRouted: _node_routed,
    e.NodeFailed: _node_failed,
    e.NodeRetrying: _node_retrying,
    e.NodeSkipped: _node_skipped,
    e.NodesSkipped: _nodes_skipped,
    e.NodeUpstreamFailed: _node_upstream_failed,
    e.NodeHeld: _node_held,
    e.NodesHeld: _nodes_held,
    e.NodeWaiting: _node_waiting,
    e.NodeResumed: _node_resumed,
    e.NodeParked: _node_parked,
    e.NodeRequeued: _node_requeued,
    e.NodeDiscarded: _node_discarded,
    e.NodeCancelled: _node_cancelled,
    e.NodesCancelled: _nodes_cancelled,
    e.NodeCompensating: _node_compensating,
    e.NodeCompensated: _node_compensated,
    e.LoopAdvanced: _loop_advanced,
    e.LoopEnded: _loop_ended,
    e.ApprovalRequested: _approval_requested,
    e.ApprovalVoted: _approval_voted,
    e.ApprovalDecided: _approval_decided,
    e.ApprovalEscalated: _approval_escalated,
    e.TimerSet: _timer_set,
    e.TimerFired: _timer_fired,
    e.ChildStarted: _child_started,
    e.ChildEnded: _child_ended,
    e.ItemCompleted: _item_completed,
    e.ItemFailed: _item_failed,
    e.StreamOpened: _stream_opened,
    e.StreamClosed: _stream_closed,
    e.TriggerRegistered: _trigger_registered,
    e.TriggerReceived: _nothing,
    e.TriggerAdvanced: _trigger_advanced,
    e.LimitReached: _nothing,
    e.ResultIgnored: _result_ignored,
}

if missing := set(e.TYPES.values()) - set(_HANDLERS):
    raise NotImplementedError(f"events without a rule: {sorted(cls.__name__ for cls in missing)}")
