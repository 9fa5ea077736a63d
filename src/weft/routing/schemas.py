"""JSON Schema, behind one file: values are checked, nothing is ever fetched.

The library would follow `$ref` to the network and the file system; here every outside reference is refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from weft.errors import WeftError

_MOST = 20
_LONGEST = 300


class SchemaInvalid(WeftError):
    """The schema itself is wrong, or refers to something outside itself."""

    code = "invalid_schema"
    status = 422


def _deny(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema; copy what it refers to into it")


@lru_cache(maxsize=512)
def _validator(text: bytes) -> Any:
    try:
        return jsonschema_rs.validator_for(msgspec.json.decode(text), retriever=_deny)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise SchemaInvalid(f"this is no usable JSON Schema: {str(error)[:_LONGEST]}") from None


def check(schema: Any, value: Any) -> list[str]:
    """Everything that is wrong with the value, each with its place; empty when it fits."""
    validator = _validator(msgspec.json.encode(schema, order="deterministic"))
    problems: list[str] = []
    for error in validator.iter_errors(value):
        if len(problems) == _MOST:
            problems.append("and more")
            break
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        message = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
        problems.append(f"{place.lstrip('.')}: {message}" if place else message)
    return problems
