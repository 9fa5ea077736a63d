"""Everything that is wrong with a row of a file that people write, each with its path: a conversion alone stops at the first."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec

from perdure.plain_text import cut
from perdure.spelling import suggest

_AT = re.compile(r" - at `\$(.*)`$")


def find_misfits(kind: Any, value: Any, path: str) -> list[str]:
    """What keeps a value from being of a kind, each as `path: problem`; structs and lists of them are looked through."""
    inner = _struct_in(kind)
    if inner is not None and isinstance(value, list):
        return [one for number, row in enumerate(value) for one in find_misfits(inner, row, f"{path}[{number}]")]
    if inner is None or not isinstance(value, dict):
        return _convert(kind, value, path)
    fields = {field.encode_name: field for field in msgspec.structs.fields(inner)}
    found = [
        f"{path}: unknown key '{cut(str(key), 80)}'; {suggest(str(key), tuple(fields))}"
        for key in value
        if key not in fields
    ]
    for name, field in fields.items():
        below = f"{path}.{name}" if path else name
        if name in value:
            found += find_misfits(field.type, value[name], below)
        elif field.required:
            found.append(f"{path}: '{name}' is missing")
    return found


def _struct_in(kind: Any) -> Any:
    """The struct that a kind is, or that it is a list of; None: it is neither."""
    if isinstance(kind, type):
        return kind if issubclass(kind, msgspec.Struct) else None
    found = [one for part in typing.get_args(kind) if (one := _struct_in(part)) is not None]
    return found[0] if len(found) == 1 else None


def _convert(kind: Any, value: Any, path: str) -> list[str]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = str(error)
        at = _AT.search(said)
        if typing.get_origin(kind) is typing.Literal and isinstance(value, str):
            return [f"{path}: '{cut(value, 80)}'; {suggest(value, typing.get_args(kind))}"]
        return [f"{path}{at[1] if at else ''}: {cut(_AT.sub('', said), 200)}"]
    return []
