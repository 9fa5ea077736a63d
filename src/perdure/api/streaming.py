"""Live events over HTTP: server-sent events that any process can serve and any reader can resume (`Last-Event-ID`).

A reader that takes nothing for a while is dropped; it comes back with the number it has. It must not know how news are found.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.journal import StoredEvent
from perdure.service.runs import public_event

MEDIA_TYPE = "text/event-stream"
SLOW_SECONDS = 30.0
"""A reader whose connection takes nothing for so long is dropped."""


class EventStream(Response):
    """`id` is the sequence number, `event` the type, `data` the event as the API shows it."""

    def __init__(self, events: AsyncGenerator[list[StoredEvent], None], counted: Callable[[int], None]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counted(1)
        try:
            async with asyncio.TaskGroup() as group:
                leaving = group.create_task(_until_gone(receive))
                sending = group.create_task(self._send(send))
                await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
                sending.cancel()
        except* (OSError, TimeoutError):  # the reader is gone, or takes nothing: it resumes where it was
            pass
        finally:
            self._counted(-1)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _push(send, b"retry: 1000\n\n")
        async with aclosing(self._events) as batches:
            async for events in batches:
                await _push(send, b"".join(map(frame, events)) or b": still here\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def frame(stored: StoredEvent) -> bytes:
    data = msgspec.json.encode(public_event(stored))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (stored.seq, stored.type.encode(), data)


async def _push(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SLOW_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
