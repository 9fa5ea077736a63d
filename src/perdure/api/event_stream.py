"""Live events over HTTP: server-sent events that any process can serve and any reader can resume (`Last-Event-ID`).

A reader that takes nothing for a while is dropped; it comes back with the number it has. This file must not know how
new events are found.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.access import Permission, Place
from perdure.api.endpoints import Call
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal import StoredEvent
from perdure.service.runs import WorkingTasks, public_event

MEDIA_TYPE = "text/event-stream"
AGAIN_SECONDS = 0.4
"""How often the credential of an open stream is checked again."""
SLOW_SECONDS = 30.0
"""How long a reader's connection may take nothing before it is dropped."""


class EventStream(Response):
    """A stream in which `id` is the sequence number, `event` the type and `data` the event as the API shows it. The
    list of tasks being executed is no event of the journal and has no `id`: a reader resumes by the events alone."""

    def __init__(
        self,
        call: Call,
        events: AsyncGenerator[list[StoredEvent] | WorkingTasks, None],
        permission: Permission,
        place: Place,
    ) -> None:
        """`place` has been taken for this stream, which leaves it at its end."""
        super().__init__(media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._call = call
        self._events = events
        self._permission = permission
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site = self._call.site
        site.metrics.streaming(1)
        try:
            with self._place:
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(self._send(send))
                    refusing = group.create_task(self._until_refused())
                    leaving = group.create_task(_until_gone(receive))
                    await asyncio.wait({sending, refusing, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (sending, refusing, leaving):
                        task.cancel()
                    if refusing.done() and not sending.done():
                        await asyncio.wait({sending})
                        await _end(send)
        except* (OSError, TimeoutError):  # the reader is gone or takes nothing; it can resume where it was
            pass
        finally:
            site.metrics.streaming(-1)

    async def _until_refused(self) -> None:
        """Return when the credential is revoked or expired: it then ends what it opened, as it is refused elsewhere."""
        site = self._call.site
        while True:
            await site.engine.clock.sleep(AGAIN_SECONDS)
            try:
                (await site.identify(self._call.request)).require(self._permission)
            except StoreUnavailable:  # the credential cannot be checked, and no events can be read either
                continue
            except PerdureError:
                return

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _push(send, b"retry: 1000\n\n")
        async with aclosing(self._events) as batches:
            async for events in batches:
                if isinstance(events, WorkingTasks):
                    await _push(send, b"event: working\ndata: %s\n\n" % msgspec.json.encode(events))
                else:
                    await _push(send, b"".join(map(frame, events)) or b": still here\n\n")
        await _end(send)


def frame(stored: StoredEvent) -> bytes:
    data = msgspec.json.encode(public_event(stored))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (stored.seq, stored.type.encode(), data)


async def _push(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SLOW_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
