"""The tools that Perdure has itself: what each takes, and what a call of one comes to.

    ask_human            a question to people
    delegate_to_agent    another workflow, or a few lines of Python in the sandbox (`code_interpreter`)
    execute_pipeline     the steps of `docs/reference/pipeline.md` over data
    patch_workflow       more nodes for the run, after the agent
    search_tools         which of the agent's tools fit a few words; comes with `use_tool`, which calls one of them
    openapi_action       an operation of an HTTP API that the operator's file names
    remember, recall     notes of the session
    read_handle          a part of a value that was too large to be shown; comes with `execute_pipeline` and `openapi_action`

`bind` makes of a call the tool it really is and what that is given: what a call may do depends on its arguments. It makes no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.agents.openapi_tool import bind_openapi, find_misuse_of_api, read_openapi
from perdure.agents.pipeline_shapes import fill
from perdure.agents.run_patches import MOST_NODES, NODES, PATCH, TYPES, Palette, find_bad_operations, read_url
from perdure.agents.tool import EFFECTS, Effect, Tool
from perdure.expressions.python_code import check as check_code
from perdure.model.labels import TRUSTED, UNTRUSTED, USER
from perdure.nodes import transform
from perdure.plain_text import cut

ASK_HUMAN, DELEGATE, PIPELINE, READ_HANDLE = "ask_human", "delegate_to_agent", "execute_pipeline", "read_handle"
SEARCH, USE, OPENAPI = "search_tools", "use_tool", "openapi_action"
REMEMBER, RECALL = "remember", "recall"
OWN = (ASK_HUMAN, DELEGATE, PIPELINE, PATCH, SEARCH, OPENAPI, REMEMBER, RECALL)
"""The tools that a config names."""
BY_ITSELF = {"pipeline": READ_HANDLE, "promoted": READ_HANDLE, "search_tools": USE, "openapi": READ_HANDLE}
"""The tools that come with others, by the kind of the other."""
CODE = "code_interpreter"
MOST_DELEGATIONS = {"turn": 8, "agent": 64}
"""How often an agent delegates, in one turn and in all."""
MOST_REQUESTS = 10
_SAFE = ("GET", "HEAD")
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
_APPROVE = {"enum": ["always", "tainted"], "default": "tainted"}
CONFIGS: dict[str, Any] = {
    ASK_HUMAN: {
        "type": ["object", "null"],
        "properties": {"approvers": _PEOPLE, "timeout_seconds": {"type": "number", "exclusiveMinimum": 0}},
        "additionalProperties": False,
    },
    DELEGATE: {
        "type": "object",
        "required": ["agents"],
        "properties": {
            "agents": {
                "type": "array",
                "minItems": 1,
                "maxItems": 50,
                "uniqueItems": True,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "description": f"workflows, or {CODE}",
            },
            "budget": BUDGET_SCHEMA,
            "effect": {"enum": list(EFFECTS), "default": "send", "description": "the most that one of them may do"},
            "approve": _APPROVE,
        },
        "additionalProperties": False,
    },
    PIPELINE: {
        "type": ["object", "null"],
        "properties": {
            "origins": {
                "type": "array",
                "maxItems": 50,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "description": "where http_request may go, such as https://api.example",
            },
            "approve": _APPROVE,
        },
        "additionalProperties": False,
    },
    PATCH: {
        "type": "object",
        "required": ["palette"],
        "properties": {
            "palette": {
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
                "items": {"enum": list(TYPES)},
                "description": "the types of nodes that may be added",
            },
            "max_nodes": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_NODES,
                "default": NODES,
                "description": "how many nodes a patch adds at most",
            },
            "origins": {
                "type": "array",
                "maxItems": 50,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "description": "where new nodes may send requests, besides those of execute_pipeline",
            },
            "approve": _APPROVE,
        },
        "additionalProperties": False,
    },
    SEARCH: {
        "type": ["object", "null"],
        "properties": {
            "allow": {
                "type": "array",
                "minItems": 1,
                "maxItems": 50,
                "items": {"type": "string", "minLength": 1, "maxLength": 100},
                "description": "which tools of the tenant's registry are found, with *; none without it",
            }
        },
        "additionalProperties": False,
    },
    REMEMBER: {"type": ["object", "null"], "properties": {"approve": _APPROVE}, "additionalProperties": False},
    RECALL: {"type": ["object", "null"], "properties": {}, "additionalProperties": False},
    OPENAPI: {
        "type": "object",
        "required": ["profiles"],
        "properties": {
            "profiles": {
                "type": "array",
                "minItems": 1,
                "maxItems": 20,
                "uniqueItems": True,
                "items": {"type": "string", "minLength": 1, "maxLength": 64},
                "description": "APIs that the operator's file names",
            },
            "approve": _APPROVE,
        },
        "additionalProperties": False,
    },
}
"""What each may be given in a config."""
_WORDS = {
    "type": "object",
    "required": ["query"],
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 200},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "additionalProperties": False,
}
_USE = {
    "type": "object",
    "required": ["name", "arguments"],
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64}, "arguments": {"type": "object"}},
    "additionalProperties": False,
}
_NOTE = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 2_000},
        "key": {"type": "string", "minLength": 1, "maxLength": 100},
    },
    "additionalProperties": False,
}
_QUESTION = {
    "type": "object",
    "required": ["question"],
    "properties": {"question": {"type": "string", "minLength": 1, "maxLength": 1_000}},
    "additionalProperties": False,
}
_STEPS = {
    "type": "object",
    "required": ["pipeline"],
    "properties": {
        "pipeline": {
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "items": {"type": "object", "required": ["step"], "properties": {"step": {"type": "string"}}},
        },
        "input": {"description": 'data, or {"$handle": "h1.0"}'},
        "show": {"type": "integer", "minimum": 0, "maximum": 20},
        "session_id": {"type": "string", "maxLength": 200},
    },
    "additionalProperties": False,
}
_PART = {
    "type": "object",
    "required": ["handle"],
    "properties": {
        "handle": {"type": "string", "maxLength": 50},
        "path": {"type": "string", "maxLength": 500, "description": "such as rows.0.name"},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1_000},
    },
    "additionalProperties": False,
}
_PATCH = {
    "type": "object",
    "required": ["patch_spec"],
    "properties": {
        "patch_spec": {
            "type": "object",
            "required": ["operations", "description"],
            "properties": {
                "operations": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 50,
                    "items": {
                        "type": "object",
                        "required": ["op", "path", "value"],
                        "properties": {
                            "op": {"type": "string", "enum": ["add"]},
                            "path": {"type": "string", "enum": ["/nodes/-", "/edges/-"]},
                            "value": {"type": "object"},
                        },
                        "additionalProperties": False,
                    },
                },
                "description": {"type": "string", "minLength": 10, "maxLength": 500},
            },
            "additionalProperties": False,
        },
        "workflow_tag": {"type": "string", "maxLength": 200},
        "target": {"type": "string", "enum": ["run"]},
    },
    "additionalProperties": False,
}
_PIPELINE_TOLD = (
    "Runs steps over a table, one after the other: http_request {url, method?, params?, json?, path?}, table_sort {field, order}, "
    "table_filter {condition: {field, operator, value}}, table_select {fields}, top_k {k, field?, order?}, groupby {by, aggregates: "
    '{name: {function, field}}}, join {with, on, how}, jq_transform {program}, regex_extract {pattern, field, into}, parse_date {field}. Each has its name as "step". '
    'A large result is a handle: give {"$handle": "h1.0"} wherever a tool takes data.'
)


def read_own(name: str, given: dict[str, Any], palette: Palette | None = None) -> Tool:
    """A tool of Perdure as a config names it. `palette`: what the agent may add to its run."""
    more: dict[str, Any] = {"approve": given.get("approve", "tainted")}
    if name == ASK_HUMAN:
        return Tool(
            name=name,
            kind="ask_human",
            description="Asks a person. They approve or reject, and may comment.",
            schema=_QUESTION,
            returns=TRUSTED,
            approvers=tuple(given.get("approvers") or ()),
            timeout_seconds=given.get("timeout_seconds"),
        )
    if name == DELEGATE:
        agents = tuple(given["agents"])
        effect: Effect = given.get("effect", "send")
        more |= {"agents": agents, "budget": given.get("budget"), "effect": effect, "widens": effect != "read"}
        return Tool(
            name=name,
            kind="delegate",
            description=_delegation(agents),
            schema=_delegating(agents),
            returns=UNTRUSTED,
            **more,
        )
    if name == PIPELINE:
        # What it may do at most; a call without http_request only reads.
        origins = tuple(given.get("origins") or ())
        about: dict[str, Any] = {"effect": "send", "returns": UNTRUSTED} if origins else {"returns": USER}
        told = f"{_PIPELINE_TOLD} http_request may go to {', '.join(origins) or 'nowhere'}."
        return Tool(name=name, kind="pipeline", description=told, schema=_STEPS, origins=origins, **about, **more)
    if name == OPENAPI:
        names = given.get("profiles")  # before it is held to the schema, it may be anything
        profiles = tuple(one for one in names if isinstance(one, str)) if isinstance(names, list) else ()
        return read_openapi(profiles, more["approve"])
    if name == PATCH:
        found = palette or Palette(tuple(given.get("palette") or ()))
        about = {"effect": "write", "widens": True, "returns": TRUSTED, "palette": found}
        return Tool(name=name, kind="patch", description=_patching(found), schema=_PATCH, **about, **more)
    if name == SEARCH:
        told = f"Finds tools by what they do. Call one that was found with {USE}."
        allow = tuple(given.get("allow") or ())
        return Tool(name=name, kind="search_tools", description=told, schema=_WORDS, returns=TRUSTED, allow=allow)
    if name == REMEMBER:
        told = "Keeps a note for later runs of this session; one with the same key takes its place."
        about = {"effect": "write", "idempotent": True, "widens": True, "returns": TRUSTED}
        return Tool(name=name, kind="remember", description=told, schema=_NOTE, **about, **more)
    if name == RECALL:
        told = "Finds notes of this session by their words."
        return Tool(name=name, kind="recall", description=told, schema=_WORDS, returns=TRUSTED)
    if name == USE:
        told = f"Calls a tool that {SEARCH} has found, with the arguments that its parameters ask for."
        return Tool(name=name, kind="use_tool", description=told, schema=_USE, returns=TRUSTED)
    told = (
        "Shows a part of a value that a handle stands for: entries of a list or characters of a text, from `offset` on."
    )
    return Tool(name=READ_HANDLE, kind="read_handle", description=told, schema=_PART, returns=TRUSTED)


def _delegation(agents: tuple[str, ...]) -> str:
    told = f"Lets another agent work: {', '.join(agents)}. Give it `inputs`, or a `task` in words."
    if CODE in agents:
        told += f" {CODE} takes inputs {{code, input}}: Python that defines main(input), without files and network."
    return told


def _patching(palette: Palette) -> str:
    """What the model is told of the ways in which it may change its run."""
    told = (
        "Adds nodes to this run, which run after you have answered. An operation is "
        "{op: add, path: /nodes/-, value: {id, type, config}} or {op: add, path: /edges/-, value: {from, to}}. Types: "
        f"{', '.join(palette.types)}; at most {palette.max_nodes} nodes. Every new node has an edge from your own node or from "
        "another new one. Configs may read {{ inputs.… }}, your answer and other new nodes."
    )
    if palette.functions:
        told += f" A task calls one of {', '.join(palette.functions)}."
    if palette.origins:
        told += f" Requests go to {', '.join(palette.origins)}."
    return told


def _delegating(agents: tuple[str, ...]) -> dict[str, Any]:
    who = {"type": "string", "enum": list(agents)}
    return {
        "type": "object",
        "properties": {
            "agent": who,
            "agent_type": who,
            "inputs": {"type": "object"},
            "task": {"type": "string", "minLength": 1, "maxLength": 20_000},
            "budget": BUDGET_SCHEMA,
        },
        "additionalProperties": False,
    }


def check_own(name: str, given: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with what a config gives a tool of Perdure, beyond its schema."""
    if name == DELEGATE and not isinstance(given, dict):
        yield (), f"'{DELEGATE}' needs the agents it may delegate to: {{{DELEGATE}: {{agents: [researcher]}}}}"
    if name == OPENAPI and not isinstance(given, dict):
        yield (
            (),
            f"'{OPENAPI}' needs the APIs it may call: {{{OPENAPI}: {{profiles: [weather]}}}}, named in the operator's file",
        )
    if name == PATCH and not isinstance(given, dict):
        yield (), f"'{PATCH}' needs the types that it may add: {{{PATCH}: {{palette: [http, transform]}}}}"
    for number, origin in enumerate((given or {}).get("origins") or () if isinstance(given, dict) else ()):
        url = read_url(origin)
        if url is None or str(url).rstrip("/") != origin.rstrip("/") or url.path not in ("", "/"):
            yield ("origins", number), f"'{cut(str(origin), 80)}' is no origin; write https://host, without a path"


