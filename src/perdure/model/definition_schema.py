"""The language of definitions as a JSON Schema (draft 2020-12), so that editors complete and check while one types.

Made from the tables by which definitions are read, so that a key added there but not described here is an error. The
compiler stays the judge: a definition that fits here may still be refused for names that refer elsewhere (nodes, loops,
two spellings at once). Every definition that the compiler accepts fits here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from perdure.model import budgets, conditions, definition, fields, labels, paths, policies, stream_keys, transitions
from perdure.model.ir import SHORTEST_RATE_SECONDS
from perdure.model.money import MOST
from perdure.model.triggers import MAX_TRIGGERS

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Kind(msgspec.Struct, frozen=True):
    """The parts of a node type that the schema needs."""

    name: str
    aliases: tuple[str, ...]
    description: str
    config: Schema


def describe_language(kinds: Iterable[Kind]) -> Schema:
    """The schema of a definition made of these node types. Others may be named, and have any config."""
    from perdure.model.trigger_schema import describe_own  # it is made of the parts below

    every = list(kinds)
    return {
        "$schema": DIALECT,
        "title": "A workflow of Perdure",
        **_mapping(definition._WORKFLOW_KEYS, _workflow_keys(), required=["nodes"]),
        "$defs": {
            "node": _node(definition.NODE_KEYS, every, required=[{"required": ["id"]}, {"required": ["node_id"]}]),
            "item": _node(definition.NODE_KEYS - definition._GRAPH_KEYS, every),
            "type": _type(every),
            "compensator": _compensator(every),
            "condition": _condition(),
            "retry": _retry(),
            **describe_own(),
            **{f"config_{kind.name}": _config(kind) for kind in every},
        },
    }


# -- small parts -------------------------------------------------------------------------------------------------------

_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FLAG: Schema = {"type": "boolean"}
_MAPPING: Schema = {"type": "object"}
_RATE_SECONDS: Schema = {"type": "number", "minimum": SHORTEST_RATE_SECONDS, "maximum": 10 * fields.YEAR_SECONDS}
_SECONDS: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 10 * fields.YEAR_SECONDS}
_TEMPLATE: Schema = {"type": "string", "pattern": r"\{\{"}
_NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"}
_ADDRESS: Schema = {"type": "string", "pattern": "^(cas://)?sha256:[0-9a-f]{64}$"}


def _pattern(expression: str) -> str:
    """The JSON Schema form of a pattern that Python matches from the start to `\\Z`."""
    return f"^{expression.removesuffix(chr(92) + 'Z')}$"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _or_null(schema: Schema) -> Schema:
    """The schema with null allowed, which means absent wherever a key may be absent."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if not schema or isinstance(schema.get("type"), list):
        return schema
    described = {key: schema[key] for key in ("description",) if key in schema}
    return {**described, "anyOf": [{k: v for k, v in schema.items() if k != "description"}, {"type": "null"}]}


