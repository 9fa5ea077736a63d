"""Saved views over HTTP: filters of the list of runs under a name. What they are stands in `perdure.service.saved_views`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.request_reader import Body, Query
from perdure.api.schemas import saved_view_schemas as s

routes = Routes("views")
READ = Permission.RUNS_READ


class SaveView(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[
        str,
        Meta(
            description="The filter, as in the address of the list: `state=failed&since=24h`.",
            max_length=2000,
            pattern="^[ -~]*$",
        ),
    ]
    shared: Annotated[
        bool, Meta(description="For everybody of the tenant; it needs the permission `runs:operate`.")
    ] = False


class WhichView(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    shared: Annotated[
        bool, Meta(description="That of the tenant, not one's own; it needs the permission `runs:operate`.")
    ] = False


@routes.get("/views", READ, s.SavedViewList)
async def list_views(call: Call) -> Any:
    """List your saved views and those of the tenant, by name."""
    return await call.service.saved_views.list()


@routes.get("/views/{name}", READ, s.SavedView)
async def get_view(call: Call) -> Any:
    """Get a saved view by its name: your own before that of the tenant."""
    return await call.service.saved_views.get(call.path("name"))


@routes.put("/views/{name}", READ, s.SavedView)
async def save_view(call: Call, body: SaveView) -> Any:
    """Keep a filter of the list of runs under a name. One that there was under it is replaced."""
    return await call.service.saved_views.save(call.path("name"), body.query, shared=body.shared)


@routes.delete("/views/{name}", READ, s.SavedView)
async def delete_view(call: Call, query: WhichView) -> Any:
    """Delete a saved view of yours, or with `shared` one of the tenant."""
    return await call.service.saved_views.delete(call.path("name"), shared=query.shared)
