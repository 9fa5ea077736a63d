"""Lists by what the database cannot look for: pages are read and chosen from, a bounded number for one answer.

A page made so may be short, and even empty, and still have a cursor: the next one goes on where it stopped. It must not know
what is listed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from perdure.journal import Page
from perdure.service.views import View, outline_view

if TYPE_CHECKING:
    from perdure.engine import Engine

Item = TypeVar("Item")
AT_ONCE = 100
"""How many runs' first events are in memory at once; each can be 32 KB or more."""
LOOKED_AT = 2000
LOOKS = 40


async def scan(
    read: Callable[[int, str | None], Awaitable[Page[Item]]],
    choose: Callable[[Sequence[Item]], Awaitable[list[Item]]],
    limit: int,
    cursor: str | None,
) -> Page[Item]:
    """Up to `limit` chosen items, from the cursor on. `read` gives a page of so many from a cursor on."""
    found: list[Item] = []
    looked = 0
    for _ in range(LOOKS):
        page = await read(min(limit - len(found), AT_ONCE), cursor)
        found += await choose(page.items)
        looked, cursor = looked + len(page.items), page.next_cursor
        if cursor is None or len(found) >= limit or looked >= LOOKED_AT:
            break
    return Page(tuple(found), cursor)


async def find_outlines(engine: Engine, run_ids: Sequence[str]) -> dict[str, View]:
    """What a list says of each run beyond its row."""
    outlines: dict[str, View] = {}
    for first in range(0, len(run_ids), AT_ONCE):
        names = run_ids[first : first + AT_ONCE]
        found = await engine.journal.find_outlines(names, "pending")
        outlines |= {name: outline_view(found.get(name)) for name in names}
    return outlines


async def find_origins(engine: Engine, run_ids: Sequence[str]) -> dict[str, View]:
    """The workflow and version of each run, and who started it; null where its first event cannot be read."""
    origins: dict[str, View] = {}
    for first in range(0, len(run_ids), AT_ONCE):
        names = run_ids[first : first + AT_ONCE]
        found = await engine.journal.find_outlines(names, "pending")
        for name in names:
            outline = found.get(name)
            origins[name] = _origin(None if outline is None else outline.first)
    return origins


class _Created(msgspec.Struct):
    """What is wanted of a run's first event, and nothing else of it."""

    workflow: str
    workflow_version: int
    by: str = ""


_read = msgspec.json.Decoder(_Created).decode


def _origin(first: bytes | None) -> View:
    try:
        created = None if first is None else _read(first)
    except (msgspec.DecodeError, UnicodeDecodeError):  # the others are shown all the same
        created = None
    if created is None:
        return {"workflow": None, "version": None, "by": None}
    return {"workflow": created.workflow, "version": created.workflow_version, "by": created.by or None}
