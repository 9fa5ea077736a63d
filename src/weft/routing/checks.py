"""What the compiler cannot see: conditions whose expression does not compile. Asked before a workflow is stored."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.ir import IR, Condition
from weft.model.problems import Problem
from weft.routing.conditions import check


def check_conditions(ir: IR) -> tuple[Problem, ...]:
    """Every condition of the workflow that is wrong, with its path."""
    problems = []
    for path, condition in _conditions(ir):
        message = check(condition)
        if message is not None:
            problems.append(Problem(path, None, None, "bad_condition", message, "error"))
    return tuple(problems)


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
