"""The server and its deployment over HTTP: health, readiness, metrics, node types, workers, queues and blobs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.byte_ranges import in_pieces, wanted_range
from perdure.api.endpoints import Answer, Call, Routes
from perdure.api.lasting_answer import LastingAnswer
from perdure.api.metrics import MEDIA_TYPE
from perdure.api.request_reader import Query, media_type, read_bytes
from perdure.api.revalidation import is_known
from perdure.api.schemas import general_schemas as s
from perdure.api.schemas.blob_schemas import BlobPut, BlobStat
from perdure.api.schemas.overview_schemas import Overview
from perdure.api.schemas.search_schemas import Found
from perdure.api.schemas.usage_schemas import TenantUsage
from perdure.api.schemas.worker_schemas import QueuePage, WorkerPage
from perdure.service.system import count_workers

routes = Routes("system")
outside = Routes("server", prefix="")
SYSTEM = Permission.SYSTEM_READ
BYTES = "application/octet-stream"
READY_SECONDS = 5.0
LARGEST_WHOLE = 64 * 1024 * 1024
"""A blob, or a part of one, that is larger is sent piece by piece: the server never holds it. It may be a file of gigabytes."""


class Search(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    q: Annotated[str, Meta(description="The beginning of the id of a run, or a part of a name.", max_length=200)]
    limit: Annotated[int, Meta(description="At most so many of each kind.", ge=1, le=50)] = 8


@routes.get("/search", SYSTEM, Found)
async def search(call: Call, query: Search) -> Any:
    """Search runs by the beginning of their id (four characters or more), workflows by a part of their name, and pending approvals by a part
    of their id, node, workflow or approvers. Kinds that you may not read are empty."""
    return await call.service.system.search(query.q, limit=query.limit)


class Look(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Annotated[Literal["1h", "24h", "7d"], Meta(description="How far back the figures of runs go.")] = "24h"


@routes.get("/overview", SYSTEM, Overview)
async def overview(call: Call, query: Look) -> Any:
    """Get what needs a person now, how runs did in a span of time, and the newest of them. It may be five seconds old.

    Parts that you may not read are null or empty.
    """
    queues = call.service.system.queues
    return await call.site.overviews.read(call.service.tenancy, query.span, lambda: queues().first())


Day = Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class SpentOf(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    by: Annotated[Literal["workflow", "model", "day"], Meta(description="What is added up together.")] = "workflow"
    since: Annotated[Day, Meta(description="The first day, in UTC; 30 days ago without it.")] | None = None
    until: Annotated[Day, Meta(description="The last day, in UTC; today without it.")] | None = None
    workflow: Annotated[str | None, Meta(description="Only what runs of this workflow used.")] = None


@routes.get("/usage", Permission.COSTS_READ, TenantUsage)
async def spent(call: Call, query: SpentOf) -> Any:
    """What the runs of the tenant have used: tokens, calls and dollars, by workflow, by model or by day.

    Each run counts what it used itself; what its children used counts for their workflows. The sums stay when runs are deleted.
    `unsettled` is the part whose calls have no known end: the provider may have charged for them.
    """
    return await call.service.system.usage(by=query.by, since=query.since, until=query.until, workflow=query.workflow)


@outside.get("/healthz", None, s.Health)
async def health(call: Call) -> Any:
    """The process lives."""
    return {"status": "ok"}


@outside.get("/readyz", None, s.Health, also={503: s.Health})
async def ready(call: Call) -> Any:
    """The process can work: its database answers and can be written to. How many workers there are, it says where they can be asked."""
    if reason := await call.site.readiness.explain_trouble():
        return Answer({"status": "unavailable", "reason": reason}, 503)
    try:
        async with asyncio.timeout(READY_SECONDS):
            workers = await count_workers(call.site.engine)
    except TimeoutError:
        workers = None
    return (
        {"status": "ok"} if workers is None else {"status": "ok", "workers": workers}
    )  # ready without workers too: runs are kept all the same


@outside.get("/metrics", Permission.SYSTEM_OPERATE, MEDIA_TYPE)
async def metrics(call: Call) -> Response:
    """Figures for Prometheus, of the whole process."""
    return Response(call.site.metrics.text(), media_type=MEDIA_TYPE)


@outside.get("/openapi.json", None, s.Health)
async def openapi(call: Call) -> Response:
    """Get this document: the description of the HTTP API."""
    return Response(msgspec.json.encode(call.request.app.state.document()), media_type="application/json")


# -- what the deployment is made of ------------------------------------------------------------------------------------


@routes.get("/node-types", SYSTEM, s.NodeTypePage)
async def node_types(call: Call) -> Any:
    """List the node types that workflows on this server can use."""
    return await call.service.system.node_types().first()


@routes.get("/node-types/{name}", SYSTEM, s.NodeType)
async def node_type(call: Call) -> Any:
    """Get a node type, with the schemas of its config and its output."""
    return await call.service.system.node_type(call.path("name"))


@routes.get("/workers", SYSTEM, WorkerPage)
async def workers(call: Call) -> Any:
    """List the workers that execute tasks now."""
    return await call.service.system.workers().first()


@routes.get("/queues", SYSTEM, QueuePage)
async def queues(call: Call) -> Any:
    """List the queues: how many tasks wait in each, and how many worker slots serve it."""
    return await call.service.system.queues().first()


# -- blobs -------------------------------------------------------------------------------------------------------------


@routes.get("/blobs/{hash:path}/stat", Permission.BLOBS_READ, BlobStat)
async def stat_blob(call: Call) -> Any:
    """Get the size of a blob, and when it was last put."""
    return await call.service.blobs.stat(call.path("hash"))


@routes.get("/blobs/{hash:path}", Permission.BLOBS_READ, BYTES, also={206: BYTES, 304: None})
async def get_blob(call: Call) -> Response:
    """Get the content of a blob, byte for byte as it was stored, or with `Range` a part of it."""
    ref = call.path("hash")
    size = (await call.service.blobs.stat(ref))["size"]
    tag = _tag(ref)
    if is_known(call.request, tag):
        return Response(status_code=304, headers=_about(tag))
    part = wanted_range(call.request, size, tag)
    first, end = part or (0, size)
    status, headers = 200, _about(tag)
    if part is not None:
        status, headers = 206, {**headers, "Content-Range": f"bytes {first}-{end - 1}/{size}"}
    if end - first > LARGEST_WHOLE:
        place = call.site.places.enter(call.principal)
        pieces = in_pieces(partial(call.service.blobs.part, ref), first, end)
        answer = LastingAnswer(call, pieces, Permission.BLOBS_READ, place, BYTES, headers)
        answer.status_code = status
        return answer
    if part is None:
        return _content(await call.service.blobs.get(ref), tag)
    return Response(await call.service.blobs.part(ref, first, end - first), status, headers, BYTES)


@routes.head("/blobs/{hash:path}", Permission.BLOBS_READ)
async def head_blob(call: Call) -> Response:
    """Get the headers that the content of a blob would come with: its size, and its tag."""
    ref = call.path("hash")
    size = (await call.service.blobs.stat(ref))["size"]
    response = Response(headers=_about(_tag(ref)), media_type=BYTES)
    response.headers["Content-Length"] = str(size)
    return response


def _tag(ref: str) -> str:
    """The content never changes under its hash, so the hash is the tag."""
    return ref.removeprefix("cas://")


def _about(tag: str) -> dict[str, str]:
    # Whatever the blob is, no browser may take it for a page of this server (X25).
    attached = {"Content-Disposition": "attachment", "Accept-Ranges": "bytes"}
    return {**attached, "ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}


def _content(data: bytes, tag: str) -> Response:
    return Response(data, headers=_about(tag), media_type=BYTES)


@routes.post("/blobs", Permission.BLOBS_WRITE, BlobPut, status=201, sends=(BYTES,))
async def put_blob(call: Call) -> Any:
    """Store the body as a blob. The answer has the reference by which a definition names it."""
    media_type(call.request, {BYTES})
    view = await call.service.blobs.put(await read_bytes(call.request))
    call.object = view["ref"]
    return view
