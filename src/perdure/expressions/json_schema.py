"""JSON Schema, behind one file: values are checked, nothing is ever fetched.

The library would follow `$ref` to the network and the file system; here every outside reference is refused. It would
also search with an engine that backtracks; here patterns take time linear in the text, and have no look-around.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import msgspec

from perdure.budget import MAX_STEPS, Budget
from perdure.errors import PerdureError
from perdure.expressions.compiled_texts import kept
from perdure.expressions.patterns import PatternError
from perdure.expressions.schema_cost import Cost, TooCostly, count_values
from perdure.plain_text import cut
from perdure.spelling import suggest

MAX_SCHEMA = 1_000_000
ERROR_STEPS = 8_000
"""Keywords times values, up to which every error is looked for; each error takes about 10 µs."""
_STEPS_A_STEP = 25  # keywords checked in the time of one step of a `Budget`
_MOST = 20
_LONGEST = 300
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 19, dfa_size_limit=1 << 19)


class SchemaInvalid(PerdureError):
    """The schema itself is wrong, or refers to something outside itself."""

    code = "invalid_schema"
    status = 422

    def __init__(self, message: str, place: tuple[str | int, ...] = ()) -> None:
        """`place` is where in the schema it is wrong, as far as that is known."""
        super().__init__(message)
        self.place = place


def _deny(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema; copy what it refers to into it")


class Misfit:
    """An error that does not say where, with the attributes of the library's errors."""

    message = "it does not fit the schema; there is too much of it to say where"
    instance_path: tuple[str | int, ...] = ()
    schema_path: tuple[str | int, ...] = ()
    kind = SimpleNamespace(name="schema")

    def __init__(self, instance: Any) -> None:
        self.instance = instance


class Schema:
    """A compiled schema: the validator of the library, and what it may cost."""

    __slots__ = ("_cost", "_validator")

    def __init__(self, validator: Any, cost: Cost) -> None:
        self._validator = validator
        self._cost = cost

    def is_valid(self, value: Any, budget: Budget | None = None) -> bool:
        self._pay(value, budget)
        return bool(self._validator.is_valid(value))

    def iter_errors(self, value: Any, budget: Budget | None = None) -> Iterator[Any]:
        """All errors of a value; of a large value only the first, because the library finds all before it gives one."""
        self._pay(value, budget)
        width = max(1, self._cost.width)
        if count_values(value, ERROR_STEPS // width) * width <= ERROR_STEPS:
            yield from self._validator.iter_errors(value)
        elif self._cost.has_alternatives:  # its error would hold those of every alternative, at every place
            if not self._validator.is_valid(value):
                yield Misfit(value)
        else:
            try:
                self._validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                yield error

    def _pay(self, value: Any, budget: Budget | None) -> None:
        left = MAX_STEPS if budget is None else min(budget.steps, MAX_STEPS)
        try:
            steps = self._cost.check(value, left * _STEPS_A_STEP)
        except TooCostly as error:
            raise SchemaInvalid(f"this JSON Schema is too costly: {error}") from None
        if budget is not None:
            budget.spend(1 + steps // _STEPS_A_STEP)


def _make_validator(schema: Any) -> Any:
    """The library's validator. A `format` that JSON Schema defines is asserted (`date`, `date-time`, `email`, `uuid`,
    …); any other says nothing."""
    return jsonschema_rs.validator_for(
        schema, retriever=_deny, pattern_options=_PATTERNS, validate_formats=True, ignore_unknown_formats=True
    )


@kept(characters=2_000_000)
def _compile(text: bytes) -> Schema:
    if len(text) > MAX_SCHEMA:
        raise SchemaInvalid(f"this JSON Schema has {len(text):,} bytes, {MAX_SCHEMA:,} are allowed")
    try:
        schema = msgspec.json.decode(text)
        cost = Cost(schema)
        return Schema(_make_validator(schema), cost)
    except jsonschema_rs.ValidationError as error:
        said = cut(_explain(error), _LONGEST)
        raise SchemaInvalid(f"this is no usable JSON Schema: {said}", tuple(error.instance_path)) from None
    except (jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        raise SchemaInvalid(f"this is no usable JSON Schema: {cut(str(error), _LONGEST)}") from None
    except (TooCostly, PatternError) as error:
        raise SchemaInvalid(f"this JSON Schema cannot be used: {error}") from None


def _explain(error: Any) -> str:
    """What is wrong with a schema, in one line; the library's own text quotes the schemas that schemas have to fit."""
    if "type" in error.instance_path[-2:] and error.kind.name == "anyOf":
        names = error.instance if isinstance(error.instance, list) else [error.instance]
        for name in names:
            if isinstance(name, str) and name not in _TYPES:
                return f"there is no type '{cut(name, 80)}'; {suggest(name, _TYPES)}"
    return next(iter(str(error.message).splitlines()), "")


def compile_schema(schema: Any) -> Schema:
    """The compiled schema. Raises SchemaInvalid."""
    try:
        return _compile(msgspec.json.encode(schema, order="deterministic"))
    except (TypeError, RecursionError, UnicodeError):
        raise SchemaInvalid("this is no usable JSON Schema: it is not JSON") from None


def check(schema: Any, value: Any, budget: Budget | None = None) -> list[str]:
    """Everything that is wrong with the value, each with its place; empty if it fits."""
    problems: list[str] = []
    for error in compile_schema(schema).iter_errors(value, budget):
        if len(problems) == _MOST:
            problems.append("and more")
            break
        place = _place(error)
        message = cut(error.message, _LONGEST)
        problems.append(f"{place}: {message}" if place else message)
    return problems


def fits(schema: Any, value: Any, budget: Budget | None = None) -> bool:
    try:
        return compile_schema(schema).is_valid(value, budget)
    except (ValueError, RecursionError, UnicodeError) as error:
        raise SchemaInvalid(f"the value cannot be checked: {cut(str(error), _LONGEST)}") from None


def find_misfits(schema: Any, value: Any, most: int, budget: Budget | None = None) -> list[str]:
    """The places that do not fit, each with the keyword that says so, and never with the value found there."""
    found: list[str] = []
    for error in compile_schema(schema).iter_errors(value, budget):
        if len(found) == most:
            found.append("…")
            break
        keyword = next((part for part in reversed(error.schema_path) if isinstance(part, str)), "schema")
        found.append(f"{_place(error) or 'output'} ({keyword})")
    return found


def find_mistake(schema: Any) -> str | None:
    """What is wrong with the schema itself."""
    try:
        compile_schema(schema)
    except SchemaInvalid as error:
        return str(error)
    return None


def _place(error: Any) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return "".join(parts).lstrip(".")
