"""What a node yields over HTTP: server-sent events that a reader can resume by edition and number (rule 74)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from perdure.access import Permission
from perdure.api.endpoints import Call, Routes
from perdure.api.event_stream import MEDIA_TYPE
from perdure.api.lasting_answer import LastingAnswer
from perdure.api.parameters import refuse
from perdure.api.request_reader import Query
from perdure.service.runs.node_chunks import Anew, ChunkReader, Ended, Position, SomeChunks

routes = Routes("runs")
READ = Permission.RUNS_READ
_POSITION = "^([0-9]{1,10}[.][0-9]{1,15})?$"
_position = re.compile(_POSITION).match


class ReadChunks(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    port: Annotated[str, Meta(description="Which port of the node.", min_length=1, max_length=200)] = "out"
    after: Annotated[
        str, Meta(description="Only what comes after this chunk, as `edition.number`.", pattern=_POSITION)
    ] = ""
    follow: Annotated[bool, Meta(description="Whether to go on until the stream has ended.")] = True


@routes.get("/runs/{run_id}/nodes/{node}/chunks", READ, MEDIA_TYPE, also={204: None})
async def chunks(call: Call, query: ReadChunks) -> Response:
    """Follow what a node yields, as server-sent events: while it yields it, and from the beginning.

    A chunk is `event: chunk`, and its `id` is `edition.number`. A client that connects again with `Last-Event-ID` misses
    nothing. `event: restart` says that the node began anew: what came before counts no more. `event: end` is the last one, with
    the `reason` (`end`, `failed` or `cancelled`); 204 means that nothing comes after the chunk named.
    """
    at = _read_position(call.request.headers.get("last-event-id") or query.after)
    about = call.path("run_id"), call.path("node")
    reader = call.service.runs.chunks(*about, port=query.port, after=at, follow=query.follow)
    if await reader.is_over():
        return Response(status_code=204)
    place = call.site.places.enter(call.principal)
    return LastingAnswer(call, _frames(reader), READ, place, MEDIA_TYPE, {"X-Accel-Buffering": "no"})


def _read_position(text: str) -> Position:
    if _position(text) is None:
        raise refuse("after", "expected the edition and the number of a chunk, as 1.17")
    edition, _, number = text.partition(".")
    return Position(int(edition or 0), int(number or 0))


async def _frames(reader: ChunkReader) -> AsyncGenerator[bytes, None]:
    yield b"retry: 1000\n\n"
    async with aclosing(reader.read()) as found:
        async for news in found:
            match news:
                case SomeChunks():
                    yield b"".join(_chunk(news.edition, n, body) for n, body in enumerate(news.bodies, news.first))
                case Anew(edition):
                    yield b'id: %d.0\nevent: restart\ndata: {"edition":%d}\n\n' % (edition, edition)
                case Ended():
                    yield b"id: %d.%d\nevent: end\ndata: %s\n\n" % (
                        news.edition,
                        news.number,
                        msgspec.json.encode(news),
                    )
                case None:
                    yield b": still here\n\n"


def _chunk(edition: int, number: int, body: bytes) -> bytes:
    if (
        b"\n" in body or b"\r" in body
    ):  # between its parts, as a worker of any language may write JSON; here a line ends a field
        body = body.replace(b"\n", b" ").replace(b"\r", b" ")
    return b'id: %d.%d\nevent: chunk\ndata: {"edition":%d,"number":%d,"chunk":%s}\n\n' % (
        edition,
        number,
        edition,
        number,
        body,
    )
