"""What functions write that yield to other nodes, or read what others yield: `On`, `Stream`, `windows`.

It owns the shape of these. How chunks travel is the worker's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


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


async def windows(stream: AsyncIterator[T] | Stream[T], *, items: int) -> AsyncIterator[list[T]]:
    """The chunks in lists of so many; the last may have fewer."""
    if items < 1:
        raise ValueError(f"expected items of at least 1, got {items}")
    window: list[T] = []
    async for chunk in stream:
        window.append(chunk)
        if len(window) >= items:
            yield window
            window = []
    if window:
        yield window
