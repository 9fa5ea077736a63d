"""`wait`: a durable pause, for a time (`seconds`, `until`) or for a signal (`signal`, optionally with `seconds`)."""

from __future__ import annotations

from datetime import UTC, datetime

from weft.kernel.values import Wait
from weft.nodes.registry import Answer, Call, Failed, NodeType, Suspended


def _answer(call: Call) -> Answer:
    config = call.config if isinstance(call.config, dict) else {}
    until = None
    try:
        if "until" in config:
            until = _moment(config["until"])
        elif "seconds" in config:
            until = call.at + max(float(config["seconds"]), 0.0)
    except (TypeError, ValueError) as error:
        return Failed("bad_config", f"wait {call.node}: {error}")
    if "signal" in config:
        return Suspended(wait=Wait(kind="signal", name=str(config["signal"]), until=until))
    if until is None:
        return Failed("bad_config", f"wait {call.node} needs `seconds`, `until` or `signal`")
    return Suspended(wait=Wait(kind="timer", until=until))


def _moment(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError(f"`until` must be a time such as 2027-01-31T09:00:00Z, got {type(value).__name__}")
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


TYPE = NodeType(
    name="wait",
    description="Waits for `seconds`, `until` a time, or for a `signal`.",
    config_schema={
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "minimum": 0},
            "until": {"type": ["string", "number"]},
            "signal": {"type": "string"},
        },
    },
    answer=_answer,
)
