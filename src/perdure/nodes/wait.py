"""`wait`: a durable pause, for a time (`seconds`, `until`), for a signal or for an event by name, which a time may limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from perdure.expressions import cel
from perdure.kernel.values import Wait
from perdure.model.fields import NAME
from perdure.nodes.registry import Answer, Call, Failed, NodeType, Path, Suspended, has_template

LONGEST_KEY = 500
MATCH_NAMES = ("event", "given")
LONGEST_SECONDS = 100 * 366 * 86_400
_LATEST = 253_402_300_799.0  # the end of the year 9999, the last that dates can name


def _answer(call: Call) -> Answer:
    config = call.config
    until = None
    if "until" in config:
        until = read_moment(config["until"])
    elif "seconds" in config:
        until = call.at + config["seconds"]
    if "event" in config:
        return _listen(config, until, call.at)
    if "signal" in config:
        return Suspended(wait=Wait(kind="signal", name=config["signal"], until=until))
    return Suspended(wait=Wait(kind="timer", until=until))


def _listen(config: dict[str, Any], until: float | None, at: float) -> Answer:
    key = config.get("key", "")
    if "key" in config and (problem := check_key(key)) is not None:
        return Failed("bad_key", problem)
    since_at = at if config.get("since") == "now" else None
    given: Any = {"match": config.get("match", ""), "given": config.get("given"), "since_at": since_at}
    return Suspended(wait=Wait(kind="event", name=config["event"], until=until, key=str(key), **given))


def check_key(key: Any) -> str | None:
    """Why this is no key of an event."""
    if isinstance(key, bool) or not isinstance(key, str | int | float) or key == "":
        return f"the key of an event is text or a number, and not {_show(key)}"
    if len(str(key)) > LONGEST_KEY or "\0" in str(key):
        return f"the key of an event has at most {LONGEST_KEY} characters, none of them NUL"
    return None


def _show(key: Any) -> str:
    return "empty" if key == "" else f"of the type {type(key).__name__}"


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
    if config.keys().isdisjoint({"seconds", "until", "signal", "event"}):
        yield (), "it needs 'seconds', 'until', 'signal' or 'event'"
    yield from _check_event(config)
    if "until" in config and not has_template(config["until"]):
        try:
            read_moment(config["until"])
        except (ValueError, OverflowError):
            yield ("until",), "'until' must be a time such as 2027-01-31T09:00:00Z, or seconds since 1970"


def _check_event(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if "event" not in config:
        for name in ("key", "match", "given", "since"):
            if name in config:
                yield (name,), f"'{name}' is about an 'event'"
        return
    if "signal" in config:
        yield ("signal",), "it waits for a 'signal' or for an 'event'; keep one of them"
    if has_template(config["event"]):
        yield ("event",), "the name of an event is fixed; its 'key' may be a template"
    elif NAME.fullmatch(config["event"]) is None:
        yield ("event",), "a name has up to 128 letters, digits and . _ - , such as order.paid"
    if "match" not in config:
        if "given" in config:
            yield ("given",), "'given' is what 'match' compares with; there is no 'match'"
    elif has_template(config["match"]):
        yield ("match",), "'match' is code and no template; put values into 'given' and compare with those"
    elif (problem := cel.check(config["match"], MATCH_NAMES)) is not None:
        yield ("match",), problem


TYPE = NodeType(
    name="wait",
    description="Waits for `seconds`, `until` a time, or for a `signal` or an `event`, which a time may limit.",
    config_schema={
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "minimum": 0, "maximum": LONGEST_SECONDS},
            "until": {
                "type": ["string", "number"],
                "description": "2027-01-31T09:00:00Z, or seconds since 1970; without a zone, UTC",
            },
            "signal": {"type": "string", "minLength": 1, "maxLength": 200},
            "event": {"type": "string", "minLength": 1, "maxLength": 128},
            "key": {"type": ["string", "number"], "description": "only events with this key"},
            "match": {"type": "string", "description": "CEL over `event`, its payload, and `given`"},
            "given": {"description": "what `match` compares with"},
            "since": {
                "enum": ["run", "now"],
                "description": "from when on events count; `run`, its beginning, by default",
            },
        },
        "additionalProperties": False,
    },
    output_schema={"description": "the payload of the signal or event; after a time, {}"},
    capabilities=frozenset({"waits"}),
    example={"type": "wait", "config": {"signal": "payment-received", "seconds": 86400}},
    check=_check,
    answer=_answer,
)
