"""Checking what a handler returned: it becomes JSON data, or is refused with a message that names the place.

This file owns the limits of one output. Checked values are plain data that no other code contains.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from perdure import weight
from perdure.model.extremes import WHY, has_many
from perdure.outcomes import Failure
from perdure.pieces import contains, count
from perdure.plain import is_finite, is_shallow, type_name, way_out
from perdure.plain_text import cut, hide
from perdure.runtime.worker.encoder import TooDeep, TooLarge, encode, encode_in_pieces

MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 200

_decoder = msgspec.json.Decoder()


class Checked(msgspec.Struct, frozen=True, gc=False):
    value: Any
    size: int
    """The size as JSON, in bytes."""


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A value that is JSON already and was checked where it was made."""

    data: bytes | bytearray


_NOTHING = Checked(None, 4)


def check_output(value: Any, what: str = "output", *, alone: bool = False) -> Checked:
    """A copy of the value as data. Raises Failure. `alone`: the process does nothing else, so that no other work waits
    while much is read."""
    if value is None:
        return _NOTHING
    encoded = encode_output(value, what)
    if not alone and weight.is_heavy(encoded):
        raise _refuse(f"{what}: {weight.WHY}")
    return Checked(_decoder.decode(encoded), len(encoded))


def encode_output(value: Any, what: str = "output") -> bytes | bytearray:
    """The value as JSON that means the same. Raises Failure. No second copy of a large value is made. To be called
    beside the loop unless the value is light."""
    try:
        encoded = encode_in_pieces(value, MAX_BYTES, MAX_DEPTH)
        if len(encoded) > MAX_BYTES:
            raise TooLarge
        if has_many(encoded):
            raise _refuse(f"{what}: {WHY}")
        # Nesting cannot be deeper than the number of brackets, so most outputs need no walk.
        deep = len(encoded) > MAX_DEPTH and count(encoded, b"[") + count(encoded, b"{") > MAX_DEPTH
        if deep and not is_shallow(value, MAX_DEPTH):
            raise TooDeep
        # Not-a-number was encoded as null: only an output with a null in it can hide one.
        if contains(encoded, b"null") and not is_finite(value):
            raise ValueError("not a number")
    except Failure:
        raise
    except TooLarge:
        message = f"{what} has more than the {MAX_BYTES:,} bytes of JSON that are allowed; store it and return where"
        raise _refuse(message) from None
    except TooDeep:
        raise _refuse(f"{what} is nested more than {MAX_DEPTH} levels deep, or contains itself") from None
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
        raise _refuse(f"{what} is not JSON: {_describe_problem(value, error)}") from error
    return encoded


def check_step(name: str) -> None:
    """Raise Failure if the name of a step contains a secret: names are kept with the run, and found again by the next
    attempt, so that none can be taken for another by masking a part of it."""
    if hide(name) != name:
        message = "the name of a step contains a secret, and names are kept with the run; "
        raise _refuse(message + "name the step after what it does, and pass the secret to its function")


def _refuse(message: str) -> Failure:
    return Failure("bad_output", message, retryable=False)


def _describe_problem(value: Any, error: Exception) -> str:
    """Where something stands that JSON cannot hold, and what is wrong with it; else the type of the error."""
    if isinstance(error, RecursionError):
        return f"it is nested more than {MAX_DEPTH} levels deep, or contains itself"
    pending: list[tuple[str, Any]] = [("$", value)]
    while pending:
        path, found = pending.pop()
        if isinstance(found, dict):
            for key, inner in found.items():
                if not isinstance(key, str | int | float):
                    return f"a key of {path} is of type {type_name(key)}; keys are strings"
                pending.append((f"{path}.{cut(str(key), 100)}", inner))
        elif isinstance(found, list | tuple | set | frozenset):
            pending += [(f"{path}[{number}]", inner) for number, inner in enumerate(found)]
        elif isinstance(found, float):
            if not math.isfinite(found):
                return f"{path} is {found}, which JSON has no number for"
        elif (problem := _find_leaf_problem(found)) is not None:
            return f"{path} {problem}"
    return f"{type(error).__name__}"


def _find_leaf_problem(value: Any) -> str | None:
    if isinstance(value, msgspec.Raw):
        return "is of type msgspec.Raw and contains something that is not JSON"
    try:
        if encode(value) == b"null" and value is not None:  # most often a scalar of numpy
            return "is not a number, or infinite, which JSON has no number for"
    except UnicodeEncodeError:
        return "is text that is not valid Unicode"
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return f"is of type {type_name(value)}{way_out(value)}"
    return None
