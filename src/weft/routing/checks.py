"""What the compiler cannot see: conditions that do not compile, schemas that are none. Asked before it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.model.ir import IR, Condition
from weft.model.problems import Problem
from weft.routing.conditions import check
from weft.routing.schemas import SchemaInvalid
from weft.routing.schemas import check as check_value


def check_parts(ir: IR) -> tuple[Problem, ...]:
    """Every condition and schema of the workflow that is wrong, with its path."""
    problems = []
    for path, condition in _conditions(ir):
        message = check(condition)
        if message is not None:
            problems.append(Problem(path, None, None, "bad_condition", message, "error"))
    for path, schema in _schemas(ir):
        try:
            check_value(schema, None)
        except SchemaInvalid as error:
            problems.append(Problem(path, None, None, error.code, str(error), "error"))
    return tuple(problems)


def _schemas(ir: IR) -> Iterator[tuple[str, Any]]:
    if ir.inputs_schema is not None:
        yield "inputs", ir.inputs_schema
    for node in ir.nodes:
        if node is not None and node.output_schema is not None:
            yield f"nodes.{node.id}.output_schema", node.output_schema


def _conditions(ir: IR) -> Iterator[tuple[str, Condition]]:
    for node in ir.nodes:
        if node is None:
            continue
        if node.when is not None:
            yield f"nodes.{node.id}.when", node.when
        if node.loop is not None:
            yield f"nodes.{node.id}.loop.condition", node.loop.condition
        if node.branch is not None:
            for number, rule in enumerate(node.branch.rules):
                yield f"nodes.{node.id}.branch.rules[{number}].condition", rule.condition
