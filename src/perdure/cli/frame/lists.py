"""The common part of the lists of approvals and dead letters: filters, pages, and finding one item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
import msgspec

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option, page_options
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_page, print_table

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend, View

F = TypeVar("F", bound=Callable[..., Any])


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of thing is listed."""

    kind: Literal["approval", "dead_letter"]
    command: str
    """The command that lists them."""
    columns: tuple[str, ...]
    flexible: str
    as_cells: Callable[[dict[str, Any]], Sequence[str]]
    nothing_pending: str
    nothing: str
    hint: str
    """A hint at what can be done with pending ones."""


def list_options(*states: str) -> Callable[[F], F]:
    """Add the options of a list: `--state --run-id --limit --cursor --db --server --api-key --json`."""

    def add(function: F) -> F:
        state = click.option(
            "--state",
            type=click.Choice([*states, "all"]),
            default="pending",
            show_default=True,
            help="Only these.",
        )
        run = click.option("--run-id", metavar="ID", help="Only those of this run.")
        return state(run(page_options(where_options(json_option(function)))))

    return add


async def read_page(
    listed: Listed, where: Where, state: str, run_id: str | None, limit: int, cursor: str | None
) -> View:
    from perdure.cli.frame.backend import connected, read_pages, resolve_run

    async with connected(where) as backend:
        about: dict[str, Any] = {"state": None if state == "all" else state}
        about["run_id"] = None if run_id is None else (await resolve_run(backend, run_id))["run_id"]
        noun = _noun(backend, listed)
        return await read_pages(lambda most, after: noun.list(**about, limit=most, cursor=after), limit, cursor)


def _noun(backend: Backend, listed: Listed) -> Any:
    return backend.approvals if listed.kind == "approval" else backend.dead_letters


def show_page(listed: Listed, page: View, state: str, as_json: bool) -> None:
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        say(listed.nothing_pending if state == "pending" else listed.nothing)
        return
    print_table(listed.columns, [listed.as_cells(view) for view in page["items"]], flexible=listed.flexible)
    say_more(page["next_cursor"])
    if state == "pending":
        say(f"\n{listed.hint}")


def say_more(cursor: str | None, option: str = "--cursor") -> None:
    if cursor is not None:
        say(f"There are more: {option} {cursor}")


async def find_pending(backend: Backend, listed: Listed, *, run_id: str | None = None) -> list[View]:
    """All pending items of this kind."""
    from perdure.cli.frame.backend import MOST

    return [one async for one in _noun(backend, listed).list(state="pending", run_id=run_id, limit=MOST)]


async def on_one(backend: Backend, listed: Listed, name: str, act: Callable[[str], Awaitable[Any]]) -> View:
    """Act on the item with this id, or on the only pending one whose id begins with it."""
    from perdure.errors import NotFound

    try:
        if name:
            exact: View = await act(name)
            return exact
    except NotFound:
        pass
    what, key = listed.kind.replace("_", " "), f"{listed.kind}_id"
    found = [view for view in await find_pending(backend, listed) if view[key].startswith(name)]
    if len(found) > 1:
        some = ", ".join(view[key] for view in found[:3])
        more = ", …" * (len(found) > 3)
        raise NotFound(f"{len(found)} pending {what}s begin with {name} ({some}{more}); write more of the id")
    if not found:
        raise NotFound(f"there is no pending {what} {name}; `{listed.command}` shows those there are")
    only: View = await act(found[0][key])
    return only