# -- a call ------------------------------------------------------------------------------------------------------------


def find_misuse(tool: Tool, arguments: dict[str, Any]) -> str | None:
    """What is wrong with arguments that fit the schema, in words for the model."""
    if tool.kind == "delegate":
        if ("agent" in arguments) == ("agent_type" in arguments):
            return "it takes one of agent and agent_type"
        if (arguments.get("agent") or arguments.get("agent_type")) == CODE:
            inputs = arguments.get("inputs") or {}
            if unknown := sorted(inputs.keys() - {"code", "input"}):
                return f"{CODE} takes inputs code and input, and no {cut(unknown[0], 80)}"
            return check_code(inputs.get("code"), "main", ("input",))
    if tool.kind == "patch":
        assert tool.palette is not None
        return "; ".join(find_bad_operations(arguments["patch_spec"]["operations"], tool.palette)) or None
    if tool.kind == "use_tool":
        return "it calls another tool"
    if tool.kind == "pipeline":
        return _find_bad_step(tool, arguments["pipeline"])
    if tool.kind == "promoted":
        return _find_bad_step(tool, fill(list(tool.steps), arguments))
    return find_misuse_of_api(tool, arguments) if tool.kind == "openapi" else None


def _find_bad_step(tool: Tool, steps: list[dict[str, Any]]) -> str | None:
    assert transform.TYPE.check is not None
    told = [f"{'.'.join(map(str, path))}: {message}" for path, message in transform.TYPE.check({"pipeline": steps})]
    if told:
        return "; ".join(cut(one, 300) for one in told[:5])
    requests = [step for step in steps if step["step"] == "http_request"]
    if len(requests) > MOST_REQUESTS:
        return f"a pipeline makes {MOST_REQUESTS} requests at most"
    allowed = {url.origin for one in tool.origins if (url := read_url(one)) is not None}
    for step in requests:
        url = read_url(step["url"])
        if url is None or url.origin not in allowed:
            some = ", ".join(tool.origins) or "nowhere"
            return f"http_request may go to {some}, and not to {cut(str(step['url']), 200)}"
        if step.get("follow_redirects"):
            return "http_request follows no redirects here"
    return None


