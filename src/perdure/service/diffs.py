"""Differences between two values, two runs and two definitions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

MOST = 1000
"""How many differences are listed; a person reads fewer, and a program asks for the values themselves."""
MOST_OF_A_RUN = 10_000
"""How many differences between two runs are listed, over all their nodes."""
_PASSING = {"started_at", "ended_at", "created_at", "run_id", "retry_at"}
"""Fields that differ between any two runs, and are never the difference a reader looks for."""

Difference = dict[str, Any]


def diff_values(before: Any, after: Any, path: str = "", found: list[Difference] | None = None) -> list[Difference]:
    """Each difference with its place as a JSON pointer: `before` and `after`, or the one that exists."""
    found = [] if found is None else found
    if before == after and type(before) is type(after):
        return found
    if len(found) >= MOST:
        return found
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            _diff_at(before, after, name, f"{path}/{_escape(name)}", name in before, name in after, found)
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            there = (number < len(before), number < len(after))
            _diff_at(before, after, number, f"{path}/{number}", *there, found)
    else:
        found.append({"path": path, "change": "changed", "before": before, "after": after})
    return found


def _diff_at(
    before: Any, after: Any, key: Any, path: str, in_before: bool, in_after: bool, found: list[Difference]
) -> None:
    if len(found) >= MOST:
        return
    if not in_after:
        found.append({"path": path, "change": "removed", "before": before[key]})
    elif not in_before:
        found.append({"path": path, "change": "added", "after": after[key]})
    else:
        diff_values(before[key], after[key], path, found)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def diff_runs(
    first: tuple[int, dict[str, Any]], second: tuple[int, dict[str, Any]], most: int | None = None
) -> dict[str, Any]:
    """Differences between two views of runs, then node by node. Times are left out between different runs. Behind the
    first `most` bytes, values are left out and marked as `omitted`."""
    (before_seq, before), (after_seq, after) = first, second
    other = before["run_id"] != after["run_id"]
    left_out = {"nodes", *(_PASSING if other else ())}
    run = diff_values(_without(before, left_out), _without(after, left_out))
    nodes: dict[str, list[Difference]] = {}
    listed = len(run)
    names = [*before["nodes"], *(name for name in after["nodes"] if name not in before["nodes"])]
    for name in names:
        one = _without(before["nodes"].get(name), _PASSING if other else set())
        two = _without(after["nodes"].get(name), _PASSING if other else set())
        if different := diff_values(one, two):
            nodes[name] = different
            listed += len(different)
            if most is not None and listed >= MOST_OF_A_RUN:
                break
    if most is not None:
        _keep_within([run, *nodes.values()], most)
    return {
        "before": {"run_id": before["run_id"], "seq": before_seq, "state": before["state"]},
        "after": {"run_id": after["run_id"], "seq": after_seq, "state": after["state"]},
        "run": run,
        "nodes": nodes,
    }


def _keep_within(lists: Iterable[list[Difference]], most: int) -> None:
    for differences in lists:
        for one in differences:
            for name in ("before", "after"):
                if name in one and most >= 0:  # what comes behind is not even measured
                    most -= len(msgspec.json.encode(one[name]))
                if name in one and most < 0:
                    one[name], one["omitted"] = None, True


def _without(view: dict[str, Any] | None, names: set[str]) -> dict[str, Any] | None:
    return None if view is None else {name: value for name, value in view.items() if name not in names}


def diff_definitions(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Differences between two definitions in canonical form: nodes by id, edges as `a -> b`, all other keys."""
    old = {node["id"]: node for node in before["nodes"]}
    new = {node["id"]: node for node in after["nodes"]}
    edges_before, edges_after = _edges(before), _edges(after)
    changed = {name: diff_values(old[name], new[name]) for name in sorted(old.keys() & new.keys())}
    parts = {"nodes", "edges"}
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": {name: found for name, found in changed.items() if found},
        "edges_added": sorted(edges_after - edges_before),
        "edges_removed": sorted(edges_before - edges_after),
        "workflow": diff_values(_without(before, parts), _without(after, parts)),
    }


def _edges(definition: dict[str, Any]) -> set[str]:
    return {f"{edge['from']} -> {edge['to']}" for edge in definition["edges"]}
