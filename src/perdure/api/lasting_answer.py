"""Answers that last: streams, exports and waits. Each takes a place of its key and tenant, ends within a second of its
credential, and is given up when its reader takes nothing.

This file must not know what is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.access import Permission, Place
from perdure.api.endpoints import Call
from perdure.errors import PerdureError, StoreUnavailable

T = TypeVar("T")
AGAIN_SECONDS = 0.4
"""How often the credential of an answer that lasts is checked again."""
SLOW_SECONDS = 30.0
"""How long a reader's connection may take nothing before it is dropped."""


class LastingAnswer(Response):
    """An answer that is sent piece by piece, as long as its reader may have it."""

    def __init__(
        self,
        call: Call,
        pieces: AsyncGenerator[bytes, None],
        permission: Permission,
        place: Place,
        media_type: str,
        headers: dict[str, str],
    ) -> None:
        """`place` has been taken for this answer, which leaves it at its end."""
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._call = call
        self._pieces = pieces
        self._permission = permission
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site = self._call.site
        site.metrics.streaming(1)
        try:
            with self._place:
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(self._send(send))
                    refusing = group.create_task(_until_refused(self._call, self._permission))
                    leaving = group.create_task(_until_gone(receive))
                    await asyncio.wait({sending, refusing, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (sending, refusing, leaving):
                        task.cancel()
                    if refusing.done() and not sending.done():
                        await asyncio.wait({sending})
                        await _end(send)
        except* (OSError, TimeoutError):  # the reader is gone or takes nothing
            pass
        finally:
            site.metrics.streaming(-1)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(SLOW_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await _end(send)


async def while_allowed(call: Call, permission: Permission, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. It is given up, and the refusal raised, when the credential is no longer valid."""
    try:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work)
            refusing = group.create_task(_until_refused(call, permission))
            await asyncio.wait({working, refusing}, return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            refusing.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    if working.cancelled():
        raise refusing.result()
    (await call.site.identify(call.request)).require(permission)
    return working.result()


async def _until_refused(call: Call, permission: Permission) -> PerdureError:
    """Wait until the credential is revoked or expired, and return what its next request would be answered."""
    while True:
        await call.site.engine.clock.sleep(AGAIN_SECONDS)
        try:
            (await call.site.identify(call.request)).require(permission)
        except StoreUnavailable:  # the credential cannot be checked, and nothing else can be read either
            continue
        except PerdureError as error:
            return error


async def _end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
