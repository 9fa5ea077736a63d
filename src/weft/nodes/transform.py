"""`transform`: a value made from what came before, by templates alone."""

from __future__ import annotations

from weft.nodes.registry import Answer, Call, Done, Failed, NodeType


def _answer(call: Call) -> Answer:
    config = call.config if isinstance(call.config, dict) else {}
    if "value" in config:
        return Done(config["value"])
    given = ", ".join(sorted(config)) or "nothing"
    return Failed("bad_config", f"transform {call.node} needs `value`; it has {given}")


TYPE = NodeType(
    name="transform",
    description="Gives `value`, rendered.",
    config_schema={"type": "object", "required": ["value"], "properties": {"value": {}}},
    answer=_answer,
)
