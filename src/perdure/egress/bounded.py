"""The transport of `perdure.egress` with an end: an answer that never stops is broken off.

httpx2.AsyncClient(transport=Bounded(client, most=8 * 1024 * 1024), trust_env=False)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2

from perdure.egress.client import Client
from perdure.egress.transport import Transport

Check = Callable[[bytes], None]
_ENDS = b"\n\n", b"\n\r\n", b"\r\r"
"""What ends a server-sent event."""


class Bounded(Transport):
    """A transport that reads so many bytes of each answer. `check` sees the answer before the caller does, or each of its events where
    it comes as events, and raises where that must not be read."""

    def __init__(self, client: Client, most: int, *, check: Check | None = None) -> None:
        super().__init__(client)
        self._most = most
        self._check = check

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, self._most, request)
        if self._check is not None:
            ends = _ENDS if "event-stream" in response.headers.get("content-type", "") else ()
            response.stream = _Checked(response.stream, self._check, ends)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int, request: httpx2.Request) -> None:
        self._stream = stream
        self._most = most
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > self._most:
                raise httpx2.ReadError(f"the answer has more than {self._most:,} bytes", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Checked(httpx2.AsyncByteStream):
    """The stream of an answer, given on in pieces that were checked whole."""

    def __init__(self, stream: httpx2.AsyncByteStream, check: Check, ends: tuple[bytes, ...]) -> None:
        self._stream = stream
        self._check = check
        self._ends = ends

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for chunk in self._stream:
            held += chunk
            whole = max((held.rfind(end) + len(end) for end in self._ends if end in held), default=0)
            if whole:
                yield self._cut(held, whole)
        if held:
            yield self._cut(held, len(held))

    def _cut(self, held: bytearray, whole: int) -> bytes:
        piece = bytes(held[:whole])
        del held[:whole]
        self._check(piece)
        return piece

    async def aclose(self) -> None:
        await self._stream.aclose()
