"""Small values that events, commands and state share. Plain data; no rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from perdure.model.money import NOTHING, Budget, Usage

ASK_NAME = r"^[A-Za-z0-9_.-]{1,100}$"
"""Names of asks stand in ids of approvals and of child runs."""
AskKind = Literal["approval", "child", "sleep", "signal", "patch"]
LONGEST_WAIT = 100 * 366 * 86_400
MOST_ASKS = 64
"""How many things one attempt may ask for at once."""


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something failed. `code` is stable; `message` is for people."""

    code: str
    message: str = ""
    attempts: int = 0
    details: Any = None
    node: str = ""
    """The node that failed, for the error of a run; `scope` and `item` say in which iteration and for which item."""
    scope: tuple[int, ...] = ()
    item: int | None = None

    def as_output(self) -> dict[str, Any]:
        """The error as error paths see it, always in this shape (rule 27)."""
        return {"error": {"code": self.code, "message": self.message, "attempts": self.attempts}}


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """The edges an outcome took, and why. `taken` None means every edge, none of them being named by routing."""

    rule: str
    taken: tuple[str, ...] | None = None
    back: bool = False
    seen: Any = None
    reasoning: str = ""


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a waiting activation waits for."""

    kind: Literal["approval", "timer", "signal", "child", "items", "delay", "trigger", "asks", "event"]
    name: str = ""
    """The name of the approval, timer, signal, child or event waited for."""
    until: float | None = None
    count: int = 0
    """How many items a map has."""
    limit: int = 0
    """How many items may be open at once; 0 is no limit."""
    tolerated: int = 0
    generation: int = 1
    """The generation of the child."""
    key: str = ""
    """Only events with this key; empty: whatever they have."""
    match: str = ""
    """Which events, in CEL; empty: every one."""
    given: Any = None
    """What `match` compares with."""
    since: int = 0
    """The position behind which events count."""
    since_at: float | None = None
    """The time from which on events count; None until the wait is decided on: from the beginning of the run."""


class Heard(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the waits of a run have heard of events, for the run that continues it (rule 53)."""

    since: float
    """From when on events count: the beginning of the first run."""
    last: dict[str, int] = {}
    """The position of the event that each wait took last, by what it waits for (`heard_as`)."""


def heard_as(node: str, item: int, wait: Wait) -> str:
    """What a wait is known by when its node waits again: in the next iteration of a loop, say."""
    return f"{node}#{item}/{len(wait.name)}:{wait.name}/{wait.key}"


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something durable that a handler asks for, as its worker sends it (rule 77)."""

    name: Annotated[str, msgspec.Meta(pattern=ASK_NAME)]
    """The step that the answer becomes."""
    kind: AskKind
    content: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """A hash of what is asked, by which a handler that asks something else under this name is found out."""
    approvers: tuple[str, ...] = ()
    quorum: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    escalate_to: tuple[str, ...] = ()
    shown: Any = None
    form: Any = None
    workflow: str = ""
    inputs: Any = None
    signal: Annotated[str, msgspec.Meta(max_length=200)] = ""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] | None = None
    """How long to sleep, or to wait for an approval or a signal; None: as long as it takes."""
    budget: Budget | None = None
    """What a child may use (rule 84)."""
    operations: Any = None
    """A JSON Patch of the definition of the run (rule 87), and why it is wanted."""
    reason: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Asking(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ask as `node.waiting` records it. What people are shown and what a child is given stand in events of their own."""

    name: str
    kind: AskKind
    content: str = ""
    signal: str = ""
    until: float | None = None
    operations: Any = None
    """A patch, and why it is wanted (rule 87); in version 4 of `node.waiting` only."""
    reason: str = ""


