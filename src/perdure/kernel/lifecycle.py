"""The states of nodes and runs, and which may follow which."""

from __future__ import annotations

from enum import StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING


class IntegrityError(Exception):
    """A journal or a decision broke a rule that must hold. The run is quarantined; no other is touched."""


class NodeState(StrEnum):
    PENDING = "pending"
    HELD = "held"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    COMPENSATED = "compensated"


class RunState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    FAILING = "failing"
    CANCELLING = "cancelling"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled_back"


if TYPE_CHECKING:
    N, R = NodeState, RunState
else:
    N, R = (SimpleNamespace(**kind.__members__) for kind in (NodeState, RunState))
"""The states by name. In Python 3.11 a member of an enum takes ten times as long to look up as an attribute of an object, and a
decision names thirty of them."""

OPEN = frozenset({N.HELD, N.QUEUED, N.RUNNING, N.WAITING, N.RETRYING, N.PARKED})
"""States of an activation that has begun and not ended: it counts in the token counter."""

ENDED = frozenset({N.COMPLETED, N.FAILED, N.UPSTREAM_FAILED, N.SKIPPED, N.CANCELLED, N.COMPENSATED})

TERMINAL = frozenset({R.COMPLETED, R.FAILED, R.CANCELLED, R.ROLLED_BACK})

_enders = {N.COMPLETED, N.FAILED, N.CANCELLED, N.PARKED, N.SKIPPED}
NODE_TRANSITIONS: dict[NodeState, frozenset[NodeState]] = {
    N.PENDING: frozenset(
        {N.HELD, N.QUEUED, N.WAITING, N.SKIPPED, N.UPSTREAM_FAILED, N.CANCELLED, N.FAILED, N.PARKED, N.COMPLETED}
    ),
    N.HELD: frozenset({N.QUEUED, N.RUNNING, *_enders}),
    N.QUEUED: frozenset({N.RUNNING, N.HELD, N.WAITING, N.RETRYING, N.QUEUED, *_enders}),
    N.RUNNING: frozenset({N.QUEUED, N.HELD, N.WAITING, N.RETRYING, *_enders}),
    N.WAITING: frozenset({N.WAITING, N.QUEUED, N.HELD, N.RETRYING, *_enders}),
    N.RETRYING: frozenset({N.QUEUED, N.HELD, N.RUNNING, N.WAITING, *_enders}),
    N.PARKED: frozenset({N.PARKED, N.QUEUED, N.HELD, N.COMPLETED, N.FAILED, N.SKIPPED, N.CANCELLED}),
    N.COMPLETED: frozenset({N.COMPENSATED, N.PARKED, N.FAILED}),
    N.FAILED: frozenset(),
    N.UPSTREAM_FAILED: frozenset(),
    N.SKIPPED: frozenset(),
    N.CANCELLED: frozenset(),
    N.COMPENSATED: frozenset(),
}
"""Transitions within a generation. WAITING -> WAITING is for the next generation of a child. COMPLETED -> PARKED is an
outcome whose routing failed (rule 20); the work stays done. COMPLETED -> FAILED, or PARKED, is an outcome that was
kept and has no way on (rule 25). RETRYING -> WAITING is a failing poll that is stopped (rule 51)."""

NEW_GENERATION: dict[NodeState, frozenset[NodeState]] = {
    N.FAILED: frozenset({N.PENDING}),
    N.UPSTREAM_FAILED: frozenset({N.PENDING}),
    N.SKIPPED: frozenset({N.PENDING}),
    N.CANCELLED: frozenset({N.PENDING, N.PARKED, N.WAITING}),
    N.COMPENSATED: frozenset({N.PENDING}),
    N.COMPLETED: frozenset({N.PENDING}),  # only a map, when its items were compensated
}
"""Further transitions for `run.retried`, and for the items of a map that is tried again."""

RUN_TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    R.RUNNING: frozenset({R.PAUSED, R.FAILING, R.CANCELLING, R.COMPLETED, R.CANCELLED}),
    R.PAUSED: frozenset({R.PAUSED, R.RUNNING, R.FAILING, R.CANCELLING, R.COMPLETED, R.CANCELLED}),
    R.FAILING: frozenset({R.FAILED, R.COMPENSATING, R.CANCELLING, R.CANCELLED}),
    R.CANCELLING: frozenset({R.CANCELLED, R.COMPENSATING}),
    R.COMPENSATING: frozenset({R.FAILED, R.CANCELLED, R.ROLLED_BACK}),
    R.COMPLETED: frozenset({R.COMPENSATING}),
    R.FAILED: frozenset({R.RUNNING, R.COMPENSATING}),
    R.CANCELLED: frozenset({R.COMPENSATING, R.RUNNING}),
    R.ROLLED_BACK: frozenset(),
}

TAKEN, SKIPPED, FAILED, ERROR = 1, 2, 3, 4
"""How an edge resolved. ERROR: taken with the error output of `on_failure: continue` or a failure path."""
