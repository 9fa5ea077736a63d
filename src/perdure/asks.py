"""What a handler may ask for (`ctx.ask`), as it writes it and as it travels, and how it stops until there is an answer.

    Approval    people decide
    Child       another workflow runs
    Sleep       time passes
    Signal      a signal comes
    Patch       the run gets more nodes

The rules are 77 to 80; this file owns the words of Python and of the wire for them, and decides nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, Literal

import msgspec

from perdure.outcomes import Failure
from perdure.plain_text import cut, find_name_trouble, find_text_trouble
from perdure.spending import as_budget

NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MOST_ASKS = 64
"""How many things are asked for at once; of more, the others when these are answered."""
LARGEST_ASKS = 256 * 1024
"""The most that all asks of an attempt may take as JSON, in bytes."""
LONGEST_REASON = 500
LONGEST_SECONDS = 100 * 366 * 86_400
MOST_PEOPLE = 100


class Suspended(BaseException):
    """Stops a handler that has asked for something: it is entered again when there is an answer. Like a cancellation it
    passes `except Exception`, and `finally` runs. A handler that catches it is stopped all the same."""


class AskChanged(Failure):
    """A handler asks something else under a name that has an answer. Give what is new a name of its own."""

    def __init__(self, name: str) -> None:
        message = f"something else was asked for as {name!r} before, and answered; ask for this under another name"
        super().__init__("ask_changed", message, retryable=False)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Ask people to decide. The answer has `decision`, `decided_by`, `comments` and `data`."""

    show: Any = None
    """What they are shown."""
    approvers: tuple[str, ...] | list[str] | str | None = None
    """Who may decide; without it, anyone who may decide at all. An empty list names nobody, and is refused."""
    quorum: int = 1
    timeout_seconds: float | None = None
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    """With `fail` the decision is `timeout`."""
    escalate_to: tuple[str, ...] | list[str] | str = ()
    form: dict[str, Any] | None = None
    """A JSON Schema of the data that an approval needs."""


class Child(msgspec.Struct, frozen=True):
    """Run another workflow. The answer has its final `state`, its `output`, and the `error` of one that failed."""

    workflow: Any
    """The name of the workflow, with `@version` for a certain version; or the workflow itself."""
    inputs: Any = None
    budget: Any = None
    """What it may use: a mapping with `usd`, `tokens`, `calls`; all that is left to its parent, if that has a budget."""


class Sleep(msgspec.Struct, frozen=True):
    """Let time pass. The answer is an empty object."""

    seconds: float


class Signal(msgspec.Struct, frozen=True):
    """Wait for a signal. The answer has its `payload`, and `timed_out` if it did not come in time."""

    signal: str
    timeout_seconds: float | None = None


class Patch(msgspec.Struct, frozen=True):
    """Add nodes to this run, by a JSON Patch of its definition. The answer has `applied`, `added`, `edges_added` and `refused`. Node
    types say what their handlers may add; an agent's does, and those of plain functions add nothing."""

    operations: list[Any]
    reason: str = ""


Ask = Approval | Child | Sleep | Signal | Patch


def ask_data(name: Any, ask: Any) -> dict[str, Any]:
    """The ask as it travels. Raises TypeError and ValueError."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{cut(ascii(name), 100)} cannot name an ask: up to 100 letters, digits and . _ -")
    match ask:
        case Approval():
            return {"name": name, "kind": "approval", **_approval(name, ask)}
        case Child():
            workflow = ask.workflow if isinstance(ask.workflow, str) else getattr(ask.workflow, "name", None)
            if not isinstance(workflow, str) or not workflow or find_text_trouble(workflow, 300) is not None:
                raise ValueError(
                    f"the child {name!r} needs the name of a workflow, got {cut(ascii(ask.workflow), 100)}"
                )
            budget = as_budget(ask.budget)
            given = {} if budget is None else {"budget": msgspec.to_builtins(budget)}
            return {"name": name, "kind": "child", "workflow": workflow, "inputs": ask.inputs, **given}
        case Sleep():
            return {"name": name, "kind": "sleep", "seconds": _seconds(name, ask.seconds)}
        case Signal():
            signal: Any = ask.signal  # an annotation does not keep a caller from passing something else
            if not isinstance(signal, str) or not signal or find_text_trouble(signal, 200) is not None:
                raise ValueError(f"{name!r} needs the name of a signal, got {cut(ascii(signal), 100)}")
            return {"name": name, "kind": "signal", "signal": signal, **_time(name, ask.timeout_seconds)}
        case Patch():
            return {
                "name": name,
                "kind": "patch",
                "operations": ask.operations,
                "reason": cut(ask.reason, LONGEST_REASON),
            }
        case _:
            kinds = "Approval, Child, Sleep or Signal"
            raise TypeError(f"{name!r} asks for a {type(ask).__name__}; ask for an {kinds}")


def content_of(data: dict[str, Any]) -> str:
    """A hash of what is asked, whatever it is called."""
    asked = msgspec.json.encode({key: value for key, value in data.items() if key != "name"}, order="deterministic")
    return hashlib.sha256(asked).hexdigest()[:32]


def _approval(name: str, ask: Approval) -> dict[str, Any]:
    approvers, escalate_to = _people(name, ask.approvers or ()), _people(name, ask.escalate_to)
    if ask.approvers is not None and not approvers:
        raise ValueError(
            f"{name!r} names nobody who could decide; name approvers, or leave them out for anyone who may"
        )
    if ask.on_timeout not in ("reject", "approve", "fail", "escalate"):
        raise ValueError(f"on_timeout of {name!r} is reject, approve, fail or escalate, got {ask.on_timeout!r}")
    quorum: Any = ask.quorum
    if not isinstance(quorum, int) or quorum < 1 or (approvers and quorum > len(approvers)):
        raise ValueError(f"a quorum of {quorum!r} of {len(approvers)} approvers is impossible for {name!r}")
    data: dict[str, Any] = {"approvers": approvers, "quorum": ask.quorum, "on_timeout": ask.on_timeout}
    data |= {"escalate_to": escalate_to, "shown": ask.show, "form": ask.form}
    return data | _time(name, ask.timeout_seconds)


def _people(name: str, people: tuple[str, ...] | list[str] | str) -> list[str]:
    """The names, each once: a person who is named twice has one vote."""
    found: list[Any] = list(dict.fromkeys([people] if isinstance(people, str) else people))
    for one in found:
        if not isinstance(one, str) or not one or len(one) > 200 or (find_name_trouble(one) is not None):
            raise ValueError(f"{cut(ascii(one), 100)} is no name of a person who could decide {name!r}")
    if len(found) > MOST_PEOPLE:
        raise ValueError(f"{name!r} asks {len(found)} people, and {MOST_PEOPLE} is the most")
    return found


def _time(name: str, seconds: float | None) -> dict[str, float]:
    return {} if seconds is None else {"seconds": _seconds(name, seconds)}


def _seconds(name: str, seconds: Any) -> float:
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"{name!r} needs a number of seconds of at least 0, got {cut(ascii(seconds), 100)}")
    return float(seconds)
