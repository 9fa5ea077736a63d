"""`perdure events`: events by name, which triggers and runs listen to."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import moment, print_json
from perdure.cli.terminal.speech import echo


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

    It starts one run for each trigger that listens to NAME, and ends the waits for it. It is durable when this answers.
    """
    from perdure.cli.frame.backend import ask

    given = _read_payload(payload)
    view: Any = asyncio.run(ask(where, lambda backend: backend.events.send(name, given, id=id_, key=key)))
    if as_json:
        print_json(view)
    elif view["duplicate"]:
        echo(f"{view['name']} {view['id']} was sent before; nothing has happened")
    else:
        echo(f"sent {view['name']} {view['id']}{_tell_who(view)}")


def _read_payload(text: str | None) -> Any:
    import msgspec

    from perdure.plain_text import explain_json

    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        assert text is not None
        if text.lstrip()[:1] not in ("{", "["):
            return text
        message = f"PAYLOAD begins as JSON and is none: {explain_json(error)}"
        raise click.UsageError(
            f"{message}; JSON has its names and texts in double quotes, and the shell keeps them between single ones. "
            "A text that begins so is sent in double quotes itself"
        ) from None


def _tell_who(view: dict[str, Any]) -> str:
    """Who listens, for the line that says that an event was sent."""
    if view["listeners"]:
        many = "at least " * (view["listeners"] >= 1000) + str(view["listeners"])
        return f"; {many} listen{'s' * (view['listeners'] == 1)} to it"
    until = f"it is kept until {moment(view['kept_until'])}, for runs that had begun"
    if view["other_keys"]:
        told = f"those that wait for it name {'another' if view['key'] else 'a'} key (--key)"
        return f"; nobody heard it: {told}; {until}"
    return f"; no trigger and no run listens to it; {until}"
