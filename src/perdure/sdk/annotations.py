"""Annotations to JSON Schema, and JSON back to annotated types.

Both are as good as the annotation: one that cannot be understood gives no schema and no conversion, and is never an
error.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from perdure.outcomes import Failure

_NOT_UNDERSTOOD = (TypeError, ValueError, NameError, AttributeError, SyntaxError, RecursionError, NotImplementedError)
_DEFINITIONS = "#/$defs/"
_AS_IS = (str, int, float, bool, type(None), list, dict)
"""Types that JSON has itself; their values are handed over as they came."""


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function that can be evaluated, `return` among them."""
    found: dict[str, Any] = {}
    names = getattr(function, "__globals__", {})
    for name, annotation in (getattr(function, "__annotations__", None) or {}).items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            found[name] = typing.get_type_hints(holder, names, include_extras=True)[name]
        except _NOT_UNDERSTOOD:  # most often a name that exists only for type checkers
            continue
    return found


def schema_of(annotation: Any) -> dict[str, Any] | None:
    """The JSON Schema of an annotation; None when the annotation says nothing."""
    try:
        schema = msgspec.json.schema(annotation, schema_hook=_hook)
    except _NOT_UNDERSTOOD:
        return None
    schema = _inline(lift_definitions(schema))
    return None if not schema.keys() - {"title"} else schema


def _hook(annotation: Any) -> dict[str, Any]:
    """The schema of a type that msgspec does not know: models in the manner of pydantic describe themselves; of any
    other only the name is known."""
    describe = getattr(annotation, "model_json_schema", None)
    if callable(describe):
        return dict(describe())
    return {"title": getattr(annotation, "__name__", "value")}


def lift_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with all its `$defs` at the top, where references look for them.

    A model that describes itself brings definitions of its own. Where two different ones have the same name, one is
    renamed.
    """
    definitions: dict[str, Any] = {}
    lifted = _lift(schema, {}, definitions)
    return {**lifted, "$defs": definitions} if definitions else dict(lifted)


def _lift(value: Any, names: dict[str, str], definitions: dict[str, Any]) -> Any:
    """A value with its definitions moved to the top. `names` maps each definition visible here to its name there."""
    if isinstance(value, list):
        return [_lift(one, names, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    own = value.get("$defs")
    if isinstance(own, dict):
        names = {**names, **{name: _free_name(name, one, definitions) for name, one in own.items()}}
        for name, one in own.items():
            definitions[names[name]] = one  # take the name before its inside is lifted
        for name, one in own.items():
            definitions[names[name]] = _lift(one, names, definitions)
    lifted = {key: _lift(one, names, definitions) for key, one in value.items() if key != "$defs"}
    reference = lifted.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        lifted["$ref"] = _DEFINITIONS + names.get(name, name)
    return lifted


def _free_name(name: str, definition: Any, definitions: dict[str, Any]) -> str:
    chosen, number = name, 1
    while chosen in definitions and definitions[chosen] != definition:
        number += 1
        chosen = f"{name}_{number}"
    return chosen


def _inline(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as a person would write it: definitions in place of references, no list of single types."""
    definitions = schema.get("$defs", {})
    name = str(schema.get("$ref", "")).removeprefix(_DEFINITIONS)
    if name in definitions and f"{_DEFINITIONS}{name}" not in repr(definitions):
        rest = {key: value for key, value in definitions.items() if key != name}
        return {**definitions[name], **({"$defs": rest} if rest else {})}
    choices = schema.get("anyOf", ())
    if schema.keys() == {"anyOf"} and all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return schema


def allows_null(schema: dict[str, Any] | None) -> bool:
    if schema is None:
        return True
    kinds = schema.get("type")
    if kinds is not None:
        return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)
    return "anyOf" in schema or None in schema.get("enum", ())


# -- back --------------------------------------------------------------------------------------------------------------


def needs_conversion(annotation: Any, depth: int = 0) -> bool:
    """Whether a value of this type differs from the JSON it travels as: data classes, structs, dates, sets, …"""
    if annotation is Any or annotation is None or annotation in _AS_IS or depth > 20:
        return False
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return False
    if origin is not None:
        inner = [part for part in typing.get_args(annotation) if part is not ...]
        if origin is typing.Annotated:
            inner = inner[:1]
        elif origin not in (list, dict, typing.Union, types.UnionType) and not _is_abstract(origin):
            return isinstance(origin, type) and _is_convertible(origin)
        return any(needs_conversion(part, depth + 1) for part in inner)
    if typing.is_typeddict(annotation):
        return any(needs_conversion(part, depth + 1) for part in typing.get_type_hints(annotation).values())
    return isinstance(annotation, type) and not _is_abstract(annotation) and _is_convertible(annotation)


def _is_abstract(kind: Any) -> bool:
    return kind in (collections.abc.Sequence, collections.abc.Mapping, collections.abc.Iterable)


def _is_convertible(kind: type) -> bool:
    if dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "model_validate"):
        return True
    try:
        info = msgspec.inspect.type_info(kind)
    except _NOT_UNDERSTOOD:
        return False
    return not isinstance(info, msgspec.inspect.CustomType | msgspec.inspect.AnyType)


def converter(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a worker calls it: arguments that came as JSON become what its annotations say."""
    hints = hints_of(function)
    wanted = {name: kind for name, kind in hints.items() if name != "return" and needs_conversion(kind)}
    if not wanted:
        return function

    def convert(arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            name: convert_value(value, wanted[name], f"argument {name!r}") if name in wanted else value
            for name, value in arguments.items()
        }

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(**arguments: Any) -> Any:
            return await function(**convert(arguments))

        return call_async

    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        return function(**convert(arguments))

    return call


def convert_value(value: Any, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise Failure("bad_arguments", f"{what}: {error}", retryable=False) from error


def _decode(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        try:
            return validate(value)
        except ValueError as error:  # pydantic's errors are ValueErrors
            raise msgspec.ValidationError(str(error)) from error
    if isinstance(value, kind):
        return value
    raise msgspec.ValidationError(f"expected {kind.__name__}, got {type(value).__name__}")
