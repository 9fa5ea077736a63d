"""`perdure sessions`: what runs of an agent with the same key know of each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_json, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.group(cls=Group, short_help="Sessions of agents: what runs with the same key know.")
def sessions() -> None:
    """Sessions of agents: what runs with the same key know of each other."""


@sessions.command("list", short_help="List sessions.")
@click.option("--key", metavar="KEY", help="Only sessions with this key.")
@where_options
@json_option
def list_(key: str | None, where: Where, as_json: bool) -> None:
    """List the sessions of all agents."""

    async def read(backend: Backend) -> list[Any]:
        return [one async for one in backend.agent_sessions.list(key=key)]

    found = asyncio.run(_ask(where, read))
    if as_json:
        print_json({"items": found})
        return
    rows = [
        [one["workflow"], one["node"], one["key"], str(one["turns"]), moment(one["last_at"]), one["owner"] or ""]
        for one in found
    ]
    print_table(["workflow", "node", "key", "turns", "last", "of"], rows)


@sessions.command("show", short_help="Show the turns and notes of a session.")
@click.argument("workflow")
@click.argument("node")
@click.argument("key")
@where_options
@json_option
def show(workflow: str, node: str, key: str, where: Where, as_json: bool) -> None:
    """Show what the agent NODE of WORKFLOW knows in the session KEY."""

    async def read(backend: Backend) -> Any:
        return await backend.agent_sessions.get(workflow, node, key)

    view = asyncio.run(_ask(where, read))
    if as_json:
        print_json(view)
        return
    for one in view["turns"]:
        echo(f"{moment(one['at'])}  {one['run_id']}  ({one['label']})")
        if one["summary"]:
            echo(f"  before, summed up: {one['summary']}")
        echo(f"  asked: {one['asked']}")
        echo(f"  said: {one['said']}")
    for one in view["notes"]:
        echo(f"note{' ' + one['key'] if one['key'] else ''} ({one['label']}): {one['text']}")


@sessions.command("delete", short_help="Forget a session.")
@click.argument("workflow")
@click.argument("node")
@click.argument("key")
@where_options
@json_option
def delete(workflow: str, node: str, key: str, where: Where, as_json: bool) -> None:
    """Forget the session KEY of the agent NODE of WORKFLOW. Runs that have begun know what they were told."""

    async def read(backend: Backend) -> Any:
        return await backend.agent_sessions.delete(workflow, node, key)

    view = asyncio.run(_ask(where, read))
    if as_json:
        print_json(view)
    else:
        echo(f"forgotten: {view['turns']} turns and {view['notes']} notes")


async def _ask(where: Where, read: Any) -> Any:
    from perdure.cli.frame.backend import ask

    return await ask(where, read)
