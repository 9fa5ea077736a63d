"""The transport of `perdure.egress` with an end: an answer that never stops is broken off.

httpx2.AsyncClient(transport=Bounded(client, most=8 * 1024 * 1024), trust_env=False)
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from perdure.egress.client import Client
from perdure.egress.transport import Transport


class Bounded(Transport):
    """As `Transport`; of each answer, so many bytes are read."""

    def __init__(self, client: Client, most: int) -> None:
        super().__init__(client)
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, self._most, request)
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
