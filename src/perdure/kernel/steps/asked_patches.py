"""Patches that handlers ask for (rule 87): what such a patch may change at most, and how it is answered.

It may add nodes after its own, and nothing else: no node that is there becomes another one, and none gets another dependency, but
those that the definition let the asker choose from the beginning. What every patch must keep is judged as well (E6). A patch that
is refused is an answer; the patch and its answer are one append.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel import events as e
from perdure.kernel import patches
from perdure.kernel.decider import Decider
from perdure.kernel.lifecycle import N, R
from perdure.kernel.state import Activation, State
from perdure.kernel.steps.asks import answer
from perdure.kernel.triggers.receivers import starts_runs
from perdure.kernel.triggers.trigger_nodes import find_changed
from perdure.kernel.values import Asked, steps_of
from perdure.model.ir import IR, Edge, Node, is_approval
from perdure.model.rebase import rebase

MOST_PATCHES = 5
"""How many patches of its handlers a run takes."""
MOST_NODES = 10
_SAID = 20
_PLAIN = ("branch", "loop", "when", "compensator", "item", "max_hops", "max_fanout", "stream", "rejection_path")
"""What a new node does not have: it only works, once, after the one that added it."""


def apply_patch(d: Decider, command: c.ApplyPatch) -> None:
    """Apply the patch that a handler waits for, and answer it; or answer with what is wrong."""
    activation = d.get(command)
    ask = find_open(activation, command.ask)
    current = activation.attempt == command.address.attempt and command.address.generation == d.state.generation
    if ask is None or not current or ask.content != command.content:
        return  # an answer that comes twice, or too late
    if d.state.state not in (R.RUNNING, R.PAUSED):
        return  # its end is no answer (rule 80); the next generation asks anew
    if command.ir is not None and command.base != d.state.ir_hashes[-1]:
        d.effect(fx.ApplyPatch(address=d.state.address(activation), ask=ask.name))  # another patch came between
        return
    problems = list(command.refused)
    if command.ir is None:
        problems = problems or ["nothing came of it"]
    else:
        problems += find_problems(d.state, activation, command.ir)
    if command.ir is None or problems:
        answer(d, activation, ask.name, _said(refused=problems[:_SAID]))
        return
    old = d.state.ir
    d.state.library.setdefault(command.ir.hash, command.ir)
    by = f"agent:{d.state.name(activation.node)}"
    said: dict[str, Any] = {"reason": ask.reason, "patch": ask.operations, "ask": ask.name, "version": 2}
    d.emit(e.RunPatched, ir=command.ir.hash, by=by, **said)
    new = d.state.ir
    added = sorted(node.id for node in _added(old, new).values())
    edges = sorted(f"{d.state.name(edge.source)} -> {d.state.name(edge.target)}" for edge in _new_edges(old, new))
    answer(d, activation, ask.name, _said(added=added, edges=edges))


def find_open(activation: Activation, name: str) -> Asked | None:
    """The patch that a waiting activation asks for under this name."""
    ask = activation.asks.get(name) if activation.state is N.WAITING else None
    return ask if ask is not None and ask.open and ask.kind == "patch" else None


def _said(added: list[str] | None = None, edges: list[str] | None = None, refused: list[str] | None = None) -> Any:
    return {"applied": not refused, "added": added or [], "edges_added": edges or [], "refused": refused or []}


def find_problems(state: State, activation: Activation, ir: IR) -> list[str]:
    """The reasons why a handler may not change the run in this way."""
    if starts_runs(state):
        return [f"run {state.run_id} is a trigger; register it anew to change it"]
    if _count_applied(state) >= MOST_PATCHES:
        return [f"the run has taken {MOST_PATCHES} patches of its nodes, and takes no more"]
    problems = [*_beyond(state, activation, rebase(ir, *state.irs)), *find_changed(state, ir)]
    return problems or patches.check(state, ir)


def _count_applied(state: State) -> int:
    given = (
        steps_of(one.checkpoint).get(ask.name)
        for one in state.activations.values()
        for ask in one.asks.values()
        if ask.kind == "patch"
    )
    return sum(isinstance(said, dict) and said.get("applied") is True for said in given)


def _beyond(state: State, activation: Activation, new: IR) -> Iterator[str]:
    """What a patch would do besides adding nodes after the asker."""
    old, asker = state.ir, activation.node
    if activation.item >= 0 or state.node(asker) is None:
        yield "an item of a map, and a node that is no longer there, change no run"
        return
    added = _added(old, new)
    if not added:
        yield "it adds no node"
    if len(added) > MOST_NODES:
        yield f"it adds {len(added)} nodes, and {MOST_NODES} are the most"
    if _whole(old) != _whole(new):
        yield "it changes more of the workflow than its nodes and edges"
    for index, node in enumerate(old.nodes):
        after = new.nodes[index] if index < len(new.nodes) else None
        if node is not None and (after is None or _kept(node, added) != _kept(after, added, is_asker=index == asker)):
            yield f"it changes {node.id!r}, and may only add nodes"
    before = {_way(edge) for edge in old.edges}
    after_all = {_way(edge) for edge in new.edges}
    if before - after_all:
        yield "it changes edges that are there"
    entered = set[int]()
    allowed = _first_choice(state, asker)
    for edge in _new_edges(old, new):
        ends = f"{state.name(edge.source) if edge.source < len(old.nodes) else added[edge.source].id} -> " + (
            added[edge.target].id if edge.target in added else state.name(edge.target)
        )
        entered.add(edge.target)
        if edge.source != asker and edge.source not in added:
            yield f"the edge {ends} begins at a node that is there; new edges begin at {state.name(asker)!r} or at new nodes"
        if edge.target not in added and edge.target not in allowed:
            yield f"the edge {ends} ends at a node that is there; new edges end at new nodes, or where {state.name(asker)!r} could choose to go"
    for index, node in added.items():
        if index not in entered:
            yield f"nothing leads to {node.id!r}: give it an edge from {state.name(asker)!r}"
        if is_approval(node) or node.labels or any(getattr(node, name) is not None for name in _PLAIN):
            yield f"{node.id!r} is more than a node that works once: it asks people, decides, loops, undoes or has labels or limits"


def _added(old: IR, new: IR) -> dict[int, Node]:
    there = {index for index, node in enumerate(old.nodes) if node is not None}
    return {index: node for index, node in enumerate(new.nodes) if node is not None and index not in there}


def _new_edges(old: IR, new: IR) -> list[Edge]:
    there = {(edge.source, edge.target) for edge in old.edges}
    return [edge for edge in new.edges if (edge.source, edge.target) not in there]


def _way(edge: Edge) -> tuple[object, ...]:
    return edge.source, edge.target, edge.kind, edge.common, edge.named, edge.required, edge.ports


def _first_choice(state: State, asker: int) -> frozenset[int]:
    """The nodes that the asker could choose before any patch."""
    first = state.irs[0]
    node = first.nodes[asker] if asker < len(first.nodes) else None
    return frozenset(node.branch.available if node is not None and node.branch is not None else ())


def _whole(ir: IR) -> tuple[object, ...]:
    about = ir.name, ir.limits, ir.inputs_schema, ir.outputs, ir.output_references
    return *about, ir.compensate_on_failure, ir.endless, ir.policies


def _kept(node: Node, added: dict[int, Node], *, is_asker: bool = False) -> Node:
    """What must not change of a node that is there: all but what follows from edges, and where the asker may go."""
    change: dict[str, Any] = {"edges_in": (), "edges_out": (), "terminal": False, "lenient": False, "region": None}
    if node.loop is not None:
        body = tuple(index for index in node.loop.body if index not in added)
        change["loop"] = msgspec.structs.replace(node.loop, exits=(), body=body)
    if is_asker and node.branch is not None:
        known = tuple(index for index in node.branch.available if index not in added)
        change["branch"] = msgspec.structs.replace(node.branch, available=known)
    return msgspec.structs.replace(node, **change)
