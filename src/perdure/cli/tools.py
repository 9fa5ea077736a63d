"""`perdure tools`: the registry of tools, what MCP servers offer agents, and which of it a person vouches for."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.frame.group import Group, json_option
from perdure.cli.frame.where import Where, where_options
from perdure.cli.terminal.output import print_fields, print_json, print_page, print_prose, print_table
from perdure.cli.terminal.speech import echo

if TYPE_CHECKING:
    from perdure.agents.mcp_tools import Offer
    from perdure.cli.frame.backend import Backend
    from perdure.llms.mcp_rows import McpServer


@click.group(cls=Group, short_help="Tools that agents may find: the registry, MCP servers, pins.")
def tools() -> None:
    """Tools that agents may find: the registry of the tenant, and what MCP servers offer, with what a person vouches for."""


@tools.command("list", short_help="List tools of the registry, and what MCP servers offer agents.")
@click.argument("name", metavar="[SERVER]", required=False)
@click.option("-q", "words", default="", metavar="WORDS", help="Only tools of the registry that fit, the best first.")
@where_options
@json_option
def list_(name: str | None, words: str, where: Where, as_json: bool) -> None:
    """List the registry: workflows that are exposed, pipelines that were promoted, and candidates. Then ask SERVER, or every MCP server of the
    operator's file (setting agents_file), for its tools, and compare them with what was pinned."""
    is_here = where.find_server() is None
    servers = _servers(name) if name or (is_here and not words) else {}
    rows: list[dict[str, Any]] = [] if name else _registry(where, words, bool(servers))
    for server, row in servers.items():
        pins = _pins(row)
        offered = asyncio.run(_ask(server, row))
        rows += [
            {
                "server": server,
                "tool": one.name,
                "pin": _state(one, pins),
                "description": one.description,
                "hash": one.hash,
            }
            for one in offered
        ]
        gone = set(pins or ()) - {one.name for one in offered}
        rows += [{"server": server, "tool": one, "pin": "gone", "description": "", "hash": ""} for one in sorted(gone)]
    if as_json:
        print_page(rows, None)
    elif not rows:
        echo("There are no tools: none is in the registry, and no MCP server of the operator's file offers any.")
    else:
        cells = [[one["server"], one["tool"], one["pin"], one["description"]] for one in rows]
        print_table(["server", "tool", "pin", "description"], cells, flexible="description")
        if any(one["pin"] in ("changed", "new") for one in rows):
            print_prose(
                "What is new is not offered, and what has changed stops agents, until it is pinned: perdure tools pin SERVER"
            )


@tools.command("show", short_help="Show a tool of the registry, with the steps of a pipeline.")
@click.argument("name")
@where_options
@json_option
def show(name: str, where: Where, as_json: bool) -> None:
    """Show the tool NAME: what it takes, what a call may do, and what a pipeline does."""
    _show(_ask_registry(where, "get", name), as_json)


@tools.command("promote", short_help="Let agents find a tool: a candidate, or a retired one.")
@click.argument("name")
@click.option("--alone", is_flag=True, help="Though the runs of one person alone have used it.")
@where_options
@json_option
def promote(name: str, alone: bool, where: Where, as_json: bool) -> None:
    """Let agents find NAME, a pipeline that agents ran in several runs of several people, or a tool that was retired. Look at it first:
    perdure tools show NAME."""
    _show(_ask_registry(where, "promote", name, alone=alone), as_json)


@tools.command("retire", short_help="Let no agent find a tool of the registry any more.")
@click.argument("name")
@where_options
@json_option
def retire(name: str, where: Where, as_json: bool) -> None:
    """Let no agent find NAME any more. Agents that have begun keep it."""
    _show(_ask_registry(where, "retire", name), as_json)


