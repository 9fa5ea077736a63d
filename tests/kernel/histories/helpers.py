"""What the histories are made of: found by the random walks of tests/property, in their smallest form."""

from __future__ import annotations

from typing import Any

UNDO = {"type": "task", "config": {"function": "m:undo"}}
MAP = {"type": "map", "config": {"over": "{{ inputs.x }}", "node": {"type": "task", "config": {"function": "m:f"}}}}


def again(head: str, **fields: Any) -> dict[str, Any]:
    return {"condition": "true", "max_iterations": 3, "loop_back_to": head, **fields}
