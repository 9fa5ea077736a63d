"""Runs over HTTP, read part by part. What each does is in `perdure.service.run_readings`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api import reading_schemas as s
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Query

routes = Routes("runs")
READ = Permission.RUNS_READ
EventNumber = Annotated[int, Meta(description="As it was after this event.", ge=1, le=2**53)]


class DefinitionAt(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: EventNumber | None = None


@routes.get("/runs/{run_id}/definition", READ, s.RunDefinition)
async def definition(call: Call, query: DefinitionAt) -> Any:
    """Get the definition that a run follows, and the patches that led to it."""
    return await call.service.runs.definition(call.path("run_id"), at=query.at)
