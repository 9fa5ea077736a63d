"""What MCP servers offer, as tools of an agent: their names, and what may be said of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from perdure import llms
from perdure.agents.tool import Tool
from perdure.errors import SettingsInvalid
from perdure.expressions.json_schema import find_mistake
from perdure.model.labels import Label, read_words
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.spelling import suggest

_STRANGE = Label("untrusted", "private")


class Offer(msgspec.Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    schema: dict[str, Any]

    @property
    def hash(self) -> str:
        """What a person pins: another name, description or schema is another tool."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class Offers(msgspec.Struct, frozen=True):
    """What a server offers an agent."""

    server: str
    tools: tuple[Offer, ...]
    is_pinned: bool
    """Whether a person vouches for what it says of its tools."""


def read_server(entry: Mapping[str, Any]) -> Tool:
    """The tools of a server that a config means, as one, before the server is asked."""
    name = entry["mcp"]
    try:
        server = llms.get_models().find_mcp(name)
    except SettingsInvalid:  # no mistake of the workflow: the operator is told, once
        server = None
    return Tool(
        name=name,
        kind="mcp",
        target=name,
        effect=entry["effect"],
        returns=read_words(entry.get("returns", ()), _STRANGE if server is None else server.label),
        fatal=entry.get("fatal", False),
        approve=entry.get("approve", "tainted"),
        control=tuple(entry.get("control") or ()),
        remote=tuple(entry.get("tools") or ("*",)),
    )


def find_unknown_server(name: str) -> str | None:
    """What is wrong with the name of a server, as far as this process knows."""
    try:
        known = tuple(llms.get_models().mcp)
    except SettingsInvalid:
        return None
    if name in known:
        return None
    hint = suggest(name, known) if known else 'it names none: [mcp.github] with url = "https://…" or command = […]'
    return f"there is no MCP server {cut(ascii(name), 80)} in the operator's file (setting agents_file); {hint}"


def expand(tool: Tool, offers: Mapping[str, Offers], taken: Set[str]) -> list[Tool]:
    """The tools that are meant, one by one. A name that another tool has gets the server's before it. Raises Failure."""
    offered = offers[tool.target].tools
    meant = [one for one in offered if any(fnmatchcase(one.name, pattern) for pattern in tool.remote)]
    if not meant:
        names = ", ".join(one.name for one in offered[:20]) or "none"
        message = f"MCP server {tool.target} has no tool like {', '.join(tool.remote)}; for agents it has {names}"
        raise Failure("bad_config", message, retryable=False)
    found = []
    for one in meant:
        name = one.name if one.name not in taken else f"{tool.target}_{one.name}"[:64]
        if name in taken:
            raise Failure("bad_config", f"two tools are called '{name}'", retryable=False)
        if find_mistake(one.schema) is not None:
            continue  # what cannot be checked is not called
        found.append(
            msgspec.structs.replace(tool, name=name, remote=(one.name,), description=one.description, schema=one.schema)
        )
    return found
