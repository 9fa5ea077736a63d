"""A request to a server as data: what is asked, and how its answer is read. It must not know how it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

T = TypeVar("T")


def read_json(content: bytes) -> Any:
    return msgspec.json.decode(content)


def read_text(content: bytes) -> str:
    return content.decode()


def read_bytes(content: bytes) -> bytes:
    return content


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request to a server, and how its answer is read."""

    method: str
    path: str
    """The path below the prefix of the API."""
    query: Mapping[str, Any] = {}
    """The query parameters: None is left out, a list is repeated."""
    body: Any = None
    """The body, sent as JSON; bytes are sent as they are. None: no body."""
    headers: Mapping[str, str] = {}
    repeatable: bool = False
    """Asking twice is the same as asking once, so the call is repeated when its answer was lost."""
    wait_seconds: float = 0.0
    """How long the server was asked to wait before it answers."""
    read: Callable[[bytes], T] = read_json
    before: tuple[Call[Any], ...] = ()
    """Calls that are made first; each is repeatable."""


def get(*parts: str, **query: Any) -> Call[Any]:
    return Call(method="GET", path=path_of(*parts), query=query, repeatable=True)


def post(*parts: str, body: Any = None, **more: Any) -> Call[Any]:
    return Call(method="POST", path=path_of(*parts), body={} if body is None else body, **more)


def put(*parts: str, body: Any, **more: Any) -> Call[Any]:
    return Call(method="PUT", path=path_of(*parts), body=body, **more)


def delete(*parts: str, repeatable: bool = False, **query: Any) -> Call[Any]:
    return Call(method="DELETE", path=path_of(*parts), query=query, repeatable=repeatable)


def path_of(*parts: str) -> str:
    """A path of these parts. An id stands as it is; any other text is quoted, so that it stays within its part."""
    return "/" + "/".join(quote(part, safe=":") for part in parts)


def is_header(text: str) -> bool:
    """Whether a text can be sent as (a part of) a header: printable ASCII without spaces."""
    return text.isascii() and text.isprintable() and " " not in text


def given(**values: Any) -> dict[str, Any]:
    """The values that were given, which are those that are not None."""
    return {name: value for name, value in values.items() if value is not None}
