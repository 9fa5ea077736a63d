"""A part of a large value: found by a JSON pointer (RFC 6901), and shown one level deep, some entries at a time.

Only the way to the part is read, level by level, so that a value much larger than an answer can be looked through. It
must not know HTTP, nor where a value comes from.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.blobs import parse_ref
from perdure.budget import MIB, Budget
from perdure.contents import Contents, TooMuch
from perdure.errors import NotFound
from perdure.kernel import segments
from perdure.kernel.segments import BlobRef
from perdure.service.errors import Invalid, Trouble
from perdure.service.views import View
from perdure.threads import aside
from perdure.weight import WHY, is_heavy

READ_BYTES = 64 * MIB
"""How many bytes of blobs are read on the way to a part."""
MOST_REFERENCES = 100
INLINE_BYTES = 200
"""Entries whose JSON is at most this long are shown whole."""
CHARACTERS = 100
"""How many characters of a text stand for one entry."""
DEEPEST = 200
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
_SEALED = msgspec.json.encode(segments.SEALED)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a value is wanted."""

    pointer: str = ""
    offset: int = 0
    limit: int = 100

    def names(self) -> list[str]:
        if not self.pointer:
            return []
        names = self.pointer.split("/")
        if names[0] or len(names) > DEEPEST:
            message = f"pointer is a JSON pointer such as /lines/0, at most {DEEPEST} levels deep"
            raise Invalid(message, [Trouble("pointer", "wrong_value", message)])
        return [name.replace("~1", "/").replace("~0", "~") for name in names[1:]]


async def cut(contents: Contents, tenant: str, value: Any, part: Part) -> View:
    """The part as `{kind, length, entries | text | value, more}`. Raises NotFound where there is no such part."""
    budget = Budget(size=READ_BYTES, references=MOST_REFERENCES)
    names = part.names()
    done = 0
    while True:
        if not isinstance(value, BlobRef):
            value, done = await aside(tenant, _walk, _masked(value), names, done)
            if not isinstance(value, BlobRef):
                return await aside(tenant, _show, value, part)
        data = await _fetch(contents, tenant, value.ref, budget)
        if not parse_ref(value.ref)[1] and _SEALED not in data:
            return await aside(tenant, _cut_raw, data, names[done:], part)
        if await aside(tenant, is_heavy, data):
            raise TooMuch(f"{value.ref}: {WHY}")
        value = await aside(tenant, _decode, data, parse_ref(value.ref)[1])


async def _fetch(contents: Contents, tenant: str, ref: str, budget: Budget) -> bytes:
    size = (await contents.blobs.stat(tenant, ref)).size
    if not budget.load(size):
        raise TooMuch(f"the value has {size:,} bytes or names too many others; download the blob {ref} instead")
    return await contents.blobs.get(tenant, ref)


def _decode(data: bytes, refs: bool) -> Any:
    return _masked(segments.decode(data, refs))


def _masked(value: Any) -> Any:
    """The value without what is sealed, before a pointer can lead into it."""
    return segments.mask(value) if segments.has_sealed(value) else value


# -- values in memory --------------------------------------------------------------------------------------------------


def _walk(value: Any, names: list[str], done: int) -> tuple[Any, int]:
    """Follow the pointer until it ends, or into a value that is stored elsewhere."""
    while done < len(names) and not isinstance(value, BlobRef):
        value = _step(value, names[done])
        done += 1
    return value, done


def _step(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list | tuple) and name.isascii() and name.isdecimal() and len(name) < 10:
        if int(name) < len(value) and (name == "0" or name[0] != "0"):
            return value[int(name)]
    raise NotFound(f"there is no {name[:80]!r} at this place of the value")


def _show(value: Any, part: Part) -> View:
    if isinstance(value, dict):
        some = list(value.items())[part.offset : part.offset + part.limit]
        return _page("object", len(value), [_entry(key, one) for key, one in some], part)
    if isinstance(value, list | tuple):
        items = list(enumerate(value[part.offset : part.offset + part.limit], part.offset))
        return _page("array", len(value), [_entry(key, one) for key, one in items], part)
    return _scalar(value, part)


def _entry(key: str | int, value: Any) -> View:
    if isinstance(value, BlobRef):
        return {"key": key, "kind": "stored", "ref": value.ref}
    return _raw_entry(key, msgspec.json.encode(segments.show(value)))


def _page(kind: str, length: int, entries: list[View], part: Part) -> View:
    return {"kind": kind, "length": length, "entries": entries, "more": part.offset + len(entries) < length}


def _scalar(value: Any, part: Part) -> View:
    if isinstance(value, str):
        end = part.offset + part.limit * CHARACTERS
        return {"kind": "string", "length": len(value), "text": value[part.offset : end], "more": end < len(value)}
    kind = "null" if value is None else "boolean" if isinstance(value, bool) else "number"
    return {"kind": kind, "length": 1, "value": value, "more": False}


# -- values as JSON ----------------------------------------------------------------------------------------------------


def _cut_raw(data: bytes, names: list[str], part: Part) -> View:
    """The same on JSON, of which only one level is read at a time."""
    rest: Any = msgspec.Raw(data)
    for name in names:
        rest = _step(_open(rest), name)
    kind = kind_of(bytes(rest))
    if kind == "object":
        opened = _open(rest)
        some = list(opened.items())[part.offset : part.offset + part.limit]
        return _page(kind, len(opened), [_raw_entry(key, bytes(one)) for key, one in some], part)
    if kind == "array":
        opened = _open(rest)
        some = list(enumerate(opened[part.offset : part.offset + part.limit], part.offset))
        return _page(kind, len(opened), [_raw_entry(key, bytes(one)) for key, one in some], part)
    return _scalar(msgspec.json.decode(rest), part)


def _open(value: Any) -> Any:
    kind = kind_of(bytes(value))
    if kind == "object":
        return msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    if kind == "array":
        return msgspec.json.decode(value, type=list[msgspec.Raw])
    return None


def _raw_entry(key: str | int, data: bytes) -> View:
    entry: View = {"key": key, "kind": kind_of(data), "size": len(data)}
    if len(data) <= INLINE_BYTES:
        entry["value"] = msgspec.json.decode(data)
    return entry


def kind_of(data: bytes) -> str:
    return _KINDS.get(data[:20].lstrip()[:1].decode(errors="replace"), "number")
