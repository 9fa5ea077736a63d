"""What the events of loops do to the state."""

from __future__ import annotations

from perdure.kernel import events as e
from perdure.kernel.edges import drop_members, head_of, resolve_exits
from perdure.kernel.facts.fold_rules import folds
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State


@folds(e.LoopAdvanced)
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
    if not run.scope and run.ir != len(state.irs) - 1:
        run.before, run.ir = (*run.before, (run.iteration, run.ir)), len(state.irs) - 1
    run.iteration, run.status, run.cause = event.iteration, "open", None
    head = state.edit(head_of(state, run))
    head.hop = max(head.hop, hop + 1)


@folds(e.LoopEnded)
def _loop_ended(state: State, event: e.LoopEnded) -> None:
    run = state.loops[(state.index(event.node), event.scope)]
    state.edit(run)
    run.cause, run.ended_seq = None, event.seq
    if event.reason == "skipped":
        run.status = "draining"
    else:
        drop_members(state, run)
        run.status = "ended"
    resolve_exits(state, run, event.taken, event.failed)
