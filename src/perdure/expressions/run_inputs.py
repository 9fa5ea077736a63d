"""The inputs of a run and the schema of its workflow: defaults, and keys that the schema does not know.

Pure functions of both. Every starter of a run asks here, so that what is recorded is what nodes will see.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import msgspec

from perdure.budget import Budget, OverBudget
from perdure.expressions.json_schema import SchemaInvalid, check
from perdure.expressions.schema_cost import count_values
from perdure.kernel.segments import has_sealed, mask
from perdure.spelling import Suggestions

_DEEPEST = 32
_MOST_VALUES = 5_000_000
MAX_STEPS, STEPS_A_VALUE = 50_000, 20
"""How many schemas may be looked at: so many, and so many more for each value there is. Schemas that lead back to
themselves double."""
_COST = 3
"""What looking at one schema costs of the budget of a request."""
MAX_ADDED = 1_000_000
"""How many bytes of JSON defaults may add, all together: one default stands for every element that lacks it."""

MOST_UNKNOWN = 20
"""How many inputs that a schema does not name are told of."""


def fill_in(schema: Any, value: Any, budget: Budget, *, masked: bool = False) -> tuple[Any, list[str]]:
    """The value with the defaults of the schema, and what the schema finds wrong with it then; no inputs at all count
    as an empty object. Both spend from the budget. With `masked`, sealed fields are checked as they are shown. Raises
    SchemaInvalid where that is too much."""
    whole = apply_defaults(schema, value, budget)
    checked = {} if whole is None else mask(whole) if masked and has_sealed(whole) else whole
    try:
        return whole, check(schema, checked, budget)
    except OverBudget as error:
        raise SchemaInvalid(f"the inputs cannot be checked: {error}") from None


def apply_defaults(schema: Any, value: Any, budget: Budget | None = None) -> Any:
    """The value with the defaults of the schema where it says nothing; the same object when there are none to add.
    Raises SchemaInvalid where that is too much."""
    try:
        if value is None and _Filling(schema, {}, budget).apply(schema, {}, 0):
            value = {}
        return _Filling(schema, value, budget).apply(schema, value, 0)
    except OverBudget:
        raise SchemaInvalid(
            "this JSON Schema is too costly: looking for its defaults in this value could take too long"
        ) from None


class _Filling:
    """One value being filled in, and what that has cost."""

    def __init__(self, root: Any, value: Any, of_request: Budget | None) -> None:
        self._root = root
        steps = MAX_STEPS + STEPS_A_VALUE * count_values(value, _MOST_VALUES)
        self._budget = Budget(steps, MAX_ADDED)
        self._of_request = of_request
        self._sizes: dict[int, int] = {}

    def apply(self, schema: Any, value: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return value
        self._spend_step()
        for part in (_follow(schema.get("$ref"), self._root), *_list(schema.get("allOf"))):
            value = self.apply(part, value, depth + 1)
        if isinstance(value, dict):
            return self._apply_to_object(schema, value, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            made = [self.apply(schema["items"], item, depth + 1) for item in value]
            return value if all(one is other for one, other in zip(made, value, strict=True)) else made
        return value

    def _apply_to_object(self, schema: dict[str, Any], value: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        added: dict[str, Any] = {}
        for name, part in properties.items() if isinstance(properties, dict) else ():
            if name in value:
                made = self.apply(part, value[name], depth + 1)
                if made is not value[name]:
                    added[name] = made
            else:
                self._spend_step()
                default = _default(part, self._root, 0)
                if default is not _NONE:
                    self._spend(default)
                    added[name] = self.apply(part, copy.deepcopy(default), depth + 1)
        return {**value, **added} if added else value

    def _spend_step(self) -> None:
        self._budget.spend(1)
        if self._of_request is not None:
            self._of_request.spend(_COST)

    def _spend(self, default: Any) -> None:
        if id(default) not in self._sizes:
            self._sizes[id(default)] = len(msgspec.json.encode(default))
        try:
            self._budget.make(self._sizes[id(default)])
        except OverBudget:
            raise SchemaInvalid(
                f"this JSON Schema is too costly: its defaults would add more than {MAX_ADDED:,} bytes to this value"
            ) from None


_NONE = object()


def _default(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return _NONE
    return schema["default"] if "default" in schema else _default(_follow(schema.get("$ref"), root), root, depth + 1)


def _follow(ref: Any, root: Any) -> Any:
    """What a reference inside the schema names; outside references are refused when the workflow is registered."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found = root
    for part in ref.removeprefix("#").strip("/").split("/") if ref != "#" else ():
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def find_unknown(schema: Any, value: Any) -> list[str]:
    """A sentence for each input that the schema says nothing about, up to `MOST_UNKNOWN` of them. Such inputs are accepted:
    the schema is open."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return []
    properties = schema.get("properties")
    opened = not {"additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "allOf"}.isdisjoint(
        schema
    )
    if not isinstance(properties, dict) or opened or not {"anyOf", "oneOf", "if"}.isdisjoint(schema):
        return []
    unknown = itertools.islice((name for name in value if name not in properties), MOST_UNKNOWN)
    suggestions = Suggestions()
    return [f"the workflow has no input {name!r}; {suggestions.suggest(name, properties)}" for name in unknown]
