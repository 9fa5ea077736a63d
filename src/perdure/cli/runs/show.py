"""`perdure runs show`: a run or a node of it as it is, or as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.backend import connected, get_run, resolve_run, who_asked
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.runs.details import error_of_view, print_node, print_run, state_word
from perdure.cli.terminal.output import print_json, print_table
from perdure.cli.terminal.speech import echo

_CHILDREN = 20
_LOOKED_AT = 1000
"""How many children of a run are looked through for those of one node."""


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--node", metavar="NODE", help="Only this node: every visit, and its output whole.")
@click.option(
    "--at", type=click.IntRange(1), metavar="SEQ", help="As it was after this event (see perdure runs events)."
)
@where_options
@json_option
def show(run_id: str, node: str | None, at: int | None, where: Where, as_json: bool) -> None:
    """Show a run: its state, its nodes, its outputs. With --at, as it was in the past."""
    view, asked = asyncio.run(_view(where, run_id, node, at))
    if node is not None:
        if as_json:
            print_json(view)
        else:
            print_node(view)
            found, more = asyncio.run(_children(where, view))
            _print_children(found, more, view["run_id"], where.flags)
        return
    if at is not None:
        view["at"] = at
    print_json(view) if as_json else print_run(view, asked)


async def _view(where: Where, name: str, node: str | None, at: int | None) -> tuple[dict[str, Any], str]:
    """A run or one of its nodes, and who asked for the state that the run is in now."""
    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        if node is None:
            view = await get_run(backend, run_id, at)
            return view, await who_asked(backend, view) if at is None else ""
        found: Any = await backend.runs.node(run_id, node, at=at)
        return found, ""


async def _children(where: Where, view: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """The runs that a node started, newest first, and whether there are more than were looked at."""
    if view["type"] not in ("workflow", "map"):
        return [], False
    run_id, node = view["run_id"], view["node"]
    first = f"{run_id}:{node}"
    found: list[dict[str, Any]] = []
    cursor, looked_at = None, 0
    async with connected(where) as backend:
        while looked_at < _LOOKED_AT:
            page: Any = await backend.runs.list(parent=run_id, limit=100, cursor=cursor).first()
            found += [one for one in page["items"] if one["run_id"] == first or one["run_id"].startswith(f"{first}~")]
            cursor, looked_at = page["next_cursor"], looked_at + len(page["items"])
            if cursor is None:
                break
    return found, cursor is not None


def _print_children(found: list[dict[str, Any]], more: bool, run_id: str, flags: str) -> None:
    if not found and not more:
        return
    echo()
    rows = [[one["run_id"], state_word(one), error_of_view(one)] for one in found[:_CHILDREN]]
    print_table(["child", "state", "error"], rows, flexible="error")
    rest = len(found) - len(rows)
    if more:
        say(f"… and more: the newest {_LOOKED_AT:,} runs that {run_id} started were looked at.")
    elif rest:
        say(f"… and {rest:,} more.")
    say(f"`perdure runs list --parent {run_id}{flags}` lists every run that it started.")
