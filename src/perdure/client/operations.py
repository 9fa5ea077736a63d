"""The operations of both clients: nouns, pages, and the descriptors that offer an operation to each.

Each operation is written once, as a function that describes a `Call`. On a noun of `Client` it blocks and returns; on
one of `AsyncClient` it is awaited; type checkers see the right one, with its own parameters.
How a call is sent is the sender's affair.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypedDict, TypeVar, overload

import msgspec

from perdure.client.http_calls import Call
from perdure.client.sockets import AsyncSender, Sender

P = ParamSpec("P")
T = TypeVar("T")


class Written(Protocol):
    """A workflow written in Python, as `@perdure.workflow` makes it."""

    def definition(self) -> Mapping[str, Any]: ...
    def children(self) -> Sequence[Any]: ...


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
