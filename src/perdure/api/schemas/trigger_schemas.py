"""The types of answers about triggers. See `schemas.py`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from perdure.api.schemas.general_schemas import Error, Maybe, Problem, View


class TriggerPause(View, frozen=True, kw_only=True):
    reason: str
    """What was said; `failures`, `poison` or `bad_schedule` where the trigger stopped by itself."""
    by: str
    """Who did; `trigger`: it stopped by itself."""


class Trigger(View, frozen=True, kw_only=True):
    name: str
    kind: str
    state: Literal["active", "paused", "done", "quarantined"]
    """`done`: a schedule that has no more moments. `quarantined`: it starts nothing, `error` says why, and it can be deleted."""
    revision: int
    trigger_id: str
    """The run that the trigger is."""
    hook: str | None
    """The path that deliveries to a webhook are posted to."""
    workflow: str
    cursor: Any
    """How far it has got: for a schedule the last moment that was decided on."""
    next_at: float | None
    last_at: float | None
    """When the last item came."""
    waiting: int
    open: int
    """How many of its runs have not ended."""
    parked: int
    """How many items could start no run."""
    failures: int
    """How many runs in a row have failed."""
    skipped: dict[str, int]
    """How many items and moments have started no run, by reason."""
    last_success: float | None
    """The latest moment of a schedule whose run has completed; null: none, or `overlap` is `allow`."""
    pauses: list[TriggerPause]
    """Why it is paused, and by whom; empty: it is not. It goes on when it is resumed."""
    error: Error | None
    """Why it has stopped by itself."""
    spec: Any
    """The trigger as it was registered, in canonical form."""


class TriggerPage(View, frozen=True, kw_only=True):
    items: list[Trigger]
    next_cursor: str | None


class TriggerApplied(Trigger, frozen=True, kw_only=True):
    created: bool
    changed: bool
    """Whether this is another revision than before."""
    problems: list[Problem]
    """Warnings."""


class TriggerDeleted(View, frozen=True, kw_only=True):
    name: str
    trigger_id: str
    deleted: bool


class TriggerFired(View, frozen=True, kw_only=True):
    number: int
    run_id: str
    """The run that it starts, if it starts one."""
    state: Literal["started", "waiting", "parked", "skipped", "known"]
    """What became of the firing at once; `known`: it was asked for before."""
    begun: bool
    """Whether the run is there. If not, although it is started: no process drives triggers now, and it begins when one does."""


class TriggerMoment(View, frozen=True, kw_only=True):
    moment: float
    due: float
    """The moment with its jitter."""
    local: str
    """By the clock of its time zone."""
    note: str
    """What a change of the clocks does to it."""


class TriggerMomentPage(View, frozen=True, kw_only=True):
    items: list[TriggerMoment]
    next_cursor: str | None


class TriggerItem(View, frozen=True, kw_only=True):
    number: int
    id: str | None
    """What its source calls it; null for one whose run is open."""
    at: float | None
    moment: float | None
    error: Error | None
    key: str
    run_id: str
    state: Literal["waiting", "open", "parked"]


class TriggerItemPage(View, frozen=True, kw_only=True):
    items: list[TriggerItem]
    next_cursor: str | None


class TriggerTested(View, frozen=True, kw_only=True):
    name: str
    result: Literal["mapped", "filtered", "poison", "no_more_moments"]
    id: Maybe[str] = UNSET
    key: Maybe[str] = UNSET
    inputs: Maybe[Any] = UNSET
    moment: Maybe[float] = UNSET
    due: Maybe[float] = UNSET
    part: Maybe[str] = UNSET
    """What of the trigger failed: filter, id, key or inputs."""
    error: Maybe[str] = UNSET


class FiringToCome(TriggerMoment, frozen=True, kw_only=True):
    name: str
    workflow: str


class FiringsToCome(View, frozen=True, kw_only=True):
    items: list[FiringToCome]
    capped: bool
    """Whether there are more than are listed."""


class Delivered(View, frozen=True, kw_only=True):
    number: int
    run_id: str
    """The run that it starts."""
    duplicate: bool
    """Whether this delivery had come before."""
