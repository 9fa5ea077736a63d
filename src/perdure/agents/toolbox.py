"""The tools of an agent: read from its config, described for the model, and pinned with the first attempt.

The list is the whole of what an agent can do: a call of anything else has no effect and is answered with an error (AG1). This
file owns what a tool is called, what it takes and what it may do. It calls none.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from perdure import functions
from perdure.agents.mcp_tools import Offers, expand, find_unknown_server, read_server
from perdure.agents.openapi_document import Api
from perdure.agents.openapi_tool import find_unknown, offer
from perdure.agents.own_tools import (
    BUDGET_SCHEMA,
    BY_ITSELF,
    CONFIGS,
    OWN,
    RECALL,
    REMEMBER,
    SEARCH,
    check_own,
    read_own,
)
from perdure.agents.run_patches import Palette, read_palette
from perdure.agents.tool import EFFECTS, Tool
from perdure.agents.tool_registry import read_registry
from perdure.expressions.json_schema import find_mistake
from perdure.model.labels import UNTRUSTED, USER, read_words
from perdure.nodes.class_tasks import find_class_task
from perdure.nodes.task import Shape
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.spelling import suggest

MAX_TOOLS = 64
"""How many a model is told of."""
MOST_TOOLS = 1_000
MAX_DESCRIPTION = 1_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MCP_KEYS = frozenset({"mcp", "tools", "effect", "returns", "fatal", "approve", "control"})
AVAILABLE = "available_tools"
_ANY = {"type": "object"}
NONE: Mapping[str, Any] = MappingProxyType({})


def entries_of(config: dict[str, Any]) -> list[tuple[tuple[str | int, ...], Any]]:
    """What a config says about tools, each with its path. In `available_tools`, the spelling of the reference documents, a
    name that is none of Perdure's own is a registered function; nothing is said of what it does, so it counts as one that sends."""
    found: list[tuple[tuple[str | int, ...], Any]] = []
    for key in ("tools", AVAILABLE):
        entries = config.get(key)
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if key == AVAILABLE and isinstance(entry, str) and entry not in OWN and "{{" not in entry:
                entry = {"function": entry, "effect": "send"}
            found.append(((key, number), entry))
    return found


def read_tools(config: dict[str, Any]) -> list[Tool]:
    """The tools of a config as they are written, without those that are written wrongly."""
    return [_read(one) for _, one in entries_of(config) if not list(_check_entry(one))]


def find_tools(
    config: dict[str, Any],
    apis: Mapping[str, Api] = NONE,
    offers: Mapping[str, Offers] = NONE,
    registry: Sequence[Mapping[str, Any]] = (),
) -> list[Tool]:
    """The tools of a config that has no mistakes, with what functions take, what APIs and servers offer, and what it may find in the
    registry of its tenant. Raises Failure."""
    palette = read_palette(config)
    read = [_read(entry, palette) for _, entry in entries_of(config)]
    found: list[Tool] = []
    for tool in read:
        taken = {one.name for one in (*read, *found) if one.kind != "mcp" or one in found}
        found += expand(tool, offers, taken) if tool.kind == "mcp" else [offer(_describe(tool), apis)]
    for number in _hidden(found):
        found[number] = msgspec.structs.replace(found[number], hidden=True)
    if (shown := sum(not tool.hidden for tool in found)) > MAX_TOOLS or len(found) > MOST_TOOLS:
        raise Failure("bad_config", _too_many(shown), retryable=False)
    found += read_registry(registry, {tool.name for tool in found}, MOST_TOOLS - len(found))
    more = [name for kind, name in BY_ITSELF.items() if any(tool.kind == kind for tool in found)]
    return found + [read_own(name, {}) for name in dict.fromkeys(more)]


def _hidden(tools: list[Tool]) -> list[int]:
    """The tools that the model is not told of until it searches: those that stand behind `search_tools` in the list."""
    kinds = [tool.kind for tool in tools]
    if "search_tools" not in kinds:
        return []
    begin = kinds.index("search_tools")
    return [number for number, kind in enumerate(kinds) if number > begin and kind in ("function", "workflow", "mcp")]


