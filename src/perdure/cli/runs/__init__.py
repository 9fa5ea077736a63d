"""`perdure runs`: look at runs. Commands about the journal are in `journal.py`, those that change runs in `control.py`
and `changes.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.backend import connected, get_run, read_pages, resolve_run, who_asked
from perdure.cli.exits import say
from perdure.cli.group import Group, json_option, page_options
from perdure.cli.lists import say_more
from perdure.cli.parameters import Moment, Tag
from perdure.cli.runs.show import error_of_view, print_details, print_node, print_run
from perdure.cli.terminal.output import brief, print_json, print_page, print_prose, print_table, shorten, since
from perdure.cli.terminal.speech import echo
from perdure.cli.where import Where, where_options
from perdure.clock import system
from perdure.errors import Refused

CONTROL = "perdure.cli.runs.control"
CHANGING = "perdure.cli.runs.changes"
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


@click.group(
    cls=Group,
    lazy={
        "watch": "perdure.cli.runs.watch:watch",
        "events": "perdure.cli.runs.journal:events",
        "export": "perdure.cli.runs.journal:export",
        "logs": "perdure.cli.runs.journal:logs",
        "path": "perdure.cli.runs.comparison:path",
        "diff": "perdure.cli.runs.comparison:diff",
        "import": "perdure.cli.runs.comparison:import_",
    }
    | {name: f"{CONTROL}:{name}" for name in ("start", "cancel", "pause", "resume", "rollback", "signal")}
    | {name: f"{CHANGING}:{name}" for name in ("patch", "retry", "rerun")},
)
def runs() -> None:
    """Runs: look at them, and change their course. An id may be shortened while it stays unique."""


# -- list --------------------------------------------------------------------------------------------------------------


@runs.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; may be repeated.")
@click.option("--parent", metavar="ID", help="Only children of this run.")
@click.option("--children", is_flag=True, help="Runs that other runs started, too.")
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option("--tag", type=Tag(), metavar="NAME=VALUE", help="Only runs with this tag.")
@click.option("--since", "begin", type=Moment(), metavar="TIME", help="Made then or later: 2h, 3d, 2026-11-15T09:30.")
@click.option("--until", "end", type=Moment(), metavar="TIME", help="Made before then.")
@page_options
@where_options
@json_option
def list_(
    states: tuple[str, ...],
    parent: str | None,
    children: bool,
    workflow: str | None,
    tag: tuple[str, str] | None,
    begin: float | None,
    end: float | None,
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
    wanted: dict[str, Any] = {"state": states, "workflow": workflow, "tag": tag, "since": begin, "until": end}
    wanted |= {"parent": parent, "children": children}
    page = asyncio.run(_list(where, wanted, limit, cursor))
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
            _word(one),
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


# -- show --------------------------------------------------------------------------------------------------------------


_CHILDREN = 20
_LOOKED_AT = 1000
"""How many children of a run are looked through for those of one node."""


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
    rows = [[one["run_id"], _word(one), error_of_view(one)] for one in found[:_CHILDREN]]
    print_table(["child", "state", "error"], rows, flexible="error")
    rest = len(found) - len(rows)
    if more:
        say(f"… and more: the newest {_LOOKED_AT:,} runs that {run_id} started were looked at.")
    elif rest:
        say(f"… and {rest:,} more.")
    say(f"`perdure runs list --parent {run_id}{flags}` lists every run that it started.")


def _word(one: dict[str, Any]) -> str:
    """The state of a run in a list."""
    return "quarantined" if "quarantined" in one else "waiting" if one["waiting"] else str(one["state"])


@runs.command()
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


# -- explain -----------------------------------------------------------------------------------------------------------


@runs.command(short_help="Say why a node has not run.")
@click.argument("run_id", metavar="ID")
@click.argument("name", metavar="[NODE]", required=False)
@click.option("--node", metavar="NODE", help="The same as the argument NODE.")
@where_options
@json_option
def explain(run_id: str, name: str | None, node: str | None, where: Where, as_json: bool) -> None:
    """Say why a NODE has not run, or without one, what each node that has not completed waits for."""
    if name is not None and node is not None and name != node:
        raise click.UsageError("name the node once, as NODE or with --node")
    chosen = name or node
    said = asyncio.run(_explain(where, run_id, chosen))
    if as_json:
        print_json({key: said[key] for key in ("run_id", "state", "nodes")})
        return
    if said["quarantined"] is not None:
        echo(f"The run is quarantined: {said['quarantined']}")
    if chosen is None and said["completed"]:
        echo(f"{said['completed']} of {said['total']} nodes have completed.")
    for one, text in said["nodes"].items():
        print_prose(text)
        print_details({"error": said["errors"].get(one)})


async def _explain(where: Where, name: str, node: str | None) -> dict[str, Any]:
    """The explanation of a run, with how many of its nodes have completed, and the errors of those that have not."""
    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        said: Any = await backend.runs.explain(run_id, node)
        try:
            nodes = (await get_run(backend, run_id, outputs=False))["nodes"]
        except Refused:  # its nodes are unknown, but the reason why it does not go on is known
            nodes = {}
        states = [one["state"] for one in nodes.values()]
        errors = {name: one["error"] for name, one in nodes.items() if one.get("error") and one["state"] != "completed"}
        counts = {"completed": states.count("completed"), "total": len(states)}
        return {"quarantined": None, **said, **counts, "errors": errors}
