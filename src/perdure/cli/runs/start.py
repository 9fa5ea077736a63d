"""`perdure runs start`: a run of a registered workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.database import by_option
from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.parameters import correlation_option, tag_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_json
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    pass


@click.command(short_help="Start a run of a registered workflow.")
@click.argument("workflow")
@click.option("-i", "pairs", metavar="NAME=VALUE", multiple=True, help="An input; the value is JSON, or else text.")
@click.option("--inputs", "inputs_file", metavar="FILE", help="A JSON object of inputs; - reads standard input.")
@tag_option
@correlation_option
@by_option
@where_options
@json_option
def start(
    workflow: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    tags: tuple[tuple[str, str], ...],
    correlation_id: str,
    by: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Start a run of a registered WORKFLOW (NAME, NAME@3 or NAME@alias) and print its id. It returns when that is durable.

    `perdure runs watch` follows it; `perdure run FILE` starts one out of a file.
    """
    from perdure.cli.frame.source import read_inputs, warn_unknown

    def read(schema: Any) -> dict[str, Any]:
        inputs = read_inputs(pairs, inputs_file, schema) or {}
        warn_unknown(schema, inputs)
        return inputs

    view, hint = asyncio.run(_start(where, workflow, read, by, tags=dict(tags), correlation_id=correlation_id))
    if as_json:
        print_json(view)
        return
    echo(view["run_id"])
    say(hint or f"Started; follow it with: perdure runs watch {view['run_id']}{where.flags}")


async def _start(
    where: Where, workflow: str, read: Callable[[Any], dict[str, Any]], by: str | None, **about: Any
) -> tuple[dict[str, Any], str]:
    from perdure.cli.frame.backend import connected, get_run, go_on
    from perdure.cli.workflows import get_workflow

    async with connected(where, by=by) as backend:
        schema = (await get_workflow(backend, workflow))["definition"].get("inputs")
        run_id = (await backend.runs.start(workflow, read(schema), **about))["run_id"]
        return await get_run(backend, run_id), await go_on(backend, run_id)
