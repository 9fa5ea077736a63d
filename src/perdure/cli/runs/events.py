"""`perdure runs events`: what happened in a run, in order."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import json_option, position_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import compact, instant, on_terminal, print_page, print_table, say_zone

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.command()
@click.argument("run_id", metavar="ID")
@position_options("SEQ", "Only those after this number; the same as --cursor.")
@click.option("--node", metavar="NODE", help="Only what is about this node.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only events of this type; can be repeated.")
@where_options
@json_option
def events(
    run_id: str, after: int, limit: int, node: str | None, types: tuple[str, ...], where: Where, as_json: bool
) -> None:
    """Show the journal of a run: everything that happened, in order."""
    from perdure.cli.frame.backend import read_run
    from perdure.kernel.run_ids import place

    def listed(backend: Backend) -> Any:
        return functools.partial(backend.runs.events, node=node, type=types)

    page = asyncio.run(read_run(where, run_id, listed, after, limit))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if page["items"] and on_terminal():
        say_zone()
    rows: list[list[Any]] = []
    for event in page["items"]:
        node = event.get("node")
        spot = place(node, tuple(event.get("scope") or ()), event.get("item")) if node else ""
        data = compact(event["data"], 300) if event["data"] else ""
        rows.append([event["seq"], instant(event["at"]), event["type"], spot, data])
    if rows:
        print_table(["seq", "at", "type", "node", "data"], rows, flexible="data")
    say_more(page["next_cursor"], "--after")
