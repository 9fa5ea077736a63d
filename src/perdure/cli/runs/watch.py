"""`perdure runs watch`: a run followed from outside, until it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.exits import ExitCode
from perdure.cli.frame.group import json_option, leave
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json, print_pretty
from perdure.errors import Refused

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.command()
@click.argument("run_id", metavar="ID")
@where_options
@json_option
def watch(run_id: str, where: Where, as_json: bool) -> None:
    """Follow a run until it ends. Looks only: it does no work and asks nothing.

    A quarantined run goes nowhere: why is said, and that is the end.

    Exit codes: 0 completed, 1 failed, cancelled or quarantined, 130 or 143 interrupted.
    """
    leave(asyncio.run(_watch(where, run_id, as_json)))


async def _watch(where: Where, name: str, as_json: bool) -> ExitCode:
    from perdure.cli.frame.backend import connected, get_run, resolve_run
    from perdure.cli.terminal.follow import Silent, follow, followed, stopping
    from perdure.cli.terminal.people import make_tree

    async with connected(where) as backend:
        found = await resolve_run(backend, name)
        run_id = found["run_id"]
        await check_going(backend, found)
        follower, lines = followed(backend, run_id)
        tree = None if as_json else make_tree(follower)
        if tree is not None:
            await follower.skip_past()
        with stopping() as stop:
            screen = Silent() if as_json else tree or lines
            await follow(follower, screen, stop, work=None, beside=[] if tree is None else [tree.redraw])
        if not follower.state.terminal:
            await check_going(backend, await resolve_run(backend, run_id))
        view = await get_run(backend, run_id)
    ended = follower.state.terminal
    if as_json:
        print_json(view)
    elif ended and view["outputs"] not in (None, {}):
        print_pretty(view["outputs"])
    if stop.code is not None and not ended:
        return stop.code
    return ExitCode.OK if view["state"] == "completed" else ExitCode.FAILED


async def check_going(backend: Backend, found: dict[str, Any]) -> None:
    """Raises Refused for a quarantined run, unless it has ended and can be shown."""
    from perdure.cli.frame.backend import get_run

    why = found.get("quarantined")
    if why is None:
        return
    run_id = found["run_id"]
    await get_run(backend, run_id)  # raises the reason if the run cannot be read
    if found["ended_at"] is None:
        raise Refused(f"run {run_id} is quarantined, so it does not go on: {why}", code="quarantined")
