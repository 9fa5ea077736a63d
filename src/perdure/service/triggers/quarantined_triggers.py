"""Triggers whose runs are quarantined: they are shown as such, and can be deleted.

A run in quarantine decides nothing, so that its row says what was true before. What is known of the quarantine stands with the run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import Refused
from perdure.journal import Accepted, Commit, RunFilter, TriggerRow
from perdure.kernel.triggers.trigger_run import TRIGGER

if TYPE_CHECKING:
    from perdure.engine import Engine

MOST = 1000
"""How many quarantined triggers are looked for, of each list."""
QUARANTINED = "quarantined"


async def find_quarantined(engine: Engine, rows: Collection[TriggerRow]) -> dict[str, str]:
    """Why the runs of these triggers are quarantined, by run."""
    if not rows:
        return {}
    if len(rows) == 1:
        (row,) = rows
        record = await engine.journal.find_run(row.head)
        return {} if record is None or record.quarantined is None else {row.head: record.quarantined}
    tenants = {row.tenant for row in rows}
    where = RunFilter(
        workflow=TRIGGER.name, quarantined=True, tenant=next(iter(tenants)) if len(tenants) == 1 else None
    )
    page = await engine.journal.list_runs(where, limit=MOST)
    heads = {row.head for row in rows}
    return {one.run_id: one.quarantined for one in page.items if one.quarantined is not None and one.run_id in heads}


def mark(view: dict[str, Any], why: str | None) -> dict[str, Any]:
    if why is None:
        return view
    message = (
        f"its run {view['trigger_id']} is quarantined and starts nothing: {why[:500]}; see perdure doctor, or delete it"
    )
    return {**view, "state": QUARANTINED, "next_at": None, "error": {"code": QUARANTINED, "message": message}}


async def give_up(engine: Engine, row: TriggerRow) -> None:
    """Write down that a trigger is deleted whose run cannot be asked. Its journal stays as it is, in quarantine."""
    record = await engine.journal.get_run(row.head)
    gone = msgspec.structs.replace(row, state="deleted", next_at=None)
    commit = Commit(
        run_id=row.head,
        expected_seq=record.seq,
        commit_id=engine.clock.new_id(),
        row=record.row,
        triggers=(gone,),
    )
    (outcome,) = await engine.journal.append([commit])
    if not isinstance(outcome, Accepted):
        raise Refused(f"trigger {row.name} has changed meanwhile; try again", code="conflict")
