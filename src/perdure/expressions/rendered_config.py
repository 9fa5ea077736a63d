"""What a rendered config holds besides plain data: secrets and blobs that the worker fills in at the last moment.

The types and their form as JSON stand in `perdure.kernel.segments`. This file owns configs on the wire and the filling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.expressions.errors import TemplateError
from perdure.kernel.segments import BadSegment, BlobRef, HasSegments, Sealed, Secret, Segments, pack, refuse
from perdure.kernel.segments import unpack as _unpack

__all__ = ["BlobRef", "Secret", "Segments", "dumps", "fill", "find_secret", "loads", "pack", "unpack"]

_MARK_BYTES = b'"$perdure:'
_WITH_REFS = "+refs"
"""The end of a reference whose content holds references itself."""

_encoder = msgspec.json.Encoder(enc_hook=refuse)


def dumps(value: Any) -> bytes:
    """A rendered config as JSON."""
    try:
        data = _encoder.encode(value)
    except HasSegments:
        return _encoder.encode(pack(value))
    if _MARK_BYTES in data:  # rare: only then is it worth looking at every object
        data = _encoder.encode(pack(value))
    return data


def loads(data: bytes) -> Any:
    value = msgspec.json.decode(data)
    return unpack(value) if _MARK_BYTES in data else value


def unpack(value: Any) -> Any:
    """A config from the wire. Raises TemplateError for what `pack` never makes."""
    try:
        return _unpack(value)
    except BadSegment as error:
        raise TemplateError(str(error)) from None


def find_secret(value: Any) -> Secret | Segments | None:
    """A secret in a value that will be stored, where none is allowed (S2)."""
    stack = [value]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            stack.extend(value.values())
        elif type(value) is list:
            stack.extend(value)
        elif isinstance(value, Secret | Segments):
            return value
    return None


def fill(
    value: Any,
    secret: Callable[[str], Any],
    blob: Callable[[str], Any] | None = None,
    open_sealed: Callable[[str], str] | None = None,
) -> Any:
    """The config a handler gets: every segment is replaced, once; what is filled in is never looked at again.

    `secret` gives a value by name and raises LookupError if there is none. Without `blob`, references stay.
    """
    kind = type(value)
    if kind is dict:
        return {key: fill(item, secret, blob, open_sealed) for key, item in value.items()}
    if kind is list:
        return [fill(item, secret, blob, open_sealed) for item in value]
    if kind is Secret:
        return _reveal(value, secret)
    if kind is Segments:
        return "".join(_text_of(part, secret, open_sealed) for part in value.parts)
    if kind is BlobRef and blob is not None:
        content = blob(value.ref)
        return _fill_refs(content, blob) if value.ref.endswith(_WITH_REFS) else content
    return value


def _fill_refs(value: Any, blob: Callable[[str], Any]) -> Any:
    """Fill in content that refers to further content; blobs name no secrets."""
    return fill(value, _no_secret, blob)


def _no_secret(name: str) -> Any:
    raise LookupError(name)


def _reveal(segment: Secret, secret: Callable[[str], Any]) -> Any:
    try:
        return secret(segment.name)
    except LookupError:
        raise TemplateError(
            f"secret {segment.name!r} is not available here; where the worker runs: export PERDURE_SECRET_{segment.name}=…, "
            "or add it to its secrets file, for this tenant and queue"
        ) from None


def _text_of(segment: Any, secret: Callable[[str], Any], open_sealed: Callable[[str], str] | None) -> str:
    if type(segment) is str:
        return segment
    if type(segment) is Sealed:
        if open_sealed is None:
            raise TemplateError("a text holds a sealed field, which cannot be opened here")
        return open_sealed(segment.text)
    value = _reveal(segment, secret)
    if type(value) is not str:
        raise TemplateError(f"secret {segment.name!r} is not text, so it cannot be part of a text")
    return value
