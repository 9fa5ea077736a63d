"""The vocabulary of journals: every fact that can be recorded about a run.

An event is immutable, in the past tense, and names nodes by id, so that a journal can be read without the IR and
survives patches. This file owns names, fields and bytes; what an event does to a state is in `evolve.py`.

Every type has a version. A reader refuses a type or version it does not know (J6); it never skips one.

A value in an event may hold references to blobs (`perdure.kernel.segments`). As bytes such an event has `refs`, and its values
are packed; where nothing refers to a blob, values are the user's own JSON.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from perdure.kernel import segments
from perdure.kernel.event_base import Event, NodeEvent, Place, Scope
from perdure.kernel.run_events import (
    RunCancelled,
    RunCancelling,
    RunCompensating,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunFailing,
    RunPatched,
    RunPaused,
    RunResumed,
    RunRetried,
    RunRolledBack,
    RunSignalled,
    RunUndelivered,
)
from perdure.kernel.steps.step_events import StepReleased, StepStarted
from perdure.kernel.triggers.trigger_events import (
    TriggerAdvanced,
    TriggerBackfilling,
    TriggerCarried,
    TriggerEnded,
    TriggerHanded,
    TriggerParked,
    TriggerReceived,
    TriggerRegistered,
    TriggerReleased,
    TriggerSkipped,
    TriggerStarted,
)
from perdure.kernel.values import Asking, Error, Part, PortEnd, Route, Undo, Wait
from perdure.model.money import Budget, Usage

__all__ = [
    "Event",
    "NodeEvent",
    "Place",
    "RunCancelled",
    "RunCancelling",
    "RunCompensating",
    "RunCompleted",
    "RunCreated",
    "RunFailed",
    "RunFailing",
    "RunPatched",
    "RunPaused",
    "RunResumed",
    "RunRetried",
    "RunRolledBack",
    "RunSignalled",
    "RunUndelivered",
    "Scope",
    "StepReleased",
    "StepStarted",
    "TriggerAdvanced",
    "TriggerBackfilling",
    "TriggerCarried",
    "TriggerEnded",
    "TriggerHanded",
    "TriggerParked",
    "TriggerReceived",
    "TriggerRegistered",
    "TriggerReleased",
    "TriggerSkipped",
    "TriggerStarted",
]
"""What stands in other files and is read here."""

# -- nodes -------------------------------------------------------------------------------------------------------------


class NodeScheduled(NodeEvent, frozen=True, kw_only=True, tag="node.scheduled"):
    after: Literal["", "crashed", "handed_back"] = ""
    """Why the attempt before this one is over without an answer."""
    unbegun: str = ""
    """The wish to begin the attempt before, which was granted, and by which its worker certainly did not begin."""


class NodesScheduled(Event, frozen=True, kw_only=True, tag="nodes.scheduled"):
    places: tuple[Place, ...]


class NodeStarted(NodeEvent, frozen=True, kw_only=True, tag="node.started"):
    worker: str = ""
    undo: bool = False
    ask: str = ""
    """The wish to begin that this start answers."""


class NodeCheckpointed(NodeEvent, frozen=True, kw_only=True, tag="node.checkpointed"):
    VERSION: ClassVar[int] = 6
    data: Any = None
    step: str = ""
    """The step whose result `data` is; empty: the handler's own data. Both are kept beside the earlier steps."""
    number: int = 0
    """The number of the checkpoint in its attempt: however often it is delivered, it is kept once (T2). 0: written
    before checkpoints were numbered, when `data` without a step replaced all that was kept."""
    size: int = 0
    """What it takes, in bytes, with the name of the step; 0 if it does not count (rule 31)."""
    signal: str = ""
    """The signal that is the answer to the ask of this name, and is consumed by it. Version 2 is an answer (rule 78), version 5 is
    mail (rule 86), version 6 what a person says that a begun step gave (rule 81)."""
    usage: Usage | None = None
    """What the step used, which takes the place of what was reserved for it (rule 83); in version 3 only."""
    cursors: dict[str, tuple[int, ...]] | None = None
    """How far the streams it reads were read for this data: edition and number, by node and port (rule 66); in version 4 only.
    A third number is what the chunks came to, of a stream that repeats itself."""


