"""What answers look like, as types for editors and type checkers. The values are plain dictionaries, as the server sent them.

Written by `python -m tests.client.generate` from the schemas of the API, as a test checks. Keys may be added later.
"""

from __future__ import annotations

from typing import TypedDict

from perdure.client.views.general_views import RunState


class PreviewTotals(TypedDict):
    again: int
    kept: int
    undo: int
    stops: int


class Preview(TypedDict):
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


class RunActions(TypedDict):
    run_id: str
    seq: int
    """The number of the event up to which the run was looked at."""
    state: RunState
    actions: dict[str, Preview]
    """`pause`, `resume`, `cancel`, `force` (a cancel that waits for nothing), `retry`, `rollback`, `rerun` (from the start),
    `signal` and `patch`."""
    signals: list[str]
    """The names of the signals that nodes wait for now."""
