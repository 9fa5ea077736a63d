"""`workflow`: runs another workflow as a child, and gives its outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from perdure.kernel.values import Wait
from perdure.model.budgets import MOST_DOLLARS, ON_EXCEED, make_budget
from perdure.model.money import MOST
from perdure.nodes.registry import Answer, Call, NodeType, Path, Suspended, has_template

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:@[A-Za-z0-9_.-]{1,128})?")


def _answer(call: Call) -> Answer:
    config = call.config
    budget = make_budget({name: amount for name, amount in (config.get("budget") or {}).items() if amount is not None})
    return Suspended(wait=Wait(kind="child"), workflow=config["workflow"], inputs=config.get("inputs"), budget=budget)


_BUDGET = {
    "type": "object",
    "properties": {
        "usd": {"type": "number", "minimum": 0, "maximum": MOST_DOLLARS},
        "tokens": {"type": "integer", "minimum": 0, "maximum": MOST},
        "calls": {"type": "integer", "minimum": 0, "maximum": MOST},
        "on_exceed": {"enum": list(ON_EXCEED)},
    },
    "additionalProperties": False,
}
"""What the child may use; without it, all that is left to this run, if that has a budget."""


def check_name(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    name = config.get("workflow")
    if isinstance(name, str) and not has_template(name) and not NAME.fullmatch(name):
        yield ("workflow",), "'workflow' must be the name of a workflow, or name@version"


TYPE = NodeType(
    name="workflow",
    description="Runs `workflow` (name or name@version) with `inputs` as a child run, and gives its outputs.",
    config_schema={
        "type": "object",
        "required": ["workflow"],
        "properties": {
            "workflow": {"type": "string", "minLength": 1},
            "inputs": {"type": "object"},
            "budget": _BUDGET,
        },
        "additionalProperties": False,
    },
    capabilities=frozenset({"waits", "children"}),
    example={"type": "workflow", "config": {"workflow": "invoice@3", "inputs": {"order": "{{ inputs.order }}"}}},
    check=check_name,
    answer=_answer,
    ref_keys=("inputs",),
)
