"""`weft runs watch`: a run followed from outside, until it ends."""

from __future__ import annotations

import asyncio

import click

from weft.cli.exits import ExitCode
from weft.cli.group import db_option, json_option, leave
from weft.cli.output import print_json, print_pretty


@click.command()
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
    from weft.cli.following import Silent, follow, stopping
    from weft.cli.lines import Lines
    from weft.sdk.following import Follower

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
        view = await engine.contents.view(state, raw=True) if state.irs else {}
    if as_json and view:
        print_json(view)
    elif state.terminal and view["outputs"] not in (None, {}):
        print_pretty(view["outputs"])
    if stop.code is not None and not state.terminal:
        return stop.code
    return ExitCode.OK if state.state == "completed" else ExitCode.FAILED
