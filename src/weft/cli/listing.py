"""What the lists of approvals and dead letters have in common: filters, pages, and finding one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from weft.cli.exits import say
from weft.cli.group import db_option, json_option, page_options
from weft.cli.output import print_page, print_table

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.journal import Page

Row = TypeVar("Row")
Lister = Callable[..., Awaitable["Page[Row]"]]
"""`list_approvals` or `list_dead_letters` of a journal."""
F = TypeVar("F", bound=Callable[..., Any])


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of thing is listed."""

    method: str
    columns: tuple[str, ...]
    flexible: str
    as_data: Callable[[Any], dict[str, Any]]
    as_cells: Callable[[Any], Sequence[str]]
    nothing_pending: str
    nothing: str
    hint: str
    """What can be done with what is pending."""


def list_options(*states: str) -> Callable[[F], F]:
    """`--state --run-id --limit --cursor --db --json`"""

    def add(function: F) -> F:
        state = click.option(
            "--state",
            type=click.Choice([*states, "all"]),
            default="pending",
            show_default=True,
            help="Only these.",
        )
        run = click.option("--run-id", metavar="ID", help="Only those of this run.")
        return state(run(page_options(db_option(json_option(function)))))

    return add


async def read_page(
    listed: Listed, db: str | None, state: str, run_id: str | None, limit: int, cursor: str | None
) -> Page[Any]:
    from weft.cli.database import find_run, opened

    async with opened(db) as engine:
        run = None if run_id is None else (await find_run(engine, run_id)).run_id
        method = getattr(engine.journal, listed.method)
        page: Page[Any] = await method(state=None if state == "all" else state, run_id=run, limit=limit, cursor=cursor)
        return page


def show_page(listed: Listed, page: Page[Any], state: str, as_json: bool) -> None:
    if as_json:
        print_page([listed.as_data(row) for row in page.items], page.next_cursor)
        return
    if not page.items:
        say(listed.nothing_pending if state == "pending" else listed.nothing)
        return
    print_table(listed.columns, [listed.as_cells(row) for row in page.items], flexible=listed.flexible)
    say_more(page.next_cursor)
    if state == "pending":
        say(f"\n{listed.hint}")


def say_more(cursor: str | None) -> None:
    if cursor is not None:
        say(f"There are more: --cursor {cursor}")


async def find_pending(
    engine: Engine, method: str, fits: Callable[[Any], bool], *, run_id: str | None = None
) -> list[Any]:
    """Every pending one that fits."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await getattr(engine.journal, method)(state="pending", run_id=run_id, limit=1000, cursor=cursor)
        found.extend(row for row in page.items if fits(row))
        cursor = page.next_cursor
        if cursor is None:
            return found


def only_one(found: Sequence[Row], name: str, what: str, get_id: Callable[[Row], str], command: str) -> Row:
    """The one that was meant by the beginning of its id."""
    from weft.errors import NotFound

    if len(found) > 1:
        some = ", ".join(get_id(row) for row in found[:3])
        more = ", …" * (len(found) > 3)
        raise NotFound(f"{len(found)} pending {what}s begin with {name} ({some}{more}); write more of the id")
    if not found:
        raise NotFound(f"there is no pending {what} {name}; `{command}` shows those there are")
    return found[0]
