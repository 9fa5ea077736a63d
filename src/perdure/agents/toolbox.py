"""The tools of an agent: read from its config, described for the model, and pinned with the first attempt.

The list is the whole of what an agent can do: a call of anything else has no effect and is answered with an error (AG1). This
file owns what a tool is called, what it takes and what it may do. It calls none.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from perdure import functions
from perdure.expressions.json_schema import find_mistake
from perdure.model.labels import TRUSTED, UNTRUSTED, USER, Label, read_words
from perdure.nodes.class_tasks import find_class_task
from perdure.nodes.task import Shape
from perdure.outcomes import Failure
from perdure.plain_text import cut
from perdure.spelling import suggest

Effect = Literal["read", "write", "send"]
EFFECTS = typing.get_args(Effect)
MAX_TOOLS = 64
MAX_DESCRIPTION = 1_000
ASK_HUMAN = "ask_human"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LATER = ("execute_pipeline", "patch_workflow", "search_tools", "openapi_action", "delegate_to_agent", "mcp")
AVAILABLE = "available_tools"
OWN = frozenset({ASK_HUMAN, *_LATER})
"""The tools that Perdure has itself, which are named without more."""
_ANY = {"type": "object"}
_QUESTION = {
    "type": "object",
    "required": ["question"],
    "properties": {"question": {"type": "string", "minLength": 1, "maxLength": 1_000}},
    "additionalProperties": False,
}


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool, as it is pinned."""

    name: str
    kind: Literal["function", "workflow", "ask_human"]
    target: str = ""
    """The function or the workflow."""
    description: str = ""
    schema: dict[str, Any] = {}
    """Of its arguments; empty: any."""
    effect: Effect = "read"
    returns: Label = USER
    """The label of what it gives."""
    idempotent: bool = False
    """Whether a second call with the same key changes nothing."""
    fatal: bool = False
    """Whether its failure is the failure of the agent."""
    approve: Literal["always", "tainted"] = "tainted"
    control: tuple[str, ...] = ()
    budget: dict[str, Any] | None = None
    approvers: tuple[str, ...] = ()
    timeout_seconds: float | None = None

    @property
    def is_once(self) -> bool:
        """Whether a call may happen at most once, so that it is never repeated by itself (rule 81)."""
        return self.effect != "read" and not self.idempotent


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


def find_tools(config: dict[str, Any]) -> list[Tool]:
    """The tools of a config that has no mistakes, with what functions take. Raises Failure."""
    return [_describe(_read(entry)) for _, entry in entries_of(config)]


def _read(entry: Any) -> Tool:
    """A tool as its entry says, without what only the function knows."""
    if isinstance(entry, str):
        entry = {entry: {}}
    if ASK_HUMAN in entry:
        given = entry[ASK_HUMAN] or {}
        return Tool(
            name=ASK_HUMAN,
            kind="ask_human",
            description="Asks a person. They approve or reject, and may comment.",
            schema=_QUESTION,
            returns=TRUSTED,
            approvers=tuple(given.get("approvers") or ()),
            timeout_seconds=given.get("timeout_seconds"),
        )
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
    if len(entries) > MAX_TOOLS:
        yield ("tools",), f"an agent has at most {MAX_TOOLS} tools, and here are {len(entries)}"
    for place, entry in entries:
        mistakes = list(_check_entry(entry))
        yield from (((*place, *path), message) for path, message in mistakes)
        if mistakes:
            continue
        name = entry if isinstance(entry, str) else ASK_HUMAN if ASK_HUMAN in entry else name_of(entry)
        if name in seen:
            yield place, f"two tools are called '{name}'; give one of them a 'name' of its own"
        seen.add(name)
        if not isinstance(entry, str) and ASK_HUMAN not in entry and name == ASK_HUMAN:
            yield place, f"'{ASK_HUMAN}' is a tool of Perdure; give this one another 'name'"


def _check_entry(entry: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if not isinstance(entry, str | dict):
        yield (), "a tool is a name or a mapping"
        return
    keys = {entry} if isinstance(entry, str) else set(entry)
    if later := [name for name in _LATER if name in keys]:
        yield (), f"'{later[0]}' is not built yet; an agent's tools are functions, workflows and {ASK_HUMAN}"
        return
    if isinstance(entry, str):
        if entry != ASK_HUMAN:
            hint = "write {function: module:name, effect: read}" if ":" in entry else suggest(entry, (ASK_HUMAN,))
            yield (), f"there is no tool '{cut(entry, 80)}'; {hint}"
        return
    kinds = keys & {"function", "workflow", ASK_HUMAN}
    if len(kinds) != 1:
        yield (), f"a tool has one of 'function', 'workflow' and '{ASK_HUMAN}'"
        return
    if kinds == {ASK_HUMAN}:
        yield from (((key,), f"'{key}' goes under {ASK_HUMAN}") for key in sorted(keys - kinds))
        return
    if "effect" not in entry:
        yield (), f"'effect' says what a call may do: {', '.join(EFFECTS)}"
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
_PEOPLE = {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "string", "minLength": 1}}
BUDGET_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "usd": {"type": "number", "minimum": 0, "maximum": 1_000_000},
        "tokens": {"type": "integer", "minimum": 0},
        "calls": {"type": "integer", "minimum": 0},
    },
    "minProperties": 1,
    "additionalProperties": False,
}
TOOLS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "maxItems": MAX_TOOLS,
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
            ASK_HUMAN: {
                "type": ["object", "null"],
                "properties": {"approvers": _PEOPLE, "timeout_seconds": {"type": "number", "exclusiveMinimum": 0}},
                "additionalProperties": False,
            },
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
            **{key: {} for key in (*_LATER, "tools")},
        },
        "additionalProperties": False,
    },
}