def _read(entry: Any, palette: Palette | None = None) -> Tool:
    """A tool as its entry says, without what only the function knows."""
    if isinstance(entry, str):
        entry = {entry: {}}
    if (own := _own_name(entry)) is not None:
        return read_own(own, entry[own] or {}, palette)
    if "mcp" in entry:
        return read_server(entry)
    kind: Literal["function", "workflow"] = "function" if "function" in entry else "workflow"
    target = entry[kind]
    return Tool(
        name=name_of(entry),
        kind=kind,
        target=target,
        description=entry.get("description", ""),
        schema=entry.get("schema") or {},
        effect=entry["effect"],
        returns=read_words(entry.get("returns", ()), USER if kind == "function" else UNTRUSTED),
        idempotent=entry.get("idempotent", False),
        fatal=entry.get("fatal", False),
        approve=entry.get("approve", "tainted"),
        control=tuple(entry.get("control") or ()),
        budget=entry.get("budget"),
    )


def _own_name(entry: dict[str, Any]) -> str | None:
    return next((name for name in OWN if name in entry), None)


def name_of(entry: dict[str, Any]) -> str:
    """What the model calls a tool: `crm:lookup` is `lookup`, `refund@3` is `refund`."""
    if "name" in entry:
        return str(entry["name"])
    if "function" in entry:
        return re.split(r"[:.]", str(entry["function"]))[-1]
    return str(entry["workflow"]).partition("@")[0]


def _describe(tool: Tool) -> Tool:
    """The tool with what its function says of itself. Raises Failure if this worker has none."""
    if tool.kind == "workflow":
        described = tool.description or f"Runs {tool.target}."
        return msgspec.structs.replace(tool, description=described, schema=tool.schema or _ANY)
    if tool.kind != "function":
        return tool
    function = get_function(tool)
    described = tool.description or cut(" ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()), 1_000)
    schema = tool.schema or schema_of(function)
    return msgspec.structs.replace(tool, description=described or f"Calls {tool.name}.", schema=schema)


def get_function(tool: Tool) -> functions.Function:
    try:
        return functions.resolve(tool.target)
    except functions.FunctionNotFound as error:
        raise Failure(error.code, f"tool {tool.name}: {error.message}", retryable=False) from error


def schema_of(function: functions.Function) -> dict[str, Any]:
    """What a function takes, by its annotations: a parameter without one takes anything."""
    shape = Shape(function)
    if shape.signature is None:
        return _ANY
    called = find_class_task(function)
    hints = _hints(function if called is None else called.call)
    named = [
        one
        for one in shape.signature.parameters.values()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name != shape.context
    ]
    schemas, components = _schemas([hints.get(one.name, Any) for one in named])
    found: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: schema for one, schema in zip(named, schemas, strict=True)},
        "required": [one.name for one in named if one.default is one.empty],
        "additionalProperties": shape.names is None,
    }
    return {**found, "$defs": components} if components else found


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except (NameError, TypeError, AttributeError, ValueError):  # names that only a type checker knows
        return {}


