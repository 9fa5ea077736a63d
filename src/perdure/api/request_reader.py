"""Reading requests into structs: query parameters and JSON bodies, with every mistake named at once.

This file owns which JSON is accepted (X13): UTF-8, at most 64 deep, no duplicate keys, NaN, NUL or half characters. It
must not know what the values are for.
"""

from __future__ import annotations

import asyncio
import math
import re
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from perdure.api.bodies import BODY, RequestBody
from perdure.api.problem_details import BadBody, BadQuery, TooSlow, WrongType
from perdure.model.garbage import no_collection
from perdure.model.problems import Problems, format_path
from perdure.model.reader import ODD_TEXT, Format, read
from perdure.service.errors import Invalid, Trouble
from perdure.threads import aside

T = TypeVar("T")

BODY_SECONDS = 60.0
PUBLIC_BODY_SECONDS = 10.0
"""The same without a credential: such bodies are small."""
LARGE_BYTES = 16 * 1024
"""A body larger than this is read in a thread: a megabyte of small values takes a quarter of a second."""
MOST_TROUBLES = 100
"""The most problems one answer lists: no reader needs more, and an answer should not be larger than its request."""
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_YAML = {"application/yaml", "application/x-yaml", "text/yaml"}


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a query. A field that is a tuple may be given several times."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object that is sent."""


class AnyQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whatever a sender puts there; the handler reads it by itself."""


class NoQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters at all."""


def read_query(kind: type[T], items: list[tuple[str, str]]) -> T:
    fields = _FIELDS.get(kind) or _fields_of(kind)
    given: dict[str, Any] = {}
    troubles = []
    for name, value in items:
        if ODD_TEXT.search(name) or ODD_TEXT.search(value):
            troubles.append(Trouble(_clean(name), "wrong_value", "this text holds characters that are not accepted"))
        elif name not in fields or not _is_many(fields[name].type):
            if name in given:
                troubles.append(Trouble(name, "conflicting_keys", "it is given twice; give it once"))
            given[name] = value
        else:
            given.setdefault(name, []).append(value)
    converted = _convert(kind, given, troubles, strict=False, what="parameter")
    if troubles:
        raise BadQuery(_sentence("the query", troubles), _some(troubles))
    assert converted is not None
    return converted


_FIELDS: dict[type[Any], dict[str, msgspec.structs.FieldInfo]] = {}


