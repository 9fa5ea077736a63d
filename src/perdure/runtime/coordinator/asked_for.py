"""What workers ask for: from the message of a worker, which may be in any language, to the command it is decided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.expressions.json_schema import find_mistake
from perdure.expressions.schema_cost import is_light
from perdure.kernel import commands as c
from perdure.kernel.values import MOST_ASKS, Ask, Error
from perdure.plain_text import cut, find_name_trouble, find_text_trouble
from perdure.transport import Result

LONGEST_NAME = 200
MOST_PEOPLE = 100


def asked_for(result: Result, about: dict[str, Any]) -> c.Command:
    """The command of a result that asks; of one that asks for what nobody can give, the failure of its attempt."""
    try:
        asks = msgspec.convert(result.asks, tuple[Ask, ...])
    except msgspec.ValidationError as error:
        return _refuse(result, about, str(error))
    problem = next(filter(None, map(_find_problem, asks[:MOST_ASKS])), None)
    return c.AskFor(**about, asks=asks) if problem is None else _refuse(result, about, problem)


def _refuse(result: Result, about: dict[str, Any], problem: str) -> c.Fail:
    error = Error("bad_ask", f"what {result.node} asks for: {cut(problem, 1_000)}")
    return c.Fail(**about, error=error, retryable=False, worker=result.worker)


def _find_problem(ask: Ask) -> str | None:
    for text in (ask.workflow, ask.signal):
        if text and find_text_trouble(text, LONGEST_NAME) is not None:
            return f"{ask.name}: {cut(ascii(text), 100)} is no name"
    people = (*ask.approvers, *ask.escalate_to)
    for one in people:
        if not one or len(one) > LONGEST_NAME or find_name_trouble(one) is not None:
            return f"{ask.name}: {cut(ascii(one), 100)} is no name of a person"
    if len(people) > 2 * MOST_PEOPLE or len(set(ask.approvers)) < len(ask.approvers):
        return f"{ask.name}: the approvers are at most {MOST_PEOPLE}, each named once"
    if ask.approvers and ask.quorum > len(ask.approvers):
        return f"{ask.name}: {ask.quorum} of {len(ask.approvers)} approvers is impossible"
    # A form that takes long to look at is looked at when a person approves.
    mistake = None if ask.form is None or not is_light(ask.form) else find_mistake(ask.form)
    return None if mistake is None else f"the form of {ask.name}: {mistake}"


def keep_asks(command: c.AskFor, keep: Callable[[Any], Any]) -> c.AskFor:
    """The command as it may be decided on: what is large is stored, and its reference takes its place."""
    kept = (
        msgspec.structs.replace(ask, shown=keep(ask.shown), form=keep(ask.form), inputs=keep(ask.inputs))
        for ask in command.asks
    )
    return msgspec.structs.replace(command, asks=tuple(kept))
