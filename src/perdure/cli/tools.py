"""`perdure tools`: what MCP servers offer agents, and which of it a person vouches for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.group import Group, json_option
from perdure.cli.terminal.output import print_json, print_page, print_prose, print_table
from perdure.cli.terminal.speech import echo
from perdure.cli.where import here_only

if TYPE_CHECKING:
    from perdure.agents.mcp_tools import Offer
    from perdure.llms.mcp_rows import McpServer

ELSEWHERE = "servers and pins are those of the workers here"


@click.group(cls=Group, short_help="Tools of MCP servers: what they offer agents, and pins.")
def tools() -> None:
    """Tools of MCP servers: what they offer agents, and which of it a person vouches for."""


@tools.command("list", short_help="List what MCP servers offer agents.")
@click.argument("name", metavar="[SERVER]", required=False)
@here_only(ELSEWHERE)
@json_option
def list_(name: str | None, as_json: bool) -> None:
    """Ask SERVER, or every MCP server of the operator's file (setting agents_file), for its tools, and compare them with what was pinned."""
    rows: list[dict[str, Any]] = []
    for server, row in _servers(name).items():
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
        echo("There are no tools: the operator's file names no MCP server, or they offer none.")
    else:
        cells = [[one["server"], one["tool"], one["pin"], one["description"]] for one in rows]
        print_table(["server", "tool", "pin", "description"], cells, flexible="description")
        if any(one["pin"] in ("changed", "new") for one in rows):
            print_prose(
                "What is new is not offered, and what has changed stops agents, until it is pinned: perdure tools pin SERVER"
            )


@tools.command("pin", short_help="Vouch for the tools of an MCP server as they are.")
@click.argument("name", metavar="SERVER")
@here_only(ELSEWHERE)
@json_option
def pin(name: str, as_json: bool) -> None:
    """Write the hashes of the tools of SERVER into its file of pins. Read their descriptions first (perdure tools list SERVER): from then on
    agents believe them, and tools that are described otherwise are not called."""
    from perdure.errors import SettingsInvalid
    from perdure.llms.mcp_rows import write_pins

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
