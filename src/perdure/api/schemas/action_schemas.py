"""The types of answers about what can be done with a run. See `schemas.py`."""

from __future__ import annotations

from perdure.api.schemas.general_schemas import RunState, View


class PreviewTotals(View, frozen=True, kw_only=True):
    again: int
    kept: int
    undo: int
    stops: int


class Preview(View, frozen=True, kw_only=True):
    """What a change would do. At most 1,000 nodes are named in each list."""

    possible: bool
    code: str | None
    why_not: str | None
    """Why the change is refused."""
    state: RunState
    """The state of the run after the change; of a rerun, that of the new run. If it is refused, the state it has."""
    again: list[str]
    """The nodes that run again, or for the first time, where the way of the run leads to them."""
    kept: list[str]
    """The nodes that keep their results."""
    undo: list[str]
    """The nodes that are compensated, in this order."""
    stops: list[str]
    """The nodes that have begun and do not go on."""
    totals: PreviewTotals
    """How many nodes each list has in all."""


class RunActions(View, frozen=True, kw_only=True):
    run_id: str
    seq: int
    """The number of the event up to which the run was looked at."""
    state: RunState
    actions: dict[str, Preview]
    """`pause`, `resume`, `cancel`, `force` (a cancel that waits for nothing), `retry`, `rollback`, `rerun` (from the start),
    `signal` and `patch`."""
    signals: list[str]
    """The names of the signals that nodes wait for now."""
