"""What events about activations do to the state: scheduled, held, started, ended, parked, cancelled."""

from __future__ import annotations

from typing import Any

from perdure.kernel import events as e
from perdure.kernel.causal_past import may_wait
from perdure.kernel.edges import (
    clear_timer,
    ensure,
    fail_edges,
    fire,
    follow_route,
    resolve_all,
    set_state,
    set_timer,
    timer_name,
    unfix,
)
from perdure.kernel.facts.ask_facts import begin_asks, keep_answer
from perdure.kernel.facts.fold_rules import (
    began,
    count_item,
    finish,
    folds,
    get,
    planned_done,
    stop_waiting,
    succeed,
    undo_of,
)
from perdure.kernel.facts.money_facts import lose, release, reserve, settle
from perdure.kernel.generations import make_ready
from perdure.kernel.lifecycle import ERROR, SKIPPED, TAKEN, IntegrityError, N
from perdure.kernel.lost_races import find_lost, find_winners
from perdure.kernel.segments import BlobRef
from perdure.kernel.signal_lines import join, take_signal
from perdure.kernel.state import Activation, State, Timer
from perdure.kernel.streams.stream_readers import forget_old
from perdure.kernel.values import Reserved, heard_as, with_data, with_step

_REF_BYTES = 128
"""What a reference takes in the journal, generously."""

_OUT = (N.QUEUED, N.RUNNING)


@folds(e.NodeScheduled)
def _node_scheduled(state: State, event: e.NodeScheduled) -> None:
    _schedule(state, event, event, event.after)
    _count_crash(state, event)


def _count_idle(activation: Activation, after: str) -> None:
    """Count an attempt that ended without an outcome, unless its worker died: that one counts as a try."""
    if activation.state in _OUT and after != "crashed":
        activation.idle += 1


def _count_crash(state: State, event: e.NodeScheduled | e.NodeHeld) -> None:
    if event.after == "crashed":
        get(state, event).crashes += 1


@folds(e.NodesScheduled)
def _nodes_scheduled(state: State, event: e.NodesScheduled) -> None:
    for place in event.places:
        _schedule(state, event, place)


def _schedule(state: State, event: e.Event, place: e.NodeScheduled | e.Place, after: str = "") -> None:
    activation = get(state, place)
    if place.attempt <= activation.attempt:
        raise IntegrityError(f"run {state.run_id}: attempt {place.attempt} of {place.node} is not new (V1)")
    _count_idle(activation, after)
    _ready(state, activation, event)
    activation.scheduled_seq = activation.scheduled_seq or event.seq
    if activation.retry_at is not None:
        clear_timer(state, timer_name(state, "retry", activation))
        activation.retry_at = None
    if activation.wait is not None:
        stop_waiting(state, activation)
    if activation.reserved is not None:
        lose(state, activation)
    if activation.cursors is not None:
        forget_old(state, activation)
    activation.attempt, activation.begun, activation.started_at = place.attempt, False, None
    activation.ask = ""
    activation.checkpoints = 0
    activation.reason, activation.detail, activation.scheduled_at, activation.worker = "", "", event.at, ""
    set_state(state, activation, N.QUEUED)
    node = state.pinned(activation)
    if node.queue_timeout_seconds is not None:
        due_at = event.at + node.queue_timeout_seconds
        name = timer_name(state, "queue", activation)
        set_timer(state, name, Timer(due_at, "queue", activation.key, place.attempt))
    if node.total_timeout_seconds is not None and (name := timer_name(state, "total", activation)) not in state.timers:
        left = node.total_timeout_seconds if activation.total_left is None else activation.total_left
        activation.total_left = None
        set_timer(state, name, Timer(event.at + left, "total", activation.key))


def _ready(state: State, activation: Activation, event: e.Event) -> None:
    """Fix the inputs and the pinned definition of an activation whose join fired."""
    if not activation.fired:
        activation.ir = max(activation.ir, state.iteration_ir(activation.scope, activation.node))  # it may be mended
        fire(state, activation)
        activation.scheduled_seq = event.seq
    activation.guarded = True
    if activation.item >= 0:
        owner = state.edit(ensure(state, activation.node, activation.scope))
        activation.visit, activation.hop, activation.ir = owner.visit, owner.hop, owner.ir
        owner.items_started = max(owner.items_started, activation.item + 1)


@folds(e.NodeHeld)
def _node_held(state: State, event: e.NodeHeld) -> None:
    _hold_back(state, event, event, event.reason, event.after)
    activation = get(state, event)
    activation.detail = event.detail
    if event.wants is not None:
        activation.wants = event.wants
        state.put(state.short, activation.key, None)
    if event.unbegun:
        activation.begun, activation.ask, activation.started_at = False, "", None
    _count_crash(state, event)


@folds(e.NodesHeld)
def _nodes_held(state: State, event: e.NodesHeld) -> None:
    for place in event.places:
        _hold_back(state, event, place, event.reason)


