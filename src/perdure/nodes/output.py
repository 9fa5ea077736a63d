"""`output`: an object made of what came before; it becomes the run's outputs when the workflow names none."""

from __future__ import annotations

from perdure.nodes.registry import Call, Done, NodeType


def _answer(call: Call) -> Done:
    return Done(call.config if call.config is not None else call.inputs)


TYPE = NodeType(
    name="output",
    description="Gives its rendered config, which becomes the run's outputs when the workflow names none.",
    config_schema={"type": "object"},
    output_schema={"type": "object"},
    example={"type": "output", "config": {"total": "{{ add.sum }}"}},
    answer=_answer,
    ref_keys=None,
)
