"""What the compiler cannot see: conditions that do not compile, invalid schemas. Asked before a workflow is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.budget import Budget
from perdure.expressions.json_schema import SchemaInvalid, compile_schema, find_first_misfits
from perdure.expressions.templates import find_mistake as find_template_mistake
from perdure.expressions.verdicts import find_problems
from perdure.model.ir import IR, Condition, Node
from perdure.model.problems import Path, Problem, format_path
from perdure.model.references import templates
from perdure.plain_text import cut

# Steps of a `Budget`, about 0.25 µs each.
_CONDITION_STEPS, _SCHEMA_STEPS = 400, 2_000
_TEMPLATE_STEPS, _LETTER_STEPS = 100, 4


def check_parts(ir: IR, budget: Budget | None = None) -> tuple[Problem, ...]:
    """A problem for every condition, schema and template of the workflow that is wrong, with its path."""
    budget = budget or Budget.without_end()
    found: list[tuple[Path, str, str]] = []
    for path, condition in find_conditions(ir):
        budget.spend(_CONDITION_STEPS)
        problems_here = find_problems(condition.kind, condition.spec)
        found += [((*path, *inside), "bad_condition", message) for inside, message in problems_here]
    for path, schema in _schemas(ir):
        budget.spend(_SCHEMA_STEPS)
        try:
            compile_schema(schema)
        except SchemaInvalid as error:
            found.append(((*path, *error.place), "invalid_schema", error.message))
    known = {node.id for node in ir.nodes if node is not None}
    for path, text in find_templates(ir):
        budget.spend(_TEMPLATE_STEPS + _LETTER_STEPS * len(text))
        message = find_template_mistake(text, known)
        if message is not None:
            found.append((path, "bad_template", message))
    problems = [Problem(format_path(path), None, None, code, message, "error") for path, code, message in found]
    return (*problems, *_check_defaults(ir.inputs_schema, budget))


def _check_defaults(schema: Any, budget: Budget) -> Iterator[Problem]:
    """Warnings about defaults that do not fit: a run given nothing for such an input is refused without fault."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    defaults = {name: one["default"] for name, one in properties.items() if isinstance(one, dict) and "default" in one}
    if not defaults:
        return
    # One schema of all properties: one for each would be compiled with all that they have in common.
    own = {key: schema[key] for key in ("$defs", "definitions", "properties") if key in schema}
    try:
        misfits = compile_schema(own).iter_errors(defaults, budget)
        for name, why in find_first_misfits(misfits):
            message = f"the default of input '{cut(name, 80)}' does not fit: {why}; correct it, or its schema"
            place = format_path(("inputs", "properties", name, "default"))
            yield Problem(place, None, None, "invalid_schema", message, "warning")
    except SchemaInvalid:  # said of the whole schema, or it takes too long
        return


def find_templates(ir: IR) -> Iterator[tuple[Path, str]]:
    """Every text with a template in it, with its path."""
    for node in ir.nodes:
        if node is not None:
            yield from _templates_of(node, ("nodes", node.id))
    yield from templates(ir.outputs, ("outputs",))


def _templates_of(node: Node, path: Path) -> Iterator[tuple[Path, str]]:
    config = node.config
    if node.item is not None and isinstance(config, dict):
        yield from _templates_of(node.item, (*path, "config", "node"))
        config = {key: value for key, value in config.items() if key != "node"}
    yield from templates(config, (*path, "config"))
    if node.compensator is not None:
        yield from templates(node.compensator.config, (*path, "compensator", "config"))


def _schemas(ir: IR) -> Iterator[tuple[Path, Any]]:
    if ir.inputs_schema is not None:
        yield ("inputs",), ir.inputs_schema
    for node in ir.nodes:
        if node is None:
            continue
        if node.output_schema is not None:
            yield ("nodes", node.id, "output_schema"), node.output_schema
        yield from _forms(("nodes", node.id, "config"), node)


def _forms(path: Path, node: Node) -> Iterator[tuple[Path, Any]]:
    """The forms that approvers are asked to fill in. A form with templates is checked when those are rendered."""
    if node.item is not None:
        yield from _forms((*path, "node", "config"), node.item)
    elif node.type == "human" and isinstance(node.config, dict) and isinstance(form := node.config.get("form"), dict):
        if not any(templates(form, ())):
            yield (*path, "form"), form


def find_conditions(ir: IR) -> Iterator[tuple[Path, Condition]]:
    """Every condition, with its path."""
    for node in ir.nodes:
        if node is None:
            continue
        place = ("nodes", node.id)
        if node.when is not None:
            yield (*place, "when"), node.when
        if node.loop is not None:
            yield (*place, "loop", "condition"), node.loop.condition
        if node.branch is not None:
            for number, rule in enumerate(node.branch.rules):
                yield (*place, "branch", "rules", number, "condition"), rule.condition


def find_content_refs(ir: IR) -> Iterator[tuple[str, str]]:
    """References to content that the workflow keeps elsewhere: (path, reference)."""
    for node in ir.nodes:
        if node is not None:
            yield from _config_refs(("nodes", node.id), node)
    for path, condition in find_conditions(ir):
        yield from _refs_of(path, condition.spec)


def _config_refs(path: Path, node: Node) -> Iterator[tuple[str, str]]:
    if node.config_ref is not None:
        yield format_path((*path, "config_ref")), node.config_ref
    if node.item is not None:
        yield from _config_refs((*path, "config", "node"), node.item)


def _refs_of(path: Path, spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("schema_ref", "code_ref"):
        if key in spec:
            yield format_path((*path, key)), spec[key]
    for number, inner in enumerate(spec.get("conditions", ())):
        yield from _refs_of((*path, "conditions", number), inner)
