"""Pipelines that agents ran, by their shape: the steps with the values lifted out that may differ from one use to the next.

What was used in several runs by several people can become a tool, whose parameters are the values that differed. Its name, its
description and its parameters' names are made here of the kinds of its steps: no agent writes them, so none can tell another what to do
by them. It calls nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

LIFTED = frozenset({"value", "k", "params", "json", "query", "form", "body", "with"})
"""The keys of a step whose values are no part of its shape."""
_PRIVATE = ("headers", "auth")
LARGEST = 8 * 1024
"""The most bytes of a pipeline that may become a tool."""
PARAMETER = "$param"
_TYPES = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))


class Use(msgspec.Struct, frozen=True):
    """A pipeline as it was run once."""

    steps: list[dict[str, Any]]
    """With `{$param: name}` where a value was lifted out."""
    values: dict[str, Any]

    @property
    def hash(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.steps, order="sorted")).hexdigest()[:32]


def lift(pipeline: Any) -> Use | None:
    """The shape of a pipeline; None: it is too large, or has headers, which may hold keys."""
    if not isinstance(pipeline, list) or any(not isinstance(one, dict) for one in pipeline):
        return None
    if any(key in step for step in pipeline for key in _PRIVATE) or PARAMETER in str(pipeline):
        return None
    values: dict[str, Any] = {}
    steps: list[dict[str, Any]] = [_lift(step, values) for step in pipeline]
    found = Use(steps, values)
    return found if len(msgspec.json.encode(found)) <= LARGEST else None


def _lift(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_lift(one, values) for one in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, one in value.items():
        if key in LIFTED:
            name = next(name for name in _names(key) if name not in values)
            values[name] = one
            found[key] = {PARAMETER: name}
        else:
            found[key] = _lift(one, values)
    return found


def _names(key: str) -> Any:
    yield key
    number = 2
    while True:
        yield f"{key}_{number}"
        number += 1


def fill(steps: Any, values: dict[str, Any]) -> Any:
    """The steps with the values of a call; those that are missing stay."""
    if isinstance(steps, list):
        return [fill(one, values) for one in steps]
    if not isinstance(steps, dict):
        return steps
    if steps.keys() == {PARAMETER}:
        return values.get(steps[PARAMETER], steps)
    return {key: fill(one, values) for key, one in steps.items()}


def make_tool(uses: Sequence[Use]) -> dict[str, Any]:
    """The tool that uses of one shape come to."""
    first = uses[0]
    differing = {name for name in first.values if name.partition("_")[0] == "with" or _differs(uses, name)}
    constants = {name: value for name, value in first.values.items() if name not in differing}
    steps = fill(first.steps, constants)
    kinds = [str(step.get("step")) for step in first.steps]
    sends = "http_request" in kinds
    names = [name for name in first.values if name in differing]
    properties: dict[str, Any] = {"input": {"description": 'data, or {"$handle": "h1.0"}'}}
    properties |= {name: _schema([use.values[name] for use in uses]) for name in names}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ([] if kinds[:1] == ["http_request"] else ["input"]) + names,
        "additionalProperties": False,
    }
    return {
        "name": f"{'_'.join(kind.removeprefix('table_') for kind in kinds)[:50]}_{first.hash[:8]}",
        "kind": "pipeline",
        "description": f"A pipeline: {', '.join(kinds)}. It takes {', '.join(properties)}.",
        "schema": schema,
        "effect": "send" if sends else "read",
        "steps": steps,
        "hash": first.hash,
    }


def _differs(uses: Sequence[Use], name: str) -> bool:
    return any(use.values.get(name) != uses[0].values[name] for use in uses)


def _schema(values: Sequence[Any]) -> dict[str, Any]:
    """What the values were: their types, and nothing else of them. Rows may be given by a handle."""
    if any(isinstance(one, dict | list) for one in values):
        return {"type": ["array", "object"]}
    types = sorted({next((name for kind, name in _TYPES if isinstance(one, kind)), "null") for one in values})
    return {"type": types[0]} if len(types) == 1 else {"type": types}
