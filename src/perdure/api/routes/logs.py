"""What handlers said, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import Limit, Sequence, Text, sequence
from perdure.api.request_reader import Query
from perdure.api.schemas import general_schemas as s

routes = Routes("administration")


class ReadLogs(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Text | None = None
    after: Annotated[Sequence, Meta(description="Only lines after this position.")] = 0
    cursor: Annotated[str, Meta(description="The same as `after`.", pattern="^[0-9]{1,15}$")] | None = None
    limit: Limit = 100


@routes.get("/runs/{run_id}/logs", Permission.RUNS_READ, s.LogPage)
async def logs(call: Call, query: ReadLogs) -> Any:
    """List what the functions of a run printed or logged, in order."""
    after = sequence(query.cursor, query.after)
    pages = call.service.runs.logs(call.path("run_id"), node=query.node, after=after, limit=query.limit)
    return await pages.first()
