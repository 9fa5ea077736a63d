"""How far a run is, as the words and fates a picture shows. It reads the state of a run and changes nothing."""

from __future__ import annotations

from typing import Any

from perdure.drawing.picture import Marks
from perdure.drawing.words import say_duration
from perdure.kernel.lifecycle import ERROR, SKIPPED, TAKEN
from perdure.kernel.readings.run_view import run_view
from perdure.kernel.readings.seen import JOURNAL, Seen
from perdure.kernel.state import State


def mark_run(state: State, seen: Seen = JOURNAL) -> Marks:
    """The marks of a run; `seen` says what is executed now."""
    nodes = run_view(state, seen=seen)["nodes"]
    taken, skipped = find_fates(state)
    return Marks(
        states={name: node["state"] for name, node in nodes.items()},
        progress={name: said for name, node in nodes.items() if (said := _say_progress(node))},
        errors={name: said for name, node in nodes.items() if (said := _say_error(node))},
        taken=taken,
        skipped=skipped - taken,
    )


def find_fates(state: State) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Edges that were taken in some iteration, and edges that were skipped."""
    taken: set[tuple[str, str]] = set()
    skipped: set[tuple[str, str]] = set()
    for activation in state.activations.values():
        if activation.item < 0:
            for source, status in activation.edges.items():
                ends = (state.name(source), state.name(activation.node))
                if status in (TAKEN, ERROR):
                    taken.add(ends)
                elif status == SKIPPED:
                    skipped.add(ends)
    for (source, target, _), (status, _) in state.entered.items():
        if status in (TAKEN, ERROR):
            taken.add((state.name(source), state.name(target)))
    for run in state.loops.values():
        loop = state.node_in(run.ir, run.loop).loop
        if loop is not None and run.iteration > 1:
            taken.add((state.name(run.loop), state.name(loop.head)))
    return taken, skipped


def _say_error(node: dict[str, Any]) -> str:
    error = node.get("error") if node["state"] in ("failed", "parked", "retrying") else None
    return "" if not error else str(error.get("message") or error["code"])


def _say_progress(node: dict[str, Any]) -> str:
    parts = []
    if node["state"] in ("completed", "failed", "compensated") and node.get("started_at") and node.get("ended_at"):
        parts.append(say_duration(node["ended_at"] - node["started_at"]))
    if node["attempt"] > 1:
        parts.append(f"attempt {node['attempt']}")
    if node.get("scope"):
        parts.append(f"iteration {'.'.join(map(str, node['scope']))}")
    if "items" in node and node["state"] == "waiting":
        ended = node["items"]["completed"] + node["items"]["failed"]
        parts.append(f"{ended} item{'s' * (ended != 1)}")
    return ", ".join(parts)
