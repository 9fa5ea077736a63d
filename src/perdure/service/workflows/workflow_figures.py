"""What a list of workflows says beside each name: what it is for, what is open, how its runs of the last day did, and when the last began.

It must not know HTTP. Counts are of the newest runs, as everywhere; who may not read runs gets null for what only runs tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from perdure.access import Permission
from perdure.journal import RunFilter, WorkflowVersion
from perdure.service.overview import DAY_SECONDS, OPEN, times_by_workflow
from perdure.service.runs.run_lists import MOST_COUNTED
from perdure.service.tenancy import Tenancy
from perdure.service.views import View
from perdure.service.workflows.workflow_stats import share_of

HOURS = 24
_HOUR_SECONDS = 3600.0
_OF_RUNS = ("open", "failed_24h", "p95_seconds", "hours", "last_run_at")


class _Described(msgspec.Struct, frozen=True):
    """All that is read of a definition here; the rest is skipped, however large it is."""

    description: str = ""


async def read_figures(tenancy: Tenancy, found: Sequence[WorkflowVersion]) -> dict[str, View]:
    """By the name of the workflow."""
    figures: dict[str, View] = {}
    for version in found:
        stored = await tenancy.engine.library.read(version.definition_hash)
        figures[version.name] = {"description": msgspec.json.decode(stored, type=_Described).description}
    if not tenancy.principal.may(Permission.RUNS_READ):
        return {name: {**view, **dict.fromkeys(_OF_RUNS)} for name, view in figures.items()}
    now = tenancy.engine.clock.now()
    opened = await _count(tenancy, RunFilter(tenant=tenancy.tenant, states=OPEN))
    failed = await _count(tenancy, RunFilter(tenant=tenancy.tenant, states=("failed",), since=now - DAY_SECONDS))
    took, _ = await times_by_workflow(
        tenancy, RunFilter(tenant=tenancy.tenant, ended_since=now - DAY_SECONDS, by_end=True)
    )
    hours = await _count_hours(tenancy, now)
    for name, view in figures.items():
        view["open"], view["failed_24h"] = opened.get(name, 0), failed.get(name, 0)
        view["p95_seconds"] = share_of(sorted(took.get(name, ())), 0.95)
        view["hours"] = hours.get(name, [0] * HOURS)
        newest = await tenancy.engine.journal.list_runs(RunFilter(tenant=tenancy.tenant, workflow=name), limit=1)
        view["last_run_at"] = newest.items[0].row.created_at if newest.items else None
    return figures


async def _count(tenancy: Tenancy, where: RunFilter) -> dict[str, int]:
    counts = await tenancy.engine.journal.count_runs(where, group="workflow", limit=MOST_COUNTED)
    return {one.group or "": one.count for one in counts}


async def _count_hours(tenancy: Tenancy, now: float) -> dict[str, list[int]]:
    """How many runs of each workflow began in each of the last hours; the present one is the last."""
    first = math.floor(now / _HOUR_SECONDS) - HOURS + 1
    where = RunFilter(tenant=tenancy.tenant, since=first * _HOUR_SECONDS)
    found: dict[str, list[int]] = {}
    for one in await tenancy.engine.journal.count_runs(
        where, group="workflow", bucket=_HOUR_SECONDS, limit=MOST_COUNTED
    ):
        hour = (one.bucket or 0) - first
        if hour < HOURS:  # one that begins while this is asked may be of the next
            found.setdefault(one.group or "", [0] * HOURS)[hour] += one.count
    return found
