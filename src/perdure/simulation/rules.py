"""Which rules of docs/internals/semantics.md were at work in a history, as its journals, messages and answers show.

One table: a rule counts as hit when something happened that only this rule explains, and the table says what. Looks at
events as the checker has read them; decides nothing and judges nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from perdure.invariants.model import FAILED, SKIPPED, TAKEN, Act, Model
from perdure.kernel import events as e
from perdure.kernel.values import Error, Route
from perdure.model.ir import Node

EVIDENCE: dict[int, str] = {
    1: "a node is activated in a second iteration",
    2: "an activation gets a second attempt",
    3: "a second attempt is executed under the same key",
    4: "a loop went back, or its exits resolved",
    5: "an edge is skipped or fails",
    6: "a routing that names edges chose among them",
    7: "a node is skipped because a required dependency was",
    8: "a join of several edges fires",
    9: "a join cannot fire any more",
    10: "a failure is absorbed by a race",
    11: "the losers of a race are cancelled",
    12: "a definition that mixes edges in an any join is refused",
    13: "a second attempt is given the same inputs",
    14: "a loop inside a loop goes on or ends, or a circle without a loop is refused",
    15: "the condition of a loop is asked in its second iteration",
    16: "a loop is exhausted, or left by its break path",
    17: "an iteration closes and cancels what is open in it",
    18: "a loop is left by a break, or skipped",
    19: "a node behind a loop is scheduled",
    20: "a condition cannot be evaluated, or a kept outcome is routed later",
    21: "`when` skips a node",
    22: "an agent chooses",
    23: "a person rejects",
    24: "a comparison of two nodes chooses",
    25: "an outcome is kept while the run is failing",
    26: "a run is retried",
    27: "a failure is handled by the graph",
    28: "an operator requeues or discards what is parked",
    29: "a run is cancelled",
    30: "a node is held while its run is paused",
    31: "a deadline or a limit ends a run",
    32: "an attempt takes too long",
    33: "an at_most_once effect starts, or is parked because nobody knows",
    34: "a node is compensated",
    35: "a child ends, and its parent hears of it",
    36: "an item of a map ends",
    37: "a signal ends a wait",
    38: "an approver votes",
    39: "a run is patched",
    40: "a run begins with outcomes of another",
    41: "a decision needed a verdict first",
    42: "several nodes are scheduled, held, skipped or cancelled in one event",
    43: "a run ends with its counter at zero",
    44: "a run gives outputs by name, or cannot",
}
_TIMEOUTS = {"timeout", "heartbeat_timeout", "queue_timeout", "total_timeout"}
_REFUSED = {"mixed_join": 12, "cycle": 14, "self_dependency": 14, "loops_overlap": 14, "loop_not_dominated": 14}


class Rules:
    def __init__(self) -> None:
        self.hit: Counter[int] = Counter()

    def note(self, rule: int) -> None:
        self.hit[rule] += 1

    def refused(self, codes: set[str]) -> None:
        """Note that the compiler refused a definition for these reasons."""
        for code in codes & _REFUSED.keys():
            self.note(_REFUSED[code])

    def observe(self, event: e.Event, model: Model) -> None:
        look = _LOOKS.get(type(event))
        if look is not None:
            for rule in look(event, model):
                self.hit[rule] += 1


def _act(model: Model, place: Any) -> Act | None:
    return model.acts.get((place.node, place.scope, place.item))


def _scheduled(place: Any, model: Model) -> Iterator[int]:
    act = _act(model, place)
    if place.scope and place.scope[-1] > 1:
        yield 1
    if act is None:
        return
    if act.attempt > 1:
        yield 2
    if len(act.edges) > 1 and act.attempt == 1:
        yield 8
        if any(status in (SKIPPED, FAILED) for status in act.edges.values()):
            yield 5
    loops = model.graph_of(act).loops
    if any(status == TAKEN and len(loops.get(source, ())) > len(act.scope) for source, status in act.edges.items()):
        yield 19


def why_skipped(model: Model, act: Act) -> int:
    """The rule by which a node was skipped: 7, 8, 9 or 21."""
    graph = model.graph_of(act)
    node = graph.nodes.get(act.node)
    if any(edge.required and act.edges.get(edge.source) == SKIPPED for edge in graph.incoming.get(act.node, ())):
        return 7
    enough = (node.join.at_least if node is not None else None) or 1
    taken = sum(status == TAKEN for status in act.edges.values())
    if taken >= enough or not act.edges:
        return 21
    return 9 if taken else 8


def _skipped(place: Any, model: Model) -> Iterator[int]:
    yield 5
    act = _act(model, place)
    if act is not None and not act.discarded:
        yield why_skipped(model, act)


def _each(look: Callable[[Any, Model], Iterator[int]]) -> Callable[[Any, Model], Iterator[int]]:
    def places(event: Any, model: Model) -> Iterator[int]:
        yield 42
        for place in event.places:
            yield from look(place, model)

    return places


def _node(model: Model, event: e.NodeEvent) -> Node | None:
    act = _act(model, event)
    return None if act is None else model.graph_of(act).nodes.get(act.node)


def _routed(route: Route | None, node: Node | None, event: e.NodeEvent) -> Iterator[int]:
    if route is None or node is None:
        return
    if route.rule in ("rejection_path", "on_failure.path") or route.rule.startswith(("branch", "agent")):
        yield 6
    if node.branch is not None and node.branch.kind == "conditional" and route.rule != "adopted":
        yield 41
        if any(rule.condition.kind == "cross_node_comparison" for rule in node.branch.rules):
            yield 24
    if node.loop is not None and route.rule != "adopted":
        yield 41
        if event.scope and event.scope[-1] > 1:
            yield 15
        if route.rule in ("loop.timeout", "loop.break"):
            yield 16


def _completed(event: e.NodeCompleted, model: Model) -> Iterator[int]:
    if event.adopted:
        yield 40
    if event.choice is not None:
        yield 22
    if model.state == "failing":
        yield 25
    yield from _routed(event.route, _node(model, event), event)


def _later_routed(event: e.NodeRouted, model: Model) -> Iterator[int]:
    yield 20
    yield from _routed(event.route, _node(model, event), event)


def _error(error: Error) -> Iterator[int]:
    if error.code in _TIMEOUTS:
        yield 32
    elif error.code == "routing_failed":
        yield 20
    elif error.code == "loop_exhausted":
        yield 16
    elif error.code in ("deadline_exceeded", "limit_exceeded"):
        yield 31
    elif error.code == "output_error":
        yield 44


def _failed(event: e.NodeFailed, model: Model) -> Iterator[int]:
    if event.outcome == "absorbed":
        yield 10
    elif event.outcome in ("continue", "path"):
        yield 27
    elif event.outcome == "kept":
        yield 25
    yield from _error(event.error)
    yield from _routed(event.route, _node(model, event), event)


def _with_error(event: Any, model: Model) -> Iterator[int]:
    yield from _error(event.error)


def _started(event: e.NodeStarted, model: Model) -> Iterator[int]:
    node = _node(model, event)
    if node is not None and node.effect == "at_most_once" and not event.undo:
        yield 33


def _parked(event: e.NodeParked, model: Model) -> Iterator[int]:
    node = _node(model, event)
    if event.error.code == "worker_lost" and node is not None and node.effect == "at_most_once":
        yield 33
    yield from _error(event.error)


def _cancelled(event: Any, model: Model) -> Iterator[int]:
    if isinstance(event, e.NodesCancelled):
        yield 42
    if event.reason == "join":
        yield 11
    elif event.reason == "loop":
        yield 17


def _held(event: e.NodeHeld, model: Model) -> Iterator[int]:
    if model.state == "paused":
        yield 30


def _all_held(event: e.NodesHeld, model: Model) -> Iterator[int]:
    yield 42
    if model.state == "paused":
        yield 30


def _advanced(event: e.LoopAdvanced, model: Model) -> Iterator[int]:
    yield 4
    if event.scope:
        yield 14


def _loop_ended(event: e.LoopEnded, model: Model) -> Iterator[int]:
    yield 4
    if event.scope:
        yield 14
    if event.reason in ("break", "skipped"):
        yield 18


def _resumed(event: e.NodeResumed, model: Model) -> Iterator[int]:
    if event.reason.startswith("signal"):
        yield 37
    if event.event:
        yield 53


def _decided(event: e.ApprovalDecided, model: Model) -> Iterator[int]:
    if event.decision == "reject":
        yield 23


def _run_completed(event: e.RunCompleted, model: Model) -> Iterator[int]:
    if event.counter == 0:
        yield 43
    if event.continued_as is None and isinstance(event.outputs, dict) and "o0" in event.outputs:
        yield 44


def _just(*rules: int) -> Callable[[Any, Model], tuple[int, ...]]:
    return lambda event, model: rules


_LOOKS: dict[type[e.Event], Callable[[Any, Model], Any]] = {
    e.NodeScheduled: _scheduled,
    e.NodesScheduled: _each(_scheduled),
    e.NodeSkipped: _skipped,
    e.NodesSkipped: _each(_skipped),
    e.NodeCompleted: _completed,
    e.NodeRouted: _later_routed,
    e.NodeFailed: _failed,
    e.NodeRetrying: _with_error,
    e.NodeStarted: _started,
    e.NodeParked: _parked,
    e.NodeUpstreamFailed: _just(9),
    e.NodeHeld: _held,
    e.NodesHeld: _all_held,
    e.NodeCancelled: _cancelled,
    e.NodesCancelled: _cancelled,
    e.NodeRequeued: _just(28),
    e.NodeDiscarded: _just(28),
    e.NodeCompensated: _just(34),
    e.NodeResumed: _resumed,
    e.LoopAdvanced: _advanced,
    e.LoopEnded: _loop_ended,
    e.ApprovalVoted: _just(38),
    e.ApprovalDecided: _decided,
    e.ChildEnded: _just(35),
    e.ItemCompleted: _just(36),
    e.ItemFailed: _just(36),
    e.LimitReached: _just(31),
    e.RunFailing: _with_error,
    e.RunRetried: _just(26),
    e.RunCancelled: _just(29),
    e.RunPatched: _just(39),
    e.RunCompleted: _run_completed,
}
