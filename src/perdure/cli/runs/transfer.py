"""`perdure runs export` and `perdure runs import`: a run as a file, and a run out of one, to look at."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.output_file import opened_output
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo
from perdure.plain_text import clean_json, explain_json


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
    from perdure.cli.frame.backend import connected, resolve_run
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


@click.command("import", short_help="Make a run out of an exported file, to look at.")
@click.argument("file")
@where_options
@json_option
def import_(file: str, where: Where, as_json: bool) -> None:
    """Make a run out of FILE that `perdure runs export` wrote (- reads standard input), to look at it.

    It gets a new id, and is quarantined: nothing of it is executed.
    """
    data = _read(file)
    found = asyncio.run(_import(where, data))
    if as_json:
        print_json(found)
    else:
        echo(f"Imported {found['imported_from']} as {found['run_id']}; it is to look at, not to run")


def _read(file: str) -> Any:
    import msgspec

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return msgspec.json.decode(text)
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = f"{file} is not JSON, as `perdure runs export` writes it by default: {explain_json(error)}"
        raise click.UsageError(said) from error


async def _import(where: Where, data: Any) -> dict[str, Any]:
    from perdure.cli.frame.backend import connected

    async with connected(where, make=True) as backend:
        found: Any = await backend.runs.import_file(data)
        return found  # type: ignore[no-any-return]
