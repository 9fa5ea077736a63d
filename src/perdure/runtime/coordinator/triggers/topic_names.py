"""Topics by their names, and what happens on them as rows: events that are sent, and ends of runs (rule 53)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.journal import Occurrence
from perdure.kernel import effects as fx
from perdure.kernel.state import State

LONGEST_NAME = 200


class EndOfRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of what happens when a run ends. The run itself has the rest."""

    run_id: str
    generation: int
    state: str
    tags: dict[str, str] = {}
    depth: int = 0
    """How many triggers led to the run."""


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an event."""

    payload: Any = None
    by: str = ""


def event_topic(name: str) -> str:
    return f"event:{name}"


def run_topic(workflow: str) -> str:
    return f"run:{workflow}"


def end_of_run(state: State, effect: fx.TellTopic) -> Occurrence:
    """A run that is retried ends more than once, and each end happens."""
    body = EndOfRun(
        run_id=state.run_id,
        generation=state.generation,
        state=effect.state,
        tags=state.tags,
        depth=0 if state.trigger is None else state.trigger.depth,
    )
    return Occurrence(
        tenant=state.tenant,
        topic=run_topic(state.workflow),
        id=f"{state.run_id}:{state.generation}",
        at=state.ended_at or 0.0,
        body=msgspec.json.encode(body),
    )
