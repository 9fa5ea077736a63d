"""What a change would do to a run before it is asked for: which nodes run again, keep their results, are undone or
stopped, or why it is not possible. The kernel is asked as it would be for the change itself; the state stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel import reruns
from perdure.kernel.compensation import plan_of
from perdure.kernel.decide import decide
from perdure.kernel.evolve import apply
from perdure.kernel.guards import topological
from perdure.kernel.lifecycle import OPEN, N, NodeState, R, RunState
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.state import State
from perdure.model.ir import IR


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    code: str = ""
    why_not: str = ""
    """Why the change is refused; empty if it is possible."""
    state: str = ""
    """The state of the run after the change; of a rerun, that of the new run."""
    again: tuple[str, ...] = ()
    """The nodes that run again, or for the first time, where the way of the run leads to them."""
    kept: tuple[str, ...] = ()
    """The nodes that keep their results."""
    undo: tuple[str, ...] = ()
    """The nodes that are compensated, in this order."""
    stops: tuple[str, ...] = ()
    """The nodes that have begun and do not go on."""


def preview(state: State, command: c.Command) -> Preview:
    """What this command would do. A condition that is still to be evaluated leaves open where the run goes, not whether
    the command is accepted."""
    answer = decide(state, command)
    if isinstance(answer, c.Refused):
        return Preview(code=answer.code, why_not=answer.message, state=state.state.value)
    if isinstance(answer, c.Ruling) and not answer.events:
        why = f"run {state.run_id} is {state.state} already; this would change nothing"
        return Preview(code="no_change", why_not=why, state=state.state.value)
    events = answer.events if isinstance(answer, c.Ruling) else ()
    match command:
        case c.Retry():
            return _retry(state, command)
        case c.Cancel():
            return _cancel(state, command, events)
        case c.Rollback():
            return _undo(state, _planned(events), _ends_as(events) or R.COMPENSATING)
        case c.Pause():
            return Preview(state=R.PAUSED.value, stops=_in_states(state, {N.QUEUED, N.HELD}))
        case c.Resume():
            return Preview(state=R.RUNNING.value, again=_in_states(state, {N.HELD}))
        case _:
            return _follow(state, events)


def preview_rerun(state: State, node: str, given: Iterable[str] = (), ir: IR | None = None) -> Preview:
    """What a rerun from this node would do, or from the start without one. With `ir` the state goes on by that one."""
    if state.imported:
        why = f"run {state.run_id} was imported from {state.imported}: to look at, not to run"
        return Preview(code="imported", why_not=why, state=state.state.value)
    problems: list[str] = []
    if ir is not None and ir.name != state.workflow:
        problems = [f"run {state.run_id} is of workflow {state.workflow!r}, not of {ir.name!r}"]
    elif node:
        problems = ([] if ir is None else reruns.mend(state, ir)) or reruns.check(state, node, given)
    if problems:
        return Preview(code="rerun_refused", why_not="; ".join(problems), state=state.state.value)
    now = state.ir if ir is None or node else ir
    kept = {state.name(one.node) for one in reruns.keep(state, node)} if node else set[str]()
    names = _names(now)
    return Preview(
        state=R.RUNNING.value,
        again=tuple(name for name in names if name not in kept),
        kept=tuple(name for name in names if name in kept),
    )


def _retry(state: State, command: c.Retry) -> Preview:
    """What the new generation has: made, looked at, and taken back."""
    before = state.begin()
    try:
        apply(state, e.RunRetried(seq=state.seq + 1, at=command.at, cause="", generation=state.generation + 1))
        if command.ir is not None and command.ir.hash != state.ir_hashes[-1]:
            state.library.setdefault(command.ir.hash, command.ir)
            apply(state, e.RunPatched(seq=state.seq + 1, at=command.at, cause="", ir=command.ir.hash, mends=True))
        kept = _in_states(state, {N.COMPLETED})
        decided = {*kept, *_in_states(state, {N.SKIPPED, N.FAILED, N.PARKED})}
        again = tuple(name for name in _names(state.ir) if name not in decided)
    finally:
        state.touched = state.timer_changes = None
        state.rollback(before)
    return Preview(state=R.RUNNING.value, again=again, kept=kept)


def _cancel(state: State, command: c.Cancel, events: Iterable[e.Event]) -> Preview:
    undo = _planned(events)
    if not undo and not command.force and state.ir.compensate_on_failure and state.state is not R.COMPENSATING:
        undo = _once(state.name(one.node) for one in plan_of(state))  # it comes when what runs has ended
    found = _undo(state, undo, _ends_as(events) or R.CANCELLING)
    stops = _once(state.name(state.activations[key].node) for key in reversed(state.plan))
    return msgspec.structs.replace(found, stops=_in_states(state, OPEN) if state.state is not R.COMPENSATING else stops)


def _undo(state: State, undo: tuple[str, ...], after: RunState) -> Preview:
    undone = set(undo)
    kept = tuple(name for name in _in_states(state, {N.COMPLETED}) if name not in undone)
    return Preview(state=after.value, undo=undo, kept=kept)


def _follow(state: State, events: Iterable[e.Event]) -> Preview:
    """What follows at once from the events: which nodes begin, and whether the run goes on."""
    found = list(events)
    after = _ends_as(found)
    begun: list[str] = []
    for one in found:
        begun += [one.node] if isinstance(one, e.NodeScheduled) else []
        begun += [place.node for place in one.places] if isinstance(one, e.NodesScheduled) else []
    ending = after not in (None, R.RUNNING, R.COMPLETED)
    stops = _in_states(state, OPEN - {N.PARKED}) if ending else ()
    return Preview(state=(after or state.state).value, again=_once(begun), undo=_planned(found), stops=stops)


_AFTER: dict[type[e.Event], RunState] = {
    e.RunFailing: R.FAILING,
    e.RunFailed: R.FAILED,
    e.RunCancelling: R.CANCELLING,
    e.RunCancelled: R.CANCELLED,
    e.RunCompensating: R.COMPENSATING,
    e.RunCompleted: R.COMPLETED,
    e.RunRolledBack: R.ROLLED_BACK,
}


def _ends_as(events: Iterable[e.Event]) -> RunState | None:
    """The state that the run has after these events, where one of them says it."""
    found = [_AFTER[type(one)] for one in events if type(one) in _AFTER]
    return found[-1] if found else None


def _planned(events: Iterable[e.Event]) -> tuple[str, ...]:
    return _once(place.node for one in events if isinstance(one, e.RunCompensating) for place in one.plan)


def _names(ir: IR) -> list[str]:
    return [node.id for index in topological(ir) if (node := ir.nodes[index]) is not None]


def _in_states(state: State, states: Iterable[NodeState]) -> tuple[str, ...]:
    """The nodes whose last activation is in one of these states, in the order of the graph."""
    wanted = set(states)
    found: list[str] = []
    for index in topological(state.ir):
        activation = find_latest(state, index)
        if activation is not None and activation.state in wanted:
            found.append(state.name(index))
    return tuple(found)


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
