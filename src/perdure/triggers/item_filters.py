"""Filters of items: a condition over `item` and `trigger`, before there is a run.

CEL, JSONPath, a JSON Schema, or several of them together: JSONPath and schemas look at the item. Nothing here runs
Python, and what cannot be evaluated is an error and never false.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.budget import Budget, OverBudget
from perdure.expressions import cel, json_schema, jsonpath
from perdure.model.problems import Path

NAMES = ("item", "trigger")
EVENT_NAMES = ("event",)

Condition = dict[str, Any]


class BadFilter(Exception):
    """A filter cannot be evaluated over this item. The text is for people."""


def find_mistakes(condition: Condition) -> Iterator[tuple[Path, str]]:
    """What is wrong with a filter, found without an item, each with its place inside it."""
    kind = condition["type"]
    if kind == "composite":
        for index, inner in enumerate(condition["conditions"]):
            for path, message in find_mistakes(inner):
                yield ("conditions", index, *path), message
        return
    if kind == "cel":
        problem = cel.check(condition["expression"], NAMES)
    elif kind == "jsonpath":
        problem = jsonpath.check(condition)
    else:
        problem = json_schema.find_mistake(condition["schema"])
    if problem is not None:
        yield (), problem


def passes(condition: Condition, item: Any, trigger: dict[str, Any], budget: Budget) -> bool:
    """Whether an item passes. Raises BadFilter."""
    kind = condition["type"]
    try:
        if kind == "composite":
            return _combine(condition, item, trigger, budget)
        if kind == "cel":
            return cel.evaluate(condition["expression"], {"item": item, "trigger": trigger}, budget, NAMES)
        if kind == "jsonpath":
            return jsonpath.evaluate(condition, item, budget).is_true
        return json_schema.fits(condition["schema"], item, budget) is not condition.get("invert", False)
    except (cel.CelError, jsonpath.JsonPathError, json_schema.SchemaInvalid, OverBudget) as error:
        raise BadFilter(str(error)) from None
    except RecursionError:
        raise BadFilter("the item is nested too deep") from None


def matches_event(expression: str, payload: Any, budget: Budget) -> bool:
    """Whether an event matches, by its payload. Raises BadFilter."""
    try:
        return cel.evaluate(expression, {"event": payload}, budget, EVENT_NAMES)
    except (cel.CelError, OverBudget) as error:
        raise BadFilter(str(error)) from None
    except RecursionError:
        raise BadFilter("the event is nested too deep") from None


def _combine(condition: Condition, item: Any, trigger: dict[str, Any], budget: Budget) -> bool:
    """As conditions of a run are combined: one that decides wins over one that cannot be evaluated."""
    operator: str = condition["operator"]
    if operator == "NOT":
        return not passes(condition["conditions"][0], item, trigger, budget)
    trouble: BadFilter | None = None
    for inner in condition["conditions"]:
        try:
            if passes(inner, item, trigger, budget) is (operator == "OR"):
                return operator == "OR"
        except BadFilter as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return operator == "AND"
