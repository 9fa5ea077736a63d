"""Runs over HTTP, read part by part. What each does is in `perdure.service.runs.run_readings`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.parameters import AFTER_DESCRIPTION, Limit, Sequence
from perdure.api.request_reader import Query
from perdure.api.schemas import reading_schemas as s
from perdure.api.schemas.film_schemas import Film
from perdure.api.schemas.general_schemas import NodeState
from perdure.api.schemas.transcript_schemas import GuardPage, Transcript, Verdict
from perdure.api.schemas.value_schemas import MapItemPage, NodeInput, Slice
from perdure.service.runs.films import MOST_ROWS

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


# -- values ------------------------------------------------------------------------------------------------------------

Visit = Annotated[int, Meta(description="Which visit; without, the newest.", ge=1, le=2**31)]
Item = Annotated[int, Meta(description="An item of a map, from 0.", ge=0, le=2**31)]


class CutValue(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pointer: Annotated[
        str, Meta(description="A JSON pointer to the part, such as `/lines/0`; empty: the whole.", max_length=4000)
    ] = ""
    offset: Annotated[int, Meta(description="From this entry, or character of a text, on.", ge=0, le=2**40)] = 0
    limit: Annotated[
        int, Meta(description="At most so many entries, or a hundred times as many characters.", ge=1, le=1000)
    ] = 100


class CutOutput(CutValue, frozen=True, kw_only=True, forbid_unknown_fields=True):
    visit: Visit | None = None
    item: Item | None = None
    at: EventNumber | None = None


class ReadInput(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    visit: Visit | None = None
    attempt: Annotated[int, Meta(description="By the number its events have.", ge=1, le=2**31)] | None = None
    item: Item | None = None
    at: EventNumber | None = None


class ListItems(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    visit: Visit | None = None
    state: Annotated[NodeState, Meta(description="Only items in this state.")] | None = None
    limit: Limit = 100
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,15}$")] | None = None


@routes.get("/runs/{run_id}/nodes/{node}/input", READ, NodeInput)
async def node_input(call: Call, query: ReadInput) -> Any:
    """Get what a node was given: its rendered config, with secrets masked, and its inputs."""
    which: dict[str, Any] = {"visit": query.visit, "attempt": query.attempt, "item": query.item, "at": query.at}
    return await call.service.runs.node_input(call.path("run_id"), call.path("node"), **which)


@routes.get("/runs/{run_id}/nodes/{node}/output", READ, Slice)
async def node_output(call: Call, query: CutOutput) -> Any:
    """Get a part of what a node gave, one level deep: entries of an object or a list, or a piece of a text."""
    which: dict[str, Any] = {"visit": query.visit, "item": query.item, "at": query.at}
    return await call.service.runs.node_output(call.path("run_id"), call.path("node"), **which, **_part(query))


@routes.get("/runs/{run_id}/inputs", READ, Slice)
async def inputs(call: Call, query: CutValue) -> Any:
    """Get a part of the inputs of a run, one level deep."""
    return await call.service.runs.inputs(call.path("run_id"), **_part(query))


@routes.get("/runs/{run_id}/outputs", READ, Slice)
async def outputs(call: Call, query: CutValue) -> Any:
    """Get a part of the outputs of a run, one level deep."""
    return await call.service.runs.outputs(call.path("run_id"), **_part(query))


@routes.get("/runs/{run_id}/nodes/{node}/items", READ, MapItemPage)
async def items(call: Call, query: ListItems) -> Any:
    """List the items of a map, in order, with the sizes of their outputs."""
    pages = call.service.runs.items(
        call.path("run_id"),
        call.path("node"),
        visit=query.visit,
        state=query.state,
        limit=query.limit,
        cursor=query.cursor,
    )
    return await pages.first()


# -- models ------------------------------------------------------------------------------------------------------------


class ReadTranscript(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    visit: Visit | None = None
    item: Item | None = None
    at: EventNumber | None = None
    limit: Limit = 100
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,15}$")] | None = None


class ListGuards(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: Annotated[str, Meta(description="The run.", min_length=1, max_length=500)]
    verdict: Annotated[Verdict, Meta(description="Only calls about which this was decided.")] | None = None
    limit: Limit = 100
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,15}[.][0-9]{1,15}$")] | None = None


@routes.get("/runs/{run_id}/nodes/{node}/transcript", READ, Transcript)
async def transcript(call: Call, query: ReadTranscript) -> Any:
    """Get what an agent, or another node that asks a model, was told, said and called, turn by turn.

    Each call has what the guard decided, by which rule and why, what people answered, and what the call gave. `usage` is all that the node
    has used. `next_cursor` is where the next turns begin.
    """
    which: dict[str, Any] = {"visit": query.visit, "item": query.item, "at": query.at}
    page: dict[str, Any] = {"limit": query.limit, "cursor": query.cursor}
    return await call.service.runs.transcript(call.path("run_id"), call.path("node"), **which, **page)


@routes.get("/guards", READ, GuardPage)
async def guards(call: Call, query: ListGuards) -> Any:
    """List what was decided about the calls of the agents of a run: by which rule, with what the agent had read, and by whom."""
    pages = call.service.runs.guards(query.run, verdict=query.verdict, limit=query.limit, cursor=query.cursor)
    return await pages.first()


def _part(query: CutValue) -> dict[str, Any]:
    return {"pointer": query.pointer, "offset": query.offset, "limit": query.limit}
