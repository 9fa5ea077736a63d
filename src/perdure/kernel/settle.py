"""After each command: decides every join that can be decided, schedules what is ready, and ends a run that is over.

One worklist, no recursion, so a skip may travel through a hundred thousand nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from perdure.kernel import commands as c
from perdure.kernel import compensation, loops
from perdure.kernel import events as e
from perdure.kernel.causal_past import Seen, evidence, find_lacking, may_wait, see
from perdure.kernel.child_runs import waits_for_child
from perdure.kernel.decider import Decider, Unknown, in_schedule, sorted_by_schedule
from perdure.kernel.dispatches import hold_back, send
from perdure.kernel.edges import in_closing_iteration, latest
from perdure.kernel.facts.node_facts import skip
from perdure.kernel.lifecycle import OPEN, N, R
from perdure.kernel.outcomes import exceed, fail_for_good, fail_join, is_to_be_routed, route_kept
from perdure.kernel.segments import BlobRef
from perdure.kernel.state import Activation, State, key_of
from perdure.kernel.streams.flows import close_all, follow
from perdure.kernel.values import Error
from perdure.kernel.withdrawn import find_withdrawn
from perdure.model.ir import IR, Node, Reference

_MAY_BE_SENT = (N.PENDING, N.HELD, N.RETRYING, N.WAITING)
_MANY_TERMINALS = 64
_LARGE_BYTES = 32 * 1024
"""Default outputs of more terminals, or larger ones, are composed by the coordinator, which can store a blob."""


def settle(d: Decider) -> None:
    state = d.state
    ready: list[Activation] = []
    while True:
        if state.state not in (R.RUNNING, R.PAUSED):
            if state.streams:
                follow(d)
            break
        if d.ended:
            loops.close_iterations(d, ready)
        if state.touched:
            _decide_joins(d, ready)
        elif ready:
            waiting, ready = ready, []
            schedule(d, waiting)
        elif state.streaming and (ready := follow(d)):
            continue
        elif not d.ended:
            whole = _find_whole(d) if state.loose else []
            if not whole or _is_withdrawn(d, whole):
                break
            ready = [a for a in whole if a.state is N.HELD and state.state is R.RUNNING]  # `resume` sends them all
            for activation in whole:
                if activation.state is not N.HELD and is_to_be_routed(d, activation):
                    route_kept(d, activation)
    end_if_over(d)


# -- joins -------------------------------------------------------------------------------------------------------------


def _decide_joins(d: Decider, ready: list[Activation]) -> None:
    state = d.state
    skipped: list[Activation] = []
    back: list[Activation] = []
    failed: dict[int, Activation] = {}
    fired: dict[int, Activation] = {}
    touched = state.touched or []
    known = {id(activation) for activation in ready}
    for key in touched:  # a skip adds to them as it travels
        activation = state.activations[key]
        if activation.state is not N.PENDING or activation.fired:
            continue
        if key in d.raced:
            continue  # it fired and cancelled its losers: how their edges resolve cannot change that
        if activation.scope and not activation.undone and in_closing_iteration(state, activation):
            continue  # it will be cancelled with the rest; in a closed iteration it waits to be done again
        verdict = join_verdict(activation, state.governing(activation))
        if verdict == "skip" and _came_back(state, activation):
            back.append(activation)
            verdict = "fire"  # what led into the loop was done again and went another way, but the iteration exists
        if verdict == "fire" and id(activation) not in known:
            fired[id(activation)] = activation
        elif verdict == "skip":
            fired.pop(id(activation), None)  # a dependency it requires was skipped after it fired (rule 7)
            _apply_skip(d, activation)
            skipped.append(activation)
        elif verdict == "fail":
            failed[id(activation)] = activation
    touched.clear()
    if skipped:
        record_skips(d, skipped)
    if back and _is_withdrawn(d, back, came_back=True):
        return
    for activation in fired.values():
        if activation.state is N.PENDING:  # not the loser of a join that fired before it
            ready.append(activation)
            if state.governing(activation).join.cancel_rest:
                _cancel_losers(d, activation)
    for activation in failed.values():
        if activation.refused:
            continue  # a dependency it requires was skipped behind that failure, which decides (rule 7)
        if activation.state is N.PENDING and state.state in (R.RUNNING, R.PAUSED):
            fail_join(d, activation)


def _is_withdrawn(d: Decider, going: list[Activation], *, came_back: bool = False) -> bool:
    """Fail the run where one of these builds upon an approval that was given, is asked again, and is not given (rule 26)."""
    found = find_withdrawn(d.state, going, came_back=came_back)
    if found is not None:
        later, approval = (d.state.name(activation.node) for activation in found)
        d.fail_run(Error("rejected", f"{approval} was given before {later} and is not any more"), found[1])
    return found is not None


def _came_back(state: State, activation: Activation) -> bool:
    """Whether the activation is a head after the first iteration, which its loop brought here, not its join."""
    for run in state.loop_runs(activation):
        loop = state.node_in(run.ir, run.loop).loop
        if loop is not None and loop.head == activation.node and run.iteration > 1:
            return True
    return False


def join_verdict(activation: Activation, node: Node) -> Literal["wait", "fire", "skip", "fail"]:
    """What the rules of joins say (8, 9, and 7 for required dependencies)."""
    edges = len(node.edges_in)
    if activation.refused:
        return "skip"
    resolved = activation.taken + activation.skipped + activation.failed + activation.errors
    if node.join.at_least is None:
        if activation.failed:
            return "fail"
        if resolved < edges:
            return "wait"
        return "fire" if activation.taken or activation.errors or not edges else "skip"
    if activation.taken >= node.join.at_least:
        return "fire"
    if activation.taken + edges - resolved >= node.join.at_least:
        return "wait"
    return "fail" if activation.failed or activation.errors else "skip"


def _apply_skip(d: Decider, activation: Activation) -> None:
    """Apply a skip at once, so that it travels; all skips of a decision are recorded together (`record_skips`)."""
    skip(d.state, d.state.edit(activation), d.state.seq + 1, d.at)


def record_skips(d: Decider, skipped: list[Activation]) -> None:
    state = d.state
    cause = d.cause
    seq, counter = state.seq + 1, state.counter
    event: Any
    if len(skipped) == 1:
        place = d.place(skipped[0])
        event = e.NodeSkipped(
            seq=seq, at=d.at, cause=cause, counter=counter, node=place.node, scope=place.scope, visit=place.visit
        )
    else:
        places = tuple(d.place(a) for a in skipped)
        event = e.NodesSkipped(seq=seq, at=d.at, cause=cause, counter=counter, places=places)
    state.seq = seq
    d.events.append(event)
    for activation in skipped:
        end_loop_of_skipped(d, activation)


def end_loop_of_skipped(d: Decider, activation: Activation) -> None:
    """End the loop of a looping node that was skipped, with its exits skipped (rule 18)."""
    node = d.node(activation)
    if node.loop is None or not activation.scope:
        return
    depth = node.loops.index(activation.node)
    run = d.state.loops[(activation.node, activation.scope[:depth])]
    if run.status == "open" and run.iteration == activation.scope[depth]:
        loops.end(d, run, "skipped")


def _cancel_losers(d: Decider, join: Activation) -> None:
    """Cancel the losers of a `cancel_rest` join: what only leads to this join, and nothing else (rule 11)."""
    node = d.node(join)
    state = d.state
    governing = state.iteration_ir(join.scope, join.node)
    ir = state.irs[governing]
    region, losers, before = {join.node}, [], [join.node]
    while before:
        member = ir.nodes[before.pop()]
        for number in member.edges_in if member is not None else ():
            index = ir.edges[number].source
            candidate = ir.nodes[index]
            if candidate is None or index in region or candidate.region not in region:
                continue
            region.add(index)
            before.append(index)
            shared = sum(1 for ours, theirs in zip(node.loops, candidate.loops, strict=False) if ours == theirs)
            found = latest(state, index, join.scope[:shared], governing)
            if found is not None and (found.state in OPEN or (found.state is N.PENDING and found.edges)):
                losers.append(found)
    if losers:
        d.raced.add(join.key)
    losers.sort(key=lambda a: (a.node, a.scope, a.item))
    loops.cancel(d, [a for a in losers if a.state in OPEN or a.state is N.PENDING], "join")
    for activation in losers:
        end_loop_of_skipped(d, activation)


# -- scheduling --------------------------------------------------------------------------------------------------------


def schedule(d: Decider, ready: list[Activation]) -> None:
    """Dispatch the ready activations that `when` lets pass, or hold them while the run is paused."""
    state = d.state
    ready = [a for a in ready if a.state in _MAY_BE_SENT]
    if state.generation > 1:
        early = [a for a in ready if _is_early(state, a)]
        if any(_is_too_far(d, a) for a in early):
            return
        hold_back(d, [a for a in early if a.state is not N.HELD], "redo")
        waiting = {id(a) for a in early}
        ready = [a for a in ready if id(a) not in waiting]
        if _is_withdrawn(d, [a for a in ready if a.item < 0]):
            return
    passed, skipped = _guard(d, ready)
    if state.state not in (R.RUNNING, R.PAUSED):  # a `when` that could not be evaluated: nothing is routed from here on
        return
    if skipped:
        for activation in skipped:
            _apply_skip(d, activation)
        record_skips(d, skipped)
    # `when` skipped a node these require; a head that its loop brought back requires nothing.
    passed = [a for a in passed if a.fired or not a.refused or a.key in d.raced or _came_back(state, a)]
    going: list[Activation] = []
    for activation in passed:
        if _is_too_far(d, activation):
            return
        if not loops.delay(d, activation):
            going.append(activation)
    if state.state is R.PAUSED:
        hold_back(d, [a for a in going if a.state is not N.HELD], "paused")
    else:
        send(d, going)


def _is_too_far(d: Decider, activation: Activation) -> bool:
    """Whether the activation has come more hops than it may, which fails the run (rule 31)."""
    maximum = d.state.governing(activation).max_hops or d.state.irs[-1].limits.max_hops
    if activation.hop <= maximum or activation.attempt:  # what got so far before a patch may be tried again
        return False
    exceed(d, "max_hops", activation.hop, maximum, activation)
    return True


def _is_early(state: State, activation: Activation) -> bool:
    """Whether a new generation does something again that the activation and its `when` build upon and must see."""
    fixed = activation.fired and activation.scheduled_seq  # its inputs are fixed over all its attempts
    return activation.item < 0 and not fixed and find_lacking(state, activation) is not None


def _find_whole(d: Decider) -> list[Activation]:
    """The activations that waited for their past to be done again and need not any more. The others are found again
    when what they wait for has ended, so a decision costs what it changes, however many wait."""
    state = d.state
    found: list[Activation] = []
    for key in list(state.loose):
        activation = state.activations.get(key)
        if activation is not None and may_wait(activation):
            lacking = find_lacking(state, activation)
            if lacking is None:
                found.append(activation)
            elif lacking.key in state.behind:
                state.put(state.behind[lacking.key], key, None)
            else:
                state.put(state.behind, lacking.key, {key: None})
        state.drop(state.loose, key)
    found.sort(key=in_schedule)
    return found


def _guard(d: Decider, ready: list[Activation]) -> tuple[list[Activation], list[Activation]]:
    passed, skipped = [], []
    questions: list[c.Question] = []
    errors: list[tuple[Activation, Error]] = []
    for activation in ready:
        node = d.state.governing(activation)
        if activation.guarded or node.when is None or activation.item >= 0:
            passed.append(activation)
            continue
        need = c.Need("when", node.id, activation.scope)
        verdict = d.verdicts.get(need)
        if verdict is None:
            questions.append(c.Question(need, d.condition_evidence(activation, node.when), node.when))
        elif verdict.error is not None:
            errors.append((activation, Error("routing_failed", f"`when` of {node.id}: {verdict.error.message}")))
        elif verdict.value is True:
            passed.append(activation)
        elif verdict.value is False:
            skipped.append(activation)
        else:
            kind = type(verdict.value).__name__
            errors.append((activation, Error("routing_failed", f"`when` of {node.id} gave {kind}, not a bool")))
    if questions:
        raise Unknown(questions)
    for activation, error in errors:
        if d.state.state in (R.RUNNING, R.PAUSED):
            fail_for_good(d, activation, error)
    return passed, skipped


# -- the end -----------------------------------------------------------------------------------------------------------


def end_if_over(d: Decider) -> None:
    state = d.state
    if state.state in (R.RUNNING, R.PAUSED):
        if state.counter == 0:
            _complete(d)
    if state.state in (R.FAILING, R.CANCELLING):
        if not state.tally.get(N.QUEUED) and not state.tally.get(N.RUNNING) and not _has_children(state):
            finish(d)
    elif state.state is R.COMPENSATING:
        compensation.go_on(d)


def _has_children(state: State) -> bool:
    if not state.children:
        return False
    return any(waits_for_child(state.activations[key]) for key in state.children.values())


def finish(d: Decider) -> None:
    """End a run, after compensation where that is asked for. Attempts that it does not wait for are stopped, queued
    ones too: a worker may have them though the journal does not know, and no result of theirs counts (rule 29)."""
    if d.state.tally.get(N.QUEUED) or d.state.tally.get(N.RUNNING):
        for activation in sorted_by_schedule(d.state, N.QUEUED, N.RUNNING):
            d.stop(activation)
    if d.state.streams:
        close_all(d)
    if d.state.ir.compensate_on_failure and compensation.begin(
        d, "failed" if d.state.state is R.FAILING else "cancelled"
    ):
        compensation.go_on(d)
    else:
        compensation.close(d)


def _complete(d: Decider) -> None:
    state = d.state
    fields: dict[str, Any] = {}
    terminals = state.ir.terminals
    if state.ir.outputs is not None or len(terminals) > _MANY_TERMINALS or _are_large(state):
        references = state.ir.output_references or tuple(Reference("node", state.name(index)) for index in terminals)
        verdict = d.ask(c.Need("outputs"), lambda: evidence(state, None, references))
        if verdict.error is not None:
            d.fail_run(Error("output_error", verdict.error.message))
            return
        fields = {"outputs": verdict.value, "outputs_ref": verdict.output_ref}
    else:
        value = default_outputs(state.ir, {state.name(index): _last(state, index) for index in terminals})
        fields = {"outputs_ref": value.ref} if type(value) is BlobRef else {"outputs": value}
    d.emit(e.RunCompleted, **fields)
    compensation.notify(d)


def _last(state: State, index: int) -> Seen | None:
    node = state.node(index)
    found = latest(state, index, (), len(state.irs) - 1) if node.loops else state.activations.get(key_of(index, ()))
    return None if found is None else see(found)


def _are_large(state: State) -> bool:
    """Whether the default outputs are large. An output that is a blob already counts as the reference it will be."""
    activations = state.activations
    found = (activations.get(key_of(index, ())) for index in state.ir.terminals)
    return sum(a.size for a in found if a is not None and a.output_ref is None) > _LARGE_BYTES


def default_outputs(ir: IR, ends: Mapping[str, Seen | None]) -> Any:
    """The output of the `output` node; otherwise those of the terminal nodes by id, null for a skipped one (44)."""
    found: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for index in ir.terminals:
        node = ir.nodes[index]
        if node is None:
            continue
        end = ends.get(node.id)
        value = None if end is None or end.state == N.SKIPPED else end.output
        if end is not None and end.output_ref is not None:
            value = BlobRef(end.output_ref)
        found[node.id] = value
        if node.type == "output" and end is not None and end.state == N.COMPLETED:
            outputs[node.id] = value
    if len(outputs) == 1:
        return next(iter(outputs.values()))
    return outputs or found
