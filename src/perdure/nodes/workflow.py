"""`workflow`: runs another workflow as a child, and gives its outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from perdure.kernel.values import Wait
from perdure.nodes.registry import Answer, Call, NodeType, Path, Suspended, has_template

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(?:@[A-Za-z0-9_.-]{1,128})?")


def _answer(call: Call) -> Answer:
    return Suspended(wait=Wait(kind="child"), workflow=call.config["workflow"], inputs=call.config.get("inputs"))


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
        "properties": {"workflow": {"type": "string", "minLength": 1}, "inputs": {"type": "object"}},
        "additionalProperties": False,
    },
    capabilities=frozenset({"waits", "children"}),
    example={"type": "workflow", "config": {"workflow": "invoice@3", "inputs": {"order": "{{ inputs.order }}"}}},
    check=check_name,
    answer=_answer,
    ref_keys=("inputs",),
)
