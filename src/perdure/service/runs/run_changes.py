"""Many runs changed at once: counted first, then changed if the count is still right.

It must not know HTTP or permissions. Each run is asked by itself, and what one refuses does not stop the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Literal

from perdure.errors import Conflict, NotFound, PerdureError
from perdure.journal import Page, RunRecord
from perdure.service.errors import Invalid, Trouble
from perdure.service.runs.run_lists import Asked
from perdure.service.views import View

Action = Literal["cancel", "pause", "resume", "retry", "rollback"]
MOST = 10_000
"""How many runs one call may change."""
_PAGE = 100


async def change_many(
    read: Callable[[Asked, int, str | None], Awaitable[Page[RunRecord]]],
    change: Callable[[str], Awaitable[View]],
    summary: Callable[[str], Awaitable[View]],
    where: Asked,
    *,
    run_ids: Collection[str] | None = None,
    expected: int | None = None,
) -> View:
    """Change the runs that match (a page of which `read` gives), or those that are named. Without `expected`, only count; with it, refuse any other number."""
    names = await _matching(read, where) if run_ids is None else await _named(summary, run_ids)
    if expected is None:
        return {"matched": len(names), "done": 0, "refused": []}
    if len(names) != expected:
        raise Conflict(f"{len(names)} runs match, not {expected}; count again, then decide again")
    done, refused = 0, []
    for name in names:
        try:
            await change(name)
            done += 1
        except PerdureError as error:
            if error.status >= 500:
                raise
            refused.append({"run_id": name, "code": error.code, "message": error.message})
    return {"matched": len(names), "done": done, "refused": refused}


async def _matching(read: Callable[[Asked, int, str | None], Awaitable[Page[RunRecord]]], where: Asked) -> list[str]:
    where.check()
    if where.waiting:
        message = "runs that wait cannot be chosen by that, because it may change before they are; choose 'running'"
        raise Invalid(message, [Trouble("where.state", "wrong_value", message)])
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await read(where, _PAGE, cursor)
        found += [one.run_id for one in page.items]
        cursor = page.next_cursor
        if cursor is None or len(found) >= MOST:
            return found[:MOST]


async def _named(summary: Callable[[str], Awaitable[View]], run_ids: Collection[str]) -> list[str]:
    """The runs that exist, each once."""
    found: list[str] = []
    for name in dict.fromkeys(run_ids):
        try:
            found.append((await summary(name))["run_id"])
        except NotFound:
            continue
    return found
