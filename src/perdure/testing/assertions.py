"""`assert_run`: what a run should have come to, and how it differs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from perdure.testing.scripted_run import Run

_ANY: Any = object()
_NOT_RUN = {"pending", "skipped", "upstream_failed", "cancelled", "held", "waiting", "parked", "retrying", "failed"}


def assert_run(
    run: Run,
    *,
    state: str | None = None,
    outputs: Any = _ANY,
    error: str | None = None,
    nodes: Mapping[str, str] | None = None,
    attempts: Mapping[str, int] | None = None,
    never: Collection[str] = (),
) -> None:
    """Check a run's state, outputs and error code, the states and attempts of nodes, and nodes that never ran."""
    __tracebackhide__ = True
    differences: list[str] = []
    puzzling: dict[str, None] = {}
    if state is not None and run.state != state:
        found = run.error
        why = f" ({found['code']}: {found.get('message', '')})" if found else ""
        differences.append(f"state: expected {state}, got {run.state}{why}")
        if state == "completed":
            puzzling.update(dict.fromkeys(name for name, node in run.nodes.items() if node["state"] in _NOT_RUN))
    if outputs is not _ANY and run.outputs != outputs:
        differences += ["outputs differ (- expected, + got):", *_compare(outputs, run.outputs)]
    code = run.error["code"] if run.error else None
    if error is not None and code != error:
        differences.append(f"error: expected {error}, got {code or 'none'}")
    for name, wanted in (nodes or {}).items():
        if (got := _node(run, name)["state"]) != wanted:
            differences.append(f"node {name}: expected {wanted}, got {got}")
            puzzling[name] = None
    for name, number in (attempts or {}).items():
        if (count := _node(run, name)["attempt"]) != number:
            differences.append(f"attempts of {name}: expected {number}, got {count}")
            puzzling[name] = None
    for name in never:
        _node(run, name)
        if run.has_run(name):
            differences.append(f"node {name}: expected never to run, and it did")
            puzzling[name] = None
    if differences:
        reasons = [run.explain(name) for name in puzzling]
        raise AssertionError("\n".join([*differences, *(f"  {reason}" for reason in dict.fromkeys(reasons))]))


def _node(run: Run, name: str) -> dict[str, Any]:
    found = run.nodes.get(name)
    if found is None:
        raise AssertionError(run.explain(name))
    return found


def _compare(expected: Any, got: Any) -> list[str]:
    try:
        before, after = (
            msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2).decode().splitlines()
            for value in (expected, got)
        )
    except TypeError:
        return [f"  - {expected!r}", f"  + {got!r}"]
    return [f"  {line}" for line in difflib.ndiff(before, after) if not line.startswith("?")]
