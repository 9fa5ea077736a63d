"""What the kernel can be asked to decide, and what it answers.

Time and chance come with the command (`at`, `entropy`); answers to conditions come as `Verdict`s. Commands are
imperative and name attempts by their address.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.kernel.address import Address
from perdure.kernel.adopted import Adopted, Carried
from perdure.kernel.effects import Effect
from perdure.kernel.events import AnyEvent, Scope
from perdure.kernel.needs import MomentsAsked, Need, Needs, Question, TargetAsked, Verdict
from perdure.kernel.triggers.mailbox import Delivered, Over, Overlap, Policy
from perdure.kernel.values import Ask, Error, Fired, Heard, Part, PortEnd, Wait
from perdure.model.ir import IR
from perdure.model.money import Budget, Room, Usage

__all__ = ["Adopted", "Carried", "Delivered", "MomentsAsked", "Need", "Needs", "Question", "TargetAsked", "Verdict"]
"""What stands in another file and is read here."""


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    at: float
    id: str = ""
    """The id that events caused by this command carry as their `cause`."""
    entropy: float = 0.5
    """A number in [0, 1) for jitter."""
    by: str = ""


class Start(Command, frozen=True, kw_only=True):
    run_id: str
    ir: IR
    workflow_version: int = 1
    inputs: Any = None
    tags: dict[str, str] = {}
    tenant: str = "default"
    deadline_seconds: float | None = None
    parent: tuple[str, str, Scope, int | None] | None = None
    origin: tuple[str, str] | None = None
    adopted: tuple[Adopted, ...] = ()
    overrides: dict[str, dict[str, Any]] = {}
    signals: tuple[tuple[str, Any], ...] = ()
    """Signals that were not consumed by the run that this one continues."""
    signals_seen: tuple[str, ...] = ()
    heard: Heard | None = None
    pauses: tuple[tuple[str, str], ...] = ()
    """The reasons that the run this one continues is paused for, and by whom."""
    depth: int = 0
    alias: str = ""
    correlation_id: str = ""
    sealed_for: str = ""
    asked_by: tuple[str, ...] = ()
    generation: int = 1
    trigger: Fired | None = None
    mailboxes: tuple[Carried, ...] = ()
    """What the triggers of the run that this one continues hold."""
    budget: Budget | None = None
    """What its calls may use, if that is less than its definition says."""
    deadline_at: float | None = None
    """When the time of the run that this one continues is over: a chain of runs has one deadline."""


class NodeCommand(Command, frozen=True, kw_only=True):
    address: Address


class Begin(NodeCommand, frozen=True, kw_only=True):
    """A worker began the attempt. Optional: `Complete` and `Fail` imply it, except for `effect: at_most_once`."""

    worker: str = ""
    ask: str = ""
    """The name of the worker's wish to begin: an answer is to it and to no other."""


class Checkpoint(NodeCommand, frozen=True, kw_only=True):
    data: Any = None
    step: str = ""
    number: int = 0
    """The number of the checkpoint in its attempt, from 1 on; 0: the worker does not count, and each one is new."""
    size: int = 0
    usage: Usage | None = None
    """What the step used. None, for a step that something is reserved for: all of that (rule 83)."""
    cursors: dict[str, tuple[int, ...]] | None = None
    kept: tuple[tuple[int, Part], ...] = ()
    """The pieces that this checkpoint covers of a stream that goes on from its checkpoints, each with the number behind which it begins."""


class OpenStream(NodeCommand, frozen=True, kw_only=True):
    """The handler has begun to yield."""

    ports: tuple[str, ...] = ()
    worker: str = ""
    writer: str = ""


class TellStreams(NodeCommand, frozen=True, kw_only=True):
    """A reader has waited for long: what it reads may have ended, and the word of it may be lost."""


class KeepStream(NodeCommand, frozen=True, kw_only=True):
    part: Part
    chain: int = 0


class BeginStep(NodeCommand, frozen=True, kw_only=True):
    """A worker wishes to begin a step that may happen at most once or costs something, or says that one certainly did not
    happen."""

    step: str
    wish: str
    worker: str = ""
    not_done: bool = False
    effect: Literal["idempotent", "at_most_once"] = "at_most_once"
    reserve: Usage | None = None
    model: str = ""
    limit: Budget | None = None
    """What the config of the node allows this activation."""
    rooms: tuple[Room, ...] = ()
    """What budgets over several runs leave (rule 85)."""


class Complete(NodeCommand, frozen=True, kw_only=True):
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    started_at: float | None = None
    worker: str = ""
    choice: tuple[str, ...] | None = None
    """The nodes that an agent chose (`agent_driven`)."""
    reasoning: str = ""
    renews: bool = False
    """The run is to go on as a new one, whose inputs are the output if there is one (rule 15)."""
    ended: tuple[PortEnd, ...] = ()
    """What came out of each port of a handler that yielded, with the pieces that the journal does not know yet."""
    parts: tuple[Part, ...] = ()
    writer: str = ""


