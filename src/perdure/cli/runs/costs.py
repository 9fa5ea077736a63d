"""`perdure runs cost`: what a run has used, and what it may use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend

_id = click.argument("run_id", metavar="ID")


@click.command(short_help="Show what a run has used: calls, tokens, dollars.")
@_id
@where_options
@json_option
def cost(run_id: str, where: Where, as_json: bool) -> None:
    """Show what a run and its children have used, by node and by model, and what of its budget is left."""
    from perdure.cli.frame.backend import ask, resolve_run

    async def read(backend: Backend) -> Any:
        return await backend.runs.usage((await resolve_run(backend, run_id))["run_id"])

    view = asyncio.run(ask(where, read))
    if as_json:
        print_json(view)
        return
    rows = [_row(f"node {name}", usage) for name, usage in view["by_node"].items()]
    rows += [_row(f"model {name}", usage) for name, usage in view["by_model"].items()]
    rows += [_row(name, view[name]) for name in ("children", "unsettled", "reserved") if _is_any(view[name])]
    print_table(["of", "calls", "input", "cached", "output", "usd"], [*rows, _row("total", view["total"])])
    budget = view["budget"]
    if budget is not None:
        limits = [f"${budget['usd']:g}"] if "usd" in budget else []
        limits += [f"{budget[name]:,} {name}" for name in ("tokens", "calls") if name in budget]
        echo(f"Its budget is {', '.join(limits)}; then it {'fails' if budget['on_exceed'] == 'fail' else 'pauses'}.")


def _is_any(usage: dict[str, Any]) -> bool:
    return any(usage[name] for name in ("calls", "input", "output", "usd"))


def _row(name: str, usage: dict[str, Any]) -> list[str]:
    dollars = f"{usage['usd']:.6f}" if usage["priced"] else f"{usage['usd']:.6f} + ?"
    return [name, *(f"{usage[part]:,}" for part in ("calls", "input", "cached", "output")), dollars]