class NodeCompleted(NodeEvent, frozen=True, kw_only=True, tag="node.completed"):
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    started_at: float | None = None
    worker: str = ""
    route: Route | None = None
    """The edges taken and the rule that chose them. None: the outcome is accepted but not routed (yet)."""
    choice: tuple[str, ...] | None = None
    """The nodes that an agent chose (`agent_driven`), for when the outcome is routed later."""
    rejected: bool = False
    """The decision is a no, of a person or by timeout: a fact of its own, as no output is read as one (rule 20)."""
    adopted: bool = False
    """The outcome was taken over from another run by rerun or continuation; nothing was executed here."""
    renews: bool = False
    """The handler wishes that the run goes on as a new one, whose inputs are the output if there is one (rule 15); in version 2 only."""
    VERSION: ClassVar[int] = 2


class NodeRouted(NodeEvent, frozen=True, kw_only=True, tag="node.routed"):
    """The route of an outcome that was accepted earlier: kept while failing, or after a routing failure."""

    route: Route


class NodeFailed(NodeEvent, frozen=True, kw_only=True, tag="node.failed"):
    error: Error
    outcome: Literal["fatal", "absorbed", "kept", "continue", "path"]
    """The effect of the failure: it ends the run, is decided by a join, is kept while the run ends, or is handled."""
    route: Route | None = None
    started_at: float | None = None
    """When the attempt that failed began, where its worker said so."""
    worker: str = ""


class NodeRetrying(NodeEvent, frozen=True, kw_only=True, tag="node.retrying"):
    error: Error
    retry_at: float
    started_at: float | None = None
    worker: str = ""


class NodeSkipped(NodeEvent, frozen=True, kw_only=True, tag="node.skipped"):
    reason: str = ""


class NodesSkipped(Event, frozen=True, kw_only=True, tag="nodes.skipped"):
    places: tuple[Place, ...]


class NodeUpstreamFailed(NodeEvent, frozen=True, kw_only=True, tag="node.upstream_failed"):
    error: Error
    outcome: Literal["fatal", "absorbed"]


class NodeHeld(NodeEvent, frozen=True, kw_only=True, tag="node.held"):
    VERSION: ClassVar[int] = 2
    reason: str = ""
    after: Literal["", "crashed", "handed_back"] = ""
    detail: str = ""
    """Which worker lacks what, for people, when the reason is `no_worker`."""
    unbegun: str = ""
    wants: Usage | None = None
    """What the next call of its handler may use, and for which its budget has no room (rule 82)."""


class NodesHeld(Event, frozen=True, kw_only=True, tag="nodes.held"):
    places: tuple[Place, ...]
    reason: str = ""


class NodeWaiting(NodeEvent, frozen=True, kw_only=True, tag="node.waiting"):
    VERSION: ClassVar[int] = 4
    wait: Wait
    asks: tuple[Asking, ...] = ()
    """What a handler asked for (rule 77)."""


class NodeResumed(NodeEvent, frozen=True, kw_only=True, tag="node.resumed"):
    reason: str = ""
    event: str = ""
    """The id of the event that the node has waited for, and its position (rule 53)."""
    position: int = 0


class NodeParked(NodeEvent, frozen=True, kw_only=True, tag="node.parked"):
    error: Error
    undo: bool = False
    failed: bool = False
    """The outcome that was kept has no way on and is given up (rule 25)."""
    started_at: float | None = None
    worker: str = ""


class NodeRequeued(NodeEvent, frozen=True, kw_only=True, tag="node.requeued"):
    by: str = ""
    config: Any = None
    undo: bool = False


class NodeDiscarded(NodeEvent, frozen=True, kw_only=True, tag="node.discarded"):
    as_: Literal["skip", "fail", "continue"] = msgspec.field(name="as", default="skip")
    by: str = ""
    undo: bool = False


class NodeCancelled(NodeEvent, frozen=True, kw_only=True, tag="node.cancelled"):
    reason: Literal["loop", "join", "items", "run"] = "run"


class NodesCancelled(Event, frozen=True, kw_only=True, tag="nodes.cancelled"):
    places: tuple[Place, ...]
    reason: Literal["loop", "join", "items", "run"] = "run"


class NodeCompensating(NodeEvent, frozen=True, kw_only=True, tag="node.compensating"):
    error: Error | None = None
    retry_at: float | None = None


class NodeCompensated(NodeEvent, frozen=True, kw_only=True, tag="node.compensated"):
    output: Any = None
    undo: Undo | None = None


# -- loops -------------------------------------------------------------------------------------------------------------


class LoopAdvanced(Event, frozen=True, kw_only=True, tag="loop.advanced"):
    """An iteration was closed and the next one opened. `scope` is the scope around the loop."""

    node: str
    scope: Scope = ()
    iteration: int


class LoopEnded(Event, frozen=True, kw_only=True, tag="loop.ended"):
    """The loop is over; its exit edges resolve: those listed, all others skipped."""

    node: str
    scope: Scope = ()
    reason: Literal["leave", "break", "skipped", "failed"]
    taken: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


