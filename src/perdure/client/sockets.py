"""Sockets: a conversation carried out, once blocking and once on an event loop. The only file here that touches the
network.

`conversation` and `streams` decide what is sent; the two classes differ in nothing but `await`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import httpx2

from perdure import clock as clocks
from perdure.client.conversation import Options, Pause, Sending, talk
from perdure.client.http_calls import Call
from perdure.client.live_events import Stream

T = TypeVar("T")
Verify = ssl.SSLContext | str | bool
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=2.0)
"""Idle connections are closed before the server does so, after five seconds: a request sent at that very moment would
leave the client not knowing whether it was taken."""


def _checks(url: str, verify: Verify) -> Verify:
    """Where nothing is encrypted, the authorities that this machine trusts are not read: that takes longer than most calls.
    This one trusts nobody."""
    return verify if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Sender:
    def __init__(self, options: Options, verify: Verify) -> None:
        self.options = options
        self.pause: Callable[[float], None] = clocks.pause
        self._http = httpx2.Client(headers=options.headers(), verify=_checks(options.url, verify), limits=LIMITS)

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call[T]) -> T:
        for one in call.before:
            self.send(one)
        talking = talk(self.options, call, clocks.system.random)
        try:
            step = next(talking)
            while True:
                if isinstance(step, Pause):
                    self.pause(step.seconds)
                    step = next(talking)
                    continue
                try:
                    response = self._http.send(self._request(step))
                except httpx2.TransportError as error:
                    step = talking.throw(error)
                else:
                    step = talking.send(response)
        except StopIteration as end:
            result: T = end.value
            return result

    def stream(self, call: Call[T]) -> Iterator[T]:
        stream = Stream(self.options, call, clocks.system.random)
        while not stream.over:
            try:
                response = self._http.send(self._request(stream.request()), stream=True)
                try:
                    if not response.is_success:
                        response.read()
                        pause: Pause | None = stream.refused(response)
                    else:
                        stream.opened(response)
                        for chunk in response.iter_bytes():
                            yield from stream.feed(chunk)
                        pause = stream.ended()
                finally:
                    response.close()
            except httpx2.TransportError as error:
                pause = stream.cut(error)
            if pause is not None:
                self.pause(pause.seconds)

    def _request(self, sending: Sending) -> httpx2.Request:
        return _build(self._http, sending)


class AsyncSender:
    def __init__(self, options: Options, verify: Verify) -> None:
        self.options = options
        self.pause: Callable[[float], Awaitable[None]] = clocks.system.sleep
        self._http = httpx2.AsyncClient(headers=options.headers(), verify=_checks(options.url, verify), limits=LIMITS)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        for one in call.before:
            await self.send(one)
        talking = talk(self.options, call, clocks.system.random)
        try:
            step = next(talking)
            while True:
                if isinstance(step, Pause):
                    await self.pause(step.seconds)
                    step = next(talking)
                    continue
                try:
                    response = await self._http.send(self._request(step))
                except httpx2.TransportError as error:
                    step = talking.throw(error)
                else:
                    step = talking.send(response)
        except StopIteration as end:
            result: T = end.value
            return result

    async def stream(self, call: Call[T]) -> AsyncIterator[T]:
        stream = Stream(self.options, call, clocks.system.random)
        while not stream.over:
            try:
                response = await self._http.send(self._request(stream.request()), stream=True)
                try:
                    if not response.is_success:
                        await response.aread()
                        pause: Pause | None = stream.refused(response)
                    else:
                        stream.opened(response)
                        async for chunk in response.aiter_bytes():
                            for event in stream.feed(chunk):
                                yield event
                        pause = stream.ended()
                finally:
                    await response.aclose()
            except httpx2.TransportError as error:
                pause = stream.cut(error)
            if pause is not None:
                await self.pause(pause.seconds)

    def _request(self, sending: Sending) -> httpx2.Request:
        return _build(self._http, sending)


def _build(http: Any, sending: Sending) -> httpx2.Request:
    request: httpx2.Request = http.build_request(
        sending.method, sending.url, headers=sending.headers, content=sending.content, timeout=sending.timeout
    )
    return request