@tools.command("pin", short_help="Vouch for the tools of an MCP server, or keep a workflow's version.")
@click.argument("name", metavar="NAME")
@where_options
@json_option
def pin(name: str, where: Where, as_json: bool) -> None:
    """Vouch for what NAME is now. If NAME is an MCP server, the hashes of its tools are written into its file of pins: from then on agents
    believe their descriptions, so read those first (perdure tools list SERVER), and a tool that is described otherwise is not called. If NAME
    is a workflow in the registry, agents stay with its highest version until it is pinned again."""
    from perdure.errors import SettingsInvalid
    from perdure.llms.mcp_rows import write_pins

    if where.find_server() is not None or name not in _servers(None):
        _show(_ask_registry(where, "pin", name), as_json)
        return
    row = _servers(name)[name]
    if not row.pins:
        raise SettingsInvalid(
            f'mcp.{name} has no pins; name their file in the operator\'s file: pins = "{name}.pins.json"'
        )
    offered = asyncio.run(_ask(name, row))
    write_pins(row.pins, {one.name: one.hash for one in offered})
    if as_json:
        print_json({"server": name, "pins": row.pins, "tools": [one.name for one in offered]})
    else:
        echo(f"Pinned {len(offered)} tools of {name} in {row.pins}")


def _registry(where: Where, words: str, may_lack: bool) -> list[dict[str, Any]]:
    """The registry in rows as those of servers; nothing where there is no database, and something else to show."""
    from perdure.errors import NotFound

    try:
        found = _ask_registry(where, "list", q=words)["items"]
    except NotFound:
        if may_lack:
            return []
        raise
    return [
        {
            "server": "registry",
            "tool": one["name"],
            "pin": one["state"] if one["pinned"] is None else f"{one['state']}, version {one['pinned']}",
            "description": one["description"],
            "hash": one["hash"] or "",
        }
        for one in found
    ]


def _ask_registry(where: Where, what: str, *words: str, **more: Any) -> Any:
    from perdure.cli.frame.backend import ask

    async def read(backend: Backend) -> Any:
        return await getattr(backend.tools, what)(*words, **more)

    return asyncio.run(ask(where, read))


def _show(view: Any, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    fields = {"name": view["name"], "kind": view["kind"], "state": view["state"], "effect": view["effect"]}
    fields["description"] = view["description"]
    if view["workflow"]:
        kept = f", and agents are kept to {view['pinned']}" if view["pinned"] else ""
        fields["workflow"] = f"{view['workflow']}, version {view['version']}{kept}"
    if view["runs"] is not None:
        fields["used"] = f"in {view['runs']} runs, of {view['principals']} people"
    if view["origins"]:
        fields["requests to"] = ", ".join(view["origins"])
    fields["takes"] = json.dumps(view["schema"])
    print_fields(fields)
    for number, step in enumerate(view["steps"] or (), 1):
        echo(f"  {number}. {json.dumps(step)}")


def _servers(name: str | None) -> dict[str, McpServer]:
    from perdure.errors import NotFound
    from perdure.llms.operator_file import open_models
    from perdure.settings import Settings
    from perdure.spelling import suggest

    servers = open_models(Settings.load().agents_file).mcp
    if name is None:
        return servers
    if name not in servers:
        hint = suggest(name, tuple(servers)) if servers else "it names none"
        raise NotFound(f"there is no MCP server {name!r} in the operator's file; {hint}")
    return {name: servers[name]}


def _pins(row: McpServer) -> dict[str, str] | None:
    from perdure.llms.mcp_rows import read_pins

    return read_pins(row.pins) if row.pins else None


def _state(one: Offer, pins: dict[str, str] | None) -> str:
    if pins is None:
        return "none"
    if one.name not in pins:
        return "new"
    return "pinned" if pins[one.name] == one.hash else "changed"


async def _ask(name: str, row: McpServer) -> tuple[Offer, ...]:
    from perdure import egress
    from perdure.agents.mcp_client import list_offers
    from perdure.egress.policy import Policy
    from perdure.errors import Refused
    from perdure.outcomes import Failure
    from perdure.settings import Settings

    egress.configure(Policy.parse(Settings.load().egress_allow))
    try:
        return await list_offers(name, row, _Keys(row))
    except Failure as failure:
        raise Refused(failure.message, code=failure.code) from None
    finally:
        await egress.close()


class _Keys:
    """The secrets of this process, for the first tenant that may use the server."""

    def __init__(self, row: McpServer) -> None:
        self._tenant = next((name for name in row.tenants if name != "*"), "default")

    def reveal_secret(self, name: str) -> str:
        from perdure.secrets.providers import open_secrets
        from perdure.settings import Settings, read_secrets

        settings = Settings.load()
        found: str = open_secrets(read_secrets(), settings.secrets_file, settings.secrets_provider).get(
            name, self._tenant, "default"
        )
        return found
