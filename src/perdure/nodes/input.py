"""`input`: gives the run's inputs."""

from __future__ import annotations

from perdure.nodes.registry import Call, Done, NodeType


def _answer(call: Call) -> Done:
    return Done(call.run_inputs)


TYPE = NodeType(
    name="input",
    description="Gives the run's inputs.",
    config_schema={"type": "object", "additionalProperties": False},
    example={"type": "input"},
    answer=_answer,
)
