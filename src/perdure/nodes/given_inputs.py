"""Inputs as a definition or a trigger writes them, held to the schema of the workflow that they start, before any run is.

What a template makes is known later: only what is written out is held to the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.archive.aliases import LATEST
from perdure.budget import Budget
from perdure.expressions.json_schema import SchemaInvalid
from perdure.expressions.run_inputs import apply_defaults, find_unknown
from perdure.model.problems import Path, Problem, format_path
from perdure.nodes.config_checks import Mistake, find_misfits
from perdure.triggers import declarations

if TYPE_CHECKING:
    from perdure.model import Compiled

_STEPS = 400  # of a `Budget`: to check the inputs of one trigger, or of one child


class Misfit(msgspec.Struct, frozen=True):
    path: Path
    """Where in the inputs."""
    message: str
    refused: bool
    """False: the schema does not name it, and accepts it."""


def find_input_misfits(schema: Any, given: Any, budget: Budget | None = None) -> list[Misfit]:
    """What of the inputs does not fit, defaults filled in; where all fits, what the schema does not name. Raises OverBudget."""
    if schema is None:
        return []
    if budget is not None:
        budget.spend(_STEPS)
    given = {} if given is None else given
    try:
        found = find_misfits(schema, apply_defaults(schema, given, budget), budget)
    except SchemaInvalid:  # told where that workflow is checked
        return []
    if found:
        return [Misfit(one.path, _word(one), True) for one in found]
    return [Misfit((), sentence, False) for sentence in find_unknown(schema, given)]


def _word(mistake: Mistake) -> str:
    """The message of a mistake, without the word `it`, which would refer to the inputs."""
    if mistake.path or mistake.code != "missing_key":
        return mistake.message
    return f"{mistake.message.replace('it has no', 'there is no', 1)}; give it under inputs"


def check_trigger_inputs(
    name: str,
    workflow: str,
    inputs: Any,
    schema: Any,
    path: Path = (),
    *,
    movable: bool = False,
    budget: Budget | None = None,
) -> list[Problem]:
    """What of a trigger's inputs does not fit the workflow that it starts: errors, for all that comes would be parked. Only warnings
    for a `movable` target, which others may point at another version."""
    place = (*path, "inputs") if inputs else path
    said = f"trigger '{name}': its inputs do not fit workflow '{workflow}'"
    return [
        Problem(
            format_path((*place, *one.path)),
            None,
            None,
            "trigger_inputs",
            f"{said}: {one.message}" if one.refused else f"trigger '{name}': {one.message}",
            "error" if one.refused and not movable else "warning",
        )
        for one in find_input_misfits(schema, inputs, budget)
    ]


def find_trigger_problems(compiled: Compiled, now: float, budget: Budget | None = None) -> tuple[Problem, ...]:
    """What the compiler cannot see in the triggers of a definition, their inputs held to its schema too. A trigger that starts another
    version of the workflow is held to that where it is registered."""
    found = declarations.find_problems(compiled, now, budget)
    draft = compiled.draft
    ir = compiled.ir if draft is None else draft.ir
    listed = (compiled.definition or {}).get("triggers") if draft is None else draft.triggers
    if ir is None or ir.inputs_schema is None or not isinstance(listed, list):
        return found
    more: list[Problem] = []
    for index, one in enumerate(listed):
        if isinstance(one, dict) and str(one.get("workflow", ir.name)) in (ir.name, f"{ir.name}@{LATEST}"):
            inputs = one.get("inputs")
            if inputs is None or isinstance(inputs, dict):
                place: Path = ("triggers", index)
                more += check_trigger_inputs(
                    str(one.get("name")), ir.name, inputs, ir.inputs_schema, place, budget=budget
                )
    return (*found, *more)
