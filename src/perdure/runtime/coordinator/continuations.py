"""What an ending run leaves to another run: its outcome to its parent, its end to its children, its open work to the run that
continues it.

Owns the notices that carry these, which are written in the commit of the end (PROTOCOL 12). Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.blobs import INLINE_BYTES
from perdure.budget import Budget
from perdure.expressions.at_hand import AtHand
from perdure.expressions.json_schema import SchemaInvalid
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.child_runs import find_generation
from perdure.kernel.segments import HasSegments, has_refs, pack, refuse, unpack
from perdure.kernel.state import State
from perdure.kernel.values import Error, Fired, Heard
from perdure.model import money
from perdure.model.ir import IR
from perdure.runtime.filled_inputs import fill_in_at_hand


def child_notice(state: State, generation: int = 0) -> bytes:
    """The notice of how a child ended. `generation` is given where the parent asked for a later one than the child will
    reach."""
    body = {
        "child": state.run_id,
        "generation": max(state.generation, generation),
        "state": state.state.value,
        "output": state.outputs,
        "output_ref": state.outputs_ref,
        # Only the child names which of its nodes failed; for the parent, the failed node is the one that called it.
        "error": None if state.error is None else msgspec.structs.replace(state.error, node="", scope=(), item=None),
        "orphaned": state.orphaned,
        "spent": state.money.spent or None,
    }
    if has_refs(state.outputs):
        body |= {"output": pack(state.outputs, secrets=False), "refs": True}
    return msgspec.json.encode(body)


class LeftChild(msgspec.Struct, frozen=True, kw_only=True, tag_field="notice", tag="stop"):
    """A child is to be stopped: its parent has ended without it."""

    parent: str
    generation: int
    """The generation that the parent waited for. A later one was wanted since, and goes on."""

    def command(self, state: State, at: float) -> c.Cancel | c.Release:
        if state.generation > self.generation:
            return c.Release(at=at)  # changes nothing
        return c.Cancel(at=at, by=f"run {self.parent}", orphaned=True)


def stop_notice(state: State, child: str) -> bytes:
    return msgspec.json.encode(LeftChild(parent=state.run_id, generation=(find_generation(state, child) or 0) + 1))


def read_stop(body: bytes) -> LeftChild | None:
    """The notice, if it is one that stops a child."""
    return _decode_stop(body) if body.startswith(STOP) else None


class Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an endless run hands to the run that continues it."""

    continues: str
    ir: str
    workflow_version: int
    inputs: Any
    tags: dict[str, str]
    tenant: str
    deadline_seconds: float | None
    adopted: tuple[c.Adopted, ...]
    signals: tuple[tuple[str, Any], ...]
    signals_seen: tuple[str, ...] = ()
    heard: Heard | None = None
    pauses: tuple[tuple[str, str], ...] = ()
    alias: str = ""
    correlation_id: str = ""
    sealed_for: str = ""
    asked_by: tuple[str, ...] = ()
    trigger: Fired | None = None
    mailboxes: tuple[c.Carried, ...] = ()
    budget: money.Budget | None = None
    """What is left of the budget."""
    by: str = ""
    """The requester who started the first run of the chain, and thereby asked for this one too."""
    deadline_at: float | None = None
    refs: bool = False
    """Whether the values hold references to blobs and are therefore packed."""

    def start(self, run_id: str, at: float, ir: IR) -> c.Start:
        return c.Start(
            at=at,
            run_id=run_id,
            ir=ir,
            workflow_version=self.workflow_version,
            inputs=self.inputs,
            tags=self.tags,
            tenant=self.tenant,
            deadline_seconds=self.deadline_seconds,
            adopted=self.adopted,
            signals=self.signals,
            signals_seen=self.signals_seen,
            heard=self.heard,
            pauses=self.pauses,
            origin=(self.continues, ""),
            by=self.by or f"run {self.continues}",
            alias=self.alias,
            correlation_id=self.correlation_id,
            sealed_for=self.sealed_for,
            asked_by=self.asked_by,
            trigger=self.trigger,
            mailboxes=self.mailboxes,
            budget=self.budget,
            deadline_at=self.deadline_at,
        )


def with_defaults(state: State, command: c.Complete, at_hand: AtHand) -> c.Complete | Error:
    """A wish to go on as a new run, with the inputs that one has; or why it cannot have them. Raises NeedsFilled."""
    inputs, schema = command.output, state.ir.inputs_schema
    if command.output_ref is not None:
        message = f"the inputs of a run that goes on have at most {INLINE_BYTES:,} bytes; put what is large in an asset"
        return Error("bad_output", message)
    if inputs is None:
        return command
    if not isinstance(inputs, dict):
        return Error("bad_output", "the inputs of a run that goes on are an object")
    if schema is None:
        return command
    try:
        whole, problems = fill_in_at_hand(schema, inputs, at_hand, Budget())
    except SchemaInvalid as error:
        whole, problems = None, [str(error)]
    if problems:
        return Error("bad_output", "the inputs do not fit the workflow: " + "; ".join(problems))
    return msgspec.structs.replace(command, output=whole)


def continuation_notice(state: State, effect: fx.ContinueRun) -> bytes:
    spending = state.money
    continuation = Continuation(
        continues=state.run_id,
        ir=state.ir_hashes[-1],
        workflow_version=state.workflow_version,
        inputs=effect.inputs,
        tags=state.tags,
        tenant=state.tenant,
        deadline_seconds=state.deadline_seconds,
        deadline_at=state.deadline_at,
        adopted=effect.adopted,
        signals=effect.signals,
        signals_seen=effect.signals_seen,
        heard=effect.heard,
        pauses=effect.pauses,
        trigger=state.trigger,
        mailboxes=effect.mailboxes,
        budget=None if spending.budget is None else spending.budget.left_after(spending.spent),
        alias=state.alias,
        correlation_id=state.correlation_id,
        sealed_for=state.seal_name,
        asked_by=state.requesters,
        by=state.submitted_by,
    )
    try:
        return _encoder.encode(continuation)
    except HasSegments:
        return _encoder.encode(msgspec.structs.replace(_each_value(continuation, pack), refs=True))


def read_continuation(body: bytes) -> Continuation:
    """Decode a continuation notice. Raises msgspec.ValidationError for any other notice."""
    found = _decode_continuation(body)
    return _each_value(found, unpack) if found.refs else found


def _each_value(continuation: Continuation, change: Callable[..., Any]) -> Continuation:
    return msgspec.structs.replace(
        continuation,
        inputs=change(continuation.inputs, secrets=False),
        adopted=tuple(
            msgspec.structs.replace(one, output=change(one.output, secrets=False)) for one in continuation.adopted
        ),
        signals=tuple((name, change(payload, secrets=False)) for name, payload in continuation.signals),
        mailboxes=tuple(
            msgspec.structs.replace(one, inputs=change(one.inputs, secrets=False)) for one in continuation.mailboxes
        ),
    )


_encoder = msgspec.json.Encoder(enc_hook=refuse)
STOP = b'{"notice":"stop"'
"""How the notice that stops a child begins: it is told from others without being read."""
_decode_stop = msgspec.json.Decoder(LeftChild).decode
_decode_continuation = msgspec.json.Decoder(Continuation).decode
