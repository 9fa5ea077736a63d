"""Why has this node not run, in words for programs: a code, and the ids by which one can do something about it.

It says what `explain` says to people, and like it reads state, changes nothing and decides nothing.
"""

from __future__ import annotations

from typing import Any

from perdure.kernel.lifecycle import ERROR, TAKEN, N, R
from perdure.kernel.readings.explain import current_scope, find_latest
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.state import Activation, State, key_of
from perdure.kernel.triggers.receivers import say_source
from perdure.kernel.values import Asked
from perdure.model.ir import Node

Reason = dict[str, Any]
MOST_SOURCES = 100
"""How many nodes are named that one node waits for."""
FIRST = (
    "approval",
    "asks",
    "parked",
    "no_worker",
    "paused",
    "retry",
    "signal",
    "event",
    "timer",
    "delay",
    "child",
    "items",
    "queued",
)
"""The codes of what holds up a run, the one that a person can do most about first."""
_ENDED = {
    N.COMPLETED: "completed",
    N.SKIPPED: "skipped",
    N.CANCELLED: "cancelled",
    N.UPSTREAM_FAILED: "upstream_failed",
    N.FAILED: "failed",
    N.COMPENSATED: "compensated",
}


def reason_of(state: State, name: str, seen: Seen = JOURNAL) -> Reason:
    """Why the node is where it is. The node exists."""
    index = state.ir.numbers[name]
    node = state.node(index)
    scope = current_scope(state, node)
    activation = find_latest(state, index) if scope is None else state.activations.get(key_of(index, scope))
    if activation is not None and activation.state is not N.PENDING:
        return _reached(state, node, activation, seen)
    if scope is None:
        return {"code": "loop_ended"}
    if state.terminal or state.state in (R.FAILING, R.CANCELLING, R.COMPENSATING):
        return {"code": "run_ended"}
    return _dependencies(state, node, scope, activation, seen)


def find_first(state: State, seen: Seen = JOURNAL) -> Reason | None:
    """What holds up the run first, with its node; None where nothing does, or work is done for all that is open."""
    if state.terminal:
        return None
    if state.pauses:
        reason, by = next(iter(state.pauses.items()))
        return {"code": "paused", "by": by or None, "reason": reason}
    best: tuple[int, Activation] | None = None
    for activation in state.activations.values():
        if activation.state in _ENDED:  # of very many items most have ended, and the answer must be quick
            continue
        code = _code(activation, seen)
        if code in FIRST and (best is None or FIRST.index(code) < best[0]):
            best = FIRST.index(code), activation
            if best[0] == 0:
                break
    if best is None:
        return None
    node = state.node(best[1].node)
    return {"node": node.id, **_reached(state, node, best[1], seen)}


def _code(activation: Activation, seen: Seen) -> str:
    match activation.state:
        case N.HELD:
            return activation.reason or "held"
        case N.QUEUED:
            return "queued" if seen.find(activation) is None else "running"
        case N.RUNNING:
            return "running"
        case N.RETRYING:
            return "retry"
        case N.WAITING:
            return "waiting" if activation.wait is None else activation.wait.kind
        case N.PARKED:
            return "parked"
        case N.PENDING:
            return "dependencies"
        case _:
            return _ENDED.get(activation.state, activation.state.value)


def _reached(state: State, node: Node, activation: Activation, seen: Seen) -> Reason:
    code = _code(activation, seen)
    reason: Reason = {"code": code}
    wait = activation.wait
    if activation.item >= 0:
        reason["item"] = activation.item
    match activation.state:
        case N.HELD | N.QUEUED | N.RUNNING:
            reason["queue"] = node.queue
            working = seen.find(activation)
            worker = activation.worker if working is None else working.worker
            reason |= {"worker": worker} if worker and code == "running" else {}
        case N.RETRYING:
            reason |= {
                "until": activation.retry_at,
                "error": None if activation.error is None else activation.error.code,
            }
        case N.PARKED:
            reason["dead_letter_id"] = state.address(activation).dead_letter_id
            reason["error"] = None if activation.error is None else activation.error.code
        case N.FAILED:
            reason["error"] = None if activation.error is None else activation.error.code
        case N.WAITING if wait is not None:
            reason |= _wait(state, activation)
    return reason


def _wait(state: State, activation: Activation) -> Reason:
    wait = activation.wait
    assert wait is not None
    match wait.kind:
        case "approval":
            approval = state.approvals.get(wait.name)
            return {"approval_id": wait.name, "until": None if approval is None else approval.expires_at}
        case "signal":
            return {"signal": wait.name, "until": wait.until}
        case "event":
            return {"event": wait.name, "key": wait.key, "until": wait.until}
        case "timer" | "delay":
            return {"until": wait.until}
        case "child":
            return {"child": wait.name}
        case "items":
            return {"open": activation.items_open}
        case "asks":
            return {"asks": [_ask(state, ask) for ask in activation.asks.values() if ask.open]}
        case "trigger" if (box := state.triggers.get(state.name(activation.node))) is not None and box.inner:
            return {"trigger": say_source(box), "waiting": len(box.waiting), "received": box.position}
        case _:
            return {}


def _ask(state: State, ask: Asked) -> Reason:
    reason: Reason = {"name": ask.name, "kind": ask.kind}
    approval = state.approvals.get(ask.approval)
    until = ask.until if approval is None else approval.expires_at
    about = {"approval_id": ask.approval, "signal": ask.signal, "child": ask.child, "until": until}
    return reason | {key: value for key, value in about.items() if value}


def _dependencies(
    state: State, node: Node, scope: tuple[int, ...], activation: Activation | None, seen: Seen
) -> Reason:
    waits_for: list[dict[str, str]] = []
    arrived: list[str] = []
    for number in node.edges_in:
        edge = state.ir.edges[number]
        status = None if activation is None else activation.edges.get(edge.source)
        name = state.name(edge.source)
        if status in (TAKEN, ERROR):
            arrived.append(name)
        elif status is None and len(waits_for) < MOST_SOURCES:
            inner = len(state.node(edge.source).loops) > edge.common
            key = key_of(edge.source, scope[: edge.common])
            before = find_latest(state, edge.source) if inner else state.activations.get(key)
            waits_for.append({"node": name, "state": "pending" if before is None else seen.state(before).value})
    reason: Reason = {"code": "dependencies", "waits_for": waits_for, "arrived": arrived[:MOST_SOURCES]}
    return reason if node.join.at_least is None else {**reason, "at_least": node.join.at_least}
