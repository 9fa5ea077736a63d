"""Values that stand for something else: secrets in a rendered config, and blobs anywhere in a value.

They are types, never text that looks like something (PROTOCOL 22). As JSON a segment is an object with one key that starts
with `$perdure:`; an object of the user's that has such a key is written inside `{"$perdure:plain": …}`, so no data can pass for a
segment:

    Secret("token")                      {"$perdure:secret": "token"}
    Segments(("Bearer ", Secret("x")))   {"$perdure:text": ["Bearer ", {"$perdure:secret": "x"}]}
    BlobRef("cas://sha256:…")            {"$perdure:blob": "cas://sha256:…"}
    Sealed("enc:v1:…")                   {"$perdure:open": "enc:v1:…"}
    {"$perdure:secret": "token"}            {"$perdure:plain": {"$perdure:secret": "token"}}

A sensitive field is sealed by the worker that made it (`perdure.secrets.seals`), and stands in outputs as data:
`{"$perdure:sealed": "enc:v1:…"}`. Nothing here can open it.

Only data marked as holding segments is read this way (`refs` of an event, a rendered config).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import msgspec

from perdure.model.garbage import no_collection

_MARK = "$perdure:"
SECRET, TEXT, BLOB, PLAIN, OPEN = "$perdure:secret", "$perdure:text", "$perdure:blob", "$perdure:plain", "$perdure:open"
SEALED = "$perdure:sealed"
MASKED = "***"
ASSET = "$asset"
"""The key of a value that stands for a file (`perdure.assets`). It names a blob in plain text."""
_LARGE = 64 * 1024
"""Bytes of JSON up to which the collector of garbage has hardly anything to do."""


class Segment:
    """A value that stands for something else. Not a struct: an encoder that knows nothing of segments raises an error
    instead of writing JSON that means something else."""

    __slots__: tuple[str, ...] = ()

    @property
    def content(self) -> Any:
        return getattr(self, self.__slots__[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segment) and type(other) is type(self) and other.content == self.content

    def __hash__(self) -> int:
        return hash((type(self), self.content))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.content!r})"


class Secret(Segment):
    """The place of a secret, never its value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Sealed(Segment):
    """The place of a sealed field inside a text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Segments(Segment):
    """Text with secrets or sealed fields in it."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[str | Secret | Sealed, ...]) -> None:
        self.parts = parts


class BlobRef(Segment):
    """A value that is stored as a blob, or a part of one. It travels as a reference (PROTOCOL 21)."""

    __slots__ = ("ref",)

    def __init__(self, ref: str) -> None:
        self.ref = ref


class HasSegments(TypeError):
    """A value that should have become JSON holds a segment, which must be packed or filled in first."""


class BadSegment(ValueError):
    """Packed data has a form that `pack` never makes."""


def refuse(value: Any) -> Any:
    """An encoder hook that tells a value with segments from one that is no data at all."""
    if isinstance(value, Segment):
        raise HasSegments(f"the value holds a {type(value).__name__}")
    raise NotImplementedError(f"{type(value).__qualname__} is no data")


_encoder = msgspec.json.Encoder(enc_hook=refuse)
_SEALED = _encoder.encode(SEALED)
_ASSET = _encoder.encode(ASSET) + b":"
_MARKED = _encoder.encode(_MARK)[:-1]


def encode(value: Any) -> tuple[bytes, bool]:
    """The value as JSON, packed if it holds references, and whether it does. One that holds an asset counts as one that does: what
    is stored of it is looked through for what it names."""
    try:
        data = _encoder.encode(value)
    except HasSegments:
        return encode_packed(value), True
    if not names_asset(data):
        return data, False
    return encode_packed(value) if _MARKED in data else data, True


def encode_packed(value: Any) -> bytes:
    return _encoder.encode(pack(value, secrets=False))


def names_asset(data: bytes | bytearray) -> bool:
    """Whether JSON that Perdure wrote holds an asset, or pretends to."""
    return _ASSET in data


def encode_again(data: bytes | bytearray) -> tuple[bytes | bytearray, bool]:
    """JSON of a value without segments, as `encode` gives it."""
    if not names_asset(data):
        return data, False
    return encode_packed(msgspec.json.decode(data)) if _MARKED in data else data, True


def decode(data: bytes | bytearray, refs: bool) -> Any:
    # Collecting garbage meanwhile would take several times as long, in which no other thread has a turn.
    with no_collection() if len(data) > _LARGE else nullcontext():
        value = msgspec.json.decode(data)
    return unpack(value, secrets=False) if refs else value


