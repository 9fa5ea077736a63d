"""Python values as JSON data: for inputs, arguments and outputs, wherever they are given.

What msgspec knows (data classes, structs, dates, enums, sets, …) it turns into data itself; this adds models in the
manner of pydantic, paths and the scalars of numpy. It must not know what a value is for.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Collection
from typing import Any

import msgspec


def convert(value: Any) -> Any:
    """Plainer data for a value, as msgspec's `enc_hook`. NotImplementedError names the type and how to convert it."""
    stored = getattr(value, "__perdure_asset__", None)
    if callable(stored) and not isinstance(value, type):
        return stored()
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True)  # as the schema names the fields, and as it is read again
    if isinstance(value, datetime.date | datetime.time):  # a subclass, as pandas has; msgspec knows the others
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if _is_scalar(value):
        return value.item()
    raise NotImplementedError(f"of type {type_name(value)}{way_out(value)}")


class NotData(ValueError):
    """A value that JSON cannot hold; the message says what stands in the way."""


def encode(value: Any) -> bytes:
    """The value as JSON. Raises NotData."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=convert)
    except NotImplementedError as error:
        raise NotData(f"something in it is {error}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotData(str(error)) from error
    # Not-a-number was encoded as null: only data with a null in it can hide one.
    try:
        finite = b"null" not in encoded or is_finite(value)
    except msgspec.DecodeError as error:  # of a msgspec.Raw
        raise NotData(str(error)) from error
    if not finite:
        raise NotData("a number in it is NaN or infinite, which JSON has no number for; give None, or a text")
    return encoded


def to_data(value: Any) -> Any:
    """A copy of the value as JSON holds it. Raises NotData."""
    return msgspec.json.decode(encode(value))


def is_finite(value: Any) -> bool:
    """Whether every number in a value that can be encoded is one."""
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, float) and not math.isfinite(found):
            return False
        stack += look_inside(found)
    return True


def is_shallow(value: Any, most: int) -> bool:
    """Whether nothing in a value is nested more than `most` levels deep."""
    level = [value]
    for _ in range(most + 1):
        inner: list[Any] = []
        for found in level:
            inner += look_inside(found)
        if not inner:
            return True
        level = inner
    return False


_LEAVES = (str, int, float, bool, bytes, type(None))


def look_inside(found: Any) -> Collection[Any]:
    """The values inside a value; for an object that can become data, what it becomes."""
    if isinstance(found, _LEAVES):
        return ()
    if isinstance(found, dict):
        return found.values()
    if isinstance(found, list | tuple | set | frozenset):
        return found
    if isinstance(found, msgspec.Raw):
        return (msgspec.json.decode(found),)
    plain = msgspec.to_builtins(found, enc_hook=convert, str_keys=True)
    return (plain,) if isinstance(plain, dict | list | float) else ()


def _is_scalar(value: Any) -> bool:
    """Whether the value is a scalar of numpy or of a library like it: a dtype, and no dimension."""
    return hasattr(value, "dtype") and getattr(value, "shape", None) == () and callable(getattr(value, "item", None))


def way_out(value: Any) -> str:
    """How a value of this type becomes data, to be put behind its name."""
    if isinstance(value, type):
        return ""
    if callable(getattr(value, "tolist", None)):
        return "; give .tolist()"
    if callable(getattr(value, "to_dict", None)):
        return "; give .to_dict(), of a table .to_dict('records')"
    return "; give plain data, a data class, a msgspec.Struct or a pydantic model"


def type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
