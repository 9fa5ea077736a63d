"""Live events over HTTP: server-sent events that any process can serve and any reader can resume (`Last-Event-ID`).

A reader that takes nothing for a while is dropped; it comes back with the number it has. This file must not know how
new events are found.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from perdure.access import Permission, Place
from perdure.api.endpoints import Call
from perdure.api.lasting_answer import LastingAnswer
from perdure.journal import StoredEvent
from perdure.service.runs.run_events import public_event
from perdure.service.runs.run_streams import Batch, LogLines, WorkingTasks

MEDIA_TYPE = "text/event-stream"


class EventStream(LastingAnswer):
    """A stream in which `id` is the sequence number, `event` the type and `data` the event as the API shows it. The
    list of tasks being executed and log lines are no events of the journal and have no `id`: a reader resumes by the
    events alone."""

    def __init__(
        self,
        call: Call,
        events: AsyncGenerator[Batch, None],
        permission: Permission,
        place: Place,
        *,
        outputs: bool = True,
    ) -> None:
        super().__init__(call, _frames(events, outputs), permission, place, MEDIA_TYPE, {"X-Accel-Buffering": "no"})


async def _frames(events: AsyncGenerator[Batch, None], outputs: bool) -> AsyncGenerator[bytes, None]:
    yield b"retry: 1000\n\n"
    async with aclosing(events) as batches:
        async for batch in batches:
            if isinstance(batch, WorkingTasks):
                yield b"event: working\ndata: %s\n\n" % msgspec.json.encode(batch)
            elif isinstance(batch, LogLines):
                yield b"".join(b"event: log\ndata: %s\n\n" % msgspec.json.encode(line) for line in batch.lines)
            else:
                yield b"".join(frame(one, outputs) for one in batch) or b": still here\n\n"


def frame(stored: StoredEvent, outputs: bool = True) -> bytes:
    data = msgspec.json.encode(public_event(stored, outputs=outputs))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (stored.seq, stored.type.encode(), data)