# -- waits -------------------------------------------------------------------------------------------------------------


class ApprovalRequested(NodeEvent, frozen=True, kw_only=True, tag="approval.requested"):
    VERSION: ClassVar[int] = 2
    approval: str
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    expires_at: float | None = None
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    escalate_to: tuple[str, ...] = ()
    shown: Any = None
    form: Any = None
    notify: dict[str, str] | None = None
    ask: str = ""
    """The ask of a handler that this is; empty: the node itself asks."""


class ApprovalVoted(NodeEvent, frozen=True, kw_only=True, tag="approval.voted"):
    approval: str
    decision: Literal["approve", "reject"]
    by: str
    """The entry of `approvers` that the vote counts for."""
    person: str = ""
    """The person who voted, where `by` is not the person but a role they have."""
    comments: str = ""
    data: Any = None
    message: str = ""
    """The signed message of another system that cast this vote: its copies are known by it (X30)."""


class ApprovalDelegated(NodeEvent, frozen=True, kw_only=True, tag="approval.delegated"):
    approval: str
    approver: str
    to: str
    by: str = ""
    comments: str = ""


class ApprovalDecided(NodeEvent, frozen=True, kw_only=True, tag="approval.decided"):
    approval: str
    decision: Literal["approve", "reject", "timeout", "cancelled"]
    by: str = ""
    comments: str = ""
    data: Any = None


class ApprovalEscalated(NodeEvent, frozen=True, kw_only=True, tag="approval.escalated"):
    approval: str
    approvers: tuple[str, ...]
    expires_at: float | None = None


class TimerSet(Event, frozen=True, kw_only=True, tag="timer.set"):
    timer: str
    due_at: float


class TimerFired(Event, frozen=True, kw_only=True, tag="timer.fired"):
    timer: str


class ChildStarted(NodeEvent, frozen=True, kw_only=True, tag="child.started"):
    VERSION: ClassVar[int] = 3
    child: str
    workflow: str
    inputs: Any = None
    generation: int = 1
    ask: str = ""
    budget: Budget | None = None
    """What the child may use, which is reserved here until it ends (rule 84); in version 3 only."""


class ChildEnded(NodeEvent, frozen=True, kw_only=True, tag="child.ended"):
    VERSION: ClassVar[int] = 2
    child: str
    generation: int
    state: Literal["completed", "failed", "cancelled", "rolled_back"]
    usage: Usage | None = None
    """What it used since its parent heard of it last, runs below it included."""


class ItemCompleted(NodeEvent, frozen=True, kw_only=True, tag="item.completed"):
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    started_at: float | None = None
    worker: str = ""


class ItemFailed(NodeEvent, frozen=True, kw_only=True, tag="item.failed"):
    error: Error
    started_at: float | None = None
    worker: str = ""


# -- streams, limits, audit -------------------------------------------------------------------------------------------


class StreamOpened(NodeEvent, frozen=True, kw_only=True, tag="stream.opened"):
    """Version 3: the attempt goes on with an edition of one before it."""

    VERSION: ClassVar[int] = 3
    edition: int = 0
    ports: tuple[str, ...] = ()
    writer: str = ""
    """The execution that was let stream: another one of the same attempt, which was delivered twice, is not."""


class StreamKept(NodeEvent, frozen=True, kw_only=True, tag="stream.kept"):
    """A piece of an open stream is stored, and need not be held elsewhere."""

    VERSION: ClassVar[int] = 2
    edition: int
    part: Part
    after: int = -1
    """The number behind which the piece begins: those of its port behind that are in it. Given with a checkpoint."""
    chain: int = 0
    """What the chunks up to its last one came to, of a node that repeats itself."""


class StreamClosed(NodeEvent, frozen=True, kw_only=True, tag="stream.closed"):
    """Version 3: what its attempts kept as their own data is over as well."""

    VERSION: ClassVar[int] = 3
    edition: int = 0
    reason: Literal["end", "failed", "cancelled", "restart"] = "end"
    ports: tuple[PortEnd, ...] = ()
    """With reason `end`: what came out of each port."""
    parts: tuple[Part, ...] = ()
    """With reason `end`: all of it, stored."""
    stops: bool = False
    """Whether its readers were stopped, to begin anew with the next edition (rule 63)."""
    error: Error | None = None
    """With reason `restart`: what was found wrong with an edition that might have gone on."""


