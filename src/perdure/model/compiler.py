"""Definition to IR: the stages in order, and the assembly of the structs the kernel runs.

Owns the canonical form of the whole and its hash. Every stage reports into the same list and the next one goes on with
what is left, so all problems come at once.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure.model.budgets import make_budget
from perdure.model.definition import Definition, read_definition
from perdure.model.graph import Graph, Pair, build_graph, collect_pairs
from perdure.model.ir import (
    IR,
    IR_VERSION,
    Branch,
    Compensator,
    Condition,
    Edge,
    Join,
    Limits,
    Loop,
    Node,
    Reference,
    Retry,
    Rule,
)
from perdure.model.joins import at_least, check_joins, find_regions
from perdure.model.loops import Loops, check_endless, classify, read_loops
from perdure.model.policies import default_attempts
from perdure.model.problems import Path, Problems
from perdure.model.stream_edges import check_streams
from perdure.model.stream_keys import make_stream
from perdure.model.transitions import check_emits
from perdure.model.usage import Usage, read_usage

_ALL = Join()
_CONFIG_KEYS = frozenset({"config", "config_ref", "agent_config", "human_config"})
"""The keys that the config of a node is made of."""
_RETRY = Retry()


class Draft(msgspec.Struct, frozen=True):
    """The readable part of a refused definition: its nodes without a graph, so that each can still be checked."""

    ir: IR
    places: dict[str, int]
    """The position of each node in the list of nodes."""
    triggers: list[Any] = []


def compile_data(data: Any, problems: Problems) -> tuple[IR | None, dict[str, Any] | None, Draft | None]:
    """The IR and the canonical definition, both None when there are errors, and then a draft of what can be read."""
    definition = read_definition(data, problems)
    if definition is None or not definition.nodes:
        return None, None, None
    unread: dict[Any, set[Any]] = {}
    for found in problems.found:
        if found.path[:1] == ("nodes",) and len(found.path) > 1 and found.severity == "error":
            unread.setdefault(found.path[1], set()).update(found.path[2:3])
    pairs = collect_pairs(definition, problems)
    graph = build_graph(definition, pairs, problems)
    loops = read_loops(definition, graph, problems)
    check_endless(definition, graph, loops, problems)
    check_joins(definition, graph, loops, problems)
    check_streams(definition, graph, loops, problems)
    check_emits(definition.nodes, definition.path, pairs, problems)
    usage = read_usage(definition, graph, loops, problems)
    if problems.errors:
        return None, None, _make_draft(definition, unread)
    canonical = make_canonical(definition, pairs)
    ir = _Assembler(definition, graph, loops, usage).assemble(hash_definition(canonical))
    return ir, canonical, None


def _make_draft(definition: Definition, unread: dict[Any, set[Any]]) -> Draft:
    """A draft of the nodes. `unread`: nodes that were not understood, by position, each with the keys at fault."""
    nodes = []
    for id, node in definition.nodes.items():
        if not isinstance(node["type"], str):
            continue
        wrong = unread.get(definition.places[id])
        if wrong is None:
            nodes.append(_make_loose(node))
        else:  # the type of the node, and its config unless that is what was not understood
            hidden = not wrong.isdisjoint(_CONFIG_KEYS) or node["type"] == "map" or "config_ref" in node
            nodes.append(Node(id=id, type=node["type"], config=node.get("config"), config_ref="" if hidden else None))
    inputs = definition.workflow.get("inputs")
    policies = tuple(definition.workflow.get("policies", ()))
    name = definition.workflow["name"]
    ir = IR(IR_VERSION, name, "", tuple(nodes), (), (), (), inputs_schema=inputs, policies=policies)
    return Draft(ir, definition.places, definition.workflow.get("triggers", []))


def _make_loose(node: dict[str, Any]) -> Node:
    """A node with the parts that can be checked without a graph."""
    extra: dict[str, Any] = {}
    if "when" in node:
        extra["when"] = _loose_condition(node["when"])
    if "loop" in node:
        extra["loop"] = Loop(
            head=0, condition=_loose_condition(node["loop"]["condition"]), max_iterations=None, body=()
        )
    rules = node.get("branch", {}).get("rules", ())
    if rules:
        extra["branch"] = Branch("conditional", tuple(Rule(_loose_condition(rule["condition"]), ()) for rule in rules))
    inner = _make_inner(node, node["id"], (), ())
    return msgspec.structs.replace(inner, **extra)


def _loose_condition(condition: dict[str, Any]) -> Condition:
    return Condition(condition["type"], {key: value for key, value in condition.items() if key != "type"})


def make_canonical(definition: Definition, pairs: dict[tuple[str, str], Pair]) -> dict[str, Any]:
    edges: list[dict[str, Any]] = []
    for (source, target), pair in sorted(pairs.items(), key=lambda item: item[0]):
        # An edge that routing names is already written there.
        if pair.named and not pair.required and not pair.ports:
            continue
        required = {"required": True} if pair.required else {}
        for out, into in sorted(pair.ports or {("", "")}):
            ends = {"from": f"{source}.{out}" if out else source, "to": f"{target}.{into}" if into else target}
            edges.append({**ends, **required})
    return {**definition.workflow, "nodes": [definition.nodes[id] for id in sorted(definition.nodes)], "edges": edges}


def hash_definition(canonical: dict[str, Any]) -> str:
    """The hash of a definition. A description does not change what a run does, so it does not change the hash."""
    meaning = {key: value for key, value in canonical.items() if key != "description"}
    return "sha256:" + hashlib.sha256(msgspec.json.encode(meaning, order="deterministic")).hexdigest()


class _Assembler:
    def __init__(self, definition: Definition, graph: Graph, loops: Loops, usage: Usage) -> None:
        self._definition = definition
        self._graph = graph
        self._loops = loops
        self._usage = usage
        self._nodes = [definition.nodes[id] for id in graph.ids]
        self._streaming = {end for ends, pair in graph.pairs.items() if pair.ports for end in ends}

    def assemble(self, content_hash: str) -> IR:
        workflow, count = self._definition.workflow, len(self._nodes)
        edges, edges_in, edges_out, exits = self._make_edges()
        lenient, region = find_regions(self._nodes, self._graph.children)
        nodes = tuple(
            self._make_node(i, tuple(edges_in[i]), tuple(edges_out[i]), tuple(exits.get(i, ())), lenient[i], region[i])
            for i in range(count)
        )
        limits = workflow.get("limits", {})
        deadline = limits.get("deadline_seconds")
        read = {
            "deadline_seconds": None if deadline is None else float(deadline),
            "budget": make_budget(limits.get("budget")),
        }
        return IR(
            version=IR_VERSION,
            name=workflow["name"],
            hash=content_hash,
            nodes=nodes,
            edges=tuple(edges),
            entries=tuple(i for i in range(count) if not edges_in[i]),
            terminals=tuple(i for i in range(count) if not edges_out[i]),
            limits=Limits(**{**limits, **read}),
            inputs_schema=workflow.get("inputs"),
            outputs=workflow.get("outputs"),
            output_references=self._usage.outputs,
            compensate_on_failure="on_failure" in workflow,
            endless=workflow.get("endless", False),
            description=workflow.get("description", ""),
            expose=workflow.get("expose", {}),
            policies=tuple(workflow.get("policies", ())),
        )

    def _make_edges(self) -> tuple[list[Edge], list[list[int]], list[list[int]], dict[int, list[int]]]:
        pairs, enclosing = self._graph.pairs, self._loops.enclosing
        edges: list[Edge] = []
        edges_in: list[list[int]] = [[] for _ in self._nodes]
        edges_out: list[list[int]] = [[] for _ in self._nodes]
        exits: dict[int, list[int]] = {}
        for source, target in sorted(pairs):
            pair = pairs[source, target]
            kind, common = classify(enclosing[source], enclosing[target])
            edges_out[source].append(len(edges))
            edges_in[target].append(len(edges))
            for loop in enclosing[source][common:]:
                exits.setdefault(loop, []).append(len(edges))
            ports = tuple(sorted(pair.ports)) if pair.ports else ()
            edges.append(Edge(source, target, kind, common, pair.named, pair.required, ports))
        for looping in sorted(self._loops.bodies):
            head = self._loops.heads[looping]
            edges.append(Edge(looping, head, "back", classify(enclosing[looping], enclosing[head])[1]))
        return edges, edges_in, edges_out, exits

    def _make_node(
        self,
        i: int,
        edges_in: tuple[int, ...],
        edges_out: tuple[int, ...],
        exits: tuple[int, ...],
        lenient: bool,
        region: int | None,
    ) -> Node:
        node = self._nodes[i]
        extra: dict[str, Any] = {}
        if "when" in node:
            extra["when"] = self._condition(i, node["when"], ("when",))
        if "branch" in node:
            extra["branch"] = self._make_branch(i, node["branch"])
        if "loop" in node:
            extra["loop"] = self._make_loop(i, node["loop"], exits)
        if "join" in node:
            join = node["join"]
            extra["join"] = Join(at_least(node), isinstance(join, dict) and join.get("cancel_rest", False))
        if "rejection_path" in node:
            extra["rejection_path"] = self._indexes(node["rejection_path"])
        if "stream" in node or i in self._streaming:
            extra["stream"] = make_stream(node.get("stream", {}))
        on_failure = node.get("on_failure", "fail")
        if isinstance(on_failure, dict):
            extra["failure_path"] = self._indexes(on_failure["path"])
            on_failure = "path"
        if node["type"] == "map" and "config" in node:
            extra["item"] = self._make_item(i, node)
        return Node(
            **_execution(node, self._usage.compensator.get(i, ())),
            id=node["id"],
            loops=self._loops.enclosing[i],
            edges_in=edges_in,
            edges_out=edges_out,
            on_failure=on_failure,
            references=self._usage.config.get(i, ()),
            terminal=not edges_out,
            lenient=lenient,
            region=region,
            **extra,
        )

    def _indexes(self, ids: list[str]) -> tuple[int, ...]:
        return tuple(sorted(self._graph.index[id] for id in ids))

    def _condition(self, i: int, condition: dict[str, Any], place: Path) -> Condition:
        spec = {key: value for key, value in condition.items() if key != "type"}
        return Condition(condition["type"], spec, self._usage.conditions.get((i, place), ()))

    def _make_branch(self, i: int, branch: dict[str, Any]) -> Branch:
        rules = tuple(
            Rule(
                self._condition(i, rule["condition"], ("branch", "rules", k, "condition")),
                self._indexes(rule["next_nodes"]),
            )
            for k, rule in enumerate(branch.get("rules", ()))
        )
        default = self._indexes(branch.get("default", []))
        available = self._indexes(branch.get("available_next_nodes", []))
        return Branch(branch.get("type", "conditional"), rules, default, available, branch.get("approve"))

    def _make_loop(self, i: int, loop: dict[str, Any], exits: tuple[int, ...]) -> Loop:
        return Loop(
            head=self._loops.heads[i],
            condition=self._condition(i, loop["condition"], ("loop", "condition")),
            max_iterations=loop.get("max_iterations"),
            body=tuple(self._loops.bodies[i]),
            break_path=self._indexes(loop["break_path"]) if "break_path" in loop else None,
            timeout_path=self._indexes(loop["timeout_path"]) if "timeout_path" in loop else None,
            delay_ms=loop.get("delay_ms", 0),
            exits=exits,
        )

    def _make_item(self, i: int, node: dict[str, Any]) -> Node:
        config = node["config"]
        references = self._usage.item.get(i, ())
        if "node" in config:
            item = config["node"]
            return _make_inner(item, item.get("id") or node["id"], references, self._usage.compensator.get(i, ()))
        inner = {key: config[key] for key in ("workflow", "inputs") if key in config}
        return _make_inner({"type": "workflow", "config": inner}, node["id"], references, ())


def _make_inner(item: dict[str, Any], id: str, references: tuple[Reference, ...], undo: tuple[Reference, ...]) -> Node:
    extra: dict[str, Any] = {}
    config = item.get("config")
    if item["type"] == "map" and config:
        nested = config.get("node") or {
            "type": "workflow",
            "config": {k: config[k] for k in ("workflow", "inputs") if k in config},
        }
        extra["item"] = _make_inner(nested, nested.get("id") or id, references, undo)
    return Node(**_execution(item, undo), id=id, references=references, **extra)


def _execution(node: dict[str, Any], undo: tuple[Reference, ...]) -> dict[str, Any]:
    """The fields of a node that do not depend on the graph."""
    fields: dict[str, Any] = {
        "type": node["type"],
        "retry": _make_retry(node.get("retry"), default_attempts(node["type"])),
    }
    for key in (
        "config",
        "effect",
        "isolation",
        "queue",
        "priority",
        "concurrency",
        "rate",
        "output_schema",
        "max_crashes",
    ):
        if key in node:
            fields[key] = node[key]
    for key in ("timeout_seconds", "queue_timeout_seconds", "total_timeout_seconds", "heartbeat_timeout_seconds"):
        if key in node:
            fields[key] = float(node[key])
    if "labels" in node:
        fields["labels"] = tuple(node["labels"].items())
    if "sensitive" in node:
        fields["sensitive"] = tuple(node["sensitive"])
    fields |= node.get("limits", {})
    reference = node.get("config_ref")
    if isinstance(reference, dict):
        fields["config_ref"], fields["type_url"] = reference["cas_ref"], reference["type_url"]
    elif reference is not None:
        fields["config_ref"] = reference
    undoing = node.get("compensator")
    if undoing is not None:
        seconds = undoing.get("timeout_seconds")
        fields["compensator"] = Compensator(
            type=undoing["type"],
            config=undoing.get("config"),
            timeout_seconds=None if seconds is None else float(seconds),
            retry=_make_retry(undoing.get("retry"), 3),
            references=undo,
        )
    return fields


def _make_retry(retry: dict[str, Any] | None, attempts: int) -> Retry:
    if retry is None:
        return _RETRY if attempts == _RETRY.max_attempts else Retry(max_attempts=attempts)
    return Retry(
        max_attempts=retry.get("max_attempts", attempts),
        backoff_ms=retry.get("backoff_ms", 1000),
        multiplier=float(retry.get("multiplier", 2.0)),
        max_backoff_ms=retry.get("max_backoff_ms", 60_000),
        jitter=retry.get("jitter", True),
        retry_on=tuple(retry.get("retry_on", ())),
        give_up_on=tuple(retry.get("give_up_on", ())),
    )
