"""A run as API, CLI and SDK show it: `{run_id, workflow, state, counter, …, nodes: {id: {state, visit, …}}}`.

A value that is stored as a blob is `{"$ref": "cas://…"}` here; a caller with access to the blobs puts their content in.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.kernel.lifecycle import N, R
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.readings.seen import DEEPEST_PROGRESS, JOURNAL, Seen, Working
from perdure.kernel.segments import BlobRef, show
from perdure.kernel.state import Activation, State


def run_view(state: State, *, nodes: bool = True, seen: Seen = JOURNAL) -> dict[str, Any]:
    view: dict[str, Any] = {
        "run_id": state.run_id,
        "workflow": state.workflow,
        "version": state.workflow_version,
        "state": state.state.value,
        "counter": state.counter,
        "generation": state.generation,
        "inputs": show(state.inputs),
        "outputs": show(state.outputs if state.outputs_ref is None else BlobRef(state.outputs_ref)),
        "error": None if state.error is None else msgspec.to_builtins(state.error),
        "created_at": state.created_at,
        "started_at": seen.started_at(state),
        "ended_at": state.ended_at,
        "tags": state.tags,
    }
    if state.continued_as is not None:
        view["continued_as"] = state.continued_as
    if len(state.irs) > 1:
        view["patches"] = len(state.irs) - 1
    if nodes:
        view["nodes"] = nodes_view(state, seen=seen)
    return view


def nodes_view(state: State, after: str = "", most: int | None = None, *, seen: Seen = JOURNAL) -> dict[str, Any]:
    """The nodes by id, in the order of the definition: those after the one called `after`, at most `most` of them."""
    failed_below = _below_failure(state)
    views: dict[str, Any] = {}
    first = 0 if not after else state.index(after) + 1
    for index, node in enumerate(state.ir.nodes[first:], first):
        if node is not None:
            if len(views) == most:
                break
            shown = node_view(state, index, seen)
            if shown["state"] == N.PENDING and index in failed_below:
                shown["state"] = N.UPSTREAM_FAILED.value
            views[node.id] = shown
    return views


def about_view(state: State) -> dict[str, Any]:
    """Where a run comes from, and how many dead letters wait for an operator."""
    return {
        "parent": None if state.parent is None else state.parent[0],
        "submitted_by": state.submitted_by or None,
        "alias": state.alias or None,
        "correlation_id": state.correlation_id or None,
        "dlq_count": _parked(state),
    }


def _parked(state: State) -> int:
    """How many dead letters wait for an operator."""
    undone = state.activations[state.plan[-1]].undo if state.plan else None
    items = 0 if state.terminal else sum(len(box.parked) for box in state.triggers.values())
    return state.tally.get(N.PARKED, 0) + (undone is not None and undone.state == "parked") + items


def node_view(state: State, index: int, seen: Seen = JOURNAL) -> dict[str, Any]:
    activation = find_latest(state, index)
    view: dict[str, Any] = {"state": N.PENDING.value, "visit": 0, "attempt": 0}
    if activation is not None:
        view = activation_view(state, activation, seen)
    box = state.triggers.get(state.name(index))
    if box is not None and box.parked and not state.terminal:  # with its run, a letter is over
        last = box.parked[max(box.parked)]
        view["parked"] = {"count": len(box.parked), "error": msgspec.to_builtins(last.error)}
    return view


def activation_view(state: State, activation: Activation, seen: Seen = JOURNAL) -> dict[str, Any]:
    word = seen.state(activation).value
    view: dict[str, Any] = {"state": word, "visit": activation.visit, "attempt": activation.tries}
    if activation.scope:
        view["scope"] = list(activation.scope)
    if activation.state in (N.COMPLETED, N.FAILED, N.COMPENSATED):
        view["output"] = show(activation.output if activation.output_ref is None else BlobRef(activation.output_ref))
        if activation.output_ref is not None:
            view["size"] = activation.size
    if activation.error is not None:
        view["error"] = msgspec.to_builtins(activation.error)
    for name in ("started_at", "ended_at", "retry_at"):
        if getattr(activation, name) is not None:
            view[name] = getattr(activation, name)
    if activation.worker and word == "running":
        view["worker"] = activation.worker
    working = seen.find(activation)
    if working is not None:
        view |= working_view(working)
    if activation.wait is not None:
        view["waiting_for"] = msgspec.to_builtins(activation.wait)
    if activation.reason:
        view["reason"] = activation.reason
    if activation.detail and word == "held":
        view["detail"] = activation.detail
    if activation.route is not None:
        view["route"] = msgspec.to_builtins(activation.route)
    if activation.items_started:
        counts = {"completed": activation.items_completed, "failed": activation.items_failed}
        view["items"] = {**counts, "open": activation.items_open}
        running = seen.count_items(activation)
        if running:
            view["items"]["running"] = running
    return view


def working_view(working: Working) -> dict[str, Any]:
    """Which worker executes an attempt, and since when."""
    view: dict[str, Any] = {"worker": working.worker}
    if working.since is not None:
        view["started_at"] = working.since
    if working.host:
        view |= {"host": working.host, "pid": working.pid}
    if (progress := read_progress(working.progress)) is not None:
        view["progress"] = progress
    return view


def read_progress(said: str) -> Any:
    """What a handler said of how far it is; None if it said nothing, or what its worker wrote is not shallow JSON without NUL."""
    if not said or said.count("[") + said.count("{") > DEEPEST_PROGRESS or "\\u0000" in said:
        return None
    try:
        return msgspec.json.decode(said)
    except (msgspec.DecodeError, RecursionError):
        return None


def _below_failure(state: State) -> set[int]:
    """Nodes of a failed run that were never reached because a node before them failed."""
    if state.state not in (R.FAILED, R.FAILING):
        return set()
    ir = state.ir
    found = [a.node for a in state.activations.values() if a.state in (N.FAILED, N.UPSTREAM_FAILED) and not a.handled]
    below: set[int] = set()
    while found:
        node = ir.nodes[found.pop()]
        for number in node.edges_out if node is not None else ():
            target = ir.edges[number].target
            if target not in below:
                below.add(target)
                found.append(target)
    return below