class Fail(NodeCommand, frozen=True, kw_only=True):
    error: Error
    retryable: bool = True
    retry_after: float | None = None
    not_done: bool = False
    ask: str = ""
    """The worker's last wish to begin this attempt, if it had one."""
    """True if the effect certainly did not happen (rule 33)."""
    started_at: float | None = None
    worker: str = ""


class Lapse(NodeCommand, frozen=True, kw_only=True):
    """The worker is gone: it died while it ran the attempt, or it handed the work back."""

    reason: Literal["crashed", "handed_back"] = "crashed"
    ask: str = ""
    """The wish to begin after which the worker certainly did not begin: it gave up before it heard of a grant."""
    step: str = ""
    wants: Usage | None = None
    """The step that was not let begin, and what it may use: the worker gives the work back because of that (rule 82)."""
    limit: Budget | None = None
    rooms: tuple[Room, ...] = ()


class Withdraw(NodeCommand, frozen=True, kw_only=True):
    """The transport took the task back before a worker claimed it: the answer to a `Recall` effect."""


class NextItems(NodeCommand, frozen=True, kw_only=True):
    """Start the next items of a map that has more of them: the answer to a `StartMore` effect."""


class Suspend(NodeCommand, frozen=True, kw_only=True):
    """The node's type turns the attempt into a durable wait."""

    wait: Wait
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    on_timeout: Literal["reject", "approve", "fail", "escalate"] = "reject"
    escalate_to: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    shown: Any = None
    form: Any = None
    notify: dict[str, str] | None = None
    """Another system to be told of the wait: its `url`, and the name of the `secret` that signs the notice."""
    workflow: str = ""
    inputs: Any = None
    budget: Budget | None = None


class HearEvent(NodeCommand, frozen=True, kw_only=True):
    """An event that a node waits for was found; or none was, up to this position (rule 53)."""

    position: int
    event: str = ""
    """The id of the event; empty: none was found."""
    output: Any = None
    output_ref: str | None = None
    size: int = 0


class AskFor(NodeCommand, frozen=True, kw_only=True):
    """The handler asks for something durable: its attempt is over, and nothing failed (rule 77)."""

    asks: tuple[Ask, ...]


class ApplyPatch(NodeCommand, frozen=True, kw_only=True):
    """What became of the patch that a handler asks for: another definition, or reasons against it (rule 87)."""

    ask: str
    content: str
    """The hash of what was asked."""
    base: str
    """The hash of the definition that it was made from."""
    ir: IR | None = None
    refused: tuple[str, ...] = ()


class HoldBack(NodeCommand, frozen=True, kw_only=True):
    """No worker can take this node now."""

    reason: str = "no_worker"
    detail: str = ""
    """Which worker lacks what, for people."""


class Release(Command, frozen=True, kw_only=True):
    """Workers for these nodes are there again: send the attempts that were held for lack of one."""

    nodes: tuple[str, ...] = ()


class FireTimer(Command, frozen=True, kw_only=True):
    timer: str


class Vote(Command, frozen=True, kw_only=True):
    approval: str
    decision: Literal["approve", "reject"]
    approver: str | None = None
    """The entry of `approvers` this person acts for; by default the person."""
    comments: str = ""
    data: Any = None
    message: str = ""
    """The signed message of another system that asks for this vote."""


class Delegate(Command, frozen=True, kw_only=True):
    """An approver passes the request on to another person."""

    approval: str
    to: str
    approver: str | None = None
    """The entry of `approvers` that is given away; by default the person's own."""
    comments: str = ""


class Signal(Command, frozen=True, kw_only=True):
    name: str
    payload: Any = None
    signal: str = ""


class EndChild(Command, frozen=True, kw_only=True):
    """A child run reached the end of a generation."""

    child: str
    generation: int
    state: Literal["completed", "failed", "cancelled", "rolled_back"]
    output: Any = None
    output_ref: str | None = None
    size: int = 0
    error: Error | None = None
    orphaned: bool = False
    """The child was cancelled because this run no longer went on."""
    begun: bool = True
    """False: the child was stopped before this generation of it began, which is still to come."""
    spent: Usage | None = None
    """All that the child and the runs below it have used."""


class Pause(Command, frozen=True, kw_only=True):
    reason: str = ""


class Resume(Command, frozen=True, kw_only=True):
    reason: str | None = None
    """The reason whose pause is over; None ends every pause."""
    budget: Budget | None = None
    """Limits that the run has from here on; those that are None stay."""
    catch_up: bool = False
    """A schedule makes up for the moments that the pause kept from running, as it does for others it missed (rule 56)."""


class Cancel(Command, frozen=True, kw_only=True):
    reason: str = ""
    force: bool = False
    grace_seconds: float = 30.0
    orphaned: bool = False
    """The parent of this run cancels it."""


class Undeliver(Command, frozen=True, kw_only=True):
    """The run that was to continue this one cannot begin, now or later."""

    to: str
    error: Error