def _hold_back(state: State, event: e.Event, place: e.NodeHeld | e.Place, reason: str, after: str = "") -> None:
    activation = get(state, place)
    _count_idle(activation, after)
    guarded = activation.guarded
    _ready(state, activation, event)
    if reason == "redo":  # what it and its `when` will see is not there yet
        activation.guarded = guarded
        unfix(activation)
    if activation.retry_at is not None:
        clear_timer(state, timer_name(state, "retry", activation))
        activation.retry_at = None
    stop_waiting(state, activation)
    clear_timer(state, timer_name(state, "queue", activation))
    activation.reason = reason
    if reason == "stream":
        state.put(state.unfed, activation.key, None)
    if reason != "stream" or activation.state is not N.HELD:  # it may have been held for another reason until now
        set_state(state, activation, N.HELD)
    _look(state, activation)


def _look(state: State, activation: Activation) -> None:
    """Have the next decision check whether the activation waits for work done again; the first generation has none."""
    if state.generation > 1 and may_wait(activation):
        state.put(state.loose, activation.key, None)


@folds(e.NodeStarted)
def _node_started(state: State, event: e.NodeStarted) -> None:
    activation = get(state, event)
    if event.undo:
        undo = undo_of(state, activation)
        undo.state, undo.started_at = "running", event.at
        return
    activation.begun, activation.worker, activation.ask = True, event.worker, event.ask
    began(state, activation, event.at)
    clear_timer(state, timer_name(state, "queue", activation))
    set_state(state, activation, N.RUNNING)


@folds(e.NodeCheckpointed)
def _node_checkpointed(state: State, event: e.NodeCheckpointed) -> None:
    activation = get(state, event)
    activation.checkpoints = max(activation.checkpoints, event.number)
    state.kept += event.size
    if event.step:
        activation.kept += _REF_BYTES + len(event.step) if type(event.data) is BlobRef else event.size
        activation.checkpoint = with_step(activation.checkpoint, event.step, event.data)
        if activation.begun_steps and event.step in activation.begun_steps:
            end_step(activation, event.step)
        if event.version == 2:
            keep_answer(state, activation, event)
        elif event.signal:
            take_signal(state, event.signal)
        if event.usage is not None:
            settle(state, activation, event.step, event.usage)
    else:
        activation.checkpoint = with_data(activation.checkpoint, event.data) if event.number else event.data
        activation.cursors = event.cursors


@folds(e.StepStarted)
def _step_started(state: State, event: e.StepStarted) -> None:
    activation = get(state, event)
    if event.step in (activation.begun_steps or {}) or event.step in (activation.reserved or {}):
        raise IntegrityError(f"run {state.run_id}: step {event.step} of {event.node} begins twice (V10)")
    if event.effect == "at_most_once":
        activation.begun_steps = {**(activation.begun_steps or {}), event.step: event.wish}
    if event.reserve is not None:
        reserve(state, activation, event.step, Reserved(event.wish, event.reserve, event.model))


@folds(e.StepReleased)
def _step_released(state: State, event: e.StepReleased) -> None:
    activation = get(state, event)
    end_step(activation, event.step)
    release(state, activation, event.step)


def end_step(activation: Activation, step: str) -> None:
    """Let a step be over that had begun: it has its result, or certainly did not happen."""
    left = {name: wish for name, wish in (activation.begun_steps or {}).items() if name != step}
    activation.begun_steps = left or None


@folds(e.NodeCompleted)
def _node_completed(state: State, event: e.NodeCompleted) -> None:
    activation = get(state, event)
    if event.adopted:
        fire(state, activation)
        activation.scheduled_seq = event.seq
        activation.routed = True
    succeed(state, activation, event)
    if activation.flow is not None and activation.flow.by != event.attempt:
        activation.flow = None  # of an attempt before, which was undone; this one has yielded nothing
    activation.choice, activation.renews = event.choice, event.renews
    activation.rejected = activation.rejected or event.rejected
    if event.route is not None:
        follow_route(state, activation, event.route)
    else:
        _look(state, activation)


@folds(e.NodeRouted)
def _node_routed(state: State, event: e.NodeRouted) -> None:
    activation = get(state, event)
    activation.scheduled_seq = activation.scheduled_seq or event.seq
    if activation.state is N.PARKED:
        activation.error, activation.accepted = None, False
        set_state(state, activation, N.COMPLETED)
    follow_route(state, activation, event.route, ERROR if activation.state is N.FAILED else TAKEN)


@folds(e.NodeFailed)
def _node_failed(state: State, event: e.NodeFailed) -> None:
    activation = get(state, event)
    if activation.state is N.COMPLETED and activation.routed:
        raise IntegrityError(f"run {state.run_id}: {event.node} failed after its outcome had gone on (V3)")
    fire(state, activation)
    began(state, activation, event.started_at)
    activation.error = event.error
    activation.handled = event.outcome in ("absorbed", "continue", "path")
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.FAILED)
    if event.outcome == "absorbed":
        fail_edges(state, activation)
    elif activation.handled:
        activation.output, activation.output_ref = event.error.as_output(), None
        if event.route is not None:
            follow_route(state, activation, event.route, ERROR)