def _schemas(types: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schemas of types, and what they refer to; a type that JSON has no words for takes anything."""
    known = []
    for one in types:
        try:
            msgspec.json.schema(one)
            known.append(one)
        except (TypeError, RecursionError, NotImplementedError):
            known.append(Any)
    schemas, components = msgspec.json.schema_components(known, ref_template="#/$defs/{name}")
    return [dict(schema) for schema in schemas], dict(components)


# -- checks ------------------------------------------------------------------------------------------------------------


def check_tools(config: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with the tools of a config, each with its path."""
    seen: set[str] = set()
    entries = entries_of(config)
    read = read_tools(config)
    if "session" not in config:
        for name in (REMEMBER, RECALL):
            if any(tool.name == name for tool in read):
                yield (
                    ("tools",),
                    f"'{name}' is about the notes of a session, and the agent has none; add 'session: KEY'",
                )
    if (shown := len(read) - len(_hidden(read))) > MAX_TOOLS:
        yield ("tools",), _too_many(shown)
    for place, entry in entries:
        mistakes = list(_check_entry(entry))
        yield from (((*place, *path), message) for path, message in mistakes)
        if mistakes:
            continue
        own = entry if isinstance(entry, str) else _own_name(entry)
        if own is None and "mcp" in entry:
            continue  # what its tools are called is known when the agent begins
        name = own or name_of(entry)
        if name in seen:
            yield place, f"two tools are called '{name}'; give one of them a 'name' of its own"
        seen.add(name)
        if own is None and name in (*OWN, *BY_ITSELF.values()):
            yield place, f"'{name}' is a tool of Perdure; give this one another 'name'"


def _too_many(shown: int) -> str:
    hint = f"what stands behind {SEARCH} in the list is not shown, and found by search"
    return f"an agent is shown at most {MAX_TOOLS} tools, and here are {shown}; {hint}, up to {MOST_TOOLS:,}"


def warn_profiles(config: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Names that are no profile or server here. Workers may have another file, so it is a warning."""
    for place, entry in entries_of(config):
        if list(_check_entry(entry)):
            continue
        tool = _read(entry)
        for name in tool.profiles:
            if (problem := find_unknown(name)) is not None:
                yield place, problem
        if tool.kind == "mcp" and (problem := find_unknown_server(tool.target)) is not None:
            yield place, problem


def _check_entry(entry: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if not isinstance(entry, str | dict):
        yield (), "a tool is a name or a mapping"
        return
    keys = {entry} if isinstance(entry, str) else set(entry)
    if isinstance(entry, str):
        if entry in OWN:
            yield from check_own(entry, None)
        else:
            hint = "write {function: module:name, effect: read}" if ":" in entry else suggest(entry, OWN)
            yield (), f"there is no tool '{cut(entry, 80)}'; {hint}"
        return
    kinds = keys & {"function", "workflow", "mcp", *OWN}
    if len(kinds) != 1:
        yield (), f"a tool has one of 'function', 'workflow', 'mcp', {', '.join(map(repr, OWN))}"
        return
    if (own := _own_name(entry)) is not None:
        yield from (((key,), f"'{key}' goes under {own}") for key in sorted(keys - kinds))
        yield from (((own, *path), message) for path, message in check_own(own, entry[own]))
        return
    if "effect" not in entry:
        target = next(cut(str(entry[key]), 80) for key in kinds)
        yield (), f"tool '{target}' has no effect, which says what a call may do: {', '.join(EFFECTS)}"
    if "mcp" in entry:
        yield from (((key,), f"'{key}' is not for tools of an MCP server") for key in sorted(keys - _MCP_KEYS))
        if "control" in entry and entry.get("effect") == "read":
            yield ("control",), "'control' is for tools that write or send"
        return
    if "tools" in entry:
        yield ("tools",), "'tools' says which of an MCP server's tools are meant"
    if not _NAME.fullmatch(name_of(entry)):
        yield (), f"'{cut(name_of(entry), 80)}' is no name that models know; give a 'name' of letters, digits, _ and -"
    if "function" in entry and (refusal := functions.find_refusal(entry["function"])) is not None:
        yield ("function",), refusal
    if "schema" in entry and (mistake := find_mistake(entry["schema"])) is not None:
        yield ("schema",), mistake
    for key in ("budget",) if "function" in entry else ("idempotent",):
        if key in entry:
            yield (key,), f"'{key}' is for tools that are {'workflows' if key == 'budget' else 'functions'}"
    if "control" in entry and entry.get("effect") == "read":
        yield ("control",), "'control' is for tools that write or send"


_WORDS = {"enum": ["trusted", "user", "untrusted", "public", "private"]}
TOOLS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "maxItems": MOST_TOOLS,
    "description": "all that the agent can do: a call of anything else has no effect",
    "items": {
        "type": ["string", "object"],
        "properties": {
            "function": {"type": "string", "minLength": 1, "description": "module:name, or a registered name"},
            "workflow": {
                "type": "string",
                "minLength": 1,
                "maxLength": 300,
                "description": "a workflow, or name@version",
            },
            **CONFIGS,
            "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "what the model calls it"},
            "description": {"type": "string", "maxLength": MAX_DESCRIPTION},
            "schema": {"type": "object", "description": "a JSON Schema of its arguments"},
            "effect": {"enum": list(EFFECTS)},
            "returns": {
                "description": "the label of what it gives",
                "anyOf": [_WORDS, {"type": "array", "minItems": 1, "items": _WORDS}],
            },
            "idempotent": {"type": "boolean", "default": False},
            "fatal": {"type": "boolean", "default": False},
            "approve": {"enum": ["always", "tainted"], "default": "tainted"},
            "control": {"type": "array", "minItems": 1, "maxItems": 20, "items": {"type": "string", "minLength": 1}},
            "budget": BUDGET_SCHEMA,
            "mcp": {
                "type": "string",
                "minLength": 1,
                "maxLength": 64,
                "description": "an MCP server of the operator's file",
            },
            "tools": {
                "type": "array",
                "minItems": 1,
                "maxItems": 200,
                "items": {"type": "string", "minLength": 1, "maxLength": 100},
                "description": "which of its tools, with *; all without it",
            },
        },
        "additionalProperties": False,
    },
}
