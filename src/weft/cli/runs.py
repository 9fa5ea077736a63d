"""`weft runs`: look at runs. The journal stands in `history.py`, what changes runs in `control.py` and `changing.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from weft.cli.exits import say
from weft.cli.group import Group, db_option, json_option, page_options
from weft.cli.listing import say_more
from weft.cli.output import duration, print_json, print_page, print_prose, print_table, shorten, since
from weft.cli.parameters import Moment, Tag
from weft.cli.views import error_of_record, print_node, print_run, summary
from weft.clock import system

CONTROL = "weft.cli.control"
CHANGING = "weft.cli.changing"
_STATES = [
    "running",
    "paused",
    "failing",
    "cancelling",
    "compensating",
    "completed",
    "failed",
    "cancelled",
    "rolled_back",
]


@click.group(
    cls=Group,
    lazy={
        "watch": "weft.cli.watching:watch",
        "events": "weft.cli.history:events",
        "export": "weft.cli.history:export",
    }
    | {name: f"{CONTROL}:{name}" for name in ("cancel", "pause", "resume", "retry", "rollback", "signal")}
    | {name: f"{CHANGING}:{name}" for name in ("patch", "rerun")},
)
def runs() -> None:
    """Runs: look at them, and change their course. An id may be shortened while it stays unique."""


# -- list --------------------------------------------------------------------------------------------------------------


@runs.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; may be repeated.")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option("--tag", type=Tag(), metavar="NAME=VALUE", help="Only runs with this tag.")
@click.option("--since", "begin", type=Moment(), metavar="TIME", help="Made then or later: 2h, 3d, 2026-11-15T09:30.")
@click.option("--until", "end", type=Moment(), metavar="TIME", help="Made before then.")
@page_options
@db_option
@json_option
def list_(
    states: tuple[str, ...],
    workflow: str | None,
    tag: tuple[str, str] | None,
    begin: float | None,
    end: float | None,
    limit: int,
    cursor: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    from weft.journal import EVERYTHING, RunFilter

    where = RunFilter(states=states, workflow=workflow, tag=tag, since=begin, until=end)
    page = asyncio.run(_list(db, where, limit, cursor))
    if as_json:
        print_page([summary(record) for record in page.items], page.next_cursor)
        return
    if not page.items:
        say("No runs yet; `weft run FILE` makes one." if where == EVERYTHING else "No such runs.")
        return
    rows = [
        [
            record.run_id,
            record.row.workflow,
            "quarantined" if record.quarantined is not None else record.row.state,
            since(record.row.created_at),
            duration((record.row.ended_at or system.now()) - record.row.created_at),
            shorten(record.quarantined or error_of_record(record), 200),
        ]
        for record in page.items
    ]
    print_table(["run", "workflow", "state", "created", "took", "error"], rows, flexible="error")
    say_more(page.next_cursor)


async def _list(db: str | None, where: Any, limit: int, cursor: str | None) -> Any:
    from weft.cli.database import opened

    async with opened(db) as engine:
        return await engine.journal.list_runs(where, limit=limit, cursor=cursor)


# -- show --------------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@click.option("--node", metavar="NODE", help="Only this node: every visit, and its output whole.")
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="As it was after this event (see weft runs events).")
@db_option
@json_option
def show(run_id: str, node: str | None, at: int | None, db: str | None, as_json: bool) -> None:
    """Show a run: its state, its nodes, its outputs. With --at, as it was in the past."""
    view = asyncio.run(_view(db, run_id, node, at))
    if node is not None:
        print_json(view) if as_json else print_node(view)
        return
    if at is not None:
        view["at"] = at
    print_json(view) if as_json else print_run(view)


async def _view(db: str | None, name: str, node: str | None, at: int | None) -> dict[str, Any]:
    from weft.cli.database import find_run, opened
    from weft.cli.history import state_at

    async with opened(db) as engine:
        record = await find_run(engine, name)
        state = await engine.state_of(record) if at is None else await state_at(engine, record, at)
        if node is not None:
            view = _node_view(state, node)
            for one in (view, *view["visits"]):
                if "size" in one:
                    one["output"] = await engine.contents.load(state.tenant, one["output"]["$ref"], raw=True)
            return view
        view = await engine.contents.view(state, raw=True)
        if record.quarantined is not None:
            view["quarantined"] = record.quarantined
        return view


def _node_view(state: Any, name: str) -> dict[str, Any]:
    from weft.kernel.view import activation_view, node_view

    index = _find_node(state, name)
    visits = [one for one in state.activations.values() if one.node == index and one.item < 0 and one.visit]
    ordered = sorted(visits, key=lambda one: one.visit)
    return {
        "run_id": state.run_id,
        "node": name,
        "type": state.node(index).type,
        **node_view(state, index),
        "visits": [activation_view(state, one) for one in ordered],
    }


def _find_node(state: Any, name: str) -> int:
    from weft.errors import NotFound
    from weft.kernel.explain import explain as sentence
    from weft.kernel.state import index_of

    index = index_of(state.ir).get(name)
    if index is None:
        raise NotFound(sentence(state, name))
    return int(index)


async def _state(db: str | None, name: str, at: int | None = None) -> tuple[Any, str | None]:
    from weft.cli.database import find_run, opened
    from weft.cli.history import state_at

    async with opened(db) as engine:
        record = await find_run(engine, name)
        state = await engine.state_of(record) if at is None else await state_at(engine, record, at)
        return state, record.quarantined


# -- explain -----------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@click.argument("name", metavar="[NODE]", required=False)
@click.option("--node", metavar="NODE", help="The same as the argument NODE.")
@db_option
@json_option
def explain(run_id: str, name: str | None, node: str | None, db: str | None, as_json: bool) -> None:
    """Say why a NODE has not run, or without one, what each node that has not completed waits for."""
    from weft.kernel import explain as sentence
    from weft.kernel.view import run_view

    if name is not None and node is not None and name != node:
        raise click.UsageError("name the node once, as NODE or with --node")
    state, quarantined = asyncio.run(_state(db, run_id))
    chosen = name or node
    if chosen is not None:
        _find_node(state, chosen)
    states = {name: one["state"] for name, one in run_view(state)["nodes"].items()}
    done = [name for name, word in states.items() if word == "completed"]
    names = [chosen] if chosen is not None else [name for name in states if states[name] != "completed"]
    said = {name: sentence(state, name) for name in names}
    if as_json:
        print_json({"run_id": state.run_id, "state": state.state.value, "nodes": said})
        return
    if quarantined is not None:
        click.echo(f"The run is quarantined: {quarantined}")
    if chosen is None and done:
        click.echo(f"{len(done)} of {len(states)} nodes have completed.")
    for text in said.values():
        print_prose(text)
