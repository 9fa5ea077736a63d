"""`perdure events`: events by name, which triggers and runs listen to."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.exits import say
from perdure.cli.group import Group, json_option
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo
from perdure.cli.where import Where, where_options


@click.group(cls=Group)
def events() -> None:
    """Events: say what has happened, to all that listen."""


@events.command(short_help="Send an event.")
@click.argument("name")
@click.argument("payload", required=False)
@click.option("--key", default="", metavar="KEY", help="What triggers see as item.key.")
@click.option("--id", "id_", metavar="ID", help="Sent again with it, it is the same event.")
@json_option
@where_options
def send(name: str, payload: str | None, key: str, id_: str | None, as_json: bool, where: Where) -> None:
    """Send the event NAME, with a PAYLOAD that is JSON, or else text.

    It starts one run for each trigger that listens to NAME. It is durable when this answers.
    """
    from perdure.cli.backend import ask
    from perdure.cli.source import read_value

    given: Any = None if payload is None else read_value(payload)
    if isinstance(given, str) and payload is not None and payload.lstrip()[:1] in ("{", "["):
        say(f"{payload!r} is not JSON, and is sent as text; JSON has its names and texts in double quotes")
    view: Any = asyncio.run(ask(where, lambda backend: backend.events.send(name, given, id=id_, key=key)))
    if as_json:
        print_json(view)
    elif view["duplicate"]:
        echo(f"{view['name']} {view['id']} was sent before; nothing has happened")
    else:
        echo(f"sent {view['name']} {view['id']}")
