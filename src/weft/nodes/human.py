"""`human`: a person decides. Approvers, quorum, a time to decide and what happens when it passes."""

from __future__ import annotations

from typing import Any

from weft.kernel.values import Wait
from weft.nodes.registry import Answer, Call, Failed, NodeType, Suspended

_ON_TIMEOUT = ("reject", "approve", "fail", "escalate")


def _answer(call: Call) -> Answer:
    config: dict[str, Any] = call.config if isinstance(call.config, dict) else {}
    approvers, quorum = _people(config.get("approvers")), config.get("quorum", 1)
    on_timeout = config.get("on_timeout", "reject")
    if not isinstance(quorum, int) or isinstance(quorum, bool) or quorum < 1:
        return Failed("bad_config", f"human {call.node}: quorum must be a whole number from 1, got {quorum!r}")
    if approvers and quorum > len(approvers):
        return Failed("bad_config", f"human {call.node}: quorum {quorum} of {len(approvers)} approvers is impossible")
    if on_timeout not in _ON_TIMEOUT:
        return Failed(
            "bad_config", f"human {call.node}: on_timeout is one of {', '.join(_ON_TIMEOUT)}, got {on_timeout!r}"
        )
    seconds = config.get("timeout_seconds")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0):
        return Failed("bad_config", f"human {call.node}: timeout_seconds must be a number from 0, got {seconds!r}")
    shown = dict(call.inputs)
    if "show" in config:
        shown["show"] = config["show"]
    return Suspended(
        wait=Wait(kind="approval"),
        approvers=approvers,
        quorum=quorum,
        on_timeout=on_timeout,
        escalate_to=_people(config.get("escalate_to")),
        timeout_seconds=None if seconds is None else float(seconds),
        shown=shown,
        form=config.get("form"),
    )


def _people(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(one) for one in value)


TYPE = NodeType(
    name="human",
    description="Waits for a person (or a quorum of `approvers`) to approve or reject.",
    config_schema={
        "type": "object",
        "properties": {
            "approvers": {"type": ["array", "string"], "items": {"type": "string"}},
            "quorum": {"type": "integer", "minimum": 1},
            "timeout_seconds": {"type": "number", "minimum": 0},
            "on_timeout": {"enum": list(_ON_TIMEOUT)},
            "escalate_to": {"type": ["array", "string"], "items": {"type": "string"}},
            "form": {"type": "object"},
            "show": {},
        },
    },
    answer=_answer,
)
