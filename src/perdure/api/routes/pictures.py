"""Pictures over HTTP: as data for programs that draw themselves, and as SVG. What each shows is in `perdure.service.pictures`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Query
from perdure.api.revalidation import headers_of, is_known, unchanged
from perdure.api.routes.run_readings import EventNumber
from perdure.api.routes.workflows import GetWorkflow
from perdure.api.schemas.graph_schemas import Graph
from perdure.service import pictures

of_runs, of_workflows = Routes("runs"), Routes("workflows")
SVG = "image/svg+xml"
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""A picture that is opened by itself runs nothing, fetches nothing and belongs to no origin (X25)."""
Direction = Annotated[Literal["down", "right"], Meta(description="Where arrows lead; without, what is easier to read.")]
Opened = Annotated[
    tuple[Annotated[str, Meta(max_length=200)], ...],
    Meta(description="The stacks to draw open, by their ids; `*` for all."),
]


class RunPicture(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: EventNumber | None = None
    direction: Direction | None = None


class RunGraph(RunPicture, frozen=True, kw_only=True, forbid_unknown_fields=True):
    opened: Opened = msgspec.field(default=(), name="open")


class WorkflowPicture(GetWorkflow, frozen=True, kw_only=True, forbid_unknown_fields=True):
    direction: Direction | None = None


class WorkflowGraph(WorkflowPicture, frozen=True, kw_only=True, forbid_unknown_fields=True):
    opened: Opened = msgspec.field(default=(), name="open")


@of_runs.get("/runs/{run_id}/graph", Permission.RUNS_READ, Graph, also={304: None})
async def graph(call: Call, query: RunGraph) -> Response:
    """Get the nodes and edges of a run with their places, as the definition it follows has them.

    The picture does not change while the run goes on, so it has an `ETag`: states come from elsewhere.
    """
    wanted = await call.service.runs.plan_graph(
        call.path("run_id"), at=query.at, direction=query.direction, opened=query.opened
    )
    return await _answer(call, wanted)


@of_runs.get("/runs/{run_id}/graph.svg", Permission.RUNS_READ, SVG, also={304: None})
async def graph_svg(call: Call, query: RunPicture) -> Response:
    """Get a run as a picture: the states of its nodes and the way it took."""
    text = await call.service.runs.graph_svg(call.path("run_id"), at=query.at, direction=query.direction)
    drawn = text.encode()
    tag = hashlib.sha256(drawn).hexdigest()
    return unchanged(tag) if is_known(call.request, tag) else _picture(drawn, tag)


@of_workflows.get("/workflows/{name}/graph", Permission.WORKFLOWS_READ, Graph, also={304: None})
async def workflow_graph(call: Call, query: WorkflowGraph) -> Response:
    """Get the nodes and edges of a workflow with their places: the highest version, unless one is given."""
    which: dict[str, Any] = {"version": query.version, "alias": query.alias, "direction": query.direction}
    return await _answer(call, await call.service.workflows.plan_graph(call.path("name"), **which, opened=query.opened))


@of_workflows.get("/workflows/{name}/graph.svg", Permission.WORKFLOWS_READ, SVG, also={304: None})
async def workflow_graph_svg(call: Call, query: WorkflowPicture) -> Response:
    """Get a workflow as a picture: the highest version, unless one is given."""
    which: dict[str, Any] = {"version": query.version, "alias": query.alias, "direction": query.direction}
    return await _answer(call, await call.service.workflows.plan_graph(call.path("name"), **which, format="svg"))


async def _answer(call: Call, wanted: pictures.Graph) -> Response:
    tag = wanted.name
    if is_known(call.request, tag):
        return unchanged(tag)
    drawn = await wanted.draw()
    if wanted.format == "svg":
        return _picture(drawn, tag)
    return Response(drawn, headers=headers_of(tag), media_type="application/json")


def _picture(drawn: bytes, tag: str) -> Response:
    return Response(drawn, headers={**headers_of(tag), "Content-Security-Policy": SANDBOX}, media_type=SVG)
