"""Lists as `perdure.AsyncClient` gives them: `async for one in pages` reads all, `await pages.first()` one page."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Concatenate, ParamSpec

P = ParamSpec("P")
Page = dict[str, Any]


class Pages:
    def __init__(self, read: Callable[[str | None], Awaitable[Page]], cursor: str | None) -> None:
        self._read = read
        self._cursor = cursor

    async def __aiter__(self) -> AsyncIterator[Any]:
        cursor = self._cursor
        while True:
            page = await self._read(cursor)
            for one in page["items"]:
                yield one
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def first(self) -> Page:
        return await self._read(self._cursor)


def listing(read: Callable[Concatenate[Any, P], Awaitable[Page]]) -> Callable[Concatenate[Any, P], Pages]:
    """Turn a method that reads one page from its `cursor` on into one that gives `Pages`."""

    @functools.wraps(read)
    def pages(noun: Any, /, *args: P.args, **kwargs: P.kwargs) -> Pages:
        cursor = kwargs.pop("cursor", None)
        return Pages(lambda after: read(noun, *args, **kwargs, cursor=after), cursor)  # type: ignore[arg-type]

    return pages
