"""Search over everything of a tenant that has a name: runs by the beginning of their id, workflows and approvals that
wait by a part of their names.

It must not know HTTP. A caller sees the kinds that it may read; the others are empty.
"""

from __future__ import annotations

from perdure.access import Permission
from perdure.service.approvals import Approvals
from perdure.service.runs.run_lists import SHORTEST_PREFIX
from perdure.service.runs.runs import Runs
from perdure.service.tenancy import Tenancy
from perdure.service.views import View
from perdure.service.workflows.workflows import Workflows

MOST_PAGES = 5
"""How many pages of approvals are looked through."""
_PAGE = 200


async def search(tenancy: Tenancy, text: str, limit: int) -> View:
    text, may = text.strip(), tenancy.principal.may
    found: View = {"runs": [], "workflows": [], "approvals": []}
    if not text:
        return found
    if may(Permission.RUNS_READ) and len(text) >= SHORTEST_PREFIX:
        found["runs"] = (await Runs(tenancy).list(id=text, children=True, limit=limit).first())["items"]
    if may(Permission.WORKFLOWS_READ):
        found["workflows"] = (await Workflows(tenancy).list(q=text, limit=limit).first())["items"]
    if may(Permission.APPROVALS_READ):
        found["approvals"] = await _approvals(tenancy, text.casefold(), limit)
    return found


async def _approvals(tenancy: Tenancy, text: str, limit: int) -> list[View]:
    found: list[View] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = await Approvals(tenancy).list(state="pending", limit=_PAGE, cursor=cursor).first()
        for one in page["items"]:
            names = (one["approval_id"], one["node"], one["workflow"] or "", *one["approvers"])
            if any(text in name.casefold() for name in names):
                found.append(one)
        cursor = page["next_cursor"]
        if cursor is None or len(found) >= limit:
            break
    return found[:limit]