def _mapping(known: Collection[str], keys: dict[str, Schema], required: Collection[str] = ()) -> Schema:
    """A mapping with these keys and no others: a key that is read but not described, or the reverse, is a KeyError."""
    if keys.keys() != set(known):
        raise KeyError(f"read and not described, or the reverse: {sorted(keys.keys() ^ set(known))}")
    properties = {key: schema if key in required else _or_null(schema) for key, schema in keys.items()}
    needed = {"required": sorted(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


# -- the workflow ------------------------------------------------------------------------------------------------------


def _budget() -> Schema:
    keys: dict[str, Schema] = {
        "usd": _said({"type": "number", "minimum": 0, "maximum": budgets.MOST_DOLLARS}, "dollars"),
        "tokens": _whole(0, MOST),
        "calls": _whole(0, MOST),
        "on_exceed": {"enum": list(budgets.ON_EXCEED)},
    }
    return _said(_mapping(budgets.BUDGET_KEYS, keys), "what the calls of a run may use")


def _workflow_keys() -> dict[str, Schema]:
    ends = {"from": _TEXT, "to": _TEXT, "required": _FLAG}
    policy = {"when": _said(_TEXT, "a condition in CEL"), "then": {"enum": list(transitions.THEN)}, "approvers": _TEXTS}
    limits = {
        "max_hops": _whole(1, 1_000_000_000),
        "max_fanout": _whole(1, definition.MAX_NODES),
        "deadline_seconds": _SECONDS,
        "deadline_s": _SECONDS,
        "max_bytes": _whole(1, 2**63 - 1),
        "budget": _budget(),
    }
    return {
        "name": {
            "type": "string",
            "pattern": _pattern(definition._WORKFLOW_NAME.pattern),
            "description": "what it is registered as",
        },
        "description": {"type": "string"},
        "inputs": _said(_MAPPING, "JSON Schema of the inputs; defaults are filled in"),
        "outputs": _said(_MAPPING, "what the run gives, with templates; without it, the outputs of its last nodes"),
        "limits": _mapping(definition._LIMIT_KEYS, limits),
        "on_failure": _mapping(("compensate",), {"compensate": _FLAG}),
        "nodes": {"type": "array", "minItems": 1, "maxItems": definition.MAX_NODES, "items": _ref("node")},
        "edges": {"type": "array", "items": _mapping(definition._EDGE_KEYS, ends, required=["from", "to"])},
        "endless": _said(_FLAG, "loops may go on without an end"),
        "expose": _said(
            _mapping(
                definition._EXPOSE_KEYS,
                {"tool": _FLAG, "mcp": _FLAG, "effect": {"enum": list(definition._TOOL_EFFECTS)}},
            ),
            "to whom it is offered as a tool",
        ),
        "policies": _said(
            {
                "type": "array",
                "maxItems": transitions.MOST_POLICIES,
                "items": _mapping(transitions.POLICY_KEYS, policy, required=("when", "then")),
            },
            "which ways and calls of agents are asked about or denied",
        ),
        "triggers": _said(
            {"type": "array", "maxItems": MAX_TRIGGERS, "items": _ref("trigger")}, "what starts it by itself"
        ),
    }


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(known: Collection[str], kinds: list[Kind], required: list[Schema] | None = None) -> Schema:
    keys = {**_graph_keys(), **_own_keys(), **_policy_keys()}
    node = _mapping(known, {key: schema for key, schema in keys.items() if key in known})
    every = [{"anyOf": required}] if required else []
    return {**node, "allOf": [*every, *_by_type(kinds, ("config_ref", "agent_config"))]}


def _own_keys() -> dict[str, Schema]:
    id = {
        "type": "string",
        "pattern": _pattern(definition._ID.pattern),
        "not": {"enum": sorted(definition.RESERVED_IDS)},
    }
    limits = {
        "deadline_s": _SECONDS,
        "deadline_seconds": _SECONDS,
        "max_hops": _whole(1, 1_000_000_000),
        "max_fanout": _whole(1, transitions.MOST_FANOUT),
    }
    return {
        "id": _said(id, "what other nodes and templates call it"),
        "node_id": _said(id, "another name of id"),
        "type": _ref("type"),
        "handler": _said(_ref("type"), "another name of type"),
        "config": _said(_MAPPING, "what it does, by its type; may hold templates"),
        "agent_config": _said(_MAPPING, "more of config"),
        "human_config": _mapping(policies._HUMAN_KEYS, _human_keys()),
        "timeout_seconds": _said(_SECONDS, "of one attempt; of a human node, the time to decide"),
        "limits": _mapping(policies._NODE_LIMIT_KEYS, limits),
    }


def _policy_keys() -> dict[str, Schema]:
    gate = {"key": _TEXT, "limit": _whole(1, 1_000_000)}
    held = _mapping(("type_url", "cas_ref"), {"type_url": _TEXT, "cas_ref": _ADDRESS}, required=["cas_ref"])
    return {
        "config_ref": {"anyOf": [_ADDRESS, held], "description": "a blob that holds the config"},
        "retry": _ref("retry"),
        "effect": {"enum": list(definition._EFFECTS), "description": "what a second execution would do"},
        "queue": _said(_NAME, "workers of this queue execute it"),
        "priority": _whole(-1_000_000, 1_000_000),
        "sensitive": _said(_TEXTS, "fields of the output that are kept encrypted"),
        "labels": _said(
            _mapping(
                ("integrity", "confidentiality"),
                {
                    "integrity": {"enum": list(labels.INTEGRITIES)},
                    "confidentiality": {"enum": list(labels.CONFIDENTIALITIES)},
                },
            ),
            "how far the output is to be believed, and whether it may leave",
        ),
        "output_schema": {"type": ["object", "boolean", "null"], "description": "JSON Schema of the output, enforced"},
        "compensator": _ref("compensator"),
        "isolation": {"enum": list(definition._ISOLATIONS)},
        "max_crashes": _whole(1, 1000),
        "concurrency": _mapping(("key", "limit"), gate, required=["limit"]),
        "rate": _mapping(
            ("key", "limit", "per_seconds"), {**gate, "per_seconds": _RATE_SECONDS}, required=["limit", "per_seconds"]
        ),
        **dict.fromkeys(definition._TIMEOUTS, _SECONDS),
    }


def _graph_keys() -> dict[str, Schema]:
    one = {"node": _TEXT, "required": _FLAG}
    dependency = {"anyOf": [_TEXT, _mapping(paths._DEPENDENCY_KEYS, one, required=["node"])]}
    at_least = {"at_least": _whole(1, 10_000_000), "cancel_rest": _FLAG}
    path = _mapping(("path",), {"path": {**_TEXTS, "minItems": 1}}, required=["path"])
    return {
        "dependencies": {"type": "array", "items": dependency, "description": "the nodes it comes after"},
        "depends_on": {"type": "array", "items": dependency, "description": "another name of dependencies"},
        "dependents": _said(_TEXTS, "the nodes that come after it"),
        "join": {"anyOf": [{"enum": ["all", "any"]}, _mapping(policies._JOIN_KEYS, at_least, required=["at_least"])]},
        "wait_for_all": {"enum": [True]},
        "branch": _branch(),
        "capabilities": _capabilities(),
        "loop": _loop(),
        "rejection_path": _said(_TEXTS, "of a human node: where a reject goes"),
        "when": _said(_ref("condition"), "it is skipped unless this holds"),
        "on_failure": {"anyOf": [{"enum": list(paths._ON_FAILURE)}, path]},
        "stream": _stream(),
    }


def _stream() -> Schema:
    size = {"anyOf": [_whole(stream_keys._LEAST_BUFFER, stream_keys._MOST_BUFFER), {"type": "string"}]}
    keys = {
        "restart": {"enum": list(stream_keys._RESTARTS)},
        "collect": _said({"enum": list(stream_keys._COLLECTS)}, "what its output is made of"),
        "buffer": _said(size, "how far behind its slowest reader may be, e.g. 8MiB"),
        "early": _said(_FLAG, "it may end before the streams it reads"),
        "ports": _said(_TEXTS, "ports besides out"),
    }
    return _said(_mapping(stream_keys._KEYS, keys), "of a function that yields, or that reads a stream")


_OFF: Schema = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}


def _branch() -> Schema:
    rule = {"condition": _ref("condition"), "next_nodes": _TEXTS}
    keys = {
        "enabled": _FLAG,
        "type": {"enum": list(paths._BRANCH_TYPES)},
        "rules": {
            "type": "array",
            "maxItems": paths.MOST_RULES,
            "items": _mapping(paths._RULE_KEYS, rule, required=paths._RULE_KEYS),
        },
        "default": _TEXTS,
        "available_next_nodes": _TEXTS,
        "approve": _said(_FLAG, "whether a person is asked about a route; without it, by what the agent has read"),
    }
    needed: list[Schema] = [_OFF, {"required": ["rules"]}, {"required": ["available_next_nodes"]}]
    return {**_mapping(paths._BRANCH_KEYS, keys), "anyOf": needed}


def _capabilities() -> Schema:
    keys = {
        "can_emit_to": _said(_TEXTS, "the nodes it may lead to; an agent without a branch chooses among them"),
        "max_fanout": _said(_whole(1, transitions.MOST_FANOUT), "another name of limits.max_fanout"),
        "requires_approval": _said(_FLAG, "of an agent: approve of its branch"),
        "allowed_tools": _said(_TEXTS, "of an agent: another name of config.available_tools"),
    }
    return _mapping(transitions.CAPABILITY_KEYS, keys)


def _loop() -> Schema:
    keys = {
        "enabled": _FLAG,
        "condition": _said(_ref("condition"), "it goes back while this holds"),
        "max_iterations": _whole(1, 1_000_000_000),
        "loop_back_to": _TEXT,
        "break_path": _TEXTS,
        "timeout_path": _TEXTS,
        "delay_ms": _whole(0, fields.YEAR_MS),
        "endless": _FLAG,
    }
    return {**_mapping(paths._LOOP_KEYS, keys), "anyOf": [_OFF, {"required": ["condition"]}]}


def _retry() -> Schema:
    attempts = _whole(1, policies.MAX_ATTEMPTS)
    keys = {
        "max_attempts": attempts,
        "backoff_ms": _whole(0, fields.YEAR_MS),
        "multiplier": {"type": "number", "minimum": 1, "maximum": 1000},
        "max_backoff_ms": _whole(0, fields.YEAR_MS),
        "jitter": _FLAG,
        "retry_on": _TEXTS,
        "give_up_on": _TEXTS,
    }
    return {"anyOf": [attempts, _mapping(policies._RETRY_KEYS, keys)]}


def _compensator(kinds: list[Kind]) -> Schema:
    keys = {
        "type": _ref("type"),
        "handler": _ref("type"),
        "config": _MAPPING,
        "action": _TEXT,
        "timeout_seconds": _SECONDS,
        "timeout_sec": _SECONDS,
        "retry": _ref("retry"),
    }
    return {**_mapping(policies._COMPENSATOR_KEYS, keys), "allOf": _by_type(kinds, ("action",))}


def _human_keys() -> dict[str, Schema]:
    people = {"anyOf": [_TEXT, _TEXTS]}
    return {
        "approver": _TEXT,
        "title": {"type": "string"},
        "approvers": people,
        "quorum": {"anyOf": [_whole(1, 10_000), _TEMPLATE]},
        "timeout_seconds": {"anyOf": [_SECONDS, _TEMPLATE]},
        "timeout_hours": {"type": "number", "exclusiveMinimum": 0, "maximum": 24 * 3660},
        "on_timeout": {"anyOf": [{"enum": list(policies.ON_TIMEOUT)}, _TEMPLATE]},
        "escalation_policy": {"enum": list(policies._ESCALATION_POLICIES)},
        "escalate_to": people,
        "form": {},
        "approval_ui_url": {"type": "string"},
    }


# -- conditions --------------------------------------------------------------------------------------------------------


def _condition() -> Schema:
    text = {"type": "string", "pattern": r"\S", "description": "a CEL expression, such as output.ok == true"}
    keys = _condition_keys()
    kinds = [
        {
            **_mapping(known, {"type": {"const": kind}, **keys[kind]}, required=["type", *_NEEDED.get(kind, ())]),
            **_ALSO.get(kind, {}),
        }
        for kind, known in conditions._KEYS.items()
    ]
    return {"anyOf": [text, *kinds]}


_NEEDED = {"cel": ("expression",), "jsonpath": ("query", "operator"), "composite": ("operator", "conditions")}
_ALSO: dict[str, Schema] = {
    "jsonpath": {
        "anyOf": [
            {"required": ["value"]},
            {"properties": {"operator": {"enum": list(conditions._WITHOUT_VALUE)}}},
        ]
    },
    "schema_validation": {"anyOf": [{"required": ["schema"]}, {"required": ["schema_ref"]}]},
    "cross_node_comparison": {"anyOf": [{"required": ["expression"]}, {"required": ["left", "operator", "right"]}]},
    "composite": {
        "if": {"properties": {"operator": {"pattern": "^[nN][oO][tT]$"}}},
        "then": {"properties": {"conditions": {"maxItems": 1}}},
    },
    "python_sandbox": {"anyOf": [{"required": ["code"]}, {"required": ["code_ref"]}]},
}


def _condition_keys() -> dict[str, dict[str, Schema]]:
    expression = {"type": "string", "pattern": r"\S", "maxLength": conditions.MAX_EXPRESSION}
    place = {"source": {"enum": ["current", "context"]}, "node": _TEXT, "path": _TEXT, "value": {}}
    operand = _mapping(conditions._OPERAND_KEYS, place)
    combined = {"type": "string", "pattern": "^([aA][nN][dD]|[oO][rR]|[nN][oO][tT])$"}
    return {
        "cel": {"expression": expression},
        "jsonpath": {
            "query": {"type": "string", "pattern": r"^\$"},
            "operator": {"enum": list(conditions._JSONPATH_OPERATORS)},
            "value": {},
        },
        "schema_validation": {
            "schema": {"type": ["object", "boolean", "null"]},
            "schema_ref": _ADDRESS,
            "invert": _FLAG,
        },
        "cross_node_comparison": {
            "left": operand,
            "operator": {"enum": list(conditions._COMPARISONS)},
            "right": operand,
            "expression": expression,
        },
        "composite": {
            "operator": combined,
            "conditions": {
                "type": "array",
                "minItems": 1,
                "maxItems": conditions.MAX_CONDITIONS,
                "items": _ref("condition"),
            },
        },
        "python_sandbox": {
            "code": _TEXT,
            "code_ref": _ADDRESS,
            "timeout_ms": _whole(1, 60_000),
            "max_memory_mb": _whole(1, 4096),
        },
    }


# -- types and their configs -------------------------------------------------------------------------------------------


def _names(kind: Kind) -> list[str]:
    return [kind.name, *kind.aliases, *(alias for alias, name in policies.TYPE_ALIASES.items() if name == kind.name)]


def _type(kinds: list[Kind]) -> Schema:
    """The schema of a type: any name, as workers elsewhere may have types unknown here. Known ones can be completed."""
    known = [{"const": name, "description": kind.description} for kind in kinds for name in _names(kind)]
    return {"anyOf": [*known, _NAME]}


def _by_type(kinds: list[Kind], elsewhere: tuple[str, ...]) -> list[Schema]:
    """Rules `if type = … then config …`. When part of a config stands in the keys `elsewhere`, none is required."""
    rules = []
    for kind in kinds:
        names = _names(kind)
        named = {
            "anyOf": [{"properties": {key: {"enum": names}}, "required": [key]} for key in ("type", "handler")],
        }
        rules.append({"if": named, "then": {"properties": {"config": _or_null(_ref(f"config_{kind.name}"))}}})
        if required := kind.config.get("required"):
            whole = {"allOf": [named, *({"not": {"required": [key]}} for key in elsewhere)]}
            needed = {"required": ["config"], "properties": {"config": {"required": required}}}
            rules.append({"if": whole, "then": needed})
    untyped = {"not": {"anyOf": [{"required": ["type"]}, {"required": ["handler"]}, {"required": ["action"]}]}}
    call = {"type": "object", "anyOf": [{"required": ["function"]}, {"required": ["action"]}]}
    rules.append({"if": untyped, "then": {"required": ["config"], "properties": {"config": call}}})
    return rules


_SUBSCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LEFT_OUT = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas")
"""Keywords that a template could break or satisfy once rendered: left to the compiler, which knows the templates."""


def _config(kind: Kind) -> Schema:
    """The config that a definition may write for this type. Required keys are stated where the node is whole."""
    schema = {key: value for key, value in _opened(kind.config).items() if key != "required"}
    if '"$ref"' in msgspec.json.encode(schema).decode():
        schema["$id"] = f"urn:perdure:config:{kind.name}"  # so that its references resolve within it
    properties = {key: _or_null(one) for key, one in schema.get("properties", {}).items()}
    if kind.name == "map":
        properties["node"] = _or_null(_ref("item"))
    if kind.name == "human":
        properties = {**{key: _or_null(one) for key, one in _human_keys().items()}, **properties}
    if properties:
        schema["properties"] = properties
    if kind.name == "task":  # the keys beside an action are its arguments
        action = {"type": "object", "required": ["action"], "not": {"required": ["function"]}}
        return {"if": action, "then": {"properties": properties}, "else": schema}
    return schema


def _opened(schema: Any, *, top: bool = True) -> Any:
    """The schema of a config in which a template may stand for any value."""
    if not isinstance(schema, dict):
        return schema
    opened = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
    for key in _SUBSCHEMAS:
        if isinstance(opened.get(key), dict):
            opened[key] = {name: _opened(one, top=False) for name, one in opened[key].items()}
    for key in ("items", "additionalProperties"):
        if key in opened:
            opened[key] = _opened(opened[key], top=False)
    if isinstance(opened.get("prefixItems"), list):
        opened["prefixItems"] = [_opened(one, top=False) for one in opened["prefixItems"]]
    said = {key: opened.pop(key) for key in ("description", "default") if key in opened}
    if top or not opened or opened == {"type": "string"}:
        return {**said, **opened}
    return {**said, "anyOf": [opened, _TEMPLATE]}
