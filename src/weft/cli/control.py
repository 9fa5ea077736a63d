"""What changes the course of a run: cancel, pause, resume, retry, roll back, signal.

Each works while another process runs the database, which then decides, and when none does, then it is decided here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from weft.cli.database import by_option
from weft.cli.exits import say
from weft.cli.group import db_option, json_option
from weft.cli.output import paint, print_json

_id = click.argument("run_id", metavar="ID")


def _decide(db: str | None, run_id: str, by: str | None, as_json: bool, done: str, **fields: Any) -> None:
    view, hint = asyncio.run(_ask(db, run_id, by, fields))
    if as_json:
        print_json(view)
        return
    click.echo(f"{done} {view['run_id']}; it is {paint(view['state'])} now")
    if hint:
        say(hint)


async def _ask(db: str | None, name: str, by: str | None, fields: dict[str, Any]) -> tuple[dict[str, Any], str]:
    from weft.cli.database import ask, find_run, going_on, opened, user
    from weft.runtime.requests import Request

    async with opened(db) as engine:
        record = await find_run(engine, name)
        await ask(engine, Request(run_id=record.run_id, by=user() if by is None else by, **fields))
        state = await engine.state(record.run_id)
        return await engine.contents.view(state), going_on(engine, record.run_id, state.state.value)


@click.command()
@_id
@click.option("--force", is_flag=True, help="Do not wait for what is running, and undo nothing.")
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@db_option
@json_option
def cancel(run_id: str, force: bool, reason: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Stop a run: what is running is told to stop, nothing new begins."""
    _decide(db, run_id, by, as_json, "Cancelled", kind="cancel", force=force, reason=reason)


@click.command()
@_id
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@db_option
@json_option
def pause(run_id: str, reason: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Let nothing new begin; what is running may finish."""
    _decide(db, run_id, by, as_json, "Paused", kind="pause", reason=reason)


@click.command()
@_id
@by_option
@db_option
@json_option
def resume(run_id: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Let a paused run go on."""
    _decide(db, run_id, by, as_json, "Resumed", kind="resume")


@click.command()
@_id
@by_option
@db_option
@json_option
def retry(run_id: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Try a failed run again: what completed is kept, what failed runs again."""
    _decide(db, run_id, by, as_json, "Retrying", kind="retry")


@click.command()
@_id
@by_option
@db_option
@json_option
def rollback(run_id: str, by: str | None, db: str | None, as_json: bool) -> None:
    """Undo a run that has ended: its compensators run, last node first."""
    _decide(db, run_id, by, as_json, "Rolling back", kind="rollback")


@click.command()
@_id
@click.argument("name")
@click.argument("payload", required=False)
@click.option("--signal-id", default="", metavar="KEY", help="The same signal sent twice with one key counts once.")
@by_option
@db_option
@json_option
def signal(
    run_id: str, name: str, payload: str | None, signal_id: str, by: str | None, db: str | None, as_json: bool
) -> None:
    """Send the signal NAME to a run, with a PAYLOAD that is JSON, or else text."""
    from weft.cli.source import read_value

    value = None if payload is None else read_value(payload)
    _decide(db, run_id, by, as_json, f"Sent {name} to", kind="signal", name=name, payload=value, signal=signal_id)