class LimitReached(Event, frozen=True, kw_only=True, tag="limit.reached"):
    VERSION: ClassVar[int] = 2
    limit: Literal["max_hops", "max_fanout", "max_bytes", "budget"]
    value: int
    maximum: int
    node: str | None = None
    scope: Scope = ()
    of: Literal["", "usd", "tokens", "calls"] = ""
    """What of the budget there is not enough of. Money is in millionths of a dollar."""


class ResultIgnored(NodeEvent, frozen=True, kw_only=True, tag="result.ignored"):
    reason: str
    generation: int = 1


AnyEvent = (
    RunCreated
    | RunPaused
    | RunResumed
    | RunFailing
    | RunFailed
    | RunCancelling
    | RunCancelled
    | RunCompensating
    | RunRolledBack
    | RunCompleted
    | RunRetried
    | RunPatched
    | RunSignalled
    | RunUndelivered
    | NodeScheduled
    | NodesScheduled
    | NodeStarted
    | NodeCheckpointed
    | StepStarted
    | StepReleased
    | NodeCompleted
    | NodeRouted
    | NodeFailed
    | NodeRetrying
    | NodeSkipped
    | NodesSkipped
    | NodeUpstreamFailed
    | NodeHeld
    | NodesHeld
    | NodeWaiting
    | NodeResumed
    | NodeParked
    | NodeRequeued
    | NodeDiscarded
    | NodeCancelled
    | NodesCancelled
    | NodeCompensating
    | NodeCompensated
    | LoopAdvanced
    | LoopEnded
    | ApprovalRequested
    | ApprovalVoted
    | ApprovalDelegated
    | ApprovalDecided
    | ApprovalEscalated
    | TimerSet
    | TimerFired
    | ChildStarted
    | ChildEnded
    | ItemCompleted
    | ItemFailed
    | StreamOpened
    | StreamKept
    | StreamClosed
    | TriggerRegistered
    | TriggerReceived
    | TriggerAdvanced
    | TriggerSkipped
    | TriggerStarted
    | TriggerEnded
    | TriggerHanded
    | TriggerParked
    | TriggerReleased
    | TriggerBackfilling
    | TriggerCarried
    | LimitReached
    | ResultIgnored
)

TYPES: dict[str, type[Event]] = {str(cls.__struct_config__.tag): cls for cls in AnyEvent.__args__}
for _name, _cls in TYPES.items():
    _cls.type = _name

VALUES: dict[type[Event], tuple[str, ...]] = {
    cls: tuple(field.name for field in msgspec.structs.fields(cls) if field.type is Any or field.name == "overrides")
    for cls in AnyEvent.__args__
}
"""The fields of each type that hold the user's data."""

_encoder = msgspec.json.Encoder(enc_hook=segments.refuse)
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class UnknownEvent(Exception):
    """A journal holds an event this version of Perdure does not know. The run belongs to a newer process (J6)."""


def encode(event: Event) -> bytes:
    try:
        return _encoder.encode(event)
    except segments.HasSegments:
        packed = {name: segments.pack(getattr(event, name), secrets=False) for name in VALUES[type(event)]}
        return _encoder.encode(msgspec.structs.replace(event, refs=True, **packed))


def decode(data: bytes) -> AnyEvent:
    try:
        event = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnknownEvent(f"cannot read event {data[:80]!r}: {error}; a newer Perdure wrote it") from None
    if event.version > event.VERSION:
        raise UnknownEvent(f"event {event.seq} is {event.type} version {event.version}, known up to {event.VERSION}")
    return _unpack(event) if event.refs else event


def _unpack(event: AnyEvent) -> AnyEvent:
    try:
        values = {name: segments.unpack(getattr(event, name), secrets=False) for name in VALUES[type(event)]}
    except segments.BadSegment as error:
        raise UnknownEvent(f"cannot read event {event.seq}: {error}") from None
    return msgspec.structs.replace(event, refs=False, **values)


def refs_of(event: Event) -> set[str]:
    """The refs of the blobs an event names."""
    whole = (getattr(event, name, None) for name in ("output_ref", "outputs_ref"))
    found = {ref for ref in whole if ref is not None}
    for name in VALUES[type(event)]:
        found |= segments.find_refs(getattr(event, name))
    return found


_HEADER = ("seq", "type", "version", "at", "cause", "node", "scope", "item", "visit", "attempt", "counter")


def public(event: Event) -> dict[str, Any]:
    """The event as API, CLI and SDK show it: header fields on top, everything else under `data`."""
    fields: dict[str, Any] = segments.mask(msgspec.to_builtins(event, enc_hook=segments.show))
    fields["version"] = event.version
    fields["counter"] = event.counter
    shown = {name: fields.pop(name) for name in _HEADER if name in fields}
    shown["data"] = fields
    return shown