class Asked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An ask of an activation: the last one under its name."""

    name: str
    kind: AskKind
    content: str = ""
    signal: str = ""
    until: float | None = None
    open: bool = True
    """True while the ask waits for its answer. What ends the activation closes it unanswered."""
    times: int = 1
    """How often something was asked for under this name."""
    operations: Any = None
    reason: str = ""
    approval: str = ""
    child: str = ""


class AskedChild(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A child run that an ask started."""

    ask: str
    workflow: str
    inputs: Any = None
    generation: int = 0
    """The last generation that is known to have ended."""
    open: bool = True
    """The generation after that was started, and is not known to have ended."""
    done: int = 0
    """The event that recorded its completion; 0 if there is nothing of it to undo."""


class Reserved(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is set aside for a step that has begun and has no result (rule 82)."""

    wish: str
    usage: Usage
    model: str = ""


class Lent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a child run has of the budget of its parent (rule 84)."""

    budget: Budget | None = None
    spent: Usage = NOTHING
    """What the parent has heard of."""
    open: bool = True

    @property
    def reserved(self) -> Usage:
        return NOTHING if self.budget is None or not self.open else self.budget.left_after(self.spent).as_usage()


class Money(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run may use, has used, and has set aside (rules 82 to 84). Never changed in place."""

    budget: Budget | None = None
    spent: Usage = NOTHING
    """All that was used, by calls without a known end and by child runs too."""
    unsettled: Usage = NOTHING
    """The part of it whose calls have no known end: the provider may have charged for them."""
    children: Usage = NOTHING
    """The part of it that child runs have used."""
    reserved: Usage = NOTHING
    """What is set aside for steps that have begun."""
    lent: Usage = NOTHING
    """What is set aside for child runs."""
    models: dict[str, Usage] = {}
    """What was used, by the name that steps gave it."""


class Fired(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Which firing of a trigger started a run."""

    trigger: str
    """The id of the trigger: of the first of the runs that are the trigger."""
    number: int
    """The number of the item; of the last one, where a run was started for several."""
    depth: int = 1
    """How many triggers led to this run, each by a run of the one before."""
    report: bool = True
    """Whether the trigger counts the run as open and hears of its end."""


class Undo(msgspec.Struct, omit_defaults=True):
    """The compensation of one activation, under way or done."""

    attempt: int = 0
    failures: int = 0
    state: Literal["planned", "queued", "running", "retrying", "parked", "done"] = "planned"
    started_at: float | None = None
    error: Error | None = None
    """Why it was parked."""


def steps_of(checkpoint: Any) -> dict[str, Any]:
    """The results of the steps that a checkpoint holds, by name."""
    return checkpoint["steps"] if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"} else {}


def with_data(checkpoint: Any, data: Any) -> dict[str, Any]:
    """The checkpoint with new data of the handler's own; its steps stay."""
    return {"data": data, "steps": steps_of(checkpoint)}


def with_step(checkpoint: Any, step: str, result: Any) -> dict[str, Any]:
    """The checkpoint with the result of one more step. `data` is what the handler kept by itself, in whatever form."""
    if isinstance(checkpoint, dict) and checkpoint.keys() == {"data", "steps"}:
        return {"data": checkpoint["data"], "steps": {**checkpoint["steps"], step: result}}
    return {"data": checkpoint, "steps": {step: result}}


class Part(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A piece of one port of a stream that is stored: its chunks up to this number, from the piece before it on."""

    port: str
    upto: int
    ref: str
    size: int = 0


class PortEnd(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """How much came out of one port of a stream that has ended."""

    port: str
    chunks: int
    size: int = 0


class Flow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stream of an activation. An edition is named by the attempt that opened it, and never changes (rule 63)."""

    edition: int
    state: Literal["open", "end", "failed", "cancelled", "restart"] = "open"
    parts: tuple[Part, ...] = ()
    ends: tuple[PortEnd, ...] = ()
    writer: str = ""
    """The execution that streams, while it is open."""
    attempt: int = 0
    """The attempt that streams, where it goes on with the edition of one before it."""
    chains: dict[str, int] = {}
    """What the chunks up to the last piece of a port came to, of a node that repeats itself (rule 63)."""

    @property
    def by(self) -> int:
        return self.attempt or self.edition
