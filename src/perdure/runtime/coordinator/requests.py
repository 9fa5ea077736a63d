"""Requests: what people and programs ask of runs, as data. The same request is decided here or handed to the process
that holds the run (PROTOCOL 10, 27).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.contents import Contents
from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.segments import BadSegment, pack, unpack
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.model.ir import IR
from perdure.model.money import Budget

Kind = Literal[
    "start",
    "cancel",
    "pause",
    "resume",
    "retry",
    "rollback",
    "signal",
    "vote",
    "delegate",
    "requeue",
    "discard",
    "patch",
    "rerun",
    "undelivered",
    "mailbox",
]
STARTS = frozenset({"start", "rerun"})
"""The requests that make a new run: `run_id` is the id it will have."""
VALUES = ("inputs", "payload", "data", "config", "patch")
"""The fields that hold the user's data."""
KEY_USED = "this idempotency key was used for another start; give every start a key of its own"


def key_outlived(run_id: str) -> str:
    """The message for a key whose run was pruned: a key is remembered for longer than its run may be kept (PROTOCOL
    11)."""
    return (
        f"this idempotency key started run {run_id}, which has ended and is no longer kept (retention_days); "
        "to start another, give it a key of its own"
    )


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Kind
    run_id: str
    tenant: str = "default"
    """The tenant of the run that a start makes; an existing run has its own."""
    key: tuple[str, str] | None = None
    """start, rerun: (idempotency key, hash of what was asked), unique in the tenant."""
    by: str = ""
    reason: str = ""
    force: bool = False
    # resume of a trigger: it makes up for what the pause kept from running
    catch_up: bool = False
    # start, patch, and a retry or rerun by another definition: the hash of an IR that is kept
    ir: str = ""
    workflow_version: int = 1
    inputs: Any = None
    tags: dict[str, str] = {}
    deadline_seconds: float | None = None
    alias: str = ""
    correlation_id: str = ""
    # start, resume: what the run may use
    budget: Budget | None = None
    # undelivered: `to` is the run that was to continue this one, `reason` why it cannot
    # mailbox: `name` is that of the command, `data` its fields
    # signal
    name: str = ""
    payload: Any = None
    signal: str = ""
    # vote
    approval: str = ""
    approver: str | None = None
    to: str = ""
    decision: Literal["approve", "reject"] = "approve"
    comments: str = ""
    data: Any = None
    message: str = ""
    # requeue, discard
    node: str = ""
    scope: tuple[int, ...] = ()
    item: int | None = None
    undo: bool = False
    config: Any = None
    steps: dict[str, Any] = {}
    as_: Literal["skip", "fail", "continue"] = msgspec.field(name="as", default="skip")
    # patch: the operations that led to the IR, for the record
    patch: Any = None
    # rerun: the run whose outcomes before `node` are kept; `inputs` then replaces what `node` is given, by node.
    # Without `node` the rerun begins at the start, and `inputs` are the run's
    # start: the run that a what-if looks at
    source: str = ""
    checked: int | None = None
    """rerun: the event of `source` up to which the caller's right to keep its outcomes was checked; None: no check is
    needed."""
    refs: bool = False
    """Whether the values are packed: large ones were stored as blobs, and are named here."""

    def unpacked(self) -> Request:
        if not self.refs:
            return self
        values = {name: unpack(getattr(self, name), secrets=False) for name in VALUES}
        return msgspec.structs.replace(self, refs=False, **values)

    def command(
        self,
        state: State,
        at: float,
        ir: IR | None,
        source: State | None = None,
        adopted: tuple[c.Adopted, ...] = (),
    ) -> c.Command:
        """The kernel command of this request. `ir` is what `self.ir` names, `source` the state of the run `self.source`
        names, and `adopted` what a rerun keeps of it."""
        about: dict[str, Any] = {"at": at, "by": self.by, "id": f"{self.kind}{':' + self.by if self.by else ''}"}
        match self.kind:
            case "start":
                if ir is None:
                    raise ValueError("a start needs its IR")
                return self._start(about, ir)
            case "cancel":
                return c.Cancel(**about, reason=self.reason, force=self.force)
            case "pause":
                return c.Pause(**about, reason=self.reason)
            case "resume":
                return c.Resume(**about, reason=self.reason or None, budget=self.budget, catch_up=self.catch_up)
            case "retry":
                return c.Retry(**about, ir=ir, reason=self.reason, budget=self.budget)
            case "undelivered":
                return c.Undeliver(**about, to=self.to, error=Error("continuation_failed", self.reason))
            case "mailbox":
                return read_mailbox_command(self, at)
            case "rollback":
                return c.Rollback(**about)
            case "signal":
                return c.Signal(**about, name=self.name, payload=self.payload, signal=self.signal)
            case "vote":
                return c.Vote(
                    **about,
                    approval=self.approval,
                    approver=self.approver,
                    decision=self.decision,
                    comments=self.comments,
                    data=self.data,
                    message=self.message,
                )
            case "delegate":
                return c.Delegate(
                    **about, approval=self.approval, to=self.to, approver=self.approver, comments=self.comments
                )
            case "patch":
                if ir is None:
                    raise ValueError("a patch needs its IR")
                return c.Patch(**about, ir=ir, reason=self.reason, patch=self.patch)
            case "rerun":
                if source is None or ir is None:
                    raise ValueError("a rerun needs the run it is of")
                return self._rerun(about, source, ir, adopted)
            case "requeue":
                return c.Requeue(**about, address=self._address(state), config=self.config, steps=self.steps)
            case "discard":
                return c.Discard(**about, address=self._address(state), as_=self.as_)

    def _start(self, about: dict[str, Any], ir: IR) -> c.Start:
        return c.Start(
            **about,
            run_id=self.run_id,
            ir=ir,
            workflow_version=self.workflow_version,
            inputs=self.inputs,
            tags=self.tags,
            tenant=self.tenant,
            deadline_seconds=self.deadline_seconds,
            alias=self.alias,
            correlation_id=self.correlation_id,
            budget=self.budget,
            origin=(self.source, "") if self.source else None,
        )

    def _address(self, state: State) -> Address:
        """The address of the parked activation, whichever attempt is parked there."""
        return Address(self.run_id, self.node, self.scope, self.item, 0, state.generation, self.undo)

    def _rerun(self, about: dict[str, Any], source: State, ir: IR, adopted: tuple[c.Adopted, ...]) -> c.Start:
        """The start of a rerun (rule 40): from a node on with its inputs replaced, or from the start with the run's
        inputs replaced."""
        kept = self.node != ""
        return c.Start(
            **about,
            run_id=self.run_id,
            ir=ir,
            workflow_version=source.workflow_version if ir.hash in source.ir_hashes[:1] else 0,
            inputs=source.inputs if kept or self.inputs is None else self.inputs,
            tags=self.tags or source.tags,
            tenant=source.tenant,
            deadline_seconds=source.deadline_seconds if self.deadline_seconds is None else self.deadline_seconds,
            origin=(source.run_id, self.node),
            correlation_id=self.correlation_id or source.correlation_id,
            sealed_for=source.seal_name,
            asked_by=source.requesters,
            adopted=adopted,
            overrides={self.node: self.inputs} if kept and self.inputs else {},
        )


