"""Checks what templates and conditions read against what is known of it: the schema of the inputs, and the outputs
whose shape the definition or the node type declares.

It only warns: a node may never be reached, and an open schema allows what it does not name; but mostly it is a typo.
Whether the node exists and comes before is the compiler's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.expressions.checks import find_conditions, find_templates
from perdure.model.ir import IR, Node, Reference
from perdure.model.problems import Path, Problem, format_path
from perdure.model.references import BadExpression, find_in_condition, find_in_template
from perdure.nodes.registry import Registry
from perdure.plain_text import cut
from perdure.spelling import Suggestions

_MOST = 100
_HAS = re.compile(r"\bhas\s*\(")
_DEEPEST = 32
# With one of these beside `properties`, the schema says elsewhere too what may be there.
_MORE = frozenset(
    "$ref $dynamicRef allOf anyOf oneOf not if then else dependentSchemas patternProperties unevaluatedProperties propertyNames".split()
)
_ANY: dict[str, Any] = {}
# The field that a failure handled by the graph gives in the place of an output (rule 27).
_ERROR = "error"
# The fields that a person was shown are part of what the node gives.
_SHOWN = ("title", "show", "approval_ui_url", "shown")


def check_reads(ir: IR, registry: Registry) -> tuple[Problem, ...]:
    """A warning for each field that is read and that, by all that is declared of it, does not exist."""
    shapes = _Shapes(ir, registry)
    found: dict[tuple[str, str], Problem] = {}
    for path, reader, references in _references(ir, shapes):
        for reference in references:
            message = shapes.find_gap(reference, reader)
            if message is not None:
                place = format_path(path)
                found.setdefault((place, message), Problem(place, None, None, "unknown_field", message, "warning"))
                if len(found) >= _MOST:
                    return tuple(found.values())
    return tuple(found.values())


def _references(ir: IR, shapes: _Shapes) -> Iterator[tuple[Path, str, list[Reference]]]:
    """Each place that reads, the node it belongs to, and what it reads. What cannot be parsed was reported already."""
    if not shapes.known:
        return
    for path, text in find_templates(ir):
        try:
            yield path, _reader(path), find_in_template(text, shapes.nodes, ("output", "config", "error"))
        except BadExpression:
            continue
    for path, condition in find_conditions(ir):
        spec = {"type": condition.kind, **condition.spec}
        looks = _HAS.search(str(condition.spec)) is not None  # it looks before it reads
        try:
            for place, references, _ in find_in_condition(spec, path, shapes.nodes):
                found = [msgspec.structs.replace(one, optional=True) for one in references] if looks else references
                yield place, _reader(path), found
        except BadExpression:
            continue


def _reader(path: Path) -> str:
    return str(path[1]) if path[0] == "nodes" else ""


class _Shapes:
    """The schemas of what can be read, each made at its first use."""

    def __init__(self, ir: IR, registry: Registry) -> None:
        self.nodes = {node.id: node for node in ir.nodes if node is not None}
        self._ir = ir
        self._registry = registry
        self._made: dict[str, Any] = {}
        self._suggest = Suggestions().suggest
        self.known = isinstance(ir.inputs_schema, dict) or any(self._may_know(node) for node in self.nodes.values())

    def find_gap(self, reference: Reference, reader: str) -> str | None:
        if reference.root == "inputs":
            schema, name = self._ir.inputs_schema, "inputs"
        elif reference.root == "node" or (reference.root == "output" and reader):
            name = reference.node or reader
            schema = self._shape_of(name)
            if reference.path[:1] == (_ERROR,):
                return None
        else:
            return None
        gap = _find_gap(schema, reference.path, optional=reference.optional)
        if gap is None:
            return None
        depth, known = gap
        field = str(reference.path[depth])
        what = ".".join(map(str, (name, *reference.path[: depth + 1])))
        who = f"node '{reader}' reads" if reader else "the outputs read"
        missing = f"{who} '{cut(what, 120)}'"
        if reference.root == "inputs" and depth == 0:
            return f"{missing}, which the inputs of the workflow do not name; {self._suggest(field, known)}"
        return f"{missing}, and there is no '{cut(field, 80)}'; {self._suggest(field, known)}"

    def _may_know(self, node: Node) -> bool:
        return node.output_schema is not None or node.type in ("human", "http", "transform", "output", "input")

    def _shape_of(self, name: str) -> Any:
        if name not in self._made:
            node = self.nodes.get(name)
            self._made[name] = _ANY if node is None else self._make(node)
        return self._made[name]

    def _make(self, node: Node) -> Any:
        if node.output_schema is not None:
            return node.output_schema
        config = node.config if isinstance(node.config, dict) and node.config_ref is None else None
        match node.type:
            case "input":
                return self._ir.inputs_schema
            case "transform" if config is not None and "value" in config:
                return _shape(config["value"], 0)
            case "output" if config is not None:
                return _shape(config, 0)
            case "human" if config is not None and self._ir.hash:
                return self._make_decision(node, config)
            case "http" if (found := self._registry.find("http")) is not None:
                return {**found.output_schema, "additionalProperties": False}
        return _ANY

    def _make_decision(self, node: Node, config: dict[str, Any]) -> Any:
        found = self._registry.find("human")
        if found is None:
            return _ANY
        before = (self._ir.nodes[self._ir.edges[edge].source] for edge in node.edges_in)
        shown = (*_SHOWN, *(one.id for one in before if one is not None))
        properties = {**found.output_schema["properties"], **dict.fromkeys(shown, _ANY)}
        form = config.get("form")
        if isinstance(form, dict):
            properties["data"] = form
        return {"properties": properties, "additionalProperties": False}


def _shape(value: Any, depth: int) -> Any:
    """The schema of a mapping: it has the keys it has, and values that are no mappings may become anything."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return _ANY
    properties = {key: _shape(inner, depth + 1) for key, inner in value.items()}
    return {"properties": properties, "additionalProperties": False}


def _find_gap(schema: Any, path: tuple[str | int, ...], *, optional: bool) -> tuple[int, list[str]] | None:
    """How far a path goes until a name does not exist, and the names that do. None: nothing says that it does not
    exist.

    An open schema says nothing about a read with a default: its author knows that the field may be missing.
    """
    for depth, part in enumerate(path):
        if not isinstance(schema, dict):
            return None
        properties = schema.get("properties")
        if isinstance(part, int):
            schema = schema.get("items")
            continue
        if not isinstance(properties, dict) or not _MORE.isdisjoint(schema):
            return None
        if part not in properties:
            closed = schema.get("additionalProperties") is False
            opened = "additionalProperties" in schema and not closed
            return None if opened or (optional and not closed) else (depth, list(properties))
        schema = properties[part]
    return None
