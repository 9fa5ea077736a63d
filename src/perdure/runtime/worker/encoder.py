"""Values of handlers as JSON, piece by piece.

The encoder is quick but cannot be interrupted, and in whichever thread it works, no other has a turn meanwhile. So a
value that is not light is encoded beside the loop, and no call encodes more than a light part of it. This file owns
what is light. It must not know what a value is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from perdure.plain import convert

LIGHT = 10_000
"""The parts of a light value: it is encoded and checked in a few milliseconds."""
_CHARACTERS = 128
"""Characters of a text, or bytes, that take about as long as one part."""
LIGHT_BYTES = LIGHT * _CHARACTERS
"""The bytes of JSON that are searched and copied in no more time than a light value takes."""
_SINGLE = frozenset({int, float, bool, type(None)})
_MANY = 1_000
"""Elements that are tried together."""

_encoder = msgspec.json.Encoder()


class TooLarge(ValueError):
    """The JSON is longer than allowed."""


class TooDeep(ValueError):
    """Lists and objects are nested more deeply than allowed, or one contains itself."""


def is_light(value: Any) -> bool:
    """Whether the value has few parts. Looks at no more than these, however large it is."""
    if type(value) in _SINGLE:
        return True
    left, stack = LIGHT, [value]
    while stack:
        found = stack.pop()
        kind = type(found)
        if kind is str or kind is bytes or kind is bytearray:
            left -= 1 + len(found) // _CHARACTERS
        elif kind is int or kind is float or kind is bool or found is None:
            left -= 1
        elif kind is msgspec.Raw:
            return False  # however short: it says that it is JSON, and has to be read
        else:
            inside = _look_inside(found)
            left -= 1
            if len(inside) > left:
                return False
            stack += inside
            if isinstance(found, dict):
                stack += found.keys()
        if left < 0:
            return False
    return True


def _look_inside(found: Any) -> Any:
    """What an object consists of, without making data of it."""
    if isinstance(found, dict):
        return found.values()
    if isinstance(found, list | tuple | set | frozenset):
        return found
    if (fields := getattr(found, "__struct_fields__", None)) is not None and not isinstance(found, type):
        return [getattr(found, name, None) for name in fields]
    if type(own := getattr(found, "__dict__", None)) is dict:
        return own.values()
    return ()


def encode(value: Any) -> bytes:
    """The value as JSON, in one go."""
    try:
        return _encoder.encode(value)
    except TypeError:
        return msgspec.json.encode(value, enc_hook=convert)


def encode_in_pieces(value: Any, max_bytes: int, max_depth: int) -> bytes | bytearray:
    """The same JSON as `encode` gives. Raises TooLarge or TooDeep before a value that multiplies fills the memory."""
    if is_light(value):
        return encode(value)
    whole = bytearray()  # it grows without being copied; joining the pieces would hold everything up once more
    for piece in _pieces(value, max_depth):
        whole += piece
        if len(whole) > max_bytes:
            raise TooLarge
    return whole


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    """The JSON of a value that is not light."""
    if depth < 0:
        raise TooDeep
    kind = type(value)
    if kind is str:
        yield b'"'
        for start in range(0, len(value), LIGHT_BYTES):
            yield encode(value[start : start + LIGHT_BYTES])[1:-1]
        yield b'"'
    elif kind is list or kind is tuple:
        yield b"["
        yield from _portions(value, lambda some: some, lambda one: _value(one, depth))
        yield b"]"
    elif kind is dict:
        yield b"{"
        yield from _portions(value.items(), dict, lambda one: _pair(one, depth))
        yield b"}"
    else:  # what it becomes is known only when it is encoded
        encoded = encode(value)
        if _has_raw(value):  # it was copied as it was, and may be anything
            yield from _value(msgspec.json.decode(encoded), depth)
        else:
            yield encoded


def _has_raw(value: Any) -> bool:
    """Whether there is ready-made JSON in an object that was encoded, and so does not contain itself."""
    stack = [value]
    while stack:
        found = stack.pop()
        if type(found) is msgspec.Raw:
            return True
        stack += _look_inside(found)
    return False


def _portions(
    elements: Any, gather: Callable[[list[Any]], Any], alone: Callable[[Any], Iterator[bytes]]
) -> Iterator[bytes]:
    """The elements without the brackets around them: many at once where they are light together."""
    rest, first = iter(elements), True
    while some := list(islice(rest, _MANY)):
        if is_light(gathered := gather(some)):
            yield encode(gathered)[1:-1] if first else b"," + encode(gathered)[1:-1]
            first = False
            continue
        for one in some:
            if not first:
                yield b","
            first = False
            yield from alone(one)


def _value(value: Any, depth: int) -> Iterator[bytes]:
    if is_light(value):
        yield encode(value)
    else:
        yield from _pieces(value, depth - 1)


def _pair(pair: tuple[Any, Any], depth: int) -> Iterator[bytes]:
    key, value = pair
    if type(key) is str and not is_light(key):
        yield from _pieces(key, 0)
        yield b":"
    else:
        yield encode({key: None})[1:-5]
    yield from _value(value, depth)
