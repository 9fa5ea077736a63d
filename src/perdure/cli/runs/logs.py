"""`perdure runs logs`: what handlers printed, logged and said."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.group import json_option, leave, position_options
from perdure.cli.frame.lists import say_more
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import instant, on_terminal, print_page, print_table, say_zone
from perdure.cli.terminal.speech import echo, echo_json
from perdure.clock import system
from perdure.errors import Refused
from perdure.plain_text import clean_line
from perdure.runtime.worker.logs import PAUSE_SECONDS

_MANY = 1000
_LINES_SECONDS = 2 * PAUSE_SECONDS


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--node", metavar="NODE", help="Only what this node said.")
@position_options("POSITION", "Only those after this line; the same as --cursor.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends, with each line as it comes.")
@where_options
@json_option
def logs(run_id: str, node: str | None, after: int, limit: int, follow: bool, where: Where, as_json: bool) -> None:
    """Show what the functions of a run said, in order.

    That is what they print, what they log with Python's logging, and what they say with `ctx.log`, from info on. With --follow and --json,
    each line is an object.
    """
    if follow:
        leave(asyncio.run(_follow_logs(where, run_id, node, after, as_json)))
        return
    from perdure.cli.frame.backend import read_run

    page = asyncio.run(
        read_run(where, run_id, lambda backend: functools.partial(backend.runs.logs, node=node), after, limit)
    )
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if not page["items"]:
        say("Nothing was said.")
        return
    if on_terminal():
        say_zone()
    rows = [[instant(line["at"]), line["node"], line["level"], line["message"]] for line in page["items"]]
    print_table(["at", "node", "level", "message"], rows, flexible="message")
    say_more(page["next_cursor"], "--after")


async def _follow_logs(where: Where, name: str, node: str | None, after: int, as_json: bool) -> ExitCode:
    from perdure.cli.frame.backend import connected, resolve_run
    from perdure.cli.terminal.follow import stopping
    from perdure.runtime.patience import first_of

    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        if not as_json and on_terminal():
            say_zone()
        with stopping() as stop:
            ended = False
            while stop.code is None:
                page = await backend.runs.logs(run_id, node=node, limit=_MANY, cursor=str(after)).first()
                for line in page["items"]:
                    after = line["position"]
                    _print_line(line, as_json)
                if page["next_cursor"] is not None:
                    continue
                if ended:
                    return ExitCode.OK
                # Lines are written in batches, the last one up to a moment after the run has ended.
                found = await resolve_run(backend, run_id)
                ended = found["ended_at"] is not None
                if not ended and found.get("quarantined") is not None:
                    raise Refused(
                        f"run {run_id} is quarantined, so it does not go on: {found['quarantined']}", code="quarantined"
                    )
                await first_of(system.sleep(_LINES_SECONDS), stop.asked.wait())
            return stop.code


def _print_line(line: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        echo_json(msgspec.json.encode(line))
    else:
        echo(f"{instant(line['at'])}  {line['node']}  {line['level']:<7}  {clean_line(line['message'])}")
