"""JSON Schema, behind one file: values are checked, nothing is ever fetched.

The library would follow `$ref` to the network and the file system; here every outside reference is refused. It would
also search with an engine that backtracks; here patterns take time linear in the text, and have no look-around.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import msgspec

from perdure.budget import MAX_STEPS, Budget
from perdure.errors import PerdureError
from perdure.expressions.at_hand import NOTHING, AtHand, Lost
from perdure.expressions.compiled_texts import kept
from perdure.expressions.errors import NotAtHand
from perdure.expressions.patterns import PatternError
from perdure.expressions.schema_cost import Cost, TooCostly, count_values, is_light
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


class NeedsSchema(NotAtHand):
    """A schema that is not light must be compiled first."""

    code = "needs_schema"

    def __init__(self, key: str, text: bytes) -> None:
        super().__init__(key, f"a schema of {len(text):,} bytes must be compiled first")
        self.text = text


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


def compile_schema(schema: Any, at_hand: AtHand = NOTHING) -> Schema:
    """The compiled schema. Raises SchemaInvalid; and where something is `at_hand`, NeedsSchema for one that is not and takes long."""
    try:
        text = msgspec.json.encode(schema, order="deterministic")
        if at_hand is NOTHING or is_light(schema):
            return _compile(text)
    except (TypeError, RecursionError, UnicodeError):
        raise SchemaInvalid("this is no usable JSON Schema: it is not JSON") from None
    key = f"schema:{hashlib.sha256(text).hexdigest()}"
    if key not in at_hand:
        raise NeedsSchema(key, text)
    found = at_hand[key]
    if isinstance(found, Lost):
        raise SchemaInvalid(found.message)
    compiled: Schema = found
    return compiled


def compile_text(text: bytes) -> Schema | Lost:
    """What `NeedsSchema` needs. It may take time."""
    try:
        return _compile(text)
    except SchemaInvalid as error:
        return Lost(error.code, error.message)


def check(schema: Any, value: Any, budget: Budget | None = None, at_hand: AtHand = NOTHING) -> list[str]:
    """Everything that is wrong with the value, each with its place; empty if it fits."""
    problems: list[str] = []
    for error in compile_schema(schema, at_hand).iter_errors(value, budget):
        if len(problems) == _MOST:
            problems.append("and more")
            break
        place = _place(error)
        message = cut(error.message, _LONGEST)
        problems.append(f"{place}: {message}" if place else message)
    return problems


def fits(schema: Any, value: Any, budget: Budget | None = None, at_hand: AtHand = NOTHING) -> bool:
    try:
        return compile_schema(schema, at_hand).is_valid(value, budget)
    except (ValueError, RecursionError, UnicodeError) as error:
        raise SchemaInvalid(f"the value cannot be checked: {cut(str(error), _LONGEST)}") from None


def find_misfits(
    schema: Any, value: Any, most: int, budget: Budget | None = None, at_hand: AtHand = NOTHING
) -> list[str]:
    """The places that do not fit, each with the keyword that says so, and never with the value found there."""
    found: list[str] = []
    for error in compile_schema(schema, at_hand).iter_errors(value, budget):
        if len(found) == most:
            found.append("…")
            break
        keyword = next((part for part in reversed(error.schema_path) if isinstance(part, str)), "schema")
        found.append(f"{_place(error) or 'output'} ({keyword})")
    return found


def find_first_misfits(errors: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The first error of each key of an object, with its place in the value that is there."""
    known: set[str] = set()
    for error in errors:
        path = list(error.instance_path)
        if path and path[0] not in known:
            known.add(path[0])
            place, message = _place_of(path[1:]), cut(error.message, _LONGEST)
            yield path[0], f"{place}: {message}" if place else message


def find_mistake(schema: Any) -> str | None:
    """What is wrong with the schema itself."""
    try:
        compile_schema(schema)
    except SchemaInvalid as error:
        return str(error)
    return None


def _place(error: Any) -> str:
    return _place_of(error.instance_path)


def _place_of(path: Iterable[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")
