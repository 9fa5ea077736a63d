"""`perdure runs watch`: a run followed from outside, until it ends."""

from __future__ import annotations

import asyncio

import click

from perdure.cli.exits import ExitCode
from perdure.cli.group import json_option, leave
from perdure.cli.output import print_json, print_pretty
from perdure.cli.where import Where, where_options


@click.command()
@click.argument("run_id", metavar="ID")
@where_options
@json_option
def watch(run_id: str, where: Where, as_json: bool) -> None:
    """Follow a run until it ends. Looks only: it does no work and asks nothing.

    Exit codes: 0 completed, 1 failed or cancelled, 130 or 143 interrupted.
    """
    leave(asyncio.run(_watch(where, run_id, as_json)))


async def _watch(where: Where, name: str, as_json: bool) -> ExitCode:
    from perdure.cli.attending import make_tree
    from perdure.cli.backend import connected, find_run
    from perdure.cli.following import Silent, follow, stopping

    async with connected(where) as backend:
        run_id = (await find_run(backend, name))["run_id"]
        follower, lines = backend.follow(run_id)
        tree = None if as_json else make_tree(follower)
        if tree is not None:
            await follower.skip_past()
        with stopping() as stop:
            screen = Silent() if as_json else tree or lines
            await follow(follower, screen, stop, work=None, beside=tree.redraw if tree is not None else None)
        view = await backend.get_run(run_id)
    ended = follower.state.terminal
    if as_json:
        print_json(view)
    elif ended and view["outputs"] not in (None, {}):
        print_pretty(view["outputs"])
    if stop.code is not None and not ended:
        return stop.code
    return ExitCode.OK if view["state"] == "completed" else ExitCode.FAILED