class ItemFate(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item that a trigger was given: what became of it in the same append."""

    number: int
    run_id: str
    """The run that it starts, if it starts one. Empty for an item in a window that is open: its run is known when that closes."""
    fate: Literal["started", "waiting", "parked", "skipped", "known"]
    """`known`: it had come before, and nothing was recorded."""


class Received(msgspec.Struct, frozen=True):
    """The answer to a command that brings items: the state of the run, and the items in their order."""

    state: str
    items: tuple[ItemFate, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request: the run's state after it, or why it was refused."""

    run_id: str
    state: str = ""
    code: str = ""
    message: str = ""
    continued_as: str = ""
    """With the code `continued`: the run that has what this one had (rule 52)."""
    problems: tuple[str, ...] = ()
    """Everything that is wrong with the inputs of a start, the data of a vote, or the config of a requeue."""
    items: tuple[ItemFate, ...] = ()
    """What became of the items that a trigger was given."""

    @classmethod
    def of(cls, run_id: str, answer: str | Received) -> Reply:
        if isinstance(answer, Received):
            return cls(run_id=run_id, state=answer.state, items=answer.items)
        return cls(run_id=run_id, state=answer)

    @property
    def refused(self) -> bool:
        return bool(self.code)


async def slim(request: Request, contents: Contents, journal: Journal) -> Request:
    """The request with its large values stored as blobs, under the tenant of its run, and named instead."""
    request = request.unpacked()
    about = await journal.find_run(request.source or request.run_id) if request.kind != "start" else None
    tenant = request.tenant if about is None else about.row.tenant
    whole = ("data",) if request.kind == "mailbox" else ()  # its fields are read one by one
    kept = {name: await contents.keep(tenant, getattr(request, name)) for name in VALUES if name not in whole}
    if request.kind == "mailbox" and isinstance(request.data, dict):
        kept["data"] = await _slim_fields(tenant, request.data, contents)
    if request.kind == "rerun" and request.node and isinstance(request.inputs, dict):  # keyed and read by node
        kept["inputs"] = {name: await contents.keep(tenant, one) for name, one in request.inputs.items()}
    packed = {name: pack(value) for name, value in kept.items()}
    return msgspec.structs.replace(request, refs=True, **packed)


async def _slim_fields(tenant: str, fields: dict[str, Any], contents: Contents) -> dict[str, Any]:
    """The fields of a request about a trigger, with the inputs in them stored as blobs where they are large."""
    slimmed = dict(fields)
    if "inputs" in fields:
        slimmed["inputs"] = await contents.keep(tenant, fields["inputs"])
    if isinstance(fields.get("items"), list):
        slimmed["items"] = [
            {**one, "inputs": await contents.keep(tenant, one.get("inputs"))} if isinstance(one, dict) else one
            for one in fields["items"]
        ]
    return slimmed


_MAILBOX: dict[str, type[c.MailboxCommand]] = {
    "register": c.Register,
    "deliver": c.Deliver,
    "fire": c.Fire,
    "backfill": c.Backfill,
    "rewind": c.Rewind,
    "end_firing": c.EndFiring,
    "settle": c.Settle,
}


def read_mailbox_command(request: Request, at: float) -> c.MailboxCommand:
    """The command that a request about a trigger names. Raises ValueError (also msgspec.ValidationError) when there is none such."""
    kind = _MAILBOX.get(request.name)
    if kind is None or not isinstance(request.data, dict):
        raise ValueError(f"there is no request {request.name!r} about a trigger")
    return msgspec.convert({**request.data, "at": at, "by": request.by, "id": request.name}, kind)


encode_request = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Request)


def decode_request(body: bytes) -> Request:
    """Decode a request. Raises msgspec.MsgspecError."""
    try:
        return _decoder.decode(body).unpacked()
    except BadSegment as error:
        raise msgspec.ValidationError(str(error)) from None


encode_reply = msgspec.json.Encoder().encode
decode_reply = msgspec.json.Decoder(Reply).decode
