"""What changes the course of a run: start, cancel, pause, resume, retry, roll back, signal.

Each works while another process runs the database, which then decides, and when none does, then it is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.database import by_option
from perdure.cli.exits import say
from perdure.cli.group import json_option
from perdure.cli.output import paint, print_json
from perdure.cli.parameters import correlation_option, tag_option
from perdure.cli.saying import echo
from perdure.cli.where import Where, where_options

if TYPE_CHECKING:
    from perdure.cli.backend import Backend

_id = click.argument("run_id", metavar="ID")


Ask = Callable[["Backend", str], Awaitable[dict[str, Any]]]
"""What is asked of the run with this id; the run as it is then."""


def _decide(where: Where, name: str, as_json: bool, done: str, ask: Ask) -> None:
    view, hint = asyncio.run(_ask(where, name, ask))
    if as_json:
        print_json(view)
        return
    echo(f"{done} {view['run_id']}; it is {paint(view['state'])} now")
    if hint:
        say(hint)


async def _ask(where: Where, name: str, ask: Ask) -> tuple[dict[str, Any], str]:
    from perdure.cli.backend import connected, find_run

    async with connected(where) as backend:
        view = await ask(backend, (await find_run(backend, name))["run_id"])
        return view, backend.go_on(view["run_id"], view["state"])


@click.command(short_help="Start a run of a registered workflow.")
@click.argument("workflow")
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "inputs_file", metavar="FILE", help="A JSON object of inputs; - reads standard input.")
@tag_option
@correlation_option
@by_option
@where_options
@json_option
def start(
    workflow: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    tags: tuple[tuple[str, str], ...],
    correlation_id: str,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Start a run of a registered WORKFLOW (NAME, NAME@3 or NAME@alias) and print its id. It returns when that is durable.

    `perdure runs watch` follows it; `perdure run FILE` starts one out of a file.
    """
    from perdure.cli.source import read_inputs, warn_unknown

    def read(schema: Any) -> dict[str, Any]:
        inputs = read_inputs(pairs, inputs_file, schema) or {}
        warn_unknown(schema, inputs)
        return inputs

    view, hint = asyncio.run(_start(where, workflow, read, by, tags=dict(tags), correlation_id=correlation_id))
    if as_json:
        print_json(view)
        return
    echo(view["run_id"])
    say(hint or f"Started; follow it with: perdure runs watch {view['run_id']}{where.flags}")


async def _start(
    where: Where, workflow: str, read: Callable[[Any], dict[str, Any]], by: str | None, **about: Any
) -> tuple[dict[str, Any], str]:
    from perdure.cli.backend import connected

    async with connected(where) as backend:
        name, _, which = workflow.partition("@")
        schema = (await backend.get_workflow(name, which))["definition"].get("inputs")
        view = await backend.start(workflow, read(schema), by, **about)
        return view, backend.go_on(view["run_id"], view["state"])


@click.command()
@_id
@click.option("--force", is_flag=True, help="Do not wait for what is running, and undo nothing.")
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def cancel(run_id: str, force: bool, reason: str, by: str | None, where: Where, as_json: bool) -> None:
    """Stop a run: what is running is told to stop, nothing new begins."""
    _decide(
        where,
        run_id,
        as_json,
        "Cancelled",
        lambda backend, run: backend.control("cancel", run, by, force=force, reason=reason),
    )


@click.command()
@_id
@click.option("--reason", default="", help="Why; it is written down.")
@by_option
@where_options
@json_option
def pause(run_id: str, reason: str, by: str | None, where: Where, as_json: bool) -> None:
    """Let nothing new begin; what is running may finish."""
    _decide(where, run_id, as_json, "Paused", lambda backend, run: backend.control("pause", run, by, reason=reason))


@click.command()
@_id
@by_option
@where_options
@json_option
def resume(run_id: str, by: str | None, where: Where, as_json: bool) -> None:
    """Let a paused run go on."""
    _decide(where, run_id, as_json, "Resumed", lambda backend, run: backend.control("resume", run, by))


@click.command(short_help="Undo a run that has ended, by its compensators.")
@_id
@by_option
@where_options
@json_option
def rollback(run_id: str, by: str | None, where: Where, as_json: bool) -> None:
    """Undo a run that has ended: its compensators run, last node first."""
    _decide(where, run_id, as_json, "Rolling back", lambda backend, run: backend.control("rollback", run, by))


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
    from perdure.cli.source import read_value

    value = None if payload is None else read_value(payload)
    send: Ask = lambda backend, run: backend.signal(run, name, value, signal_id, by)  # noqa: E731
    _decide(where, run_id, as_json, f"Sent {name} to", send)
