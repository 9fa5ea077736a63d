"""Bugs in the rules about activations: attempts, edges, joins, loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.kernel import (
    attempts,
    causal_past,
    edges,
    lifecycle,
    loops,
    routes,
    settle,
    state,
)
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.kernel.decider import Decider
from perdure.kernel.facts import node_facts
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.values import Route
from tests.sim.planting import activation_of, bug, deciding, focused, folding, swapped

N, R = NodeState, RunState
_LIVE = (N.QUEUED, N.RUNNING, N.HELD, N.RETRYING)


# -- attempts ----------------------------------------------------------------------------------------------------------


_SILENT = focused(
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "d", "dependencies": ["a"]},
    rates={"stop_long": 2.0, "slow": 0.3},
    shared=True,
    handler_seconds=10.0,
)


@bug("the fence is skipped: whatever attempt reports is heard", "V3 V4", _SILENT)
def _() -> Iterator[None]:
    real = attempts._objection

    def objection(run: Any, activation: Any, command: Any, success: bool) -> str | None:
        if activation.state in _LIVE and not run.terminal and run.state is not R.COMPENSATING:
            return None
        return real(run, activation, command, success)

    with swapped(real, objection):
        yield


_LATE = focused(
    {"id": "a", "retry": {"max_attempts": 1}},
    {"id": "b"},
    {"id": "c"},
    shared=True,
    concurrency=1,
    handler_seconds=2.0,
    fault_seconds=120.0,
    rates={"raise": 0.3, "retry": 8.0, "stop_long": 2.0, "transport_hold_back": 0.1},
)
"""A worker that was given up for dead reports, when its run has failed and been retried."""


@bug("results of an older generation are heard", "V3 R3", _LATE)
def _() -> Iterator[None]:
    real = attempts._objection

    def objection(run: Any, activation: Any, command: Any, success: bool) -> str | None:
        address = msgspec.structs.replace(command.address, generation=run.generation)
        return real(run, activation, msgspec.structs.replace(command, address=address), success)

    with swapped(real, objection):
        yield


@bug("a result is applied twice", "V3 J4 E1")
def _() -> Iterator[None]:
    real = attempts._objection

    def objection(run: Any, activation: Any, command: Any, success: bool) -> str | None:
        said = real(run, activation, command, success)
        return None if said == "repeated" and activation.state is N.COMPLETED else said

    allowed = {**lifecycle.NODE_TRANSITIONS, N.COMPLETED: lifecycle.NODE_TRANSITIONS[N.COMPLETED] | {N.COMPLETED}}
    with swapped(real, objection), patch.object(edges, "NODE_TRANSITIONS", allowed):
        yield


@bug("a lapsed attempt is sent again without a new number", "V1")
def _() -> Iterator[None]:
    def lapses(real: Any) -> Any:
        def lapse(d: Decider, command: c.Lapse) -> None:
            activation = d.get(command)
            if command.address.undo or activation.attempt != command.address.attempt or d.state.state is not R.RUNNING:
                real(d, command)
            elif activation.state in (N.QUEUED, N.RUNNING) and command.address.generation == d.state.generation:
                d.emit_for(e.NodeScheduled, activation, after=command.reason)
                d.dispatch(activation)

        return lapse

    def schedules(real: Any) -> Any:
        def schedule(run: Any, event: e.NodeScheduled) -> None:
            activation = run.find(event.node, event.scope, event.item)
            if activation is not None and event.attempt == activation.attempt:
                run.edit(activation).attempt -= 1
            real(run, event)

        return schedule

    with deciding(c.Lapse, lapses), folding(e.NodeScheduled, schedules):
        yield


@bug("at_most_once is tried again after its worker died", "V6 rule-2")
def _() -> Iterator[None]:
    def lapses(real: Any) -> Any:
        def lapse(d: Decider, command: c.Lapse) -> None:
            activation = d.get(command)
            current = command.address.attempt == activation.attempt and command.address.generation == d.state.generation
            once = d.state.pinned(activation).effect == "at_most_once" and activation.state is N.RUNNING
            if command.address.undo or not current or d.state.state is not R.RUNNING or not once:
                real(d, command)
                return
            d.emit_for(e.NodeScheduled, activation, attempt=activation.attempt + 1, after=command.reason)
            d.dispatch(activation)

        return lapse

    with deciding(c.Lapse, lapses):
        yield


_WISHES = focused(
    {"id": "a", "effect": "at_most_once"},
    {"id": "b", "effect": "at_most_once", "dependencies": ["a"]},
    {"id": "c", "effect": "at_most_once"},
    rates={"transport_lose": 0.1, "transport_duplicate": 0.2, "transport_delay": 0.1},
    shared=True,
    handler_seconds=5.0,
)
"""Answers to wishes get lost, and copies of tasks come to workers whose wishes are not granted."""


@bug("whoever hands an attempt back is believed that it did not begin", "V6", _WISHES)
def _() -> Iterator[None]:
    def lapses(real: Any) -> Any:
        def lapse(d: Decider, command: c.Lapse) -> None:
            believed = d.get(command).ask if command.reason == "handed_back" else ""
            real(d, msgspec.structs.replace(command, ask=believed))

        return lapse

    with deciding(c.Lapse, lapses):
        yield


_POISON = focused(
    {"id": "a", "max_crashes": 2},
    {"id": "b", "max_crashes": 3},
    handler_seconds=10.0,
    fault_seconds=120.0,
    rates={"crash": 4.0, "slow": 0.25},
)


@bug("crashes are not counted, and poison is taken again and again", "rule-2", _POISON)
def _() -> Iterator[None]:
    def uncounted(real: Any) -> Any:
        def fold(run: Any, event: Any) -> None:
            real(run, event)
            activation_of(run, event).crashes = 0

        return fold

    with folding(e.NodeScheduled, uncounted), folding(e.NodeHeld, uncounted):
        yield


@bug("failures are not counted, and what cannot succeed is tried for ever", "rule-2")
def _() -> Iterator[None]:
    def uncounted(real: Any) -> Any:
        def fold(run: Any, event: Any) -> None:
            real(run, event)
            activation_of(run, event).failures = 0

        return fold

    with folding(e.NodeRetrying, uncounted):
        yield


@bug("a retry does not wait for its backoff", "W1 V8")
def _() -> Iterator[None]:
    def at_once(real: Any) -> Any:
        def fold(run: Any, event: e.NodeRetrying) -> None:
            real(run, event)
            activation = activation_of(run, event)
            name = edges.timer_name(run, "retry", activation)
            edges.set_timer(run, name, state.Timer(event.at, "retry", activation.key, activation.attempt))

        return fold

    with folding(e.NodeRetrying, at_once):
        yield


# -- joins, edges, loops -----------------------------------------------------------------------------------------------


@bug("an edge is counted twice at a join", "E2 E4")
def _() -> Iterator[None]:
    real = edges._count

    def count(run: Any, activation: Any, edge: Any, status: int, hop: int) -> None:
        real(run, activation, edge, status, hop)
        activation.taken += status == lifecycle.TAKEN

    with swapped(real, count):
        yield


@bug("a join of all fires with its first edge", "E2")
def _() -> Iterator[None]:
    real = settle.join_verdict

    def verdict(activation: Any, node: Any) -> Any:
        said = real(activation, node)
        return "fire" if said == "wait" and activation.taken else said

    with swapped(real, verdict):
        yield


@bug("a skip does not travel", "E2 R2")
def _() -> Iterator[None]:
    real, resolve_all = node_facts.skip, edges.resolve_all

    def skip(run: Any, activation: Any, seq: int, at: float) -> None:
        with swapped(resolve_all, lambda run, activation, status: None):
            real(run, activation, seq, at)

    with swapped(real, skip):
        yield


@bug("a token into a join that has fired is counted", "E4")
def _() -> Iterator[None]:
    real = edges.resolve

    def resolve(run: Any, edge: Any, ir: int, source: Any, status: int) -> None:
        real(run, edge, ir, source, status)
        target = run.activations.get((edge.target, source.scope[: edge.common], -1))
        if target is not None and target.fired and status == lifecycle.TAKEN:
            run.tokens += 1

    with swapped(real, resolve):
        yield


@bug("the second iteration uses the scope of the first", "R2 E2 E7")
def _() -> Iterator[None]:
    real = edges.head_of

    def head_of(run: Any, loop: Any) -> Any:
        first = msgspec.structs.replace(loop, iteration=1)
        return real(run, first)

    with swapped(real, head_of):
        yield


@bug("a loop runs once more than it may", "E5")
def _() -> Iterator[None]:
    real = routes.choose

    def choose(d: Decider, activation: Any, node: Any, outcome: Any) -> Any:
        try:
            return real(d, activation, node, outcome)
        except routes.LoopExhausted:
            return Route(rule="loop.back", taken=(), back=True)

    with swapped(real, choose):
        yield


@bug("an iteration closes while something in it is open", "E7")
def _() -> Iterator[None]:
    with swapped(loops._cancel_rest, lambda d, run: True):
        yield


@bug("cancel_rest cancels nothing", "rule-11")
def _() -> Iterator[None]:
    with swapped(settle._cancel_losers, lambda d, join: None):
        yield


_SAGA = focused(
    {"id": "a", "compensator": {"type": "task", "config": {"action": "undo"}}},
    {"id": "m", "dependencies": ["a"]},
    {"id": "z", "dependencies": ["m"], "retry": {"max_attempts": 1}},
    rates={"raise": 0.4, "retry": 4.0},
    runs=1,
    handler_seconds=2.0,
    fault_seconds=120.0,
    on_failure={"compensate": True},
)
"""Runs that fail after something that is undone, and are retried."""


@bug("what builds upon something undone does not wait until that is done again", "rule-13 E3", plan=_SAGA)
def _() -> Iterator[None]:
    with swapped(settle._is_early, lambda state, activation: False):
        yield


_KEPT = focused(
    {"id": "a", "compensator": {"type": "task", "config": {"action": "undo"}}},
    {"id": "m", "dependencies": ["a"]},
    {
        "id": "b",
        "dependencies": ["m"],
        "branch": {"rules": [{"condition": "ctx.a.output.n >= 0", "next_nodes": ["y"]}]},
    },
    {"id": "y"},
    {"id": "f", "dependencies": ["a"], "retry": {"max_attempts": 1}},
    rates={"raise": 0.4, "retry": 4.0, "slow": 0.3},
    runs=1,
    handler_seconds=2.0,
    fault_seconds=120.0,
    on_failure={"compensate": True},
)
"""Runs that fail while something completes whose way is chosen by what is undone."""


@bug("an outcome that was kept is routed before what it builds upon has been done again", "rule-13", plan=_KEPT)
def _() -> Iterator[None]:
    with swapped(causal_past.lacks_past, lambda state, activation: False):
        yield


@bug("an outcome that waits for its past is not routed when that is done again", "rule-26 R1", plan=_KEPT)
def _() -> Iterator[None]:
    real = settle._find_whole
    with swapped(real, lambda d: [a for a in real(d) if a.state is N.HELD]):
        yield


@bug("what waits for its past is not looked at when that is done again", "R2 rule-26", plan=_SAGA)
def _() -> Iterator[None]:
    with swapped(edges.loosen, lambda state, key: None):
        yield