def pack(value: Any, *, secrets: bool = True) -> Any:
    """The value with its segments as plain data, distinct from any user's data. Without `secrets`, those are refused."""
    kind = type(value)
    if kind is dict:
        packed = {key: pack(item, secrets=secrets) for key, item in value.items()}
        return {PLAIN: packed} if any(type(key) is str and key.startswith(_MARK) for key in packed) else packed
    if kind is list or kind is tuple:
        return [pack(item, secrets=secrets) for item in value]
    if kind is BlobRef:
        return {BLOB: value.ref}
    if not isinstance(value, Segment):
        return value
    if not secrets:
        raise BadSegment(f"a value that is stored holds a {kind.__name__} (S2)")
    if kind is Segments:
        return {TEXT: [pack(part) for part in value.content]}
    return {SECRET if kind is Secret else OPEN: value.content}


def unpack(value: Any, *, secrets: bool = True) -> Any:
    """The value that `pack` packed. Raises BadSegment for other forms, and without `secrets` for secrets:
    stored values hold none (S2)."""
    kind = type(value)
    if kind is list:
        return [unpack(item, secrets=secrets) for item in value]
    if kind is not dict:
        return value
    marks = [key for key in value if type(key) is str and key.startswith(_MARK)]
    if not marks:
        return {key: unpack(item, secrets=secrets) for key, item in value.items()}
    inner = value[marks[0]]
    match marks[0] if len(value) == 1 else "":
        case "$perdure:plain" if type(inner) is dict:
            return {key: unpack(item, secrets=secrets) for key, item in inner.items()}
        case "$perdure:blob" if type(inner) is str:
            return BlobRef(inner)
        case "$perdure:secret" if type(inner) is str and secrets:
            return Secret(inner)
        case "$perdure:open" if type(inner) is str and secrets:
            return Sealed(inner)
        case "$perdure:text" if type(inner) is list and secrets:
            parts = tuple(unpack(part) for part in inner)
            if all(type(part) in (str, Secret, Sealed) for part in parts):
                return Segments(parts)
    raise BadSegment("a value holds a segment of an unknown form; it was not written by this version of Perdure")


def find_refs(value: Any) -> set[str]:
    """The refs of all blobs named anywhere in a value."""
    found: set[str] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        kind = type(value)
        if kind is dict:
            stack.extend(value.values())
        elif kind is list or kind is tuple:
            stack.extend(value)
        elif kind is BlobRef:
            found.add(value.ref)
    return found


def show(value: Any) -> Any:
    """The value as people and programs see it: a blob is `{"$ref": "cas://…"}`, and sealed fields are masked."""
    kind = type(value)
    if kind is dict:
        return MASKED if is_sealed(value) else {key: show(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [show(item) for item in value]
    return {"$ref": value.ref} if kind is BlobRef else value


def encode_shown(value: Any) -> msgspec.Raw:
    """What `show` gives, as JSON. Quick where there is nothing to show in another way."""
    try:
        encoded = _encoder.encode(value)
    except HasSegments:
        encoded = b""
    return msgspec.Raw(encoded if encoded and _SEALED not in encoded else _encoder.encode(show(value)))


def has_refs(value: Any) -> bool:
    """Whether a value holds a blob anywhere. Quick where there is none."""
    try:
        _encoder.encode(value)
    except (HasSegments, TypeError, ValueError, NotImplementedError, OverflowError, RecursionError):
        return bool(find_refs(value))
    return False


def is_sealed(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get(SEALED)) is str


def has_sealed(value: Any) -> bool:
    """Whether anything in a value is sealed, or pretends to be. Quick where nothing is."""
    try:
        if _SEALED not in _encoder.encode(value):
            return False
    except (HasSegments, TypeError, ValueError, NotImplementedError, OverflowError, RecursionError):
        pass  # it is looked through part by part
    stack = [value]
    while stack:
        value = stack.pop()
        if type(value) is dict:
            if SEALED in value:
                return True
            stack.extend(value.values())
        elif type(value) is list:
            stack.extend(value)
    return False


def mask(value: Any) -> Any:
    """The value as people see it, with sealed fields masked."""
    kind = type(value)
    if kind is dict:
        return MASKED if is_sealed(value) else {key: mask(item) for key, item in value.items()}
    return [mask(item) for item in value] if kind is list else value
