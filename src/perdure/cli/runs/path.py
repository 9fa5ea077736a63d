"""`perdure runs path`: which edges a run took, and by which rule."""

from __future__ import annotations

import asyncio

import click

from perdure.cli.frame.group import json_option, position_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import instant, on_terminal, print_page, print_table, say_zone

_id = click.argument("run_id", metavar="ID")


@click.command(short_help="Show which edges a run took, and by which rule.")
@_id
@position_options("SEQ", "Only decisions after this event; the same as --cursor.")
@where_options
@json_option
def path(run_id: str, after: int, limit: int, where: Where, as_json: bool) -> None:
    """Show which edges a run took, in order, and the rule that chose them."""
    from perdure.cli.frame.backend import read_run

    page = asyncio.run(read_run(where, run_id, lambda backend: backend.runs.path, after, limit))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    from perdure.kernel.run_ids import place

    rows = [
        [
            step["seq"],
            instant(step["at"]),
            place(step["node"], tuple(step["scope"])),
            ", ".join(step["taken"]) or "(the end)",
            step["rule"] + (f": {step['reasoning']}" if step.get("reasoning") else ""),
        ]
        for step in page["items"]
    ]
    if rows:
        if on_terminal():
            say_zone()
        print_table(["seq", "at", "from", "to", "by"], rows, flexible="by")
    say_more(page["next_cursor"], "--after")
