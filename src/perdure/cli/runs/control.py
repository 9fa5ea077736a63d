"""Commands that change the course of a run: cancel, pause, resume, roll back, signal.

Each works while another process runs the database, which then decides; when none does, this process decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.parameters import budget_options
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

_id = click.argument("run_id", metavar="ID")
Ask = Callable[["Backend", str], Awaitable[Any]]
"""A request to the run with this id."""


def _decide(where: Where, name: str, by: str | None, as_json: bool, done: str, ask: Ask) -> None:
    from perdure.cli.frame.backend import tell_state

    view, hint = asyncio.run(_ask(where, name, by, ask))
    if as_json:
        print_json(view)
        return
    tell_state(f"{done} {view['run_id']}", view["state"], hint)


async def _ask(where: Where, name: str, by: str | None, ask: Ask) -> tuple[dict[str, Any], str]:
    from perdure.cli.frame.backend import connected, get_run, go_on, resolve_run

    async with connected(where, by=by) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        await ask(backend, run_id)
        return await get_run(backend, run_id), await go_on(backend, run_id)


@click.command()
@_id
@click.option("--force", is_flag=True, help="Do not wait for what is running, and undo nothing.")
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def cancel(run_id: str, force: bool, reason: str, by: str | None, where: Where, as_json: bool) -> None:
    """Stop a run: what runs is told to stop, and nothing new begins."""
    ask: Ask = lambda backend, run: backend.runs.cancel(run, force=force, reason=reason)  # noqa: E731
    _decide(where, run_id, by, as_json, "Cancelled", ask)


@click.command()
@_id
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def pause(run_id: str, reason: str, by: str | None, where: Where, as_json: bool) -> None:
    """Let nothing new begin; what is running may finish."""
    _decide(where, run_id, by, as_json, "Paused", lambda backend, run: backend.runs.pause(run, reason=reason))


@click.command(short_help="Let a paused run go on.")
@_id
@budget_options
@by_option
@where_options
@json_option
def resume(run_id: str, budget: dict[str, Any] | None, by: str | None, where: Where, as_json: bool) -> None:
    """Let a paused run go on. One whose budget is used up needs a larger one; `runs cost` says what it has used."""
    _decide(where, run_id, by, as_json, "Resumed", lambda backend, run: backend.runs.resume(run, budget=budget))


@click.command(short_help="Undo a run that has ended, by its compensators.")
@_id
@by_option
@where_options
@json_option
def rollback(run_id: str, by: str | None, where: Where, as_json: bool) -> None:
    """Undo a run that has ended: its compensators run, last node first."""
    _decide(where, run_id, by, as_json, "Rolling back", lambda backend, run: backend.runs.rollback(run))


@click.command(short_help="Send a signal to a run.")
@_id
@click.argument("name")
@click.argument("payload", required=False)
@click.option("--signal-id", default="", metavar="KEY", help="The same signal sent twice with one key counts once.")
@by_option
@where_options
@json_option
def signal(
    run_id: str, name: str, payload: str | None, signal_id: str, by: str | None, where: Where, as_json: bool
) -> None:
    """Send the signal NAME to a run, with a PAYLOAD that is JSON, or else text."""
    from perdure.cli.frame.source import read_value

    value = None if payload is None else read_value(payload)
    notes: list[str] = []

    async def send(backend: Backend, run: str) -> None:
        note = ""
        with suppress(PerdureError):  # it is advice; the signal is sent all the same
            note = await _foresee_signal(backend, run, name, signal_id)
        notes.append(note)
        await backend.runs.signal(run, name, value, signal_id=signal_id or None)

    _decide(where, run_id, by, as_json, f"Sent {name} to", send)
    if not as_json and notes[0]:
        say(notes[0])


@click.command(short_help="Say something to an agent at work.")
@_id
@click.argument("node")
@click.argument("text")
@click.option("--item", type=click.IntRange(0), help="Of a map: which item.")
@click.option("--message-id", default="", metavar="KEY", help="The same message sent twice with one key counts once.")
@by_option
@where_options
@json_option
def tell(
    run_id: str,
    node: str,
    text: str,
    item: int | None,
    message_id: str,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Say TEXT to the agent NODE of a run, which reads it before its next turn."""

    async def send(backend: Backend, run: str) -> None:
        await backend.runs.tell(run, node, text, item=item, message_id=message_id or None)

    _decide(where, run_id, by, as_json, f"Told {node} of", send)


async def _foresee_signal(backend: Backend, run_id: str, name: str, signal_id: str) -> str:
    """What the sender of a signal may not expect: that it was sent before, or that nothing waits for it."""
    from perdure.cli.frame.backend import LOOKED_AT, MOST, get_run
    from perdure.spelling import find_close

    if signal_id:
        events: Any = backend.runs.events(run_id, limit=MOST)
        looked_at = 0
        async for event in events:
            looked_at += 1
            if looked_at > LOOKED_AT:
                break
            if event["type"] == "run.signalled" and event["data"].get("signal") == signal_id:
                return f"A signal with the id {signal_id} was sent before: it counts once, and nothing changed."
    nodes = (await get_run(backend, run_id, outputs=False))["nodes"]
    waits = {
        key: node["waiting_for"] for key, node in nodes.items() if node["state"] == "waiting" and "waiting_for" in node
    }
    waited = {wait["name"]: key for key, wait in waits.items() if wait["kind"] == "signal"}
    if name in waited or not waited:
        return ""
    close = find_close(name, waited) or next(iter(waited))
    return f"Nothing waits for {name} now; it is kept until something does. {waited[close]} waits for {close}."
