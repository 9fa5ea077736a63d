"""`perdure runs diff`: what differs between two runs, or two moments of one."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.group import json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import compact, print_json, print_table
from perdure.cli.terminal.speech import echo

_id = click.argument("run_id", metavar="ID")
_at = click.option("--at", type=click.IntRange(1), metavar="SEQ", help="As it was after this event.")


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
    from perdure.cli.frame.backend import connected, resolve_run

    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        second = None if other is None else (await resolve_run(backend, other))["run_id"]
        found: Any = await backend.runs.diff(run_id, other=second, at=at, to=to)
        return found  # type: ignore[no-any-return]
