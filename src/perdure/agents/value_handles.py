"""Values by handle: what is too large to be shown to a model is kept with its call, and tools take it by its name.

    h1.0    what the first call of turn 1 gave; `{"$handle": "h1.0"}` stands for it in the arguments of any tool

So tables go from tool to tool without passing through the model. The model sees what a value is, and its first rows. A handle has the
label of what its tool gives, which the transcript has taken on by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.plain_text import cut, hide

HANDLE = "$handle"
SHOWN_BYTES = 2_000
"""A value of more bytes, as JSON, becomes a handle."""
LARGEST_VALUE = 4 * 1024 * 1024
SAMPLE_ROWS = 5
LONGEST_TEXT = 500
MOST_COLUMNS = 50
LARGEST_PREVIEW = 16 * 1024
MOST_DEPTH = 20


class NoHandle(Exception):
    """A handle stands for nothing."""


def handle_of(call: str) -> str:
    return f"h{call.removeprefix('t')}"


def call_of(handle: str) -> str:
    return f"t{handle.removeprefix('h')}"


def is_handle(value: Any) -> bool:
    return type(value) is dict and value.keys() == {HANDLE} and type(value[HANDLE]) is str


def expand(value: Any, find: Callable[[str], Any], depth: int = 0) -> Any:
    """The value with what its handles stand for. Raises NoHandle."""
    if is_handle(value):
        return find(value[HANDLE])
    if depth > MOST_DEPTH:
        return value
    if type(value) is dict:
        return {key: expand(one, find, depth + 1) for key, one in value.items()}
    return [expand(one, find, depth + 1) for one in value] if type(value) is list else value


def preview(handle: str, value: Any, size: int, rows: int = SAMPLE_ROWS) -> str:
    """What a model is shown of a value: its kind, its size and a sample, without secrets."""
    shown: dict[str, Any] = {"handle": handle, "type": _kind(value), "bytes": size}
    if isinstance(value, list):
        shown["rows"] = len(value)
        if columns := _columns(value):
            shown["columns"] = columns
    elif isinstance(value, dict):
        shown["columns"] = _columns([value])
    for count in range(rows, -1, -1):
        sample = _sample(value, count)
        text = hide(msgspec.json.encode({**shown, "sample": sample} if count else shown).decode())
        if len(text) <= LARGEST_PREVIEW:
            return text
    return hide(msgspec.json.encode({key: shown[key] for key in ("handle", "type", "bytes")}).decode())


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "table" if value and all(isinstance(one, dict) for one in value[:100]) else "list"
    names = {dict: "object", str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), "value")


def _columns(rows: list[Any]) -> list[dict[str, str]]:
    found: dict[str, str] = {}
    for row in rows[:100]:
        for name, value in row.items() if isinstance(row, dict) else ():
            if len(found) < MOST_COLUMNS:
                found.setdefault(cut(str(name), 100), _kind(value))
    return [{"name": name, "type": kind} for name, kind in found.items()]


def _sample(value: Any, count: int) -> Any:
    if isinstance(value, list):
        return [_short(one) for one in value[:count]]
    if isinstance(value, dict):
        return {cut(str(key), 100): _short(one) for key, one in list(value.items())[: 4 * count]}
    return _short(value)


def _short(value: Any) -> Any:
    """A value with its texts cut, two levels deep; below that its size."""
    if isinstance(value, str):
        return cut(value, LONGEST_TEXT)
    if isinstance(value, dict):
        return {cut(str(key), 100): _flat(one) for key, one in list(value.items())[:MOST_COLUMNS]}
    if isinstance(value, list):
        return [_flat(one) for one in value[:SAMPLE_ROWS]]
    return value


def _flat(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, LONGEST_TEXT)
    if isinstance(value, dict | list):
        text = msgspec.json.encode(value).decode()
        return value if len(text) <= LONGEST_TEXT else f"{_kind(value)} of {len(value)}"
    return value


def read_part(value: Any, arguments: dict[str, Any]) -> Any:
    """A part of a value: what a path leads to, and of a list or a text the piece from `offset` on. Raises NoHandle."""
    path = arguments.get("path") or ""
    for name in path.split(".") if path else ():
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise NoHandle(f"there is nothing at {cut(ascii(path), 200)}")
    offset, limit = arguments.get("offset", 0), arguments.get("limit", 50)
    if isinstance(value, list):
        return {"from": offset, "of": len(value), "entries": value[offset : offset + limit]}
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return {"from": offset, "of": len(value), "text": value[offset : offset + limit * 20]}
    return value
