"""Functions of runs that go on as new ones: in a thread, on the loop, and as a class."""

from __future__ import annotations

from typing import Any

import perdure


def _page(page: int, last: int) -> dict[str, Any]:
    if page < last:
        raise perdure.ContinueAsNew({"page": page + 1, "last": last})
    return {"again": False, "page": page}


async def turn(page: int, last: int) -> dict[str, Any]:
    return _page(page, last)


def turn_in_thread(page: int, last: int) -> dict[str, Any]:
    return _page(page, last)


class Turning:
    def __call__(self, page: int, last: int) -> dict[str, Any]:
        return _page(page, last)


def turn_wrongly(page: int, last: int) -> None:
    raise perdure.ContinueAsNew({"page": str(page)})


def turn_with_text(page: int, last: int) -> None:
    raise perdure.ContinueAsNew("page")  # type: ignore[arg-type]
