"""`trigger`: gives the next item of a source inside a run: an event, the end of a run, a moment, a row, a file (rule 54).

A config names its source as a trigger does that starts runs, and is fixed but for the key of events: the run reads on behind its cursor. What comes is kept in the mailbox of the run; the node has the next item for
its outcome, each once and in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.budget import Budget
from perdure.model.problems import Problems
from perdure.model.trigger_sources import Schedule
from perdure.model.triggers import MAX_WAITING, Trigger, read_trigger
from perdure.nodes.registry import Answer, Awaiting, Call, Failed, NodeType, Path, has_template
from perdure.nodes.wait import check_key

KINDS = ("event", "runs", "schedule", "table", "folder", "stream", "poll")
_NAMELESS = "-"
_MOMENT = {name: f"{{{{ trigger.{name} }}}}" for name in ("at", "previous", "next", "number")}
"""What a moment gives."""


def read_config(config: dict[str, Any], name: str, problems: Problems) -> Trigger | None:
    """The trigger that a config describes, or None when it is wrong, and every problem of it is reported."""
    written = {**config, "name": name}
    event = config.get("event")
    if isinstance(event, dict) and isinstance(event.get("key"), int | float) and not isinstance(event["key"], bool):
        written["event"] = {**event, "key": str(event["key"])}
    trigger = read_trigger(written, (), problems, _NAMELESS)
    if trigger is None:
        return None
    inputs = _MOMENT if isinstance(trigger.source, Schedule) else {}
    return msgspec.structs.replace(trigger, workflow="", overlap="buffer", inputs=inputs)


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    from perdure.triggers.declarations import find_more  # a calendar and its zones, which only a trigger needs

    if "webhook" in config:
        yield ("webhook",), "a webhook starts runs; let it send an event (POST /events), and wait for that here"
        return
    problems = Problems(Budget.without_end())
    trigger = read_config(config, "it", problems)
    for found in problems.found:
        if found.severity == "error":
            yield found.path, found.message
    if trigger is None:
        return
    for path, code, said in find_more(trigger, config, 0.0, problems.budget):
        if code != "no_more_moments" and path[:1] != ("inputs",):
            yield path, said
    yield from _check_open(config)


def _check_open(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    event = config.get("event")
    if isinstance(event, dict) and "key" in event and not has_template(event["key"]):
        if (problem := check_key(event["key"])) is not None:
            yield ("event", "key"), problem


def _answer(call: Call) -> Answer:
    event = call.config.get("event")
    if event and "key" in event and (problem := check_key(event["key"])) is not None:
        return Failed("bad_key", problem)
    problems = Problems()
    trigger = read_config(call.config, call.node, problems)
    if trigger is None:
        return Failed("bad_config", "; ".join(found.message for found in problems.found[:3]))
    return Awaiting(trigger)


_SOURCE = {"type": "object"}

TYPE = NodeType(
    name="trigger",
    description="Gives the next item of a source: an event, the end of a run, a moment, a row, a file. Each once, in order.",
    config_schema={
        "type": "object",
        "properties": {
            **{kind: {**_SOURCE, "description": f"as `{kind}` of a trigger"} for kind in KINDS},
            "webhook": {},
            "filter": {"type": ["string", "object"], "description": "items that do not pass are left out"},
            "catchup": {"type": ["string", "object"], "description": "of a schedule: none, latest or all"},
            "limits": {
                "type": "object",
                "properties": {"buffer": {"type": "integer", "minimum": 1, "maximum": MAX_WAITING}},
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    },
    output_schema={"description": "the item; of a moment its `at`, `previous`, `next` and `number`"},
    capabilities=frozenset({"waits"}),
    example={"type": "trigger", "config": {"event": {"name": "order.paid", "key": "{{ inputs.customer }}"}}},
    check=_check,
    raw_keys=(*(kind for kind in KINDS if kind != "event"), "filter", "catchup", "limits"),
    answer=_answer,
)
