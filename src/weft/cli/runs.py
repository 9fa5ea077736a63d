"""`weft runs`: look at runs. What changes them stands in `control.py`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from weft.cli.exits import ExitCode, say
from weft.cli.group import Group, db_option, json_option, leave, page_options
from weft.cli.output import (
    duration,
    instant,
    print_json,
    print_page,
    print_pretty,
    print_table,
    shorten,
    since,
)
from weft.cli.views import error_of_record, print_run, summary
from weft.clock import system

if TYPE_CHECKING:
    pass

CONTROL = "weft.cli.control"
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
    lazy={name: f"{CONTROL}:{name}" for name in ("cancel", "pause", "resume", "retry", "rollback", "signal")},
)
def runs() -> None:
    """Runs: look at them, and change their course. An id may be shortened while it stays unique."""


# -- list --------------------------------------------------------------------------------------------------------------


@runs.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; may be repeated.")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@page_options
@db_option
@json_option
def list_(
    states: tuple[str, ...], workflow: str | None, limit: int, cursor: str | None, db: str | None, as_json: bool
) -> None:
    """List runs, newest first."""
    from weft.journal import RunFilter

    page = asyncio.run(_list(db, RunFilter(states=states, workflow=workflow), limit, cursor))
    if as_json:
        print_page([summary(record) for record in page.items], page.next_cursor)
        return
    if not page.items:
        say("No runs." if states or workflow else "No runs yet; `weft run FILE` makes one.")
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
    if page.next_cursor is not None:
        say(f"There are more: --cursor {page.next_cursor}")


async def _list(db: str | None, where: Any, limit: int, cursor: str | None) -> Any:
    from weft.cli.database import opened

    async with opened(db) as engine:
        return await engine.journal.list_runs(where, limit=limit, cursor=cursor)


# -- show --------------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@db_option
@json_option
def show(run_id: str, db: str | None, as_json: bool) -> None:
    """Show a run: its state, its nodes, its outputs."""
    state, quarantined = asyncio.run(_state(db, run_id))
    from weft.kernel.view import run_view

    view = run_view(state)
    if quarantined is not None:
        view["quarantined"] = quarantined
    if as_json:
        print_json(view)
        return
    print_run(view)


async def _state(db: str | None, name: str) -> tuple[Any, str | None]:
    from weft.cli.database import find_run, opened

    async with opened(db) as engine:
        record = await find_run(engine, name)
        return await engine.state_of(record), record.quarantined


# -- events ------------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only those after this number.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="At most so many.")
@db_option
@json_option
def events(run_id: str, after: int, limit: int, db: str | None, as_json: bool) -> None:
    """Show the journal of a run: everything that happened, in order."""
    from weft.cli.lines import event_details
    from weft.kernel import events as e

    found, more = asyncio.run(_events(db, run_id, after, limit))
    if as_json:
        print_page([e.public(event) for event in found], str(found[-1].seq) if more else None)
        return
    rows = []
    for event in found:
        who = getattr(event, "node", None) or ""
        scope = getattr(event, "scope", ())
        item = getattr(event, "item", None)
        where = f"{who}{'[' + '.'.join(map(str, scope)) + ']' if scope else ''}{f'#{item}' if item is not None else ''}"
        rows.append([event.seq, instant(event.at), event.type, where, event_details(event)])
    if rows:
        print_table(["seq", "at", "type", "node", "data"], rows, flexible="data")
    if more:
        say(f"There are more: --after {found[-1].seq}")


async def _events(db: str | None, name: str, after: int, limit: int) -> tuple[list[Any], bool]:
    from weft.cli.database import find_run, opened
    from weft.kernel import events as e

    async with opened(db) as engine:
        record = await find_run(engine, name)
        stored = await engine.journal.read_events(record.run_id, after, limit + 1)
        return [e.decode(one.body) for one in stored[:limit]], len(stored) > limit


# -- explain -----------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@click.argument("node", required=False)
@db_option
@json_option
def explain(run_id: str, node: str | None, db: str | None, as_json: bool) -> None:
    """Say why a NODE has not run, or without one, what each node that has not completed waits for."""
    from weft.kernel import explain as sentence
    from weft.kernel.view import run_view

    state, quarantined = asyncio.run(_state(db, run_id))
    names = list(run_view(state)["nodes"])
    if node is not None and node not in names:
        from weft.errors import NotFound

        raise NotFound(sentence(state, node))
    done = {name for name, one in run_view(state)["nodes"].items() if one["state"] == "completed"}
    chosen = [node] if node is not None else [name for name in names if name not in done]
    said = {name: sentence(state, name) for name in chosen}
    if as_json:
        print_json({"run_id": state.run_id, "state": state.state.value, "nodes": said})
        return
    if quarantined is not None:
        click.echo(f"The run is quarantined: {quarantined}")
    if node is None and len(done) > 0:
        click.echo(f"{len(done)} of {len(names)} nodes have completed.")
    for text in said.values():
        click.echo(text)


# -- watch -------------------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run_id", metavar="ID")
@db_option
@json_option
def watch(run_id: str, db: str | None, as_json: bool) -> None:
    """Follow a run until it ends. Looks only: it does no work and asks nothing.

    Exit codes: 0 completed, 1 failed or cancelled, 130 or 143 interrupted.
    """
    leave(asyncio.run(_watch(db, run_id, as_json)))


async def _watch(db: str | None, name: str, as_json: bool) -> ExitCode:
    from weft.cli.attending import make_tree
    from weft.cli.database import find_run, opened
    from weft.cli.following import Follower, Silent, follow, stopping
    from weft.cli.lines import Lines
    from weft.kernel.view import run_view

    async with opened(db) as engine:
        record = await find_run(engine, name)
        follower = Follower(engine, record.run_id)
        tree = None if as_json else make_tree(engine)
        if tree is not None:
            await follower.skip_past()
        with stopping() as stop:
            screen = Silent() if as_json else tree or Lines(follower.engine.registry)
            await follow(follower, screen, stop, work=False, beside=tree.redraw if tree is not None else None)
    state = follower.state
    if as_json and state.irs:
        print_json(run_view(state))
    elif state.terminal and state.outputs not in (None, {}):
        print_pretty(run_view(state, nodes=False)["outputs"])
    if stop.code is not None and not state.terminal:
        return stop.code
    sys.stdout.flush()
    return ExitCode.OK if state.state == "completed" else ExitCode.FAILED
