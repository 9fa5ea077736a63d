"""The answers about what-ifs: what a run would have done with another model."""

from __future__ import annotations

from typing import Any, Literal

from perdure.api.schemas.general_schemas import Error, RunState, View
from perdure.api.schemas.transcript_schemas import Verdict
from perdure.api.schemas.usage_schemas import Limits, Usage


class LookedAt(View, frozen=True, kw_only=True):
    """A conversation that is gone through again."""

    node: str
    visit: int
    item: int | None
    type: Literal["agent", "llm", "classifier"]


class WhatIfStarted(View, frozen=True, kw_only=True):
    run_id: str
    """The what-if, a run of its own."""
    workflow: str
    state: RunState
    origin: str
    """The run that is looked at."""
    conversations: list[LookedAt]
    budget: Limits
    """What it may use; then it fails."""


class ConversationSide(View, frozen=True, kw_only=True):
    """How a conversation went."""

    model: str
    """As the operator's file names it; empty: none answered."""
    turns: int
    answer: Any
    """What it came to: of a classifier its labels, of an agent with a route also `next_nodes`. Null: there is no answer."""
    error: str | None
    """The code of the failure that it ended with."""
    usage: Usage
    """What the calls that were answered have used."""


class RuledOtherwise(View, frozen=True, kw_only=True):
    """A call about which the guard decides otherwise, or one that was not recorded and is not simply allowed."""

    turn: int
    call: str
    """The id of the call in the what-if: `t2.0` is the first of turn 2."""
    tool: str
    recorded: Verdict | None
    """What was decided about the same call; null: there was none."""
    what_if: Verdict
    rule: str | None
    why: str | None


class CallWithoutAnswer(View, frozen=True, kw_only=True):
    turn: int
    call: str
    tool: str


class ComparedConversation(LookedAt, frozen=True, kw_only=True):
    run_id: str
    """The run that is looked at."""
    diverges: int | None
    """The first turn in which other calls are wanted, or another answer is given; null: there is none."""
    equal: bool
    """True if the conversation ended with the same answer, or the same failure."""
    recorded: ConversationSide
    what_if: ConversationSide
    guard: list[RuledOtherwise]
    """At most 200."""
    guard_total: int
    calls: dict[str, int]
    """How many calls were answered by what: `history`, `run` (it only computes), `not_recorded`, or `guard`."""
    not_recorded: list[CallWithoutAnswer]
    """At most 200."""


class WhatIfTotals(View, frozen=True, kw_only=True):
    conversations: int
    done: int
    """How many of them have been gone through; the others are under way, or failed with the run."""
    diverged: int
    equal: int
    guard: int
    not_recorded: int


class WhatIfReport(View, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    state: RunState
    error: Error | None
    origin: str
    """The run that is looked at."""
    budget: Limits | None
    usage: Usage
    """All that the what-if has used."""
    conversations: list[ComparedConversation]
    totals: WhatIfTotals
