"""Python values as JSON data: for inputs, arguments and outputs, wherever they are given.

What msgspec knows (data classes, structs, dates, enums, sets, …) it turns into data itself; this adds models in the
manner of pydantic, paths and the scalars of numpy. It must not know what a value is for.
"""

from __future__ import annotations

import datetime
import os
from typing import Any

import msgspec


def convert(value: Any) -> Any:
    """Plainer data for a value, as msgspec's `enc_hook`. NotImplementedError names the type and how to convert it."""
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
        return msgspec.json.encode(value, enc_hook=convert)
    except NotImplementedError as error:
        raise NotData(f"something in it is {error}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotData(str(error)) from error


def to_data(value: Any) -> Any:
    """A copy of the value as JSON holds it. Raises NotData."""
    return msgspec.json.decode(encode(value))


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
