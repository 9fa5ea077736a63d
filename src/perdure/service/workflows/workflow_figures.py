"""What a list of workflows says beside each name: what it is for, what is open, what failed lately and when it last began.

It must not know HTTP. Counts are of the newest runs, as everywhere; who may not read runs gets null for what only runs tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.access import Permission
from perdure.journal import RunFilter, WorkflowVersion
from perdure.service.overview import DAY_SECONDS, OPEN
from perdure.service.runs.run_lists import MOST_COUNTED
from perdure.service.tenancy import Tenancy
from perdure.service.views import View


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
        unknown: View = {"open": None, "failed_24h": None, "last_run_at": None}
        return {name: {**view, **unknown} for name, view in figures.items()}
    opened = await _count(tenancy, RunFilter(tenant=tenancy.tenant, states=OPEN))
    yesterday = tenancy.engine.clock.now() - DAY_SECONDS
    failed = await _count(tenancy, RunFilter(tenant=tenancy.tenant, states=("failed",), since=yesterday))
    for name, view in figures.items():
        view["open"], view["failed_24h"] = opened.get(name, 0), failed.get(name, 0)
        newest = await tenancy.engine.journal.list_runs(RunFilter(tenant=tenancy.tenant, workflow=name), limit=1)
        view["last_run_at"] = newest.items[0].row.created_at if newest.items else None
    return figures


async def _count(tenancy: Tenancy, where: RunFilter) -> dict[str, int]:
    counts = await tenancy.engine.journal.count_runs(where, group="workflow", limit=MOST_COUNTED)
    return {one.group or "": one.count for one in counts}
