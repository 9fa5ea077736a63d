"""What people and programs ask of runs, as data: the same request is decided here or handed to the process that holds
the journal (PROTOCOL 10, 27).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from weft.kernel import commands as c
from weft.kernel.state import State
from weft.model.ir import IR

Kind = Literal["start", "cancel", "pause", "resume", "retry", "rollback", "signal", "vote", "requeue", "discard"]


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Kind
    run_id: str
    by: str = ""
    reason: str = ""
    force: bool = False
    # start
    ir: str = ""
    workflow_version: int = 1
    inputs: Any = None
    tags: dict[str, str] = {}
    deadline_seconds: float | None = None
    # signal
    name: str = ""
    payload: Any = None
    signal: str = ""
    # vote
    approval: str = ""
    decision: Literal["approve", "reject"] = "approve"
    comments: str = ""
    data: Any = None
    # requeue, discard
    node: str = ""
    scope: tuple[int, ...] = ()
    item: int | None = None
    undo: bool = False
    config: Any = None
    as_: Literal["skip", "fail", "continue"] = msgspec.field(name="as", default="skip")

    def command(self, state: State, at: float, ir: IR | None) -> c.Command:
        about: dict[str, Any] = {"at": at, "by": self.by, "id": f"{self.kind}{':' + self.by if self.by else ''}"}
        place: dict[str, Any] = {
            "node": self.node,
            "scope": self.scope,
            "item": self.item,
            "undo": self.undo,
            "generation": state.generation,
        }
        match self.kind:
            case "start":
                if ir is None:
                    raise ValueError("a start needs its IR")
                return c.Start(
                    **about,
                    run_id=self.run_id,
                    ir=ir,
                    workflow_version=self.workflow_version,
                    inputs=self.inputs,
                    tags=self.tags,
                    deadline_seconds=self.deadline_seconds,
                )
            case "cancel":
                return c.Cancel(**about, reason=self.reason, force=self.force)
            case "pause":
                return c.Pause(**about, reason=self.reason)
            case "resume":
                return c.Resume(**about)
            case "retry":
                return c.Retry(**about)
            case "rollback":
                return c.Rollback(**about)
            case "signal":
                return c.Signal(**about, name=self.name, payload=self.payload, signal=self.signal)
            case "vote":
                return c.Vote(
                    **about,
                    approval=self.approval,
                    decision=self.decision,
                    comments=self.comments,
                    data=self.data,
                )
            case "requeue":
                return c.Requeue(**about, **place, config=self.config)
            case "discard":
                return c.Discard(**about, **place, as_=self.as_)


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request: the run's state after it, or why not."""

    run_id: str
    state: str = ""
    code: str = ""
    message: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.code)


encode_request = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
encode_reply = msgspec.json.Encoder().encode
decode_reply = msgspec.json.Decoder(Reply).decode