@folds(e.NodeUpstreamFailed)
def _node_upstream_failed(state: State, event: e.NodeUpstreamFailed) -> None:
    activation = get(state, event)
    fire(state, activation)
    activation.error = event.error
    activation.handled = event.outcome == "absorbed"
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.UPSTREAM_FAILED)
    if activation.handled:
        fail_edges(state, activation)


@folds(e.NodeRetrying)
def _node_retrying(state: State, event: e.NodeRetrying) -> None:
    activation = get(state, event)
    activation.failures += 1
    began(state, activation, event.started_at)
    activation.error, activation.retry_at = event.error, event.retry_at
    stop_waiting(state, activation)
    clear_timer(state, timer_name(state, "queue", activation))
    set_state(state, activation, N.RETRYING)
    name = timer_name(state, "retry", activation)
    set_timer(state, name, Timer(event.retry_at, "retry", activation.key, activation.attempt))


@folds(e.NodeSkipped)
def _node_skipped(state: State, event: e.NodeSkipped) -> None:
    _skip(state, event, event)


@folds(e.NodesSkipped)
def _nodes_skipped(state: State, event: e.NodesSkipped) -> None:
    for place in event.places:
        _skip(state, event, place)


def _skip(state: State, event: e.Event, place: e.NodeSkipped | e.Place) -> None:
    skip(state, get(state, place), event.seq, event.at)


def skip(state: State, activation: Activation, seq: int, at: float) -> None:
    activation.lost = find_lost(state, activation)
    fire(state, activation)
    finish(state, activation, seq, at)
    set_state(state, activation, N.SKIPPED)
    if activation.item < 0:
        resolve_all(state, activation, SKIPPED)
    else:
        count_item(state, activation, failed=False)


@folds(e.NodeWaiting)
def _node_waiting(state: State, event: e.NodeWaiting) -> None:
    activation = get(state, event)
    wait = event.wait
    _ready(state, activation, event)
    clear_timer(state, timer_name(state, "queue", activation))
    if activation.retry_at is not None:
        clear_timer(state, timer_name(state, "retry", activation))
        activation.retry_at = None
    activation.wait = wait
    if wait.kind == "delay":
        activation.started_at = None
    else:
        began(state, activation, event.at)
    set_state(state, activation, N.WAITING)
    if wait.kind == "asks":
        begin_asks(state, activation, event)
    elif wait.kind == "signal":
        join(state, state.signal_waits, wait.name, (activation.key, wait))
    if wait.until is not None and wait.kind in ("timer", "delay", "signal", "event"):
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


@folds(e.NodeResumed)
def _node_resumed(state: State, event: e.NodeResumed) -> None:
    """End a wait. What follows (completion, failure, scheduling) has its own event."""
    activation = get(state, event)
    wait = activation.wait
    if wait is not None and wait.kind == "signal" and wait.name in state.unconsumed:
        take_signal(state, wait.name)
    elif wait is not None and wait.kind == "event":
        state.put(state.heard, heard_as(event.node, activation.item, wait), event.position)


@folds(e.NodeParked)
def _node_parked(state: State, event: e.NodeParked) -> None:
    activation = get(state, event)
    if event.undo:
        undo = undo_of(state, activation)
        undo.state, undo.error = "parked", event.error
        return
    fire(state, activation)
    began(state, activation, event.started_at)
    activation.error = event.error
    activation.accepted = activation.state is N.COMPLETED and not event.failed
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.PARKED)


@folds(e.NodeRequeued)
def _node_requeued(state: State, event: e.NodeRequeued) -> None:
    activation = get(state, event)
    if event.undo:
        undo = undo_of(state, activation)
        undo.state, undo.failures, undo.error = "planned", 0, None
        return
    accepted = activation.accepted  # it is done (R7), and waits to be routed
    activation.failures = activation.crashes = 0
    activation.begun_steps = None  # a person says that they may begin again
    activation.error, activation.reason, activation.accepted = None, "" if accepted else "requeued", False
    if event.config is not None:
        activation.config = event.config
    set_state(state, activation, N.COMPLETED if accepted else N.HELD)
    _look(state, activation)


@folds(e.NodeDiscarded)
def _node_discarded(state: State, event: e.NodeDiscarded) -> None:
    activation = get(state, event)
    if event.undo:
        undo_of(state, activation).state = "done"
        planned_done(state, activation)
        return
    activation.reason = f"discarded as {event.as_}"


@folds(e.NodeCancelled)
def _node_cancelled(state: State, event: e.NodeCancelled) -> None:
    _cancel(state, event, event, event.reason)


@folds(e.NodesCancelled)
def _nodes_cancelled(state: State, event: e.NodesCancelled) -> None:
    for place in event.places:
        _cancel(state, event, place, event.reason)


def _cancel(state: State, event: e.Event, place: e.NodeCancelled | e.Place, reason: str) -> None:
    activation = get(state, place)
    state.tokens -= activation.tokens
    activation.tokens = 0
    activation.reason = reason
    finish(state, activation, event.seq, event.at)
    set_state(state, activation, N.CANCELLED)
    if reason == "join" and activation.item < 0:
        activation.fired = True
        activation.lost = find_winners(state, activation)
        resolve_all(state, activation, SKIPPED)