class Retry(Command, frozen=True, kw_only=True):
    ir: IR | None = None
    """A mended definition to go on with; every completed node must have its place in it (E6)."""
    reason: str = ""
    budget: Budget | None = None
    """Limits that the run has from here on; those that are not given stay (rule 84)."""
    orphaned: bool = False
    """The parent retries this run, having cancelled it when the parent itself failed."""


class Rollback(Command, frozen=True, kw_only=True):
    pass


class Patch(Command, frozen=True, kw_only=True):
    ir: IR
    reason: str = ""
    patch: Any = None


class Requeue(NodeCommand, frozen=True, kw_only=True):
    config: Any = None
    steps: dict[str, Any] = {}
    """What a person says that begun steps gave (rule 81); the others that began did not happen."""


class Discard(NodeCommand, frozen=True, kw_only=True):
    as_: Literal["skip", "fail", "continue"] = "skip"


# -- triggers ----------------------------------------------------------------------------------------------------------


class MailboxCommand(Command, frozen=True, kw_only=True):
    node: str = "receive"


class Register(MailboxCommand, frozen=True, kw_only=True):
    """Make the node a trigger, or change it: a new spec is the next revision."""

    name: str
    kind: str
    spec: Any = None
    policy: Policy = Policy()
    hook: str = ""
    """The address that a new webhook has from now on; one that is registered keeps its own."""
    source: str = ""
    manner: str = ""
    begins: Literal["", "start", "end", "cursor"] = ""
    """Where a source that has become another one begins; it must be said."""
    topic: str = ""
    """What the trigger listens to: it reads what happens there."""
    cursor: str = ""
    """The last that has happened, which a topic is read behind from now on, if it is a new one for the trigger."""
    inner: bool = False
    """True for a trigger inside a run: its items start no runs, they are handed to activations of the node (rule 54)."""


class Await(NodeCommand, frozen=True, kw_only=True):
    """An activation of a trigger node wants the next item (rule 54)."""

    registration: Register | None = None
    """How the node is registered, if it is not yet."""


class Deliver(MailboxCommand, frozen=True, kw_only=True):
    items: tuple[Delivered, ...]
    revision: int


class Hear(MailboxCommand, frozen=True, kw_only=True):
    """What happened on the topic of a trigger behind its cursor, mapped under a revision of the spec (rule 53)."""

    items: tuple[Delivered, ...]
    after: str
    """The cursor that was read behind."""
    cursor: str
    revision: int
    filtered: int = 0
    """How many the filter left out."""


class Receive(NodeCommand, frozen=True, kw_only=True):
    """What a poll brought, mapped under a revision of the spec."""

    items: tuple[Delivered, ...]
    after: str | None
    """The cursor that the poll began at."""
    cursor: str
    revision: int
    filtered: int = 0
    """How many items the filter left out."""
    more: bool = False
    end: bool = False


class Fire(MailboxCommand, frozen=True, kw_only=True):
    """Start a run now, by hand."""

    firing: str
    """The identity of this firing: made with the command, never given out twice."""
    inputs: Any = None
    overlap: Overlap | None = None
    revision: int


class Backfill(MailboxCommand, frozen=True, kw_only=True):
    """Receive the moments after `since` up to `until`, in a lane of their own."""

    since: float
    until: float
    again: bool = False
    """Also those that have had a run: they get another one."""
    open: int = 1


class Rewind(MailboxCommand, frozen=True, kw_only=True):
    """Read a source from another cursor on."""

    cursor: str | None
    """None: as if it had never been read."""
    again: bool = False
    """Also what has had a run: it gets another one."""
    reason: str = ""


class EndFiring(MailboxCommand, frozen=True, kw_only=True):
    """Runs that a trigger started have ended."""

    ends: tuple[Over, ...]


class Settle(MailboxCommand, frozen=True, kw_only=True):
    """A person decides on a parked item: it waits again, mapped anew, or is skipped."""

    number: int
    as_: Literal["again", "skip"] = "again"
    key: str = ""
    inputs: Any = None
    revision: int = 0


AnyCommand = (
    Start
    | Begin
    | Checkpoint
    | BeginStep
    | OpenStream
    | TellStreams
    | KeepStream
    | Complete
    | Fail
    | Lapse
    | Withdraw
    | Suspend
    | HearEvent
    | AskFor
    | ApplyPatch
    | NextItems
    | HoldBack
    | Release
    | FireTimer
    | Vote
    | Delegate
    | Signal
    | EndChild
    | Pause
    | Resume
    | Cancel
    | Undeliver
    | Retry
    | Rollback
    | Patch
    | Requeue
    | Discard
    | Register
    | Await
    | Deliver
    | Hear
    | Fire
    | Receive
    | Backfill
    | Rewind
    | EndFiring
    | Settle
)


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """What the kernel decided about one command: what happened, and what is to be done."""

    events: tuple[AnyEvent, ...] = ()
    effects: tuple[Effect, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """The command is not possible now; nothing changed. `code` is stable, `message` says the way out."""

    code: str
    message: str
    continued_as: str = ""
    """With the code `continued`: the run that has what this one had (rule 52)."""
