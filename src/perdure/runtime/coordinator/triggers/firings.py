"""What a trigger and the runs it starts leave to each other: the start of a run, and its end (rules 47 and 49).

Both are notices, written in the commit that records the fact, so that neither is lost (PROTOCOL 34): the start with the cursor that passed
the item, the end in the terminal commit of the run. Decides nothing.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.segments import HasSegments, pack, refuse, unpack
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Over
from perdure.kernel.values import Fired
from perdure.model.ir import IR


class Begins(msgspec.Struct, frozen=True, kw_only=True, tag_field="firing", tag="start"):
    """A run is to be made: the notice for it is consumed by the commit that makes it."""

    trigger_run: str
    """The run that decided on the start: the trigger itself, or the run that it has gone on as."""
    trigger: Fired
    name: str
    item: str
    workflow: str
    version: int
    ir: str
    tenant: str
    asked_by: tuple[str, ...] = ()
    inputs: Any = None
    refs: bool = False

    def start(self, run_id: str, at: float, ir: IR) -> c.Start:
        return c.Start(
            at=at,
            run_id=run_id,
            ir=ir,
            workflow_version=self.version,
            inputs=unpack(self.inputs, secrets=False) if self.refs else self.inputs,
            tags={"trigger": self.name, "trigger_item": self.item[:200]},
            tenant=self.tenant,
            by=f"trigger:{self.name}",
            asked_by=self.asked_by,
            trigger=self.trigger,
        )


class Ends(msgspec.Struct, frozen=True, kw_only=True, tag_field="firing", tag="end"):
    """A run has ended, and its trigger hears of it."""

    run_id: str
    number: int
    state: Literal["completed", "failed", "cancelled", "rolled_back"]

    def command(self, at: float) -> c.EndFiring:
        return c.EndFiring(at=at, id=f"end:{self.run_id}", ends=(Over(self.run_id, self.number, self.state),))


def start_notice(state: State, effect: fx.StartRun) -> bytes:
    begins = Begins(
        trigger_run=state.run_id,
        trigger=effect.trigger,
        name=effect.name,
        item=effect.item,
        workflow=effect.workflow,
        version=effect.version,
        ir=effect.ir,
        tenant=state.tenant,
        asked_by=effect.asked_by,
        inputs=effect.inputs,
    )
    try:
        return _encoder.encode(begins)
    except HasSegments:
        packed = pack(effect.inputs, secrets=False)
        return _encoder.encode(msgspec.structs.replace(begins, inputs=packed, refs=True))


def end_notice(state: State, effect: fx.NotifyTrigger) -> bytes:
    return _encoder.encode(Ends(run_id=_first(state), number=effect.trigger.number, state=effect.state))


def _first(state: State) -> str:
    """The run that the trigger started: this one, or the first of those that it continues. Continuing adds `~2`, `~3`, … to an id that
    begins with the trigger's."""
    rest = state.run_id[len(state.trigger.trigger) + 1 :] if state.trigger is not None else ""
    return f"{state.run_id[: -len(rest)]}{rest.partition('~')[0]}" if rest else state.run_id


def is_mailbox(run_id: str) -> bool:
    """Whether a run is a trigger, by its id: `trigger~x…`, and `~2`, `~3`, … when it has gone on; those of its runs have more."""
    return _MAILBOX.fullmatch(run_id) is not None


def read_firing(body: bytes) -> Begins | Ends | None:
    """The notice, if it is one of a trigger or for one."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        return None


START = b'{"firing":"start"'
"""How the notice of a start begins: it is told from others without being read."""
_MAILBOX = re.compile(r"trigger~x[0-9a-f]+(?:\.[0-9]+)?(?:~[0-9]+)?")
_encoder = msgspec.json.Encoder(enc_hook=refuse)
_decoder: msgspec.json.Decoder[Begins | Ends] = msgspec.json.Decoder(Begins | Ends)
