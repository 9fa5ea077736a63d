"""What a trigger starts: the version of a workflow, looked up at every start, and inputs that fit it (rule 46)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.expressions.at_hand import AtHand, Lost
from perdure.expressions.errors import NotAtHand
from perdure.expressions.json_schema import SchemaInvalid
from perdure.kernel import commands as c
from perdure.kernel.segments import has_refs
from perdure.kernel.values import Error
from perdure.model.ir import IR
from perdure.runtime.coordinator.triggers.schedules import make_inputs
from perdure.runtime.filled_inputs import fill_in_at_hand


class Target(msgspec.Struct, frozen=True):
    version: int
    ir: IR


class NeedsTarget(NotAtHand):
    """The workflow that a trigger names must be looked up first."""

    code = "needs_target"

    def __init__(self, workflow: str) -> None:
        super().__init__(target_key(workflow), f"workflow {workflow} must be looked up first")
        self.workflow = workflow


def target_key(workflow: str) -> str:
    return f"target:{workflow}"


def judge(asked: c.TargetAsked, at_hand: AtHand, budget: Budget) -> c.Verdict:
    """The verdict on what becomes of an item. `budget` is that of all questions of the decision. Raises NeedsTarget, NeedsFilled."""
    if not asked.workflow:
        return _judge_moment(asked)
    key = target_key(asked.workflow)
    if key not in at_hand:
        raise NeedsTarget(asked.workflow)
    found = at_hand[key]
    if isinstance(found, Lost):
        return c.Verdict(error=Error(found.code, f"workflow {asked.workflow}: {found.message}"))
    return judge_target(asked, found, at_hand, budget)


def _judge_moment(asked: c.TargetAsked) -> c.Verdict:
    """What an activation is given that a moment is handed to: it starts no workflow (rule 54)."""
    inputs: Any = make_inputs(asked.spec, asked.item)
    return c.Verdict(error=inputs) if isinstance(inputs, Error) else c.Verdict(value={"inputs": inputs})


def judge_target(asked: c.TargetAsked, found: Target | None, at_hand: AtHand, budget: Budget) -> c.Verdict:
    """The verdict on one start: the version that runs, and the inputs with the defaults of its schema. Raises NeedsFilled."""
    if found is None:
        todo = "register it (perdure workflows push FILE), or correct the name"
        return c.Verdict(error=Error("workflow_not_found", f"no workflow {asked.workflow}; {todo}"))
    inputs: Any = make_inputs(asked.spec, asked.item, asked.items, at_hand, asked.last_success)
    if isinstance(inputs, Error):
        return c.Verdict(error=inputs)
    schema = found.ir.inputs_schema
    if schema is not None and not has_refs(inputs):
        try:
            inputs, problems = fill_in_at_hand(schema, inputs, at_hand, budget)
        except SchemaInvalid as error:
            return c.Verdict(error=Error(error.code, f"workflow {asked.workflow}: {error.message}"))
        if problems:
            message = f"the inputs do not fit {asked.workflow}: {'; '.join(problems)}"
            return c.Verdict(error=Error("invalid_inputs", message[:1000]))
    return c.Verdict(value={"version": found.version, "ir": found.ir.hash, "inputs": inputs})
