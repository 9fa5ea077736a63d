"""`weft node-types`: what a workflow can be made of, built in and installed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import click

from weft.cli.exits import say
from weft.cli.group import json_option
from weft.cli.output import print_fields, print_json, print_page, print_table

if TYPE_CHECKING:
    from weft.nodes.registry import NodeType, Registry


@click.command("node-types", short_help="Node types: what a workflow can be made of.")
@click.argument("name", required=False)
@json_option
def node_types(name: str | None, as_json: bool) -> None:
    """List the node types there are here, or show the one called NAME with its schemas and an example.

    Types come with Weft or with installed packages (entry points `weft.node_types`); one that cannot be loaded is
    named with the reason, and disturbs no other.
    """
    from weft.nodes import installed
    from weft.nodes.view import trouble_view, type_view

    registry = installed()
    if name is not None:
        _show(registry, name, as_json)
    elif as_json:
        types = [type_view(registry, one) for one in registry]
        print_page([*types, *map(trouble_view, registry.troubles())], None)
    else:
        rows = [[one.name, one.version, registry.source(one.name), _can(one), one.description] for one in registry]
        print_table(["name", "version", "from", "can", "description"], rows, flexible="description")
        for trouble in registry.troubles():
            say(f"{click.style('warning:', fg='yellow')} {trouble.message}")


def _can(node_type: NodeType) -> str:
    return ", ".join(sorted(node_type.capabilities))


def _show(registry: Registry, name: str, as_json: bool) -> None:
    from weft.errors import NotFound
    from weft.nodes.plugins import PluginBroken
    from weft.nodes.view import type_view

    found = registry.find(name)
    if found is None:
        if registry.is_broken(name):
            raise PluginBroken(registry.explain(name))
        close = difflib.get_close_matches(name, registry.names(), n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(registry.names())}"
        raise NotFound(f"there is no node type '{name}' here; {hint}")
    if as_json:
        print_json(type_view(registry, found))
    else:
        _print(registry, found)


def _print(registry: Registry, node_type: NodeType) -> None:
    from weft.nodes.registry import CAPABILITIES
    from weft.nodes.view import type_view

    data = type_view(registry, node_type)
    click.echo(f"{click.style(node_type.name, bold=True)}  {node_type.description}\n")
    fields = {key: data[key] for key in ("version", "source", "runs_on")}
    print_fields({**fields, "aliases": ", ".join(node_type.aliases)})
    for capability in sorted(node_type.capabilities):
        click.echo(f"  {capability}: {CAPABILITIES[capability]}")
    for key in ("config_schema", "output_schema", "example"):
        if data[key]:
            click.echo(f"\n{click.style(key.replace('_', ' '), bold=True)}")
            click.echo(_yaml(data[key]))


def _yaml(value: Any) -> str:
    import msgspec
    import yaml

    value = msgspec.json.decode(msgspec.json.encode(value))  # parts that are shared would become anchors
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    return "".join(f"  {line}\n" for line in text.splitlines()).rstrip("\n")
