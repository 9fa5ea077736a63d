"""The answers about what models were told, said and did."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Error, Maybe, NodeState, View
from perdure.api.schemas.usage_schemas import Usage

Verdict = Literal["allow", "ask", "deny", "invalid"]


class ToldMessage(View, frozen=True, kw_only=True):
    role: Literal["user", "assistant"]
    text: str
    images: int
    """How many images came with it."""


class OfferedTool(View, frozen=True, kw_only=True):
    name: str
    kind: str
    target: str | None
    """The function or the workflow."""
    description: str
    effect: Literal["read", "write", "send"]
    returns: str
    """The label of what it gives, such as `untrusted,public`."""


class Happened(View, frozen=True, kw_only=True):
    """What a person said about a call that began and had no result. approve: it did not happen, and is made again."""

    decision: str
    decided_by: Any
    comments: str | None


class AgentCall(View, frozen=True, kw_only=True):
    """A call of a tool, and what became of it."""

    tool: str
    arguments: Any
    """As the model gave them."""
    verdict: Verdict | None
    """What the guard decided; null: it was not judged yet. `invalid`: there is no such tool, or the arguments do not fit."""
    rule: str | None
    """What decided: `operator[0]`, `policy[2]`, `always`, `control`, or the row and column of the table: `untrusted.send`."""
    why: str | None
    trifecta: bool
    """The agent had read what strangers write and what is private, and the tool sends."""
    approval_id: str | None
    """The approval that was asked for."""
    run_id: str | None
    """The child run that the call started."""
    decision: str | None
    """What people answered first: approve, reject, …"""
    decided_by: Any
    comments: str | None
    happened: Happened | None
    """What people said when nobody knew whether it had happened; null: they were not asked, or have not answered."""
    begun: bool
    """True for a call that may happen only once, has begun, and has no result."""
    outcome: Literal["made", "failed", "refused"] | None
    """Null: it is under way, or waits."""
    changed: Maybe[Any] = UNSET
    """What a person made of the arguments. It was made with these, unless `not_made` says why not."""
    not_made: str | None
    """Why it was not made although people approved it: what they changed does not fit, or is not allowed, and by which rule."""


class TurnCall(AgentCall, frozen=True, kw_only=True):
    id: str
    result: Maybe[str] = UNSET
    """What the model was told of it, once it is over."""
    label: Maybe[str] = UNSET
    """The label of the result."""


class GuardedCall(AgentCall, frozen=True, kw_only=True):
    node: str
    visit: int
    item: int | None
    turn: int
    call: str
    """The id of the call: `t2.0` is the first of turn 2."""
    label: str
    """The label of all that the agent had read."""
    untrusted: list[str]
    """What made it untrusted."""


class GuardPage(View, frozen=True, kw_only=True):
    items: list[GuardedCall]
    next_cursor: str | None


class Turn(View, frozen=True, kw_only=True):
    """An answer of the model, with the calls it made."""

    turn: int
    step: str
    """The step that holds the answer."""
    said: str
    finish: Literal["stop", "calls", "length", "filtered", "refused"]
    alias: str
    """The model as the operator's file names it."""
    model: str
    """As its provider names it."""
    provider: str
    usage: Usage
    ms: int
    tries: int
    drift: bool
    """The request that the steps come to is another one than was sent: the code that makes requests has changed since."""
    problems: list[str]
    """What is wrong with an answer that does not fit the schema: the model was told it, or the node failed."""
    summed_up: str | None
    """What the model was told in place of its older turns from here on; null: they were told as before."""
    label: str | None
    """The label of all that the model had read when it was asked; null for nodes that are no agents."""
    calls: list[TurnCall]


class Transcript(View, frozen=True, kw_only=True):
    run_id: str
    node: str
    visit: int
    item: int | None
    type: str
    state: NodeState
    error: Error | None
    """Why the node failed."""
    seq: int
    """The number of the last event that this counts."""
    sealed: bool
    """The node has sensitive fields: nothing of what was said is shown."""
    asking: str | None
    """The step in which the model is asked now."""
    usage: Usage
    """All that the node has used."""
    model: str | None
    instructions: str | None
    messages: list[ToldMessage]
    """What it was told before the first turn."""
    tools: list[OfferedTool]
    routes: list[str]
    """The nodes that it may choose from."""
    label: str | None
    """The label of what the prompt was made of."""
    turns: list[Turn]
    next_cursor: str | None
