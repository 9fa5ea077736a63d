"""The wire: names to addresses, and connections to exactly the address that was checked.

A connection is kept under scheme, name, address and port. The pool of httpcore2 knows one host per connection, so the
host it is given here is `name/address`: two names at one address do not share a connection (its certificate was checked
for one of them), and one name at a new address gets a new one. The Host header and the name in the TLS handshake are
set by the caller. It must not know policies.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpcore2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a name, best first; raises OSError if there are none."""


async def resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def pin(name: str, address: object) -> str:
    return f"{name}/{address}"


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """A backend that connects to the address in `name/address`; a name alone is never connected to."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend | None = None) -> None:
        self._inner = inner or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        _, slash, address = host.rpartition("/")
        if not slash:
            raise httpcore2.ConnectError("a connection without a checked address was asked for")
        return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("sockets of this machine are not called")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
