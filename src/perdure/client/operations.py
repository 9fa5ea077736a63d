"""An operation as data, and the descriptors that offer it to both clients.

Each operation is written once, as a function that describes a `Call`. On a noun of `Client` it blocks and returns; on
one of `AsyncClient` it is awaited; type checkers see the right one, with its own parameters. It must not know sockets.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypedDict, TypeVar, overload
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from perdure.client.sockets import AsyncSender, Sender

P = ParamSpec("P")
T = TypeVar("T")

View = dict[str, Any]


def read_json(content: bytes) -> Any:
    return msgspec.json.decode(content)


def read_bytes(content: bytes) -> bytes:
    return content


class Written(Protocol):
    """A workflow written in Python, as `@perdure.workflow` makes it."""

    def definition(self) -> Mapping[str, Any]: ...
    def children(self) -> Sequence[Any]: ...


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


# -- the two worlds ----------------------------------------------------------------------------------------------------


class Noun:
    """The operations of one noun, blocking."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


class AsyncNoun:
    """The operations of one noun, for a program with an event loop."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender


class Page(TypedDict, Generic[T]):
    """A part of a list; `next_cursor` is where the next part begins, None at the end."""

    items: list[T]
    next_cursor: str | None


class Pages(Generic[T]):
    """A list on the server: `for one in pages` reads page by page, `pages.first()` only one page."""

    def __init__(self, sender: Sender, call: Call[Page[T]]) -> None:
        self._sender = sender
        self._call = call

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page["items"]

    def first(self) -> Page[T]:
        return self._sender.send(self._call)

    def pages(self) -> Iterator[Page[T]]:
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = self._sender.send(call)
            yield page
            call = _next(call, page)


class AsyncPages(Generic[T]):
    """A list on the server: `async for one in pages` reads page by page, `await pages.first()` only one page."""

    def __init__(self, sender: AsyncSender, call: Call[Page[T]]) -> None:
        self._sender = sender
        self._call = call

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for one in page["items"]:
                yield one

    async def first(self) -> Page[T]:
        return await self._sender.send(self._call)

    async def pages(self) -> AsyncIterator[Page[T]]:
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = await self._sender.send(call)
            yield page
            call = _next(call, page)


def _next(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    cursor = page["next_cursor"]
    if cursor is None:
        return None
    return msgspec.structs.replace(call, query={**call.query, "cursor": cursor})


# -- descriptors -------------------------------------------------------------------------------------------------------


class _Described(Generic[P, T]):
    """A method of a noun that is written once, as the description of its call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__


class operation(_Described[P, T]):  # noqa: N801  a decorator
    """A method that is described once: on `Client` it returns its result, on `AsyncClient` it is awaited."""

    @overload
    def __get__(self, noun: None, owner: type) -> Self: ...
    @overload
    def __get__(self, noun: Noun, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, noun: AsyncNoun, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, noun: Noun | AsyncNoun | None, owner: type) -> Any:
        if noun is None:
            return self
        sender = noun._sender
        return _bound(self._describe, noun, sender.send)


class listing(_Described[P, Page[T]]):  # noqa: N801
    """A method that gives a list, page by page."""

    @overload
    def __get__(self, noun: None, owner: type) -> Self: ...
    @overload
    def __get__(self, noun: Noun, owner: type) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, noun: AsyncNoun, owner: type) -> Callable[P, AsyncPages[T]]: ...
    def __get__(self, noun: Noun | AsyncNoun | None, owner: type) -> Any:
        if noun is None:
            return self
        pages = Pages if isinstance(noun, Noun) else AsyncPages
        return _bound(self._describe, noun, functools.partial(pages, noun._sender))  # type: ignore[arg-type]


class streaming(_Described[P, T]):  # noqa: N801
    """A method that gives events as they happen, until there are no more."""

    @overload
    def __get__(self, noun: None, owner: type) -> Self: ...
    @overload
    def __get__(self, noun: Noun, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, noun: AsyncNoun, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, noun: Noun | AsyncNoun | None, owner: type) -> Any:
        if noun is None:
            return self
        return _bound(self._describe, noun, noun._sender.stream)


def _bound(describe: Callable[..., Any], noun: Any, then: Callable[[Any], Any]) -> Callable[..., Any]:
    bound = functools.partial(describe, noun)

    @functools.wraps(describe.__get__(noun))
    def call(*args: Any, **kwargs: Any) -> Any:
        return then(bound(*args, **kwargs))

    return call