def bind(tool: Tool, arguments: Any) -> tuple[Tool, Any]:
    """The tool that a call comes to, and what it is given. The arguments fit."""
    if tool.kind == "delegate":
        return _bind_delegation(tool, arguments)
    if tool.kind in ("pipeline", "promoted"):
        pipeline = fill(list(tool.steps), arguments) if tool.kind == "promoted" else arguments["pipeline"]
        steps = [_settled(step) for step in pipeline]
        methods = {str(step.get("method", "GET")).upper() for step in steps if step["step"] == "http_request"}
        given = {"pipeline": steps, "input": arguments.get("input")}
        if not methods:
            return msgspec.structs.replace(tool, kind="pipeline", effect="read", returns=USER), given
        about: dict[str, Any] = {"kind": "pipeline", "effect": "send", "idempotent": methods <= set(_SAFE)}
        return msgspec.structs.replace(tool, **about), given
    return bind_openapi(tool, arguments) if tool.kind == "openapi" else (tool, arguments)


def _settled(step: dict[str, Any]) -> dict[str, Any]:
    """A step with nothing left to an address that nobody allowed: a redirect would lead there."""
    return {**step, "follow_redirects": False} if step["step"] == "http_request" else step


def _bind_delegation(tool: Tool, arguments: dict[str, Any]) -> tuple[Tool, Any]:
    name = arguments.get("agent") or arguments["agent_type"]
    inputs = dict(arguments.get("inputs") or {})
    if name == CODE:
        own: dict[str, Any] = {"kind": "code", "effect": "read", "widens": False, "returns": USER}
        return msgspec.structs.replace(tool, **own), {"code": inputs.get("code"), "input": inputs.get("input")}
    if "task" in arguments:
        inputs["task"] = arguments["task"]
    limits = [one for one in (tool.budget, arguments.get("budget")) if one]
    keys = {key for one in limits for key in one}
    budget = {key: min(one[key] for one in limits if key in one) for key in sorted(keys)}
    return msgspec.structs.replace(tool, kind="workflow", target=name, budget=budget or None), inputs
