"""`wait`: a durable pause, for a time (`seconds`, `until`) or for a signal (`signal`, optionally with a time limit)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from perdure.kernel.values import Wait
from perdure.nodes.registry import Answer, Call, NodeType, Path, Suspended, has_template

LONGEST_SECONDS = 100 * 366 * 86_400
_LATEST = 253_402_300_799.0  # the end of the year 9999, the last that dates can name


def _answer(call: Call) -> Answer:
    config = call.config
    until = None
    if "until" in config:
        until = read_moment(config["until"])
    elif "seconds" in config:
        until = call.at + config["seconds"]
    if "signal" in config:
        return Suspended(wait=Wait(kind="signal", name=config["signal"], until=until))
    return Suspended(wait=Wait(kind="timer", until=until))


def read_moment(value: str | float) -> float:
    """A moment in seconds since 1970, from a number or from a date and time; without a zone it is UTC."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(value) or not 0 <= value <= _LATEST:
        raise ValueError("out of range")
    return float(value)


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if "seconds" in config and "until" in config:
        yield ("until",), "'seconds' and 'until' both say how long; keep one of them"
    if config.keys().isdisjoint({"seconds", "until", "signal"}):
        yield (), "it needs 'seconds', 'until' or 'signal'"
    if "until" in config and not has_template(config["until"]):
        try:
            read_moment(config["until"])
        except (ValueError, OverflowError):
            yield ("until",), "'until' must be a time such as 2027-01-31T09:00:00Z, or seconds since 1970"


TYPE = NodeType(
    name="wait",
    description="Waits for `seconds`, `until` a time, or for a `signal`, which a time may limit.",
    config_schema={
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "minimum": 0, "maximum": LONGEST_SECONDS},
            "until": {
                "type": ["string", "number"],
                "description": "2027-01-31T09:00:00Z, or seconds since 1970; without a zone, UTC",
            },
            "signal": {"type": "string", "minLength": 1, "maxLength": 200},
        },
        "additionalProperties": False,
    },
    output_schema={"description": "the payload of the signal; after a time, {}"},
    capabilities=frozenset({"waits"}),
    example={"type": "wait", "config": {"signal": "payment-received", "seconds": 86400}},
    check=_check,
    answer=_answer,
)
