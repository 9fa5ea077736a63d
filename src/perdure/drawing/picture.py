"""What there is to draw: boxes and arrows with their words, made from a workflow and, for a run, from how far it is.

It knows nothing of places, sizes or file formats. A run comes in as plain words, so this needs no kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from perdure.drawing.words import say_condition, say_config
from perdure.model.ir import IR, Loop, Node

ArrowKind = Literal["plain", "choice", "failure", "back"]
ALIASES = {"call_external_service": "http", "llm_service": "llm"}


class Box(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    detail: str = ""
    """What the node is about: a function, an address, the approvers."""
    notes: tuple[str, ...] = ()
    """What else decides whether the node runs: `when …`, `any of 3`."""
    compensated: bool = False
    """Whether the node has a compensator."""
    state: str = ""
    progress: str = ""
    """How far the node is in a run: `1.2 s, attempt 2`."""
    error: str = ""
    """Why the node failed in a run."""


class Arrow(msgspec.Struct, frozen=True, kw_only=True):
    source: int
    target: int
    kind: ArrowKind = "plain"
    label: str = ""
    """The text at the arrow; line breaks are kept."""
    fate: Literal["", "taken", "skipped", "open"] = ""
    """What became of the edge in a run; open: the run has not come this way."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    description: str = ""
    of_run: bool = False


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: states and remarks by node, and the fate of edges by their ends."""

    states: Mapping[str, str] = {}
    progress: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}
    taken: Collection[tuple[str, str]] = ()
    skipped: Collection[tuple[str, str]] = ()


def make_picture(ir: IR, marks: Marks | None = None) -> Picture:
    """One box for each node, one arrow for each edge and for each way back of a loop."""
    order = _sort(ir)
    numbers = {index: number for number, index in enumerate(order)}
    boxes = [_box(node, marks) for index in order if (node := ir.nodes[index]) is not None]
    arrows = []
    for edge in sorted(ir.edges, key=lambda one: (numbers.get(one.source, -1), numbers.get(one.target, -1))):
        source, target = ir.nodes[edge.source], ir.nodes[edge.target]
        if source is None or target is None:
            continue
        loop = source.loop if edge.kind == "back" else None
        kind, label = ("back", _say_back(loop)) if loop is not None else _say_edge(source, edge.target)
        if edge.ports and not label:
            label = ", ".join(f"{out or 'out'} → {into or 'in'}" for out, into in edge.ports)
        ends = (source.id, target.id)
        fate = ""
        if marks is not None:
            fate = "taken" if ends in marks.taken else "skipped" if ends in marks.skipped else "open"
        arrows.append(
            Arrow(source=numbers[edge.source], target=numbers[edge.target], kind=kind, label=label, fate=fate)  # type: ignore[arg-type]
        )
    return Picture(
        name=ir.name,
        boxes=tuple(boxes),
        arrows=tuple(arrows),
        description=ir.description,
        of_run=marks is not None,
    )


def _sort(ir: IR) -> list[int]:
    """Nodes from the beginning to the end, and those at the same depth by name, `shard_9` before `shard_10`."""
    depths: dict[int, int] = {}
    for index, node in enumerate(ir.nodes):  # in topological order
        if node is not None:
            depths[index] = max((depths.get(ir.edges[number].source, 0) + 1 for number in node.edges_in), default=0)
    return sorted(depths, key=lambda index: (depths[index], _natural(ir.nodes[index]), index))


def _natural(node: Node | None) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", "" if node is None else node.id)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _box(node: Node, marks: Marks | None) -> Box:
    notes = []
    if node.when is not None:
        notes.append(f"when {say_condition(node.when)}")
    if node.join.at_least is not None and len(node.edges_in) > 1:
        many = "any" if node.join.at_least == 1 else str(node.join.at_least)
        notes.append(f"{many} of {len(node.edges_in)}{', the rest is cancelled' if node.join.cancel_rest else ''}")
    if node.on_failure in ("park", "continue"):
        notes.append(f"on failure: {node.on_failure}")
    return Box(
        id=node.id,
        type=ALIASES.get(node.type, node.type),
        detail=say_config(node),
        notes=tuple(notes),
        compensated=node.compensator is not None,
        state="" if marks is None else marks.states.get(node.id, "pending"),
        progress="" if marks is None else marks.progress.get(node.id, ""),
        error="" if marks is None else marks.errors.get(node.id, ""),
    )


def _say_back(loop: Loop) -> str:
    most = f"\nat most {loop.max_iterations}×" if loop.max_iterations is not None else ""
    return f"again if {say_condition(loop.condition)}{most}"


def _say_edge(source: Node, target: int) -> tuple[ArrowKind, str]:
    """What has to happen for this edge to be taken; nothing if it always is."""
    reasons: list[str] = []
    kind: ArrowKind = "plain"
    branch, loop = source.branch, source.loop
    if branch is not None:
        reasons += [say_condition(rule.condition) for rule in branch.rules if target in rule.next_nodes]
        if branch.kind == "agent_driven" and target in branch.available:
            reasons.append("if the agent chooses")
        if target in branch.default:
            reasons.append("otherwise")
    if loop is not None and target in (loop.break_path or ()):
        reasons.append("done")
    if loop is not None and target in (loop.timeout_path or ()):
        reasons.append(f"after {loop.max_iterations}×")
    if reasons:
        kind = "choice"
    if source.rejection_path is not None:
        if target in source.rejection_path:
            reasons.append("rejected")
            kind = "failure"
        elif not reasons and target not in source.failure_path:
            reasons.append("approved")
            kind = "choice"
    if target in source.failure_path:
        reasons.append("on failure")
        kind = "failure" if len(reasons) == 1 else "choice"
    return kind, " or ".join(dict.fromkeys(reasons))
