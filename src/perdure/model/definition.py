"""A definition in canonical form: one spelling for each meaning, defaults left out, nodes sorted by id.

Owns the keys of a workflow and of a node, and every other spelling that is accepted for them: docs/reference/definition.md. Finds
the edges that are written as such but does not know whether they make a graph.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.model.budgets import read_budget
from perdure.model.conditions import read_condition
from perdure.model.fields import Fields, as_fields
from perdure.model.paths import read_branch, read_dependency, read_loop, read_on_failure
from perdure.model.policies import (
    default_attempts,
    is_template,
    merge,
    read_compensator,
    read_gate,
    read_human,
    read_join,
    read_labels,
    read_node_limits,
    read_retry,
    read_type,
    settle_task,
)
from perdure.model.problems import Path, Problems, describe
from perdure.model.stream_keys import read_ports, read_stream
from perdure.model.transitions import read_capabilities, read_policies
from perdure.weight import is_heavy

MAX_NODES = 250_000
MAX_LINKS = 2_000_000
LARGEST_TOOL, HEAVIEST_TOOL = 32 * 1024, 4_000
"""What a tool is told of with, in bytes and by `perdure.weight`: lists of 500 tools are written in one go, and agents are shown them."""
_NODE_STEPS = 200  # of a `Budget`: to read one node
RESERVED_IDS = frozenset({"inputs", "run", "loop", "item", "secrets", "ctx", "output", "current"})

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}\Z")
_WORKFLOW_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")

_WORKFLOW_KEYS = frozenset(
    {
        "name",
        "description",
        "inputs",
        "limits",
        "on_failure",
        "nodes",
        "edges",
        "outputs",
        "endless",
        "triggers",
        "expose",
        "policies",
    }
)
_ROUTING_KEYS = frozenset(
    {"join", "wait_for_all", "branch", "loop", "rejection_path", "when", "on_failure", "capabilities"}
)
_GRAPH_KEYS = _ROUTING_KEYS | {"dependencies", "depends_on", "dependents", "stream"}
_LIMIT_KEYS = ("max_hops", "max_fanout", "deadline_seconds", "deadline_s", "max_bytes", "budget")
_EDGE_KEYS = ("from", "to", "required")
_EXPOSE_KEYS = ("tool", "mcp", "effect")
_TOOL_EFFECTS = ("read", "write", "send")
_MAP_KEYS = frozenset({"over", "node", "workflow", "inputs", "max_concurrency", "tolerated_failures"})
_EFFECTS = ("pure", "idempotent", "at_most_once")
_ISOLATIONS = ("thread", "process")
_TIMEOUTS = ("queue_timeout_seconds", "total_timeout_seconds", "heartbeat_timeout_seconds")
_POLICY_KEYS = frozenset(
    {
        "config_ref",
        "retry",
        "effect",
        "queue",
        "priority",
        "sensitive",
        "labels",
        "output_schema",
        "compensator",
        "isolation",
        "max_crashes",
        "concurrency",
        "rate",
        *_TIMEOUTS,
    }
)
NODE_KEYS = (
    _GRAPH_KEYS
    | _POLICY_KEYS
    | {"id", "node_id", "type", "handler", "config", "agent_config", "human_config", "timeout_seconds", "limits"}
)


class Link(msgspec.Struct, frozen=True, gc=False):
    """An edge as the definition writes it: dependency, dependent or entry of `edges`."""

    source: str
    target: str
    path: Path
    required: bool = False
    ports: tuple[str, str] | None = None


class Definition(msgspec.Struct):
    """A workflow in canonical form, with what the next stages need to report in terms of the original text."""

    workflow: dict[str, Any]  # canonical, without nodes and edges
    nodes: dict[str, dict[str, Any]]  # canonical, by id
    places: dict[str, int]  # id -> index in the original list
    links: list[Link]

    def path(self, id: str) -> Path:
        return ("nodes", self.places[id])


def read_definition(data: Any, problems: Problems) -> Definition | None:
    fields = as_fields(data, (), "the workflow", problems, _WORKFLOW_KEYS)
    if fields is None:
        return None
    endless = bool(fields.flag("endless"))
    workflow = _read_workflow(fields)
    definition = Definition(workflow, {}, {}, [])
    if isinstance(data.get("nodes"), dict):
        fields.error(
            "wrong_type", "nodes", "'nodes' of the workflow must be a list, got a mapping; begin each with '- id: NAME'"
        )
        return None
    nodes = fields.items("nodes")
    if not nodes:
        if nodes is not None or not fields.has("nodes"):
            fields.error(
                "empty_workflow", "nodes" if nodes is not None else "", "the workflow has no nodes; add at least one"
            )
        return definition if problems.errors == 0 else None
    if len(nodes) > MAX_NODES:
        fields.error(
            "too_large",
            "nodes",
            f"the workflow has {len(nodes)} nodes; at most {MAX_NODES} are accepted, use child workflows",
        )
        return None
    some_loop_endless = False
    for index, item in enumerate(nodes):
        if problems.full:
            return None
        problems.budget.spend(_NODE_STEPS)
        some_loop_endless |= _read_listed_node(item, index, endless, definition, problems)
    _read_edges(fields, definition)
    if len(definition.links) > MAX_LINKS:
        fields.error(
            "too_large", "", f"the workflow has {len(definition.links)} edges; at most {MAX_LINKS} are accepted"
        )
        return None
    if endless or some_loop_endless:
        workflow["endless"] = True
    return definition


def _read_workflow(fields: Fields) -> dict[str, Any]:
    canonical: dict[str, Any] = {"name": "workflow"}
    if not fields.has("name"):
        fields.problems.warning(
            "missing_name", (), "the workflow has no 'name'; it can be run, not registered: add one"
        )
    name = fields.text("name")
    if name is not None:
        canonical["name"] = name
        if not _WORKFLOW_NAME.match(name):
            fields.error(
                "invalid_name",
                "name",
                f"name {describe(name)} may hold letters, digits, '_', '-' and '.', at most 128 of them",
            )
    description = fields.text("description", empty=True)
    if description:
        canonical["description"] = description
    inputs = fields.mapping("inputs")
    if inputs:
        canonical["inputs"] = inputs
    outputs = fields.mapping("outputs")
    if outputs is not None:
        canonical["outputs"] = outputs
    limits = _read_workflow_limits(fields)
    if limits:
        canonical["limits"] = limits
    if fields.has("on_failure"):
        inner = as_fields(
            fields.data["on_failure"], ("on_failure",), "on_failure of the workflow", fields.problems, ("compensate",)
        )
        if inner is not None and inner.flag("compensate"):
            canonical["on_failure"] = {"compensate": True}
    if fields.has("triggers"):
        _read_triggers(fields, canonical)
    if exposed := _read_expose(fields):
        canonical["expose"] = exposed
    if policies := read_policies(fields):
        canonical["policies"] = policies
    return canonical


def _read_expose(fields: Fields) -> dict[str, Any]:
    """To whom the workflow is offered as a tool."""
    if not fields.has("expose"):
        return {}
    inner = as_fields(fields.data["expose"], ("expose",), "expose of the workflow", fields.problems, _EXPOSE_KEYS)
    if inner is None:
        return {}
    shown = {key: True for key in ("tool", "mcp") if inner.flag(key)}
    effect = inner.choice("effect", _TOOL_EFFECTS)
    about = msgspec.json.encode([fields.data.get("description"), fields.data.get("inputs")])
    if shown and (len(about) > LARGEST_TOOL or is_heavy(about, HEAVIEST_TOOL)):
        message = (
            f"a tool is told of with its description and inputs, and all tools in one list: both together have at most {LARGEST_TOOL:,} bytes "
            f"and some {HEAVIEST_TOOL // 10:,} fields; make them shorter, or expose a workflow that is and calls this one"
        )
        fields.error("too_large", "expose", message)
    return {**shown, "effect": effect} if shown and effect else shown


def _read_triggers(fields: Fields, canonical: dict[str, Any]) -> None:
    """Keep the triggers as they are written: what they mean is read where they are applied."""
    from perdure.model.triggers import list_of_workflow, read_trigger  # most workflows have none

    before, names = fields.problems.errors, set[str]()
    for listed in list_of_workflow(fields.data, fields.problems):
        trigger = read_trigger(listed.written, listed.path, fields.problems, listed.workflow)
        if trigger is not None and trigger.name in names:
            message = f"trigger '{trigger.name}' is already there; give one of the two another name (name)"
            fields.problems.error("duplicate_id", (*listed.path, "name"), message)
        names |= {trigger.name} if trigger is not None else set()
    if fields.problems.errors == before and fields.data["triggers"]:
        canonical["triggers"] = fields.data["triggers"]


def _read_workflow_limits(fields: Fields) -> dict[str, Any]:
    if not fields.has("limits"):
        return {}
    inner = as_fields(fields.data["limits"], ("limits",), "limits of the workflow", fields.problems, _LIMIT_KEYS)
    if inner is None:
        return {}
    deadline = inner.one_of("deadline_seconds", "deadline_s")
    limits = {
        "max_hops": inner.integer("max_hops", 1, 1_000_000_000),
        "max_fanout": inner.integer("max_fanout", 1, MAX_NODES),
        "deadline_seconds": inner.seconds(deadline) if deadline else None,
        "max_bytes": inner.integer("max_bytes", 1, 2**63 - 1),
        "budget": read_budget(inner, "budget"),
    }
    defaults = {"max_hops": 10_000, "max_fanout": 100_000, "max_bytes": 1024 * 1024 * 1024}
    return {k: v for k, v in limits.items() if v is not None and defaults.get(k) != v}


def _say_place(node: Any) -> str:
    """Where a key belongs that is none of a node: most often it is one of its type."""
    kind = node.get("type") or node.get("handler") if isinstance(node, dict) else None
    return f"what {f'type {kind[:60]!r}' if isinstance(kind, str) else 'a type'} is given stands under 'config'"


def _read_listed_node(item: Any, index: int, endless: bool, definition: Definition, problems: Problems) -> bool:
    """Read one entry of `nodes`. True when its loop makes the workflow endless."""
    path: Path = ("nodes", index)
    id = None
    if isinstance(item, dict):
        id = item.get("id") if item.get("id") is not None else item.get("node_id")
    what = f"node '{id[:128]}'" if isinstance(id, str) else f"node {index + 1}"
    fields = as_fields(item, path, what, problems, NODE_KEYS, _say_place(item))
    if fields is None:
        return False
    if fields.one_of("id", "node_id") is None:
        fields.error("missing_id", "", f"{what} has no 'id'; every node needs one")
        id = None
    elif not isinstance(id, str) or not _ID.match(id):
        fields.error(
            "invalid_id",
            "id" if fields.has("id") else "node_id",
            f"id {describe(id)} is not an identifier; use letters, digits, '_' and '-', not beginning with a digit, at most 128",
        )
    elif id in RESERVED_IDS:
        fields.error("invalid_id", "id" if fields.has("id") else "node_id", f"id '{id}' is reserved; choose another")
    elif id in definition.places:
        first = definition.places[id]
        fields.error(
            "duplicate_id",
            "id" if fields.has("id") else "node_id",
            f"id '{id}' is already used by nodes[{first}]; rename one",
        )
        id = None
    if not isinstance(id, str):
        id = None
    canonical = read_node(fields)
    canonical["id"] = id
    if (stream := read_stream(fields)) is not None:
        canonical["stream"] = stream
    says_endless = False
    if not _ROUTING_KEYS.isdisjoint(item):
        says_endless = _read_routing(fields, canonical, endless)
    if id is not None:
        definition.nodes[id] = canonical
        definition.places[id] = index
        _read_node_links(fields, id, definition.links)
    return says_endless


def _read_routing(fields: Fields, canonical: dict[str, Any], endless: bool) -> bool:
    """Add what decides where control comes from and goes to. True when the loop makes the workflow endless."""
    loop, says_endless = read_loop(fields, canonical["id"] or "", endless)
    routing = {
        "join": read_join(fields),
        "branch": read_branch(fields),
        "loop": loop,
        "rejection_path": fields.texts("rejection_path"),
        "on_failure": read_on_failure(fields),
        "when": _read_when(fields),
    }
    canonical.update((key, value) for key, value in routing.items() if value is not None)
    if fields.has("capabilities"):
        read_capabilities(fields, canonical)
    if routing["rejection_path"] is not None and canonical["type"] not in ("human", None):
        fields.error(
            "misplaced_key",
            "rejection_path",
            f"'rejection_path' of {fields.what} is for nodes of type human; use branch",
        )
    if loop is not None and "break_path" in loop and routing["branch"] is not None:
        fields.problems.warning(
            "break_and_branch",
            (*fields.path, "loop", "break_path"),
            f"{fields.what} has a break_path and a branch; when the loop ends, both are taken",
        )
    return says_endless


def _read_when(fields: Fields) -> dict[str, Any] | None:
    if not fields.has("when"):
        return None
    return read_condition(fields.data["when"], (*fields.path, "when"), f"when of {fields.what}", fields.problems)


def read_node(fields: Fields) -> dict[str, Any]:
    """The canonical form of what a node is and how it is executed: all but its id and its place in the graph."""
    config: Any = fields.mapping("config")
    type = read_type(fields, config)
    canonical: dict[str, Any] = {"type": type}
    if fields.has("agent_config"):
        extra = fields.mapping("agent_config")
        if extra:
            config = dict(config or {})
            merge(config, extra, (*fields.path, "agent_config"), fields)
    limits = read_node_limits(fields)
    timeout = None
    if type == "human":
        config = read_human(config, fields)
    else:
        timeout = fields.seconds("timeout_seconds")
        if fields.has("human_config"):
            fields.error("misplaced_key", "human_config", f"'human_config' of {fields.what} is for nodes of type human")
    deadline = limits.get("timeout_seconds")
    if deadline is not None:
        if type == "human":
            merge(config, {"timeout_seconds": deadline}, (*fields.path, "limits"), fields)
        elif timeout is not None and timeout != deadline:
            fields.conflict("timeout_seconds", "limits")
        else:
            timeout = deadline
    if type == "task" and config:
        config = dict(config)
        settle_task(config, (*fields.path, "config"), fields.what, fields.problems)
    if type == "map" and fields.has("config_ref"):
        fields.error(
            "misplaced_key",
            "config_ref",
            f"'config_ref' of {fields.what} has no meaning: what a map does is part of the graph; write its config here, "
            "and keep that of its item as a blob",
        )
    if type == "map" and config:
        config = _read_map(config, fields)
    if config:
        canonical["config"] = config
    if timeout is not None:
        canonical["timeout_seconds"] = timeout
    bounds = {key: limits[key] for key in ("max_hops", "max_fanout") if limits.get(key) is not None}
    if bounds:
        canonical["limits"] = bounds
    # Most nodes of a large workflow have none of these; asking once is cheaper than asking for each.
    if not _POLICY_KEYS.isdisjoint(fields.data):
        policies = _read_policies(fields, type or "")
        canonical.update((key, value) for key, value in policies.items() if value is not None)
    return canonical


def _read_policies(fields: Fields, type: str) -> dict[str, Any]:
    return {
        "config_ref": _read_config_ref(fields),
        "retry": read_retry(fields, default_attempts(type)) or None,
        "effect": _unless(fields.choice("effect", _EFFECTS), "idempotent"),
        "queue": _unless(fields.name("queue"), "default"),
        "priority": fields.integer("priority", -1_000_000, 1_000_000) or None,
        "sensitive": fields.texts("sensitive") or None,
        "labels": read_labels(fields),
        "output_schema": _read_schema(fields),
        "compensator": read_compensator(fields),
        "isolation": _unless(fields.choice("isolation", _ISOLATIONS), "thread"),
        "max_crashes": _unless(fields.integer("max_crashes", 1, 1000), 5),
        "concurrency": read_gate(fields, "concurrency", ("key", "limit")),
        "rate": read_gate(fields, "rate", ("key", "limit", "per_seconds")),
        **{key: fields.seconds(key) for key in _TIMEOUTS},
    }


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value


def _read_schema(fields: Fields) -> Any:
    schema = fields.data.get("output_schema")
    if schema is not None and not isinstance(schema, dict | bool):
        fields.wrong_type("output_schema", "a JSON Schema")
        return None
    return None if schema is True or schema == {} else schema


def _read_config_ref(fields: Fields) -> Any:
    value = fields.data.get("config_ref")
    if value is None or isinstance(value, str):
        return fields.address("config_ref")
    what = f"config_ref of {fields.what}"
    inner = as_fields(value, (*fields.path, "config_ref"), what, fields.problems, ("type_url", "cas_ref"))
    if inner is None:
        return None
    if not inner.has("cas_ref"):
        inner.error("missing_key", "", f"{what} has no 'cas_ref'")
    address, type_url = inner.address("cas_ref"), inner.text("type_url")
    return address if type_url is None else {"type_url": type_url, "cas_ref": address}


def _read_map(config: dict[str, Any], node: Fields) -> dict[str, Any]:
    path: Path = (*node.path, "config")
    fields = Fields(config, path, f"config of {node.what}", node.problems, _MAP_KEYS)
    canonical = {key: value for key, value in config.items() if value is not None}
    if not fields.has("over"):
        fields.error(
            "missing_key", "", f"{fields.what} has no 'over'; name the list, e.g. over: \"{{{{ inputs.cities }}}}\""
        )
    elif not isinstance(config["over"], str | list):
        fields.wrong_type("over", "a template or a list")
    if fields.has("node") == fields.has("workflow"):
        fields.error("conflicting_keys", "", f"{fields.what} needs exactly one of 'node' and 'workflow'")
    for key, least, most in (("max_concurrency", 1, 1_000_000), ("tolerated_failures", 0, 1_000_000_000)):
        if not is_template(config.get(key)):
            fields.integer(key, least, most)
    if fields.has("workflow"):
        fields.text("workflow")
    elif fields.has("inputs"):
        fields.error(
            "misplaced_key", "inputs", f"'inputs' of {fields.what} goes with 'workflow'; put it into the node's config"
        )
    if canonical.get("tolerated_failures") == 0:
        del canonical["tolerated_failures"]
    if fields.has("node"):
        item = as_fields(
            config["node"],
            (*path, "node"),
            f"the item of {node.what}",
            node.problems,
            NODE_KEYS,
            _say_place(config["node"]),
        )
        if item is not None:
            canonical["node"] = _read_item(item)
    return canonical


def _read_item(item: Fields) -> dict[str, Any]:
    for key in sorted(_GRAPH_KEYS):
        if item.has(key):
            item.error(
                "misplaced_key",
                key,
                f"'{key}' of {item.what} has no meaning: an item is no node of the graph; put it on the map",
            )
    inline = read_node(item)
    if inline["type"] == "map":
        item.error(
            "map_in_map",
            "type",
            f"{item.what} is a map in a map, which cannot be; put the inner map into a workflow of its own, "
            "and give the item type: workflow",
        )
    id = item.one_of("id", "node_id")
    if id is not None:
        value = item.text(id)
        if value is not None and (not _ID.match(value) or value in RESERVED_IDS):
            item.error("invalid_id", id, f"id {describe(value)} of {item.what} is not an identifier, or is reserved")
        inline["id"] = value
    return inline


def _read_node_links(fields: Fields, id: str, links: list[Link]) -> None:
    for key in ("dependencies", "depends_on"):
        for index, item in enumerate(fields.items(key) or ()):
            path = (*fields.path, key, index)
            dependency = read_dependency(item, path, fields)
            if dependency is not None:
                links.append(Link(dependency[0], id, path, dependency[1]))
    for index, item in enumerate(fields.items("dependents") or ()):
        path = (*fields.path, "dependents", index)
        if isinstance(item, str) and item:
            links.append(Link(id, item, path))
        else:
            fields.problems.error(
                "wrong_type", path, f"a dependent of {fields.what} must be an id, got {describe(item)}"
            )


def _read_edges(fields: Fields, definition: Definition) -> None:
    for index, item in enumerate(fields.items("edges") or ()):
        path: Path = ("edges", index)
        edge = as_fields(item, path, f"edge {index + 1}", fields.problems, _EDGE_KEYS)
        if edge is None:
            continue
        ends = []
        for key in ("from", "to"):
            text = edge.text(key)
            if text is None and not edge.has(key):
                edge.error("missing_key", "", f"{edge.what} has no '{key}'")
            ends.append((text or "").partition("."))
        (source, dot, out), (target, other_dot, into) = ends
        ports = None
        if (dot and not out) or (other_dot and not into):
            edge.error("wrong_value", "", f"{edge.what} names an empty port; write node.port, or the node alone")
        elif dot or other_dot:
            ports = read_ports(out, into, edge.what, path, fields.problems)
        if source and target:
            definition.links.append(Link(source, target, path, bool(edge.flag("required")), ports))
