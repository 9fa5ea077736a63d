"""Which way an outcome goes: loops first, then rejection, then branches, then everything no routing names.

Chooses only; nothing is emitted here. Outcome and route are two facts: a route that cannot be chosen is an error of
the routing and never undoes the outcome (rule 20).
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel.commands import Need
from perdure.kernel.decider import Decider
from perdure.kernel.edges import RENEWS
from perdure.kernel.state import Activation
from perdure.kernel.values import Error, Route
from perdure.model.ir import Condition, Node


class RoutingFailed(Exception):
    """A condition could not be evaluated."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


class LoopExhausted(Exception):
    """The loop has no iteration left and no `timeout_path` (rule 16)."""


class Rejected(Exception):
    """A person rejected, and the graph has no way on from there (rule 23)."""


_ALL = Route(rule="all")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome to be routed, which the conditions of its node see as `output`."""

    output: Any = None
    output_ref: str | None = None
    rejected: bool = False
    choice: tuple[str, ...] | None = None
    reasoning: str = ""
    renews: bool = False


def choose(d: Decider, activation: Activation, node: Node, outcome: Outcome) -> Route:
    """The way of an outcome; `node` is as the definition that governs its routing has it."""
    rejected = outcome.rejected
    if node.loop is not None and outcome.renews:
        return Route(rule=RENEWS, taken=(), back=True)
    if node.loop is not None:
        held, seen = _condition(d, activation, outcome, "loop", node.loop.condition)
        iteration = activation.scope[node.loops.index(activation.node)]
        if held:
            if node.loop.max_iterations is None or iteration < node.loop.max_iterations:
                return Route(rule="loop.back", taken=(), back=True, seen=seen)
            return _exhausted(d, activation, node, seen)
        if rejected and node.branch is None:
            return _reject(d, activation, node)
        return _leave(d, activation, node, seen, outcome)
    if rejected and (node.rejection_path is not None or node.branch is None):
        return _reject(d, activation, node)
    if node.branch is None:
        ir = d.state.irs[d.state.iteration_ir(activation.scope, activation.node)]
        return Route(rule="all", taken=_unnamed(d, activation, node)) if activation.node in ir.choosing else _ALL
    rule, targets, seen = _branch(d, activation, node, outcome)
    return Route(rule=rule, taken=targets + _unnamed(d, activation, node), seen=seen, reasoning=outcome.reasoning)


def _condition(
    d: Decider, activation: Activation, outcome: Outcome, kind: Any, condition: Condition, rule: int = 0
) -> tuple[bool, Any]:
    need = Need(kind, d.state.name(activation.node), activation.scope, rule)
    verdict = d.ask(
        need, lambda: d.condition_evidence(activation, condition, outcome.output, outcome.output_ref), condition
    )
    if verdict.error is not None:
        raise RoutingFailed(verdict.error)
    if not isinstance(verdict.value, bool):
        message = (
            f"the {kind} condition of {d.state.name(activation.node)} gave {type(verdict.value).__name__}, not a bool"
        )
        raise RoutingFailed(Error("routing_failed", message))
    return verdict.value, verdict.seen


def _branch(d: Decider, activation: Activation, node: Node, outcome: Outcome) -> tuple[str, tuple[str, ...], Any]:
    branch = node.branch
    assert branch is not None
    if branch.kind == "agent_driven":
        if outcome.choice:
            allowed = set(_names(d, activation, branch.available))
            if outside := [name for name in outcome.choice if name not in allowed]:  # kept, and mended since (rule 22)
                chose = f"{node.id} chose {', '.join(outside)}, which its definition no longer allows"
                raise RoutingFailed(Error("routing_failed", f"{chose}: retry with a definition that does"))
            return "branch.agent", outcome.choice, None
        return "branch.default", _names(d, activation, branch.default), None
    for number, rule in enumerate(branch.rules):
        held, seen = _condition(d, activation, outcome, "branch", rule.condition, number)
        if held:
            return f"branch[{number}]", _names(d, activation, rule.next_nodes), seen
    return "branch.default", _names(d, activation, branch.default), None


def _leave(d: Decider, activation: Activation, node: Node, seen: Any, outcome: Outcome) -> Route:
    loop = node.loop
    assert loop is not None
    taken = _unnamed(d, activation, node)
    if loop.break_path is not None:
        taken += _names(d, activation, loop.break_path)
    rule = "loop.break"
    if node.branch is not None:
        rule_branch, targets, seen_branch = _branch(d, activation, node, outcome)
        taken += tuple(name for name in targets if name not in taken)
        rule = f"loop.break+{rule_branch}"
        seen = seen if seen_branch is None else seen_branch
    return Route(rule=rule, taken=taken, seen=seen, reasoning=outcome.reasoning)


def _exhausted(d: Decider, activation: Activation, node: Node, seen: Any) -> Route:
    loop = node.loop
    assert loop is not None
    if loop.timeout_path is None:
        raise LoopExhausted
    taken = _names(d, activation, loop.timeout_path)
    if not loop.timeout_path or loop.break_path is not None:
        taken += _unnamed(d, activation, node)  # otherwise the unnamed edges are the break path
    return Route(rule="loop.timeout", taken=taken, seen=seen)


def _reject(d: Decider, activation: Activation, node: Node) -> Route:
    if node.rejection_path is None:
        raise Rejected
    return Route(rule="rejection_path", taken=_names(d, activation, node.rejection_path))


def failure_path(d: Decider, activation: Activation) -> Route:
    node = d.node(activation)
    return Route(rule="on_failure.path", taken=_names(d, activation, node.failure_path))


def _names(d: Decider, activation: Activation, targets: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(d.state.name(target) for target in targets)


def _unnamed(d: Decider, activation: Activation, node: Node) -> tuple[str, ...]:
    edges = d.state.irs[d.state.iteration_ir(activation.scope, activation.node)].edges
    return _names(d, activation, tuple(edges[i].target for i in node.edges_out if not edges[i].named))
