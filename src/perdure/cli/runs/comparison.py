"""The path of a run, the differences between two runs, and runs from elsewhere: `path`, `diff`, `import`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from perdure.cli.group import json_option, position_options
from perdure.cli.lists import say_more
from perdure.cli.terminal.output import compact, instant, on_terminal, print_json, print_page, print_table, say_zone
from perdure.cli.terminal.speech import echo
from perdure.cli.where import Where, where_options

_id = click.argument("run_id", metavar="ID")
_at = click.option("--at", type=click.IntRange(1), metavar="SEQ", help="As it was after this event.")


# -- path --------------------------------------------------------------------------------------------------------------


@click.command(short_help="Show which edges a run took, and by which rule.")
@_id
@position_options("SEQ", "Only decisions after this event; the same as --cursor.")
@where_options
@json_option
def path(run_id: str, after: int, limit: int, where: Where, as_json: bool) -> None:
    """Show which edges a run took, in order, and the rule that chose them."""
    from perdure.cli.backend import read_run

    page = asyncio.run(read_run(where, run_id, lambda backend: backend.runs.path, after, limit))
    if as_json:
        print_page(page["items"], page["next_cursor"])
        return
    from perdure.kernel.run_ids import place

    rows = [
        [
            step["seq"],
            instant(step["at"]),
            place(step["node"], tuple(step["scope"])),
            ", ".join(step["taken"]) or "(the end)",
            step["rule"] + (f": {step['reasoning']}" if step.get("reasoning") else ""),
        ]
        for step in page["items"]
    ]
    if rows:
        if on_terminal():
            say_zone()
        print_table(["seq", "at", "from", "to", "by"], rows, flexible="by")
    say_more(page["next_cursor"], "--after")


# -- diff --------------------------------------------------------------------------------------------------------------


@click.command(short_help="Compare two runs, or two moments of one.")
@_id
@click.argument("other", metavar="[OTHER]", required=False)
@_at
@click.option("--to", type=click.IntRange(1), metavar="SEQ", help="The other one, as it was after this event.")
@where_options
@json_option
def diff(run_id: str, other: str | None, at: int | None, to: int | None, where: Where, as_json: bool) -> None:
    """Say what is different between two runs, or between two points of one: `perdure runs diff ID --at 5 --to 9`."""
    if other is None and at is None and to is None:
        raise click.UsageError("name OTHER, or two points of the same run with --at and --to")
    found = asyncio.run(_diff(where, run_id, other, at, to))
    if as_json:
        print_json(found)
        return
    for side in ("before", "after"):
        one = found[side]
        echo(f"{side.ljust(6)}  {one['run_id']} at event {one['seq']}, {one['state']}")
    rows = [_difference("", change) for change in found["run"]]
    rows += [_difference(node, change) for node, changes in found["nodes"].items() for change in changes]
    if not rows:
        echo("No difference.")
        return
    echo()
    print_table(["node", "where", "before", "after"], rows, flexible="after")


def _difference(node: str, change: dict[str, Any]) -> list[str]:
    values = [compact(change[side], 80) if side in change else "" for side in ("before", "after")]
    return [node, change["path"], *values]


async def _diff(where: Where, name: str, other: str | None, at: int | None, to: int | None) -> dict[str, Any]:
    from perdure.cli.backend import connected, resolve_run

    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        second = None if other is None else (await resolve_run(backend, other))["run_id"]
        found: Any = await backend.runs.diff(run_id, other=second, at=at, to=to)
        return found  # type: ignore[no-any-return]


# -- import ------------------------------------------------------------------------------------------------------------


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
    except msgspec.DecodeError as error:
        raise click.UsageError(f"{file} is not JSON, as `perdure runs export` writes it by default: {error}") from error


async def _import(where: Where, data: Any) -> dict[str, Any]:
    from perdure.cli.backend import connected

    async with connected(where, make=True) as backend:
        found: Any = await backend.runs.import_file(data)
        return found  # type: ignore[no-any-return]
