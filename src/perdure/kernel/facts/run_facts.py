"""What events about a whole run do to its state."""

from __future__ import annotations

import msgspec

from perdure.kernel import events as e
from perdure.kernel.edges import clear_timer, set_timer, touch_entries
from perdure.kernel.facts.fold_rules import close_open, folds, get, set_run_state
from perdure.kernel.generations import reopen
from perdure.kernel.lifecycle import IntegrityError, R, RunState
from perdure.kernel.patches import install
from perdure.kernel.signal_lines import join
from perdure.kernel.state import State, Timer
from perdure.kernel.values import Money, Undo
from perdure.model.money import Budget


@folds(e.RunCreated)
def _run_created(state: State, event: e.RunCreated) -> None:
    if event.ir not in state.library:
        raise IntegrityError(f"run {event.run_id}: its IR {event.ir} is not at hand")
    state.run_id, state.workflow, state.workflow_version = event.run_id, event.workflow, event.workflow_version
    state.tenant, state.tags, state.inputs, state.by = event.tenant, event.tags, event.inputs, event.by
    state.parent, state.origin, state.overrides = event.parent, event.origin, event.overrides
    state.submitted_by, state.alias, state.correlation_id = event.by, event.alias, event.correlation_id
    state.created_at, state.imported, state.depth = event.at, event.imported, event.depth
    state.generation, state.sealed_for, state.asked_by = event.generation, event.sealed_for, event.asked_by
    state.trigger = event.trigger
    if event.budget is not None:  # of runs without one all have the same
        state.money = Money(budget=event.budget)
    if event.heard is not None:
        state.heard, state.heard_since = dict(event.heard.last), event.heard.since
    before = enumerate(event.signals_seen, -len(event.signals_seen))
    state.signals_seen = {name: number for number, name in before}  # older than any signal of this run, in order
    state.irs, state.ir_hashes = [state.library[event.ir]], [event.ir]
    state.streaming = state.ir.streams
    state.deadline_seconds = event.deadline_seconds
    if event.deadline_seconds is None and event.deadline_at is not None:
        state.deadline_seconds = event.deadline_at - event.at
    _set_deadline(state, event.deadline_at)
    touch_entries(state)


def _set_deadline(state: State, deadline_at: float | None) -> None:
    state.deadline_at = deadline_at
    if deadline_at is not None:
        set_timer(state, "deadline", Timer(deadline_at, "deadline"))


def _set_budget(state: State, budget: Budget | None) -> None:
    if budget is not None:
        state.money = msgspec.structs.replace(state.money, budget=budget)


@folds(e.RunPaused)
def _run_paused(state: State, event: e.RunPaused) -> None:
    if state.state is not R.PAUSED:
        state.pauses = {}
    state.put(state.pauses, event.reason, event.by)
    set_run_state(state, R.PAUSED)


@folds(e.RunResumed)
def _run_resumed(state: State, event: e.RunResumed) -> None:
    _set_budget(state, event.budget)
    if event.left:  # one of several pauses is over
        state.drop(state.pauses, event.reason)
        return
    state.pauses = {}
    for box in state.triggers.values():
        if box.missed is not None:
            state.edit(box).missed = None
    set_run_state(state, R.RUNNING)


@folds(e.RunFailing)
def _run_failing(state: State, event: e.RunFailing) -> None:
    set_run_state(state, R.FAILING)
    state.error, state.failed_node, state.ending = event.error, event.node, "failed"


@folds(e.RunCancelling)
def _run_cancelling(state: State, event: e.RunCancelling) -> None:
    set_run_state(state, R.CANCELLING)
    state.ending, state.by, state.orphaned = "cancelled", event.by, event.orphaned
    if event.grace_until is not None:
        set_timer(state, "grace", Timer(event.grace_until, "grace"))


@folds(e.RunFailed)
def _run_failed(state: State, event: e.RunFailed) -> None:
    _end(state, event, R.FAILED)
    state.error = event.error


@folds(e.RunCancelled)
def _run_cancelled(state: State, event: e.RunCancelled) -> None:
    _end(state, event, R.CANCELLED)


@folds(e.RunRolledBack)
def _run_rolled_back(state: State, event: e.RunRolledBack) -> None:
    _end(state, event, R.ROLLED_BACK)


@folds(e.RunCompleted)
def _run_completed(state: State, event: e.RunCompleted) -> None:
    if event.continued_as is None and state.counter:
        raise IntegrityError(f"run {state.run_id} completes while its counter is {state.counter} (R1)")
    _end(state, event, R.COMPLETED)
    state.outputs, state.outputs_ref, state.continued_as = event.outputs, event.outputs_ref, event.continued_as


def _end(state: State, event: e.Event, new: RunState) -> None:
    """End the run: its terminal event closes everything open and sets the counter to zero (rule 43)."""
    set_run_state(state, new)
    close_open(state)
    for name in list(state.timers):
        clear_timer(state, name)
    state.tokens = state.undoing = 0
    state.plan, state.ending = [], ""
    state.ended_at = event.at


@folds(e.RunCompensating)
def _run_compensating(state: State, event: e.RunCompensating) -> None:
    set_run_state(state, R.COMPENSATING)
    close_open(state)
    for name in list(state.timers):
        clear_timer(state, name)
    state.tokens = 0
    state.generation, state.ending = event.generation, event.ends
    state.plan = []
    for place in reversed(event.plan):
        activation = get(state, place)
        before = activation.undo
        activation.undo = Undo(attempt=0 if before is None else before.attempt)  # attempts never fall (V1)
        state.plan.append(activation.key)
    state.undoing = len(state.plan)


@folds(e.RunRetried)
def _run_retried(state: State, event: e.RunRetried) -> None:
    set_run_state(state, R.RUNNING)
    state.generation, state.orphaned = event.generation, False
    reopen(state)
    state.error = state.failed_node = state.ended_at = None
    state.ending = ""
    _set_deadline(state, event.deadline_at)
    _set_budget(state, event.budget)


@folds(e.RunPatched)
def _run_patched(state: State, event: e.RunPatched) -> None:
    install(state, event.ir, mends=event.mends)


@folds(e.RunUndelivered)
def _run_undelivered(state: State, event: e.RunUndelivered) -> None:
    state.error = event.error


@folds(e.RunSignalled)
def _run_signalled(state: State, event: e.RunSignalled) -> None:
    if event.signal:
        state.put(state.signals_seen, event.signal, event.seq)
    join(state, state.unconsumed, event.name, (event.seq, event.payload))
    state.unconsumed_count += 1
