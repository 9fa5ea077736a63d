"""The journal of a run as output: `perdure runs events`, `perdure runs logs`, `perdure runs export`."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from perdure.cli.exits import ExitCode, say
from perdure.cli.group import json_option, leave, position_options
from perdure.cli.lists import say_more
from perdure.cli.output_file import opened_output
from perdure.cli.terminal.output import compact, instant, on_terminal, print_page, print_table, say_zone
from perdure.cli.terminal.speech import echo, echo_json
from perdure.cli.where import Where, where_options
from perdure.clock import system
from perdure.errors import Refused
from perdure.plain_text import clean_json, clean_line
from perdure.runtime.worker.logs import PAUSE_SECONDS

_MANY = 1000
_LINES_SECONDS = 2 * PAUSE_SECONDS

# -- events ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("run_id", metavar="ID")
@position_options("SEQ", "Only those after this number; the same as --cursor.")
@where_options
@json_option
def events(run_id: str, after: int, limit: int, where: Where, as_json: bool) -> None:
    """Show the journal of a run: everything that happened, in order."""
    from perdure.cli.backend import read_run
    from perdure.kernel.run_ids import place

    page = asyncio.run(read_run(where, run_id, lambda backend: backend.runs.events, after, limit))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    if page["items"] and on_terminal():
        say_zone()
    rows: list[list[Any]] = []
    for event in page["items"]:
        node = event.get("node")
        spot = place(node, tuple(event.get("scope") or ()), event.get("item")) if node else ""
        data = compact(event["data"], 300) if event["data"] else ""
        rows.append([event["seq"], instant(event["at"]), event["type"], spot, data])
    if rows:
        print_table(["seq", "at", "type", "node", "data"], rows, flexible="data")
    say_more(page["next_cursor"], "--after")


# -- logs --------------------------------------------------------------------------------------------------------------


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
    from perdure.cli.backend import read_run

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
    from perdure.cli.backend import connected, resolve_run
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


# -- export ------------------------------------------------------------------------------------------------------------


@click.command(short_help="Write everything about a run into one file.")
@click.argument("run_id", metavar="ID")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of standard output.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "jsonl"]),
    help="One object, or one object a line. Default: by the name of the output file, else json.",
)
@where_options
@json_option
def export(run_id: str, output: str | None, format_: str | None, where: Where, as_json: bool) -> None:
    """Write everything about a run into one file: the run, its definitions, its events and its large values.

    \b
    json    {format, run, definitions: [{hash, definition}], events: […], blobs: [{ref, data}]}
    jsonl   a line for each of them: {kind: run | definition | event | blob, …}
    """
    by_name = "jsonl" if output is not None and output.endswith((".jsonl", ".ndjson")) else "json"
    chosen = "json" if as_json else format_ or by_name
    with _opened_output(output) as write:
        count = asyncio.run(_export(where, run_id, chosen == "jsonl", write))
    if output is not None:
        say(f"Wrote {output}: {count:,} events.")


@contextmanager
def _opened_output(output: str | None) -> Iterator[Callable[[str], Any]]:
    if output is None:
        yield lambda text: sys.stdout.write(clean_json(text))
        sys.stdout.flush()
        return
    with opened_output(output) as file:
        yield lambda text: file.write(text.encode())


async def _export(where: Where, name: str, lines: bool, write: Callable[[str], Any]) -> int:
    from perdure.cli.backend import connected, resolve_run
    from perdure.service import Service

    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        if isinstance(backend, Service):  # the file may be larger than memory
            async for piece in await backend.runs.export(run_id, lines=lines):
                write(piece)
            return (await backend.tenancy.get_run(run_id)).seq
        file: Any = await backend.runs.export(run_id)
        for piece in _pieces(file, lines):
            write(piece)
        return len(file["events"])


def _pieces(file: dict[str, Any], lines: bool) -> Iterator[str]:
    """The pieces in which a file that was read whole is written."""
    if not lines:
        yield msgspec.json.encode(file).decode() + "\n"
        return
    yield msgspec.json.encode({"kind": "run", "format": file["format"], **file["run"]}).decode() + "\n"
    for kind in ("definition", "event", "blob"):
        for one in file[f"{kind}s"]:
            yield msgspec.json.encode({"kind": kind, **one}).decode() + "\n"
