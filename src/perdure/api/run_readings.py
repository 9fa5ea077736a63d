"""Runs over HTTP, read part by part. What each does is in `perdure.service.run_readings`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api import reading_schemas as s
from perdure.api.endpoints import Call, Routes
from perdure.api.film_schemas import Film
from perdure.api.parameters import AFTER_DESCRIPTION, Sequence
from perdure.api.request_reader import Query
from perdure.service.films import MOST_ROWS

routes = Routes("runs")
READ = Permission.RUNS_READ
EventNumber = Annotated[int, Meta(description="As it was after this event.", ge=1, le=2**53)]


class DefinitionAt(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: EventNumber | None = None


@routes.get("/runs/{run_id}/definition", READ, s.RunDefinition)
async def definition(call: Call, query: DefinitionAt) -> Any:
    """Get the definition that a run follows, and the patches that led to it."""
    return await call.service.runs.definition(call.path("run_id"), at=query.at)


class ReadFilm(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[Sequence, Meta(description=AFTER_DESCRIPTION)] = 0
    cursor: Annotated[str, Meta(description="The same as `after`.", pattern="^[0-9]{1,15}$")] | None = None
    limit: Annotated[int, Meta(description="About so many rows; an event is not cut.", ge=1, le=MOST_ROWS)] = MOST_ROWS


@routes.get("/runs/{run_id}/film", READ, Film)
async def film(call: Call, query: ReadFilm) -> Any:
    """Get every change of the nodes of a run, as columns: what a screen needs to show the run at any event.

    At an event, a node shows the last row about it with that number or a lower one whose `shown` is 1; without one it is
    `pending`. The other rows are those of items and of iterations that are over.
    """
    return await call.service.runs.film(call.path("run_id"), after=query.after, limit=query.limit, cursor=query.cursor)
