"""What a model wanted and answered, turn by turn, read from the steps of its node: of the recording and of the what-if by the same code.

It must not read anything, and it may take time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.agents.call_guard import hash_of
from perdure.agents.transcript import Made, Turn, calls_of, read_message, read_plan, read_turns, turn_of
from perdure.agents.what_if.recordings import Recording
from perdure.llms.durable import last_round, read_answer
from perdure.llms.port import Request
from perdure.model.labels import Label, join
from perdure.model.money import NOTHING, Usage


class Wanted(NamedTuple):
    """A call that the model wanted, and what the guard made of it."""

    id: str
    tool: str
    args: str
    """The hash of tool and arguments, with what handles stand for."""
    verdict: str
    rule: str
    why: str


class Given(NamedTuple):
    """A call that has a result, and what it gave."""

    made: Made
    value: Any
    """What its handle stands for; None: it has none."""


class Part(NamedTuple):
    """A turn: the calls that were wanted, or an answer."""

    calls: tuple[Wanted, ...]
    answer: Any


class Conversation(NamedTuple):
    parts: dict[int, Part]
    """By the number of the turn."""
    answer: Any
    """The last answer; None: there is none."""
    usage: Usage
    model: str
    """The model by its alias, as it answered last."""
    models: frozenset[tuple[str, str]]
    """The models that answered, each with its provider, under the names that were asked for."""
    label: Label
    """The label of all that the models were told."""


def read_conversation(recording: Recording, steps: Mapping[str, Any], error: str | None) -> Conversation:
    """The conversation of these steps, which ended with this failure or with an answer."""
    parts, label = _agent(steps) if recording.type == "agent" else _talk(recording, steps)
    answers = [kept for name, kept in steps.items() if name.startswith(("model/", "compact/", "call"))]
    usage = NOTHING
    for kept in answers:
        usage += msgspec.convert(kept["usage"], Usage)
    last = parts[max(parts)] if parts else Part((), None)
    return Conversation(
        parts,
        None if error is not None or last.calls else last.answer,
        usage,
        str(answers[-1]["alias"]) if answers else "",
        frozenset((str(kept["sent"].get("provider", "")), str(kept["sent"]["model"])) for kept in answers),
        label,
    )


def _agent(steps: Mapping[str, Any]) -> tuple[dict[int, Part], Label]:
    if "prefix" not in steps:
        return {}, Label()
    plan = read_plan(steps)
    parts: dict[int, Part] = {}
    labels = [plan.label]
    for turn in read_turns(steps):  # of an answer that was repaired, the last is the turn
        calls = tuple(_wanted(turn, number) for number in range(len(calls_of(turn.kept))))
        answer = None if calls else _answer_of(plan.request.schema, plan.routes, read_message(turn.kept).text)
        parts[turn.number] = Part(calls, answer)
        labels += [turn.label, *(one.label for one in turn.made if one is not None)]
    return parts, join(labels)


def _wanted(turn: Turn, number: int) -> Wanted:
    call = calls_of(turn.kept)[number]
    judged = turn.guard[number] if number < len(turn.guard) else {}
    args = str(judged.get("args") or hash_of(call.name, call.arguments))
    said = (str(judged.get(name) or "") for name in ("verdict", "rule", "why"))
    return Wanted(_id(turn, number), str(judged.get("tool") or call.name), args, *said)


def _id(turn: Turn, number: int) -> str:
    return f"{turn_of(turn.number, turn.step.partition('.')[0])}.{number}"


def _answer_of(schema: Any, routes: Sequence[str], text: str) -> Any:
    """What an agent answers, without its reasons."""
    if schema is None:
        return text.strip()
    value, _, _ = read_answer(schema, text)
    if value is None:
        return text.strip()
    if routes and isinstance(value, dict):
        return {"output": value.get("output"), "next_nodes": value.get("next_nodes")}
    return value


def _talk(recording: Recording, steps: Mapping[str, Any]) -> tuple[dict[int, Part], Label]:
    if "request" not in steps:
        return {}, Label()
    schema = msgspec.convert(steps["request"], Request).schema
    found: dict[int, Part] = {}
    for number, name in enumerate(last_round(steps), 1):
        text = read_message(steps[name]).text
        found[number] = Part((), _said(recording, schema, text))
    return found, Label()


def _said(recording: Recording, schema: Any, text: str) -> Any:
    """What a node says, as it counts: of a classifier its labels."""
    if schema is None:
        return text.strip()
    value, _, problems = read_answer(schema, text)
    if problems:
        return text.strip()
    if recording.type != "classifier":
        return value
    labels = list(dict.fromkeys(value["labels"])) if "labels" in value else [value["label"]]
    if value["confidence"] < recording.min_confidence or not labels:
        labels = [] if recording.otherwise is None else [recording.otherwise]
    return {"labels": labels}


def collect_given(steps: Mapping[str, Any]) -> dict[str, list[Given]]:
    """What the calls of a recorded agent gave, by the hash of tool and arguments, in order. What was no call, or was denied, gave
    nothing."""
    found: dict[str, list[Given]] = {}
    for turn in read_turns(steps):
        for number, made in enumerate(turn.made):
            judged = turn.guard[number] if number < len(turn.guard) else {}
            if made is None or "text" in judged or "args" not in judged:
                continue
            kept = steps.get(made.id)
            value = kept.get("value") if isinstance(kept, dict) and "text" in kept else None
            found.setdefault(str(judged["args"]), []).append(Given(made, value))
    return found
