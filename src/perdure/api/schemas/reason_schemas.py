"""The types of answers about what holds a run up. See `schemas.py`."""

from __future__ import annotations

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Maybe, RunState, View


class AwaitedNode(View, frozen=True, kw_only=True):
    node: str
    state: str


class OpenAsk(View, frozen=True, kw_only=True):
    """Something that a handler asked for and that has no answer yet."""

    name: str
    kind: str
    """`approval`, `child`, `sleep` or `signal`."""
    approval_id: Maybe[str] = UNSET
    signal: Maybe[str] = UNSET
    child: Maybe[str] = UNSET
    until: Maybe[float] = UNSET


class Obstacle(View, frozen=True, kw_only=True):
    code: str
    """What holds a node up: `dependencies`, `queued`, `no_worker`, `paused`, `retry`, `approval`, `signal`, `event`, `timer`, `delay`, `child`,
    `items`, `asks`, `parked`, `running`, …; for a run also `quarantined`."""
    node: Maybe[str] = UNSET
    """Which node it is, where the reason is that of the run."""
    item: Maybe[int] = UNSET
    waits_for: Maybe[list[AwaitedNode]] = UNSET
    arrived: Maybe[list[str]] = UNSET
    at_least: Maybe[int] = UNSET
    """How many of them it needs; without it, all."""
    queue: Maybe[str] = UNSET
    worker: Maybe[str] = UNSET
    until: Maybe[float | None] = UNSET
    approval_id: Maybe[str] = UNSET
    dead_letter_id: Maybe[str] = UNSET
    signal: Maybe[str] = UNSET
    event: Maybe[str] = UNSET
    key: Maybe[str] = UNSET
    """The key that the event must have; empty: any."""
    child: Maybe[str] = UNSET
    """The run that it waits for."""
    open: Maybe[int] = UNSET
    """How many items are under way."""
    error: Maybe[str | None] = UNSET
    """The code of its error."""
    asks: Maybe[list[OpenAsk]] = UNSET
    """What its handler asked for and waits for."""
    by: Maybe[str | None] = UNSET
    reason: Maybe[str | None] = UNSET
    """Why the run is paused or quarantined."""


class Explanation(View, frozen=True, kw_only=True):
    run_id: str
    state: RunState
    nodes: dict[str, str]
    reasons: dict[str, Obstacle]
    """The same in codes and ids."""
    first: Obstacle | None
    """What holds the run up first; null: nothing does."""
    quarantined: Maybe[str] = UNSET
