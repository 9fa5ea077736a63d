"""`perdure node-types`: the node types that workflows can use, built in and installed."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli.frame.exits import say
from perdure.cli.frame.group import json_option
from perdure.cli.frame.where import Server, Where, server_options
from perdure.cli.terminal.output import print_fields, print_json, print_page, print_table
from perdure.cli.terminal.speech import echo, style
from perdure.spelling import suggest


@click.command("node-types", short_help="Node types: what a workflow can be made of.")
@click.argument("name", required=False)
@server_options
@json_option
def node_types(name: str | None, server: str | None, api_key: str | None, as_json: bool) -> None:
    """List the node types there are here, or show the one called NAME with its schemas and an example.

    Types come with Perdure or with installed packages (entry points `perdure.node_types`); one that cannot be loaded is
    named with the reason, and disturbs no other. With --server, the types that server has.
    """
    found = Where(server=server, api_key=api_key).find_server()
    types = asyncio.run(_ask(found)) if found is not None else _installed()
    if name is not None:
        data = _get_type(types, name, "there" if found is not None else "here")
        print_json(data) if as_json else _print(data)
    elif as_json:
        print_page(types, None)
    else:
        good = [one for one in types if one["problem"] is None]
        rows = [[one["name"], one["version"], one["source"], _can(one), one["description"]] for one in good]
        print_table(["name", "version", "from", "can", "description"], rows, flexible="description")
        for one in types:
            if one["problem"] is not None:
                say(f"{style('warning:', fg='yellow')} {one['problem']}")


def _installed() -> list[dict[str, Any]]:
    from perdure.nodes import installed
    from perdure.nodes.type_view import trouble_view, type_view

    registry = installed()
    return [*(type_view(registry, one) for one in registry), *map(trouble_view, registry.troubles())]


async def _ask(server: Server) -> list[dict[str, Any]]:
    from perdure.cli.frame.backend import reached

    async with reached(server) as client:
        return [dict(one) async for one in client.system.node_types()]


def _can(data: dict[str, Any]) -> str:
    return ", ".join(data["capabilities"])


def _get_type(types: list[dict[str, Any]], name: str, where: str) -> dict[str, Any]:
    from perdure.errors import NotFound
    from perdure.nodes.plugins import PluginBroken

    found = next((one for one in types if name in (one["name"], *one.get("aliases", ()))), None)
    if found is None:
        names = [one["name"] for one in types if one["problem"] is None]
        raise NotFound(f"there is no node type '{name}' {where}; {suggest(name, names)}")
    if found["problem"] is not None:
        raise PluginBroken(found["problem"])
    return found


def _print(data: dict[str, Any]) -> None:
    from perdure.nodes.registry import CAPABILITIES

    known = {str(name): said for name, said in CAPABILITIES.items()}
    echo(f"{style(data['name'], bold=True)}  {data['description']}\n")
    fields = {key: data[key] for key in ("version", "source", "runs_on")}
    print_fields({**fields, "aliases": ", ".join(data["aliases"])})
    for capability in data["capabilities"]:
        echo(f"  {capability}: {known.get(capability, '')}")
    for key in ("config_schema", "output_schema", "example"):
        if data[key]:
            echo(f"\n{style(key.replace('_', ' '), bold=True)}")
            echo(as_yaml(data[key]))


def as_yaml(value: Any) -> str:
    import msgspec
    import yaml

    value = msgspec.json.decode(msgspec.json.encode(value))  # shared parts would become YAML anchors
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return "".join(f"  {line}\n" for line in text.splitlines()).rstrip("\n")
