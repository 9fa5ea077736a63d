"""How the versions of a workflow do: how many runs each has started, how they ended, and how long they took.

It must not know HTTP or permissions. It looks at the newest runs, a bounded number of them.
"""

from __future__ import annotations

import math

from perdure.journal import RunFilter, RunRecord
from perdure.service.tenancy import Tenancy
from perdure.service.views import View

MOST_RUNS = 10_000
_PAGE = 1000


async def read_stats(tenancy: Tenancy, workflow: str, since: float | None) -> View:
    """By version, highest first, of runs that were made since then; of the newest 10,000 if there are more."""
    journal = tenancy.engine.journal
    where = RunFilter(tenant=tenancy.tenant, workflow=workflow, since=since)
    versions: dict[int, list[RunRecord]] = {}
    cursor, looked = None, 0
    while looked < MOST_RUNS:
        page = await journal.list_runs(where, limit=min(_PAGE, MOST_RUNS - looked), cursor=cursor)
        for record in page.items:
            versions.setdefault(record.row.workflow_version, []).append(record)
        looked, cursor = looked + len(page.items), page.next_cursor
        if cursor is None:
            break
    items = [_version(version, versions[version]) for version in sorted(versions, reverse=True)]
    return {"workflow": workflow, "since": since, "capped": cursor is not None, "versions": items}


def _version(version: int, records: list[RunRecord]) -> View:
    rows = [record.row for record in records]
    took = sorted(row.ended_at - row.created_at for row in rows if row.ended_at is not None)
    states = [row.state for row in rows]
    return {
        "version": version,
        "started": len(rows),
        "open": sum(row.ended_at is None for row in rows),
        "completed": states.count("completed"),
        "failed": states.count("failed"),
        "cancelled": states.count("cancelled") + states.count("rolled_back"),
        "p50_seconds": share_of(took, 0.5),
        "p95_seconds": share_of(took, 0.95),
        "last_at": max(row.created_at for row in rows),
    }


def share_of(took: list[float], share: float) -> float | None:
    """The time that so large a share of the runs did not exceed."""
    return took[max(0, math.ceil(share * len(took)) - 1)] if took else None
