"""The vocabulary of journals: every fact that can be recorded about a run.

An event is immutable, in the past tense, and names nodes by id, so that a journal can be read without the IR and
survives patches. This file owns names, fields and bytes; what an event does to a state is in `evolve.py`.

Every type has a version. A reader refuses a type or version it does not know (J6); it never skips one.

A value in an event may hold references to blobs (`perdure.kernel.segments`). As bytes such an event has `refs`, and its values
are packed; where nothing refers to a blob, values are the user's own JSON.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel import segments
from perdure.kernel.event_base import Event, NodeEvent, Place, Scope
from perdure.kernel.trigger_events import (
    TriggerAdvanced,
    TriggerBackfilling,
    TriggerCarried,
    TriggerEnded,
    TriggerParked,
    TriggerReceived,
    TriggerRegistered,
    TriggerReleased,
    TriggerSkipped,
    TriggerStarted,
)
from perdure.kernel.values import Error, Fired, Route, Undo, Wait

__all__ = [
    "Event",
    "NodeEvent",
    "Place",
    "Scope",
    "TriggerAdvanced",
    "TriggerBackfilling",
    "TriggerCarried",
    "TriggerEnded",
    "TriggerParked",
    "TriggerReceived",
    "TriggerRegistered",
    "TriggerReleased",
    "TriggerSkipped",
    "TriggerStarted",
]
"""What stands in other files and is read here."""

# -- runs --------------------------------------------------------------------------------------------------------------


class RunCreated(Event, frozen=True, kw_only=True, tag="run.created"):
    run_id: str
    workflow: str
    workflow_version: int
    ir: str
    inputs: Any = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    tenant: str = "default"
    deadline_at: float | None = None
    parent: tuple[str, str, Scope, int | None] | None = None
    """The (run, node, scope, item) that this run is a child of."""
    origin: tuple[str, str] | None = None
    """The (run, node or "") that this run was rerun from or continues."""
    overrides: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Values that a node sees instead of the outputs of nodes before it (rerun): reader to node to value (rule 40)."""
    by: str = ""
    depth: int = 0
    """How many runs this one is nested in."""
    signals_seen: tuple[str, ...] = ()
    """Ids of signals that the run this one continues has received: a signal that comes again is the same signal."""
    imported: str = ""
    """The run whose journal an imported file held: this run is only looked at, never decided on."""
    alias: str = ""
    """The alias by which the workflow version was chosen."""
    correlation_id: str = ""
    """The caller's own name for this work; children and tasks carry the same."""
    sealed_for: str = ""
    """The run whose sealed fields this one may open, and under whose name it seals: the first of the runs it was rerun
    from or continues. Empty: the run at the top of its own tree."""
    asked_by: tuple[str, ...] = ()
    """Who started the runs that led to this one: the run it was rerun from or continues, and the one it is a child of. They
    may be forgotten before this run is."""
    generation: int = 1
    """The first generation: above 1 for a child whose start failed before, as its parent then accepts no older one."""
    trigger: Fired | None = None
    """The firing of a trigger that this run, or the one it continues, was started by."""


class RunPaused(Event, frozen=True, kw_only=True, tag="run.paused"):
    by: str = ""
    reason: str = ""


class RunResumed(Event, frozen=True, kw_only=True, tag="run.resumed"):
    by: str = ""
    reason: str = ""
    """The reason whose pause is over."""
    left: tuple[str, ...] = ()
    """The reasons the run stays paused for; with none left it goes on."""


class RunFailing(Event, frozen=True, kw_only=True, tag="run.failing"):
    error: Error
    node: str | None = None
    scope: Scope = ()


class RunFailed(Event, frozen=True, kw_only=True, tag="run.failed"):
    error: Error


class RunCancelling(Event, frozen=True, kw_only=True, tag="run.cancelling"):
    by: str = ""
    reason: str = ""
    grace_until: float | None = None
    orphaned: bool = False
    """The parent, which no longer goes on, cancelled this run: if the parent is retried, so is this run (rule 35)."""


