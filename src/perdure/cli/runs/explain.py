"""`perdure runs explain`: why a node has not run."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.backend import connected, get_run, resolve_run
from perdure.cli.frame.group import json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.runs.details import print_details
from perdure.cli.terminal.output import print_json, print_prose
from perdure.cli.terminal.speech import echo
from perdure.errors import Refused


@click.command(short_help="Say why a node has not run.")
@click.argument("run_id", metavar="ID")
@click.argument("name", metavar="[NODE]", required=False)
@click.option("--node", metavar="NODE", help="The same as the argument NODE.")
@where_options
@json_option
def explain(run_id: str, name: str | None, node: str | None, where: Where, as_json: bool) -> None:
    """Say why a NODE has not run, or without one, what each node that has not completed waits for."""
    if name is not None and node is not None and name != node:
        raise click.UsageError("name the node once, as NODE or with --node")
    chosen = name or node
    said = asyncio.run(_explain(where, run_id, chosen))
    if as_json:
        print_json({key: said[key] for key in ("run_id", "state", "nodes")})
        return
    if said["quarantined"] is not None:
        echo(f"The run is quarantined: {said['quarantined']}")
    if chosen is None and said["completed"]:
        echo(f"{said['completed']} of {said['total']} nodes have completed.")
    for one, text in said["nodes"].items():
        print_prose(text)
        print_details({"error": said["errors"].get(one)})


async def _explain(where: Where, name: str, node: str | None) -> dict[str, Any]:
    """The explanation of a run, with how many of its nodes have completed, and the errors of those that have not."""
    async with connected(where) as backend:
        run_id = (await resolve_run(backend, name))["run_id"]
        said: Any = await backend.runs.explain(run_id, node)
        try:
            nodes = (await get_run(backend, run_id, outputs=False))["nodes"]
        except Refused:  # its nodes are unknown, but the reason why it does not go on is known
            nodes = {}
        states = [one["state"] for one in nodes.values()]
        errors = {name: one["error"] for name, one in nodes.items() if one.get("error") and one["state"] != "completed"}
        counts = {"completed": states.count("completed"), "total": len(states)}
        return {"quarantined": None, **said, **counts, "errors": errors}
