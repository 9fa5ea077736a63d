"""The runs that have nothing to do but wait, their children included: a parent whose child waits for a person waits as
well.

A row says whether its run has work under way or children. Whether those children only wait is not written into the
parent's row, because it changes with each child; it is looked up here, for the runs that are shown. Owns what that may
cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.engine import Engine
from perdure.journal import RunFilter
from perdure.kernel.child_runs import open_children
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.state import State
from perdure.records import RunRecord
from perdure.runtime.coordinator.projections import works

MOST_LOOKED_AT = 200
"""For how many runs one answer queries the children. Beyond that, a busy row counts as not waiting."""
MOST_CHILDREN = 100
_OPEN = tuple(
    state.value for state in RunState if state.value in ("running", "paused", "failing", "cancelling", "compensating")
)


async def find_waiting(engine: Engine, records: Iterable[RunRecord]) -> set[str]:
    """The ids of the runs that wait for a person, a signal or a time, themselves or in all their children."""
    look = _Look(engine)
    return {record.run_id for record in records if await look.waits(record)}


async def is_waiting(engine: Engine, record: RunRecord, state: State) -> bool:
    """Whether a run waits, given its state."""
    return await _Look(engine).waits(record, state)


class _Look:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left = MOST_LOOKED_AT

    async def waits(self, record: RunRecord, state: State | None = None) -> bool:
        row = record.row
        if row.state != RunState.RUNNING or record.quarantined is not None:
            return row.state == RunState.RUNNING and not row.busy
        if not row.busy:
            return True
        if state is not None and works(state):
            return False
        self._left -= 1
        if self._left < 0:
            return False
        below = RunFilter(parent=record.run_id, tenant=row.tenant, states=_OPEN)
        page = await self._engine.journal.list_runs(below, limit=MOST_CHILDREN)
        if not page.items or page.next_cursor is not None:
            return False
        for child in page.items:
            if not await self.waits(child):
                return False
        state = state or await self._engine.runs.state_of(record)
        begun = {child.run_id for child in page.items}
        waiting = {key for key in state.children.values() if state.activations[key].state is NodeState.WAITING}
        return not works(state) and all(
            child in begun for key in waiting for child in open_children(state.activations[key])
        )
