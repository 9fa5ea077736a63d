"""Events by name over HTTP. What sending does is in `perdure.service.events`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from perdure.access import Permission
from perdure.api.endpoints import Answer, Call, Routes, hash_of
from perdure.api.request_reader import Body
from perdure.api.schemas import event_schemas as s

routes = Routes("events")


class Send(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="What has happened, such as `order.paid`.", min_length=1, max_length=128)]
    payload: Annotated[Any, Meta(description="At most 256 KiB.")] = None
    id: (
        Annotated[str, Meta(description="Sent again with it, it is the same event.", min_length=1, max_length=500)]
        | None
    ) = None
    key: Annotated[str, Meta(description="What triggers see as `item.key`.", max_length=500)] = ""


@routes.post("/events", Permission.RUNS_START, s.EventSent, status=202)
async def send(call: Call, body: Send) -> Answer:
    """Send an event. It is durable when this answers, and starts one run for each trigger that listens to its name."""
    view = await call.service.events.send(body.name, body.payload, id=body.id or call.key, key=body.key)
    call.object = body.name
    call.noted = {"id": view["id"], "payload": hash_of(body.payload)}
    return Answer(view, 202)
