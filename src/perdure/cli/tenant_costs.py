"""`perdure cost`: what all runs have used, by workflow, model or day."""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import json_option
from perdure.cli.frame.parameters import Moment
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend


@click.command(short_help="Show what all runs have used: calls, tokens, dollars.")
@click.option(
    "--by", type=click.Choice(["workflow", "model", "day"]), default="workflow", help="What is added up together."
)
@click.option("--since", type=Moment(), metavar="TIME", help="From this day on; 30 days back without it.")
@click.option("--workflow", metavar="NAME", help="Only what runs of this workflow used.")
@where_options
@json_option
def cost(by: Any, since: float | None, workflow: str | None, where: Where, as_json: bool) -> None:
    """Show what all runs have used, by workflow, model or day (UTC). Runs that were deleted count as well. `perdure runs cost ID` shows one
    run."""
    from perdure.cli.frame.backend import ask

    first = None if since is None else datetime.datetime.fromtimestamp(since, datetime.UTC).strftime("%Y-%m-%d")

    async def read(backend: Backend) -> Any:
        return await backend.system.usage(by=by, since=first, workflow=workflow)

    view = asyncio.run(ask(where, read))
    if as_json:
        print_json(view)
        return
    rows = [_row(one["name"] or "(no model named)", one) for one in view["items"]]
    print_table([by, "calls", "input", "cached", "output", "usd"], [*rows, _row("total", view["total"])])
    lost = view["total"]["unsettled"]
    if lost["calls"]:
        echo(
            f"Of these, {lost['calls']:,} calls (${lost['usd']:.6f}) have no known end: the provider may have charged for them."
        )
    if view["more"]:
        echo("There are more; the total counts them all.")


def _row(name: str, usage: dict[str, Any]) -> list[str]:
    dollars = f"{usage['usd']:.6f}" if usage["priced"] else f"{usage['usd']:.6f} + ?"
    return [name, *(f"{usage[part]:,}" for part in ("calls", "input", "cached", "output")), dollars]
