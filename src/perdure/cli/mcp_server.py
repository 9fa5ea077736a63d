"""`perdure mcp`: workflows of a server as tools of an MCP server, for assistants and editors that speak that protocol over stdio.

Which workflows there are is said on the command line, or by the workflows themselves (`expose: {mcp: true}`); what a key may start is the server's to say. A call starts a run. Nothing here
approves anything: an assistant must not answer the question whether it may go on.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import debug_option
from perdure.cli.frame.where import Where, server_options

if TYPE_CHECKING:
    from perdure.client import AsyncClient

WAIT_SECONDS = 50.0
"""How long a call waits for its run; most clients give up after a minute."""
LOOK = "get_run"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@click.command("mcp", short_help="Workflows as tools of an MCP server, over stdio.")
@click.argument("workflows", nargs=-1, metavar="[WORKFLOW]...")
@server_options
@debug_option
def mcp(workflows: tuple[str, ...], server: str | None, api_key: str | None) -> None:
    """Serve each WORKFLOW of a Perdure server (NAME, NAME@VERSION or NAME@ALIAS) as a tool over stdio, for clients of the Model Context Protocol; without a name, every workflow that says
    `expose: {mcp: true}`. Its inputs are the arguments. A call starts a run and waits up to 50 seconds for its outputs; of a longer one it gives the id, and the tool get_run looks again. Needs
    `pip install 'perdure[mcp]'`."""
    from perdure.errors import SettingsInvalid

    place = Where(None, server, api_key).find_server()
    if place is None:
        raise click.UsageError(
            "perdure mcp needs a server, which has the workflows and runs them: --server URL, or PERDURE_SERVER_URL"
        )
    if importlib.util.find_spec("mcp") is None:
        raise SettingsInvalid("perdure mcp needs the extra: pip install 'perdure[mcp]'")
    asyncio.run(_serve(place, workflows))


async def _serve(place: Any, workflows: Sequence[str]) -> None:
    from mcp.server.stdio import stdio_server

    from perdure.cli.frame.backend import reached

    async with reached(place) as client:
        server = make_server(client, await describe(client, workflows or await find_exposed(client)))
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


async def find_exposed(client: AsyncClient) -> list[str]:
    """The workflows whose highest version is offered to MCP clients. Raises UsageError if none is."""
    found = []
    async for listed in client.workflows.list():
        details = await client.workflows.get(listed["name"])
        if (details["definition"].get("expose") or {}).get("mcp"):
            found.append(listed["name"])
    if not found:
        message = "no workflow of the server is offered: name some, perdure mcp NAME..., or write `expose: {mcp: true}` into a definition"
        raise click.UsageError(message)
    return found


async def describe(client: AsyncClient, workflows: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The tools, by name: which workflow each starts, what it does and what it takes."""
    found: dict[str, dict[str, Any]] = {}
    for workflow in workflows:
        name, _, tag = workflow.partition("@")
        tool = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
        if tool in found or tool == LOOK or not _NAME.fullmatch(tool):
            raise click.UsageError(f"two tools would be called '{tool}'; leave one of them out")
        which = {"version": int(tag)} if tag.isdecimal() else {"alias": tag} if tag else {}
        details = await client.workflows.get(name, **which)
        definition = details["definition"]
        told = f"{definition.get('description') or f'Runs the workflow {name}.'} Gives the outputs, or run_id and state if it takes longer."
        found[tool] = {
            "workflow": workflow,
            "description": told,
            "schema": definition.get("inputs") or {"type": "object"},
        }
    return found


def make_server(client: AsyncClient, tools: Mapping[str, Mapping[str, Any]]) -> Any:
    """The MCP server, for any transport of the SDK."""
    import mcp_types as types
    import msgspec
    from mcp.server.lowlevel.server import Server

    async def list_tools(ctx: Any, params: Any) -> Any:
        look = {
            "type": "object",
            "required": ["run_id"],
            "properties": {"run_id": {"type": "string"}},
            "additionalProperties": False,
        }
        listed = [
            types.Tool(name=name, description=one["description"], input_schema=one["schema"])
            for name, one in tools.items()
        ]
        return types.ListToolsResult(
            tools=[
                *listed,
                types.Tool(
                    name=LOOK, description="Gives state and outputs of a run that was started here.", input_schema=look
                ),
            ]
        )

    async def call_tool(ctx: Any, params: Any) -> Any:
        given, problem = await _call(client, tools, params.name, params.arguments or {})
        if problem:
            return types.CallToolResult(content=[types.TextContent(type="text", text=problem)], is_error=True)
        text = msgspec.json.encode(given).decode()
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=given)

    return Server("perdure", version=metadata.version("perdure"), on_list_tools=list_tools, on_call_tool=call_tool)


async def _call(
    client: AsyncClient, tools: Mapping[str, Mapping[str, Any]], name: str, arguments: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """What a call gives, or what went wrong."""
    from perdure.errors import PerdureError

    try:
        if name == LOOK:
            run_id = arguments.get("run_id")
            if not isinstance(run_id, str):
                return {}, "get_run takes run_id"
            view = await client.runs.get(run_id)
            if view["workflow"] not in {str(one["workflow"]).partition("@")[0] for one in tools.values()}:
                return {}, f"run {run_id} is not of a workflow that is served here"
            return _told(view)
        if name not in tools:
            return {}, f"there is no tool {name}"
        started = await client.runs.start(tools[name]["workflow"], arguments, wait_seconds=WAIT_SECONDS)
        return _told(await client.runs.get(started["run_id"]))
    except PerdureError as error:
        return {}, error.message


def _told(view: Any) -> tuple[dict[str, Any], str]:
    if view["state"] in ("failed", "cancelled"):
        error = view.get("error") or {}
        return {}, f"run {view['run_id']} {view['state']}: {error.get('message') or view['state']}"
    found = {"run_id": view["run_id"], "state": view["state"]}
    return (found | {"outputs": view["outputs"]} if view["state"] == "completed" else found), ""
