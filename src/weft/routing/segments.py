"""What a rendered config holds besides plain data: secrets and blobs that the worker fills in at the last moment.

They are types, never text that looks like something (PROTOCOL 22). On the wire a segment is an object with one key that
starts with `$weft:`; an object of the user's that has such a key travels inside `{"$weft:plain": …}`, so no data can pass
for a segment:

    Secret("token")                      {"$weft:secret": "token"}
    Segments(("Bearer ", Secret("x")))   {"$weft:text": ["Bearer ", {"$weft:secret": "x"}]}
    BlobRef("cas://sha256:…")            {"$weft:blob": "cas://sha256:…"}
    {"$weft:secret": "token"}            {"$weft:plain": {"$weft:secret": "token"}}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from weft.routing.errors import TemplateError

_MARK = "$weft:"
_MARK_BYTES = b'"$weft:'
SECRET, TEXT, BLOB, PLAIN = "$weft:secret", "$weft:text", "$weft:blob", "$weft:plain"


class Secret(msgspec.Struct, frozen=True, rename={"name": SECRET}):
    """The place of a secret. Never its value."""

    name: str


class Segments(msgspec.Struct, frozen=True, rename={"parts": TEXT}):
    """Text with secrets in it."""

    parts: tuple[str | Secret, ...]


class BlobRef(msgspec.Struct, frozen=True, rename={"ref": BLOB}):
    """A whole value that is stored as a blob."""

    ref: str


def dumps(value: Any) -> bytes:
    """A rendered config as JSON."""
    data = msgspec.json.encode(value)
    if _MARK_BYTES in data:  # rare: only then is it worth looking at every object
        data = msgspec.json.encode(pack(value))
    return data


def loads(data: bytes) -> Any:
    value = msgspec.json.decode(data)
    return unpack(value) if _MARK_BYTES in data else value


def pack(value: Any) -> Any:
    """Segments as plain data that `unpack` can tell from anything a user wrote."""
    kind = type(value)
    if kind is dict:
        packed = {key: pack(item) for key, item in value.items()}
        return {PLAIN: packed} if any(type(key) is str and key.startswith(_MARK) for key in packed) else packed
    if kind is list or kind is tuple:
        return [pack(item) for item in value]
    if kind is Secret:
        return {SECRET: value.name}
    if kind is Segments:
        return {TEXT: [pack(part) for part in value.parts]}
    if kind is BlobRef:
        return {BLOB: value.ref}
    return value


def unpack(value: Any) -> Any:
    """Raises TemplateError for what `pack` never makes."""
    kind = type(value)
    if kind is list:
        return [unpack(item) for item in value]
    if kind is not dict:
        return value
    marks = [key for key in value if type(key) is str and key.startswith(_MARK)]
    if not marks:
        return {key: unpack(item) for key, item in value.items()}
    inner = value[marks[0]]
    match marks[0] if len(value) == 1 else "":
        case "$weft:plain" if type(inner) is dict:
            return {key: unpack(item) for key, item in inner.items()}
        case "$weft:secret" if type(inner) is str:
            return Secret(inner)
        case "$weft:blob" if type(inner) is str:
            return BlobRef(inner)
        case "$weft:text" if type(inner) is list:
            parts = tuple(unpack(part) for part in inner)
            if all(type(part) is str or type(part) is Secret for part in parts):
                return Segments(parts)
    raise TemplateError(
        "a rendered config holds a segment of an unknown form; it was not written by this version of Weft"
    )


def find_segment(value: Any) -> Secret | Segments | BlobRef | None:
    """Any segment in a rendered value: where it must be plain data (an output, a key), there may be none."""
    stack = [value]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            stack.extend(value.values())
        elif type(value) is list:
            stack.extend(value)
        elif isinstance(value, Secret | Segments | BlobRef):
            return value
    return None


def fill(value: Any, secret: Callable[[str], Any], blob: Callable[[str], Any] | None = None) -> Any:
    """The config a handler gets: every segment replaced, once; what is filled in is never looked at again.

    `secret` gives a value by name and raises LookupError when there is none. Without `blob`, references stay.
    """
    kind = type(value)
    if kind is dict:
        return {key: fill(item, secret, blob) for key, item in value.items()}
    if kind is list:
        return [fill(item, secret, blob) for item in value]
    if kind is Secret:
        return _reveal(value, secret)
    if kind is Segments:
        return "".join(part if type(part) is str else _text_of(part, secret) for part in value.parts)
    if kind is BlobRef and blob is not None:
        return blob(value.ref)
    return value


def _reveal(segment: Secret, secret: Callable[[str], Any]) -> Any:
    try:
        return secret(segment.name)
    except LookupError:
        raise TemplateError(
            f"secret {segment.name!r} is not available here; add it for this tenant and queue"
        ) from None


def _text_of(segment: Any, secret: Callable[[str], Any]) -> str:
    value = _reveal(segment, secret)
    if type(value) is not str:
        raise TemplateError(f"secret {segment.name!r} is not text, so it cannot be part of a text")
    return value