def _fields_of(kind: type[Any]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a struct by their JSON names. Inspecting a struct is slow, so it is done once for each."""
    found = _FIELDS[kind] = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    return found


def _is_many(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    return typing.get_origin(kind) is tuple


async def read_body(request: Request, kind: type[T], *, required: bool = True) -> T:
    """Read the JSON object of a request. An empty body gives the struct's defaults, unless a body is required."""
    data = await read_bytes(request)
    if not data:
        if required:
            raise BadBody("the body is empty; send a JSON object", [Trouble("", "syntax", "the body is empty")])
        return kind()
    media_type(request, {"application/json"})
    return await off_the_loop(request, data, lambda: _read_object(kind, data))


async def off_the_loop(request: Request, data: bytes, work: Callable[[], T]) -> T:
    """Do some work on a body, in a thread if the body is large: all requests share the loop."""
    return await aside(request.scope[BODY].tenant, work) if len(data) > LARGE_BYTES else work()


def _read_object(kind: type[T], data: bytes) -> T:
    value = read_json(data)
    if not isinstance(value, dict):
        raise Invalid("the body is not a JSON object; send one", [Trouble("", "wrong_type", "expected a JSON object")])
    troubles: list[Trouble] = []
    converted = _convert(kind, value, troubles, strict=True, what="key")
    if troubles:
        raise Invalid(_sentence("the body", troubles), _some(troubles))
    assert converted is not None
    return converted


def media_type(request: Request, allowed: set[str]) -> str:
    """The media type of the body, if it is allowed. A page of another site cannot send the types of this API without a
    preflight, which is never granted (X26)."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found not in allowed:
        some = " or ".join(sorted(allowed))
        raise WrongType(f"the body is {found[:80] or 'of no type'}; send it as Content-Type: {some}")
    return found


def definition_format(request: Request) -> Format:
    return "yaml" if media_type(request, {"application/json"} | _YAML) in _YAML else "json"


async def read_bytes(request: Request) -> bytes:
    """Read the body, however it is sent. `shell.py` refuses one that grows too large, and `bodies.py` one too many."""
    body: RequestBody = request.scope[BODY]
    if body.data is not None:
        return body.data
    body.expect(request.headers.get("content-length", "0"))
    pieces = []
    seconds = PUBLIC_BODY_SECONDS if body.is_public else BODY_SECONDS
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body.spend(len(piece))
                pieces.append(piece)
        body.data = b"".join(pieces)
        return body.data
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {seconds:.0f} s") from None
    except ClientDisconnect:
        raise TooSlow("the connection was closed before the body arrived") from None


@no_collection()
def read_json(data: bytes) -> Any:
    problems = Problems()
    value, _, _ = read(data, "json", problems)
    if problems.errors:
        # The reader is the one for definitions, and its messages say so; here it reads any body.
        troubles = [
            Trouble(format_path(one.path), one.code, one.message.replace("the definition", "the body"))
            for one in problems.found
        ]
        raise BadBody(_sentence("the body", troubles), _some(troubles))
    return value


def _convert(kind: type[T], given: dict[str, Any], troubles: list[Trouble], *, strict: bool, what: str) -> T | None:
    """Convert field by field, so that all mistakes are found; None when there are any."""
    fields = _FIELDS.get(kind) or _fields_of(kind)
    suggest = Problems().suggest
    unknown = given.keys() - fields.keys()
    for number, name in enumerate(unknown):
        if number == MOST_TROUBLES:
            troubles.extend([troubles[-1]] * (len(unknown) - number))  # counted but not listed
            break
        hint = suggest(name, fields.keys()) or (
            f"; known are {', '.join(fields)}" if fields else "; there are none here"
        )
        troubles.append(Trouble(_clean(name), "unknown_key", f"unknown {what} '{_clean(name)}'{hint}"))
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in given:
            if field.required:
                troubles.append(Trouble(name, "missing_key", f"{what} '{name}' is missing"))
            continue
        try:
            values[field.name] = msgspec.convert(given[name], field.type, strict=strict)
        except msgspec.ValidationError as error:
            troubles.append(_trouble(name, str(error)))
            continue
        if isinstance(values[field.name], float) and not math.isfinite(values[field.name]):
            troubles.append(Trouble(name, "wrong_value", "expected a finite number"))
    return None if troubles else kind(**values)


def _trouble(name: str, said: str) -> Trouble:
    found = _WHERE.match(said)
    what, place = (found["what"], found["path"] or "") if found is not None else (said, "")
    code = "unknown_key" if "unknown field" in what else "missing_key" if "missing required" in what else "wrong_value"
    return Trouble(f"{name}{_clean(place)}", "wrong_type" if what.startswith("Expected") else code, _clean(what, 300))


def _clean(text: str, most: int = 100) -> str:
    return ODD_TEXT.sub("\ufffd", text)[:most]


def _some(troubles: list[Trouble]) -> list[Trouble]:
    """The first `MOST_TROUBLES`, and how many more there are."""
    more = len(troubles) - MOST_TROUBLES
    if more <= 0:
        return troubles
    return [*troubles[:MOST_TROUBLES], Trouble("", "too_many_problems", f"and {more} more")]


def _sentence(what: str, troubles: list[Trouble]) -> str:
    first = troubles[0]
    more = "" if len(troubles) == 1 else f"; and {len(troubles) - 1} more, see problems"
    return f"{what}: {f'{first.path}: ' if first.path else ''}{first.message}{more}"