class RunCancelled(Event, frozen=True, kw_only=True, tag="run.cancelled"):
    by: str = ""
    forced: bool = False
    not_compensated: tuple[Place, ...] = ()
    """Activations that a forced end left uncompensated: dead letters."""


class RunCompensating(Event, frozen=True, kw_only=True, tag="run.compensating"):
    ends: Literal["failed", "cancelled", "rolled_back"]
    plan: tuple[Place, ...]
    generation: int
    by: str = ""


class RunRolledBack(Event, frozen=True, kw_only=True, tag="run.rolled_back"):
    pass


class RunCompleted(Event, frozen=True, kw_only=True, tag="run.completed"):
    outputs: Any = None
    outputs_ref: str | None = None
    continued_as: str | None = None


class RunRetried(Event, frozen=True, kw_only=True, tag="run.retried"):
    generation: int
    deadline_at: float | None = None
    by: str = ""


class RunPatched(Event, frozen=True, kw_only=True, tag="run.patched"):
    ir: str
    by: str = ""
    reason: str = ""
    patch: Any = None
    mends: bool = False
    """The patch came with a retry, so what runs again uses it too."""


class RunSignalled(Event, frozen=True, kw_only=True, tag="run.signalled"):
    name: str
    payload: Any = None
    signal: str = ""
    """The sender's id of this signal; a second one with the same id is the same signal."""
    by: str = ""


class RunUndelivered(Event, frozen=True, kw_only=True, tag="run.undelivered"):
    """The run that was to continue this one can never begin, so what was left to it is not done."""

    to: str
    error: Error


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
    data: Any = None
    step: str = ""
    """The step whose result `data` is; empty: the handler's own data. Both are kept beside the earlier steps."""
    number: int = 0
    """The number of the checkpoint in its attempt: however often it is delivered, it is kept once (T2). 0: written
    before checkpoints were numbered, when `data` without a step replaced all that was kept."""
    size: int = 0
    """What it takes, in bytes, with the name of the step; 0 if it does not count (rule 31)."""


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
    reason: str = ""
    after: Literal["", "crashed", "handed_back"] = ""
    detail: str = ""
    """Which worker lacks what, for people, when the reason is `no_worker`."""
    unbegun: str = ""


class NodesHeld(Event, frozen=True, kw_only=True, tag="nodes.held"):
    places: tuple[Place, ...]
    reason: str = ""


class NodeWaiting(NodeEvent, frozen=True, kw_only=True, tag="node.waiting"):
    wait: Wait


class NodeResumed(NodeEvent, frozen=True, kw_only=True, tag="node.resumed"):
    reason: str = ""


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
    approval: str
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    expires_at: float | None = None
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    escalate_to: tuple[str, ...] = ()
    shown: Any = None
    form: Any = None
    notify: dict[str, str] | None = None


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
    child: str
    workflow: str
    inputs: Any = None
    generation: int = 1


class ChildEnded(NodeEvent, frozen=True, kw_only=True, tag="child.ended"):
    child: str
    generation: int
    state: Literal["completed", "failed", "cancelled", "rolled_back"]


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
    port: str = ""


class StreamClosed(NodeEvent, frozen=True, kw_only=True, tag="stream.closed"):
    port: str = ""
    chunks: int = 0
    output_ref: str | None = None


class LimitReached(Event, frozen=True, kw_only=True, tag="limit.reached"):
    limit: Literal["max_hops", "max_fanout", "max_bytes"]
    value: int
    maximum: int
    node: str | None = None
    scope: Scope = ()


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
    | StreamClosed
    | TriggerRegistered
    | TriggerReceived
    | TriggerAdvanced
    | TriggerSkipped
    | TriggerStarted
    | TriggerEnded
    | TriggerParked
    | TriggerReleased
    | TriggerBackfilling
    | TriggerCarried
    | LimitReached
    | ResultIgnored
)

TYPES: dict[str, type[Event]] = {str(cls.__struct_config__.tag): cls for cls in AnyEvent.__args__}

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
