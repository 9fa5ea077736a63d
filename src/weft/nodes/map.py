"""`map`: the same node for each item of a list, each with its own attempts; gives the results in order."""

from __future__ import annotations

from weft.kernel.values import Wait
from weft.nodes.registry import Answer, Call, Failed, NodeType, Suspended


def _answer(call: Call) -> Answer:
    config = call.config if isinstance(call.config, dict) else {}
    over = config.get("over")
    if not isinstance(over, list):
        return Failed("bad_config", f"map {call.node}: `over` must be a list, got {type(over).__name__}")
    limit, tolerated = config.get("max_concurrency", 0), config.get("tolerated_failures", 0)
    for name, value in (("max_concurrency", limit), ("tolerated_failures", tolerated)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            return Failed("bad_config", f"map {call.node}: {name} must be a whole number from 0, got {value!r}")
    return Suspended(wait=Wait(kind="items", count=len(over), limit=limit, tolerated=tolerated))


TYPE = NodeType(
    name="map",
    description="Runs `node` (or `workflow`) once for each item of `over`.",
    config_schema={
        "type": "object",
        "required": ["over"],
        "properties": {
            "over": {"type": ["array", "string"]},
            "node": {"type": "object"},
            "workflow": {"type": "string"},
            "inputs": {},
            "max_concurrency": {"type": "integer", "minimum": 0},
            "tolerated_failures": {"type": "integer", "minimum": 0},
        },
    },
    answer=_answer,
    raw_keys=("node", "workflow", "inputs"),
)
