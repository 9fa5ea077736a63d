"""`perdure runs list`: runs, newest first."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.backend import connected, read_pages, resolve_run
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option, page_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.parameters import Moment, Tag
from perdure.cli.frame.where import Where, where_options
from perdure.cli.runs.details import error_of_view, state_word
from perdure.cli.terminal.output import brief, print_page, print_table, shorten, since
from perdure.clock import system

_STATES = [
    "running",
    "waiting",
    "paused",
    "failing",
    "cancelling",
    "compensating",
    "completed",
    "failed",
    "cancelled",
    "rolled_back",
]


@click.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; may be repeated.")
@click.option("--parent", metavar="ID", help="Only children of this run.")
@click.option("--children", is_flag=True, help="Runs that other runs started, too.")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="Only runs of this version; 0: not registered."
)
@click.option(
    "--tag", "tags", type=Tag(), multiple=True, metavar="NAME=VALUE", help="Only runs with this tag; may be repeated."
)
@click.option("--by", metavar="NAME", help="Only runs that NAME started.")
@click.option("--error", metavar="CODE", help="Only runs that ended with this error.")
@click.option("--since", "begin", type=Moment(), metavar="TIME", help="Made then or later: 2h, 3d, 2026-11-15T09:30.")
@click.option("--until", "end", type=Moment(), metavar="TIME", help="Made before then.")
@click.option("--ended-since", type=Moment(), metavar="TIME", help="Ended then or later; listed by their end.")
@click.option("--ended-until", type=Moment(), metavar="TIME", help="Ended before then; listed by their end.")
@click.option("--oldest", is_flag=True, help="The oldest first.")
@page_options
@where_options
@json_option
def list_(
    states: tuple[str, ...],
    parent: str | None,
    children: bool,
    workflow: str | None,
    version: int | None,
    tags: tuple[tuple[str, str], ...],
    by: str | None,
    error: str | None,
    begin: float | None,
    end: float | None,
    ended_since: float | None,
    ended_until: float | None,
    oldest: bool,
    limit: int,
    cursor: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """List runs, newest first.

    Runs that another run started are not among them unless --children or --parent is given. A run that is `waiting` is
    under way, and nothing of it is with a worker: it waits for a person, a signal or a time.
    """
    if "waiting" in states and len(set(states)) > 1:
        raise click.UsageError(
            "--state waiting cannot be combined with other states; `running` includes the runs that wait"
        )
    wanted: dict[str, Any] = {"state": states, "workflow": workflow, "tag": tags, "since": begin, "until": end}
    wanted |= {"version": version, "by": by, "error": error, "ended_since": ended_since, "ended_until": ended_until}
    wanted |= {"parent": parent, "children": children}
    page = asyncio.run(_list(where, {**wanted, "order": "oldest" if oldest else "newest"}, limit, cursor))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        say("No runs yet; `perdure run FILE` makes one." if not any(wanted.values()) else "No such runs.")
        return
    rows = [
        [
            one["run_id"],
            one["workflow"],
            state_word(one),
            since(one["created_at"]),
            brief((one["ended_at"] or system.now()) - one["created_at"]),
            shorten(one.get("quarantined") or error_of_view(one), 200),
        ]
        for one in page["items"]
    ]
    print_table(["run", "workflow", "state", "created", "took", "error"], rows, flexible="error")
    say_more(page["next_cursor"])


async def _list(where: Where, wanted: dict[str, Any], limit: int, cursor: str | None) -> dict[str, Any]:
    async with connected(where) as backend:
        if wanted["parent"] is not None:
            wanted["parent"] = (await resolve_run(backend, wanted["parent"]))["run_id"]
        return await read_pages(
            lambda most, after: backend.runs.list(**wanted, limit=most, cursor=after), limit, cursor
        )
