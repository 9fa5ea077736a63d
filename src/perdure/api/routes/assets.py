"""Assets that outlive their run over HTTP. What each operation does is in `perdure.service.assets`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.byte_ranges import in_pieces, wanted_range
from perdure.api.endpoints import Call, Routes
from perdure.api.lasting_answer import LastingAnswer, while_allowed
from perdure.api.parameters import Limit, Text
from perdure.api.request_reader import Body, Query
from perdure.api.schemas import asset_schemas as s

routes = Routes("assets")
READ, WRITE = Permission.BLOBS_READ, Permission.BLOBS_WRITE
BYTES = "application/octet-stream"
SMALL = 4 * 1024 * 1024
"""Up to so many bytes are one answer; more are sent piece by piece."""
Version = Annotated[int, Meta(description="Which version; without it the newest.", ge=1, le=2**31)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ListAssets(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="Only versions of this name.", max_length=200)] = ""
    limit: Limit = 100
    cursor: Text | None = None


class WhichVersion(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None


class ThisVersion(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, Meta(description="Which version.", ge=1, le=2**31)]


class Promote(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: Text
    node: Text
    name: Annotated[
        str, Meta(description="Of what it becomes a version; without it, what the file is called.", max_length=200)
    ] = ""
    pointer: Annotated[
        str, Meta(description="Which of several assets the node gave, such as `/files/0`.", max_length=2000)
    ] = ""
    visit: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    item: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class PutAsset(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    parts: Annotated[
        list[Annotated[str, Meta(max_length=100)]],
        Meta(description="The blobs whose contents, one behind the other, it is.", min_length=1, max_length=10_000),
    ]
    media_type: Annotated[str, Meta(max_length=200)] = ""
    file_name: Annotated[str, Meta(max_length=200)] = ""


@routes.get("/assets", READ, s.AssetPage)
async def list_assets(call: Call, query: ListAssets) -> Any:
    """List the versions of one name, or of all, by name and version."""
    return await call.service.assets.list(name=query.name, limit=query.limit, cursor=query.cursor).first()


@routes.post("/assets", WRITE, s.AssetVersion, status=201)
async def promote(call: Call, body: Promote) -> Any:
    """Keep an asset that a node gave as the next version of a name: it outlives the run. This also needs the permission `runs:read`."""
    call.principal.require(Permission.RUNS_READ)
    view = await call.service.assets.promote(
        body.run_id, body.node, name=body.name, pointer=body.pointer, visit=body.visit, item=body.item
    )
    call.object = f"{view['name']}@{view['version']}"
    return view


@routes.get("/assets/{name}", READ, s.AssetVersion)
async def get_asset(call: Call, query: WhichVersion) -> Any:
    """Get what is known of a version of an asset."""
    return await call.service.assets.get(call.path("name"), version=query.version)


@routes.put("/assets/{name}", WRITE, s.AssetVersion)
async def put_asset(call: Call, body: PutAsset) -> Any:
    """Keep content that was put as blobs, part by part, as the next version of a name. Gigabytes take a while, and a place of those
    that a key has for what lasts."""
    name, about = call.path("name"), {"media_type": body.media_type, "file_name": body.file_name}
    with call.site.places.enter(call.principal):
        view = await while_allowed(call, WRITE, call.service.assets.put(name, body.parts, **about))
    call.object = f"{name}@{view['version']}"
    return view


@routes.delete("/assets/{name}", WRITE, s.AssetVersion)
async def delete_asset(call: Call, query: ThisVersion) -> Any:
    """Delete a version of an asset. Its number is not given again."""
    call.object = f"{call.path('name')}@{query.version}"
    return await call.service.assets.delete(call.path("name"), query.version)


@routes.get("/assets/{name}/content", READ, BYTES, also={206: BYTES})
async def get_asset_content(call: Call, query: WhichVersion) -> Response:
    """Get the content of a version of an asset, or with `Range` a part of it.

    Whatever it is, it is sent as a download: its media type is in `X-Asset-Media-Type`.
    """
    name = call.path("name")
    view = await call.service.assets.get(name, version=query.version)
    size, tag = view["size"], view["asset"]["$asset"]["ref"].removeprefix("cas://")
    headers = {
        "Content-Disposition": _attached(view["file_name"]),
        "X-Asset-Media-Type": view["media_type"],
        "Accept-Ranges": "bytes",
        "ETag": f'"{tag}"',
        "Cache-Control": "private, no-cache",
    }
    part = wanted_range(call.request, size, tag)
    first, end = part or (0, size)
    if part is not None:
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
    status = 200 if part is None else 206
    version = view["version"]
    if end - first <= SMALL:
        data = await call.service.assets.part(name, version=version, first=first, count=end - first)
        return Response(data, status, headers, BYTES)
    place = call.site.places.enter(call.principal)
    read = partial(_read, call, name, version)
    answer = LastingAnswer(call, in_pieces(read, first, end), READ, place, BYTES, headers)
    answer.status_code = status
    return answer


async def _read(call: Call, name: str, version: int, first: int, count: int) -> bytes:
    return await call.service.assets.part(name, version=version, first=first, count=count)


def _attached(name: str) -> str:
    """The header of a download. A name is data: only what RFC 8187 lets stand is not escaped."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}" if name else "attachment"
