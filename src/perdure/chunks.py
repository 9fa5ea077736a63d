"""What functions write that yield to other nodes, or read what others yield: `On`, `Stream`, `windows`.

It owns the shape of these. How chunks travel is the worker's business.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from perdure.outcomes import Failure

T = TypeVar("T")
U = TypeVar("U")


class On(msgspec.Struct, frozen=True):
    """Yielded by a function for another port than `out`: `yield perdure.On("rejected", row)`."""

    port: str
    value: Any


class Stream(ABC, Generic[T]):
    """A parameter of a function that reads what another node yields: `async for word in words`, or `for` in a plain function."""

    position: int = 0
    """The number of the last chunk that was given, from 1 on; of several sources, of the one it came from."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[T]: ...

    @abstractmethod
    def __iter__(self) -> Iterator[T]: ...

    @abstractmethod
    async def has_more(self, seconds: float) -> bool:
        """Whether a chunk is at hand, or the end known, within so many seconds. Nothing is taken."""

    @abstractmethod
    def run(self, made: AsyncIterator[U]) -> Iterator[U]:
        """What is made of this stream on the loop, for a plain function."""


class Windows(Generic[T]):
    """What a stream gives, in lists: `async for`, or `for` in a plain function. Of a stream nothing is taken that is in no list
    yet, so a checkpoint that is made with a list covers that list and no more."""

    def __init__(self, stream: AsyncIterator[T] | Stream[T], items: int | None, seconds: float | None) -> None:
        self._stream = stream
        self._items = items
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[list[T]]:
        source = self._stream if isinstance(self._stream, Stream) else _Ahead(self._stream)
        chunks, window = aiter(source), list[T]()
        ends_at, now = 0.0, asyncio.get_running_loop().time
        try:
            while True:
                if window and self._seconds is not None and not await source.has_more(ends_at - now()):
                    yield window
                    window = []
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
                if not window and self._seconds is not None:
                    ends_at = now() + self._seconds
                window.append(chunk)
                if len(window) == self._items:
                    yield window
                    window = []
            if window:
                yield window
        finally:
            if isinstance(source, _Ahead):
                source.cancel()

    def __iter__(self) -> Iterator[list[T]]:
        if not isinstance(self._stream, Stream):
            raise TypeError("only a perdure.Stream can be read by `for`; use `async for`")
        return self._stream.run(aiter(self))


class _Ahead(Generic[T]):
    """An iterator that is no stream, of which it can be asked whether it has more."""

    def __init__(self, chunks: AsyncIterator[T]) -> None:
        self._chunks = chunks
        self._next: asyncio.Future[T] | None = None

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        taken, self._next = self._begin(), None
        return await taken

    async def has_more(self, seconds: float) -> bool:
        done, _ = await asyncio.wait([self._begin()], timeout=max(0.0, seconds))
        return bool(done)

    def _begin(self) -> asyncio.Future[T]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._get_next())
        return self._next

    async def _get_next(self) -> T:
        return await anext(self._chunks)

    def cancel(self) -> None:
        if self._next is not None:
            self._next.cancel()


class _BadWindows(Failure, ValueError):
    """Windows that have no end. Another attempt would ask for the same."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_arguments", message, retryable=False)


def windows(
    stream: AsyncIterator[T] | Stream[T], *, items: int | None = None, seconds: float | None = None
) -> Windows[T]:
    """The chunks in lists of so many, or of what came within so many seconds of the first of them; the last may have fewer."""
    if items is None and seconds is None:
        raise _BadWindows("expected items, seconds or both: windows(stream, items=100, seconds=1)")
    if items is not None and items < 1:
        raise _BadWindows(f"expected items of at least 1, got {items}")
    if seconds is not None and not 0 < seconds < math.inf:
        raise _BadWindows(f"expected seconds above 0, got {seconds}")
    return Windows(stream, items, seconds)
