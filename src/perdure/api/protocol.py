"""Limits that hold for every caller: the size of request line and headers, the time they may take, the time of a body that
is answered before its end, the time in which an answer must be taken, and the number of connections.

This is the only file that knows uvicorn's protocol class. What a connection may send after its headers is limited in
`shell.py`, and how long it may take until it is answered in `request_reader.py`.
"""

from __future__ import annotations

import asyncio
import fcntl
import resource
import termios
from array import array
from collections import Counter
from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from perdure.access import network_of
from perdure.settings import DEFAULTS

HEAD_BYTES = 64 * 1024
"""The most bytes of a request line with its headers, and of the trailers that may follow a chunked body."""
HEAD_SECONDS = 10.0
"""The time from the connection, or from the first byte of a later request, to the end of the headers."""
REST_SECONDS = 10.0
"""The time for the rest of a body whose request is answered: a client that still sends would not see the answer if the
connection closed at once."""
TAKE_SECONDS = 30.0
"""How long a client may take for the next `TAKE_BYTES` of what it is sent. Otherwise an answer would wait in memory, and
its connection with it, for as long as its reader likes."""
TAKE_BYTES = 256 * 1024
SPARE_FILES = 64
"""File descriptors that connections leave to databases, logs and child processes."""
_REFUSAL = (
    b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    connections: int = DEFAULTS.max_connections
    per_address: int = DEFAULTS.max_connections_per_address


class Doors:
    """The open connections of one server, counted in total and by address (of version 6: by network)."""

    def __init__(self, bounds: Bounds) -> None:
        self._most = min(bounds.connections, max(1, _raise_file_limit() - SPARE_FILES))
        self._per_address = bounds.per_address
        self._open = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        address = network_of(address)
        if self._open >= self._most or self._by_address[address] >= self._per_address:
            if not self._by_address[address]:
                del self._by_address[address]
            return False
        self._open += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        address = network_of(address)
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def _raise_file_limit() -> int:
    """Raise the limit of file descriptors, often 1,024 for a service, as far as allowed (to 65,536 at most), and give
    it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 16 if hard == resource.RLIM_INFINITY else min(hard, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
        except (ValueError, OSError):
            return soft
    return wanted if soft == resource.RLIM_INFINITY else soft


def make_protocol(bounds: Bounds) -> type[HttpToolsProtocol]:
    """Make the protocol class of one server, all of whose connections share one `Doors`. It is a class because uvicorn
    makes the connections."""
    doors = Doors(bounds)

    class Guarded(GuardedProtocol):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.doors = doors

    return Guarded


class Outlet:
    """A transport that gives up a client who does not take what is written. How much was taken is counted also inside the
    operating system, which holds megabytes of it and takes the next only when much of that is gone."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written = 0
        self._bursts = 0
        """How often something was written after everything had been taken."""
        self._seen = (0, 0)
        """The bursts, and the bytes that were taken, when the time began."""
        self._look: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._bursts += not self._transport.get_write_buffer_size()
        self._written += len(data)
        self._transport.write(data)
        if self._look is None and self._transport.get_write_buffer_size():
            self._begin()

    def end(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _check(self) -> None:
        self._look = None
        if not self._transport.get_write_buffer_size():
            return
        bursts, taken = self._seen
        if self._bursts == bursts and self._count_taken() - taken < TAKE_BYTES:
            self._transport.abort()
        else:
            self._begin()

    def _begin(self) -> None:
        self._seen = (self._bursts, self._count_taken())
        self._look = self._loop.call_later(TAKE_SECONDS, self._check)

    def _count_taken(self) -> int:
        return self._written - self._transport.get_write_buffer_size() - _count_unsent(self._transport)


def _count_unsent(transport: asyncio.Transport) -> int:
    """How many bytes the operating system holds that the client has not acknowledged; 0 where it does not say."""
    held = array("i", [0])
    try:
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
    except (OSError, ValueError, AttributeError):
        return 0
    return held[0]


class GuardedProtocol(HttpToolsProtocol):
    doors: Doors
    _outlet: Outlet
    _address = ""
    _entered = False
    _in_head = True
    _in_body = False
    _head_bytes = 0
    _trailer_bytes = 0
    _deadline: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        outlet = Outlet(transport, self.loop)
        self._outlet = outlet
        super().connection_made(cast("asyncio.Transport", outlet))
        self._address = self.client[0] if self.client else ""
        self._entered = self.doors.enter(self._address)
        if not self._entered:
            self._refuse(b"503 Service Unavailable", b"too many connections; try again later\n")
            return
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_body()
        self._outlet.end()
        if self._entered:
            self._entered = False
            self.doors.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_idle():  # an empty line is skipped by the parser, and still is the first byte
            self._begin_head()
        if not self._in_head:
            super().data_received(data)
            return
        # Where the head ends is known only once it is parsed, so the parser is given no more than a head may have.
        room = HEAD_BYTES - self._head_bytes
        self._head_bytes += len(data[:room])
        super().data_received(data[:room])
        if self.transport.is_closing():
            return
        if self._is_waiting() and self._head_bytes >= HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large", b"request line and headers may have 64 KiB\n")
        elif len(data) > room:
            self.data_received(data[room:])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:  # otherwise its bytes are being counted already
            self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._end_body()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete and self._rest is None and not self.transport.is_closing():
            self._rest = self.loop.call_later(REST_SECONDS, self.transport.close)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            return
        # A chunked body may be followed by trailers, which no endpoint reads.
        self._trailer_bytes += len(name) + len(value)
        if self._trailer_bytes > HEAD_BYTES:
            self.transport.close()

    def _is_waiting(self) -> bool:
        """Whether the end of the headers is still to come: read anew, since the parser may have changed it."""
        return self._in_head

    def _is_idle(self) -> bool:
        """Whether a request has been read and answered, and nothing has come since."""
        return not self._in_head and not self._in_body and self.cycle.response_complete

    def _begin_head(self) -> None:
        self._in_head = True
        self._head_bytes = self._trailer_bytes = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _end_head(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_body(self) -> None:
        self._in_body = False
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._refuse(b"408 Request Timeout", b"the headers of a request may take 10 seconds\n")

    def _refuse(self, status: bytes, text: bytes) -> None:
        self.transport.write(_REFUSAL % (status, len(text), text))
        self.transport.close()
