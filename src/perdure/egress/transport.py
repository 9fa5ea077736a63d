"""The same rules for libraries that bring an httpx2 client of their own: give it this transport.

    httpx2.AsyncClient(transport=Transport(client), trust_env=False)

Redirects, timeouts and decoding are the library's; where it may connect to is decided here, hop by hop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpcore2
import httpx2

from perdure.egress.client import Client
from perdure.egress.errors import EgressError, TimedOut
from perdure.egress.urls import parse


class Transport(httpx2.AsyncBaseTransport):
    """A transport for httpx2. Closing it leaves the client open, which its maker closes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        stream: Any = request.stream
        headers = {name.lower(): value for name, value in request.headers.items() if name.lower() != "host"}
        has_body = "content-length" in headers or "transfer-encoding" in headers
        try:
            response = await self._client.open(
                parse(str(request.url)),
                request.method,
                headers,
                stream if has_body else None,
                timeouts=request.extensions.get("timeout"),
            )
        except TimedOut as error:
            raise httpx2.ConnectTimeout(error.message, request=request) from error
        except EgressError as error:
            raise httpx2.ConnectError(error.message, request=request) from error
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Stream(response, request),
            extensions={key: value for key, value in response.extensions.items() if key != "network_stream"},
        )


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_stream():
                yield chunk
        except httpcore2.TimeoutException as error:
            raise httpx2.ReadTimeout("the rest of the answer did not arrive in time", request=self._request) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise httpx2.ReadError(
                "the connection was lost in the middle of the answer", request=self._request
            ) from error

    async def aclose(self) -> None:
        await self._response.aclose()
