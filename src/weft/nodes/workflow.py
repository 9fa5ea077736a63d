"""`workflow`: runs another workflow as a child, and gives its outputs."""

from __future__ import annotations

from weft.kernel.values import Wait
from weft.nodes.registry import Answer, Call, Failed, NodeType, Suspended


def _answer(call: Call) -> Answer:
    config = call.config if isinstance(call.config, dict) else {}
    name = config.get("workflow")
    if not isinstance(name, str) or not name:
        return Failed("bad_config", f"workflow {call.node} needs `workflow`: the name of the workflow to run")
    return Suspended(wait=Wait(kind="child"), workflow=name, inputs=config.get("inputs"))


TYPE = NodeType(
    name="workflow",
    description="Runs `workflow` (name or name@version) with `inputs` as a child run.",
    config_schema={
        "type": "object",
        "required": ["workflow"],
        "properties": {"workflow": {"type": "string"}, "inputs": {}},
    },
    answer=_answer,
)
