"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from perdure.client.views.general_views import Error, RunState
from perdure.client.views.transcript_views import Verdict
from perdure.client.views.usage_views import Limits, Usage


class LookedAt(TypedDict):
    """A conversation that is gone through again."""

    node: str
    visit: int
    item: int | None
    type: Literal["agent", "llm", "classifier"]


class WhatIfStarted(TypedDict):
    run_id: str
    """The what-if, a run of its own."""
    workflow: str
    state: RunState
    origin: str
    """The run that is looked at."""
    conversations: list[LookedAt]
    budget: Limits
    """What it may use; then it fails."""


class ConversationSide(TypedDict):
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


class RuledOtherwise(TypedDict):
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


class CallWithoutAnswer(TypedDict):
    turn: int
    call: str
    tool: str


class ComparedConversation(LookedAt):
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


class WhatIfTotals(TypedDict):
    conversations: int
    done: int
    """How many of them have been gone through; the others are under way, or failed with the run."""
    diverged: int
    equal: int
    guard: int
    not_recorded: int


class WhatIfReport(TypedDict):
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
