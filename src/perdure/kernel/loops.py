"""When an iteration closes and what follows: the next iteration, or the end of the loop (rules 14 to 19)."""

from __future__ import annotations

from typing import Literal

from perdure.kernel import continuations
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel.child_runs import open_children
from perdure.kernel.decider import Decider
from perdure.kernel.edges import head_of, is_new, latest, loops_over, went_aside
from perdure.kernel.lifecycle import OPEN, IntegrityError, N
from perdure.kernel.state import Activation, LoopRun, key_of
from perdure.kernel.values import Wait


def close_iterations(d: Decider, ready: list[Activation]) -> None:
    """Close the iterations that the activations ended in this decision allow to close."""
    while d.ended and not d.state.terminal:  # an endless run that goes on as another one is over
        activation = d.ended.pop()
        for run in _live_runs(d, activation):  # outermost first: it takes the inner ones with it
            if run.status == "closing" and _cancel_rest(d, run):
                _move_on(d, run, ready)
                break


def _live_runs(d: Decider, activation: Activation) -> list[LoopRun]:
    """The loops around an activation, outermost first, down to the first that is over: inside that, nothing closes."""
    found: list[LoopRun] = []
    loops = d.state.node_in(activation.ir, activation.node).loops
    for depth, iteration in enumerate(activation.scope):
        run = d.state.loops.get((loops[depth], activation.scope[:depth]))
        if run is None or run.iteration != iteration or run.status == "ended":
            break
        found.append(run)
    return found


def _cancel_rest(d: Decider, run: LoopRun) -> bool:
    """Cancel what is open in the iteration. False while an activation must be waited for (rule 17)."""
    state = d.state
    members = [state.activations[key] for key in run.members if key != run.cause]
    members = [member for member in members if member.state in OPEN]
    waited = {member.key for member in members if _must_end(d, member)}
    # A map and its items end together: a map is waited for with its items, and with one of them.
    waited |= {key_of(member.node, member.scope) for member in members if member.key in waited}
    rest = [m for m in members if m.key not in waited and key_of(m.node, m.scope) not in waited]
    cancel(d, rest, "loop")
    return not waited


def _must_end(d: Decider, member: Activation) -> bool:
    effect = d.state.pinned(member).effect
    return effect == "at_most_once" and (member.begun or member.state is N.PARKED)


def cancel(d: Decider, activations: list[Activation], reason: Literal["loop", "join", "items", "run"]) -> None:
    """Cancel activations and tell the workers that run them to stop. A map takes its items with it."""
    given = {activation.key for activation in activations}
    items = [item for owner in activations for item in open_items(d, owner) if item.key not in given]
    activations = items + activations
    for activation in activations:
        if activation.state in (N.QUEUED, N.RUNNING):
            d.stop(activation)
        else:
            for child in open_children(activation):
                d.effect(fx.StopChild(child=child))
    if len(activations) == 1:
        d.emit_for(e.NodeCancelled, activations[0], reason=reason)
    elif activations:
        d.emit(e.NodesCancelled, places=tuple(d.place(a) for a in activations), reason=reason)
        d.ended.extend(a for a in activations if a.scope)


def open_items(d: Decider, owner: Activation) -> list[Activation]:
    if not owner.items_open:
        return []
    found = (d.state.activations.get(key_of(owner.node, owner.scope, i)) for i in range(owner.items_started))
    return [item for item in found if item is not None and item.state in OPEN]


def _move_on(d: Decider, run: LoopRun, ready: list[Activation]) -> None:
    state = d.state
    if run.cause is None:
        raise IntegrityError(f"run {state.run_id}: loop {state.name(run.loop)} closes without a cause")
    cause = state.activations[run.cause]
    if cause.route is not None and cause.route.back and cause.node == run.loop:
        if continuations.is_due(d, run):
            continuations.go_on(d, run, cause)
            return
        _go_back(d, run, ready)
    else:
        end(
            d,
            run,
            "failed" if cause.state in (N.FAILED, N.UPSTREAM_FAILED) and cause.route is None else _kind(run, cause),
        )


def _kind(run: LoopRun, cause: Activation) -> Literal["leave", "break"]:
    return "leave" if cause.node == run.loop else "break"


def _go_back(d: Decider, run: LoopRun, ready: list[Activation]) -> None:
    state = d.state
    d.emit(e.LoopAdvanced, node=state.name(run.loop), scope=run.scope, iteration=run.iteration + 1)
    ready.append(head_of(state, run))


def end(d: Decider, run: LoopRun, reason: Literal["leave", "break", "skipped", "failed"]) -> None:
    """End the loop and resolve its exits: the cause's as it routed, unnamed ones of other completed
    body nodes as taken (rule 6, 18)."""
    state = d.state
    ir = len(state.irs) - 1 if not run.scope else run.ir
    looping = state.node_in(ir, run.loop)
    if looping.loop is None:
        raise IntegrityError(f"run {state.run_id}: {looping.id} is no loop")
    taken, failed = [], []
    for number in looping.loop.exits:
        edge = state.irs[ir].edges[number]
        if not loops_over(state, looping.loops, run.scope, edge.common):
            continue
        source = latest(state, edge.source, run.scope, ir)
        if source is None:
            continue
        pair = (state.name(edge.source), state.name(edge.target))
        if source.key == run.cause and source.route is not None:
            names = source.route.taken
            if (not edge.named) if names is None else pair[1] in names:
                taken.append(pair)
            elif not edge.named and run.ir != ir and is_new(state, edge, run.ir) and not went_aside(state, ir, source):
                taken.append(pair)  # a patch brought the edge after the iteration began; the loop is left this way too
        elif source.state in (N.FAILED, N.UPSTREAM_FAILED) and source.handled and source.route is None:
            failed.append(pair)
        elif edge.source != run.loop and not edge.named and _gave_output(source):
            taken.append(pair)
    name = state.name(run.loop)
    d.emit(e.LoopEnded, node=name, scope=run.scope, reason=reason, taken=tuple(taken), failed=tuple(failed))


def _gave_output(source: Activation) -> bool:
    if source.state is N.FAILED:
        return source.handled and source.route is not None and source.route.rule != "on_failure.path"
    return source.state is N.COMPLETED


def delay(d: Decider, head: Activation) -> bool:
    """Begin the pause between iterations, if any. True when the head now waits for it."""
    state = d.state
    if not head.scope or head.fired:
        return False
    for run in state.loop_runs(head):
        loop = state.node_in(run.ir, run.loop).loop
        if loop is not None and loop.head == head.node and run.iteration > 1:  # innermost: it went back
            if not loop.delay_ms:
                return False
            d.emit_for(e.NodeWaiting, head, wait=Wait(kind="delay", until=d.at + loop.delay_ms / 1000))
            return True
    return False
