"""An HTTP server that answers as a test says, byte for byte if need be, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpcore2

from perdure.egress.client import Client
from perdure.egress.policy import Policy

PUBLIC = "93.184.216.34"
PLAIN = ssl.create_default_context()
"""Shared: reading the certificates of the system takes longer than most tests."""


class Seen:
    def __init__(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, connection: int) -> None:
        self.method = method
        self.target = target
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body
        self.connection = connection


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; `content_type="…"` becomes a header."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[bytes | None]] | Callable[[Seen], bytes]


class Server:
    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.seen: list[Seen] = []
        self.connections = 0
        self.names: list[str | None] = []
        """What TLS clients asked for by name."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.port = 0

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        if context is not None:
            context.sni_callback = lambda socket, name, context: self.names.append(name)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                seen = await self._read(reader, number)
                self.seen.append(seen)
                if inspect.iscoroutinefunction(self._answer):
                    data = await self._answer(seen, writer)
                else:
                    data = self._answer(seen)
                if data is None:
                    return
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader, number: int) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)]
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        return Seen(method, target, headers, await reader.readexactly(length), number)


@contextlib.asynccontextmanager
async def serving(answer: Any, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    await server.start(context)
    try:
        yield server
    finally:
        await server.close()


class Wire(httpcore2.AsyncNetworkBackend):
    """The internet of a test: one public address leads to one server, every other one to another."""

    def __init__(self, public: Server, elsewhere: Server | None = None) -> None:
        self._inner = httpcore2.AnyIOBackend()
        self._public = public
        self._elsewhere = elsewhere
        self.called: list[tuple[str, int]] = []

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):  # noqa: ASYNC109
        self.called.append((host, port))
        server = self._public if host == PUBLIC else self._elsewhere
        if server is None:
            raise httpcore2.ConnectError(f"nothing is at {host}")
        return await self._inner.connect_tcp("127.0.0.1", server.port, timeout, local_address, socket_options)


def names(table: dict[str, list[str]]) -> Any:
    """A resolver: names from the table, numbers as the system reads them."""

    async def resolve(host: str, port: int) -> list[str]:
        if host in table:
            return table[host]
        raise OSError(f"no such host: {host}")

    return resolve


@contextlib.asynccontextmanager
async def client(policy: Policy | None = None, **options: Any) -> AsyncIterator[Client]:
    found = Client(policy or Policy(), **{"ssl_context": PLAIN, **options})
    try:
        yield found
    finally:
        await found.close()
