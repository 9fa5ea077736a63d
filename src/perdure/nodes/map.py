"""`map`: the same node for each item of a list, each with its own attempts; gives the results in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.kernel.values import Wait
from perdure.nodes.registry import Answer, Call, Failed, NodeType, Path, Suspended
from perdure.nodes.workflow import check_name


def _answer(call: Call) -> Answer:
    config = call.config
    over = config["over"]
    if not isinstance(over, list):
        return Failed("bad_config", f"map {call.node}: `over` must be a list, got {type(over).__name__}")
    wait = Wait(
        kind="items",
        count=len(over),
        limit=int(config.get("max_concurrency") or 0),  # a whole number from a template may be 1e15
        tolerated=int(config.get("tolerated_failures", 0)),
    )
    return Suspended(wait=wait)


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if ("node" in config) == ("workflow" in config):
        yield (), "it needs exactly one of 'node' and 'workflow'"
    yield from check_name(config)


TYPE = NodeType(
    name="map",
    description="Runs `node`, or `workflow`, once for each item of `over`, and gives a list of the results in order.",
    config_schema={
        "type": "object",
        "required": ["over"],
        "properties": {
            "over": {"type": "array", "description": "a list, or a template that gives one"},
            "node": {"type": "object", "description": "what each item does; it reads {{ item }}"},
            "workflow": {"type": "string", "minLength": 1},
            "inputs": {"description": "of each child run, with workflow"},
            "max_concurrency": {"type": "integer", "minimum": 1, "description": "items at once; all without it"},
            "tolerated_failures": {"type": "integer", "minimum": 0, "default": 0},
        },
        "additionalProperties": False,
    },
    output_schema={"type": "array"},
    capabilities=frozenset({"waits", "children"}),
    example={
        "type": "map",
        "config": {
            "over": "{{ inputs.words }}",
            "max_concurrency": 10,
            "node": {"type": "transform", "config": {"value": "{{ item | upper }}"}},
        },
    },
    check=_check,
    answer=_answer,
    ref_keys=("over[]",),
    raw_keys=("node", "workflow", "inputs"),
)
