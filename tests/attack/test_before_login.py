"""Before anybody is authenticated (S07): headers have a size and a time, connections a number."""

import asyncio
import contextlib

import pytest

from perdure.api import Options, protocol, request_reader
from perdure.api.protocol import Bounds
from tests.api.helpers import serving
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE
from tests.fuzz.running import resident_mb

CHUNK = b"x" * 60_000


@contextlib.asynccontextmanager
async def connected(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def answer_to(reader):
    """All that comes until the server closes; where it closes hard, all that came before."""
    came = []
    async with asyncio.timeout(DEADLINE):
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65_536):
                came.append(part)
    return b"".join(came)


async def send(writer, parts):
    """As much as the server takes."""
    sent = 0
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            sent += len(part)
    except ConnectionError:
        pass
    return sent


def many_headers():
    yield b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
    for number in range(1000):
        yield b"x-%d: %s\r\n" % (number, CHUNK)


def one_header():
    yield b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "
    yield from [CHUNK] * 1000


def address():
    yield b"GET /healthz?"
    yield from [CHUNK] * 1000


def trailers():
    yield b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    for number in range(1000):
        yield b"x-%d: %s\r\n" % (number, CHUNK)


@attack("S07", "headers, an address or trailers without end")
@pytest.mark.parametrize("make", [many_headers, one_header, address, trailers])
async def test_what_comes_before_the_end_of_the_headers_has_a_size(tmp_path, make):
    async with serving(tmp_path, real=True) as server:
        await server.client.get("/healthz")
        before = resident_mb()
        async with connected(server) as (reader, writer):
            sent, answer = await asyncio.gather(send(writer, make()), answer_to(reader))
        assert sent < 60_000_000
        assert answer.startswith(b"HTTP/1.1 4") or not answer
        assert resident_mb() - before < 20
        assert (await server.client.get("/healthz")).status_code == 200


@pytest.mark.slow
@attack("S07", "headers of a little more than they may have, in one piece")
@pytest.mark.parametrize("whole", [True, False])
async def test_a_head_has_64_kib_and_not_a_byte_more(tmp_path, whole):
    """The first piece of it counts as well: it is there before the parser says that a request begins."""
    beginning = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "
    end = b"\r\n\r\n" if whole else b""
    room = protocol.HEAD_BYTES - len(beginning) - len(end)
    async with serving(tmp_path, real=True) as server:
        for more, answered in ((room + 1, b"HTTP/1.1 431 "), (room - 1, b"HTTP/1.1 200 ")):
            if whole or more > room:
                async with connected(server) as (reader, writer):
                    writer.write(beginning + b"a" * more + end)
                    assert (await reader.read(20)).startswith(answered), more


@pytest.mark.slow
@attack("S07", "headers that never end")
async def test_headers_have_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with serving(tmp_path, real=True) as server:
        for begin in (b"", b"GET /healthz HTTP/1.1\r\n"):
            async with connected(server) as (reader, writer):
                writer.write(begin)
                assert (await answer_to(reader)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
async def test_a_request_may_take_its_time_once_its_headers_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with serving(tmp_path, real=True) as server:
        definition = {"name": "w", "nodes": [{"id": "a", "type": "wait", "config": {"seconds": 0.5}}]}
        assert (await server.start(definition))["state"] == "completed"


@pytest.mark.slow
@attack("S07", "more connections than the server has places for")
async def test_connections_have_a_number_and_those_that_leave_make_room(tmp_path):
    options = Options(connections=Bounds(connections=5, per_address=5))
    async with serving(tmp_path, real=True, options=options) as server:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(5):
                await stack.enter_async_context(connected(server))
            async with connected(server) as (reader, _):
                assert (await answer_to(reader)).startswith(b"HTTP/1.1 503 ")
        # Those that left are gone when the server has seen it, which is before it can answer.
        statuses = [await _healthz(server) for _ in range(3)]
        assert statuses[-1] == 200


async def _healthz(server):
    async with connected(server) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return int((await answer_to(reader)).split()[1])


async def test_one_address_cannot_take_every_place(tmp_path):
    options = Options(connections=Bounds(connections=50, per_address=3))
    async with serving(tmp_path, real=True, options=options) as server, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(connected(server))
        async with connected(server) as (reader, _):
            assert (await answer_to(reader)).startswith(b"HTTP/1.1 503 ")


async def test_a_head_in_small_pieces_and_a_body_behind_it_in_one_go_are_taken(tmp_path):
    async with serving(tmp_path, real=True) as server, connected(server) as (reader, writer):
        body = b'{"definition": {"name": "w", "nodes": []}, "x": "' + b"y" * 200_000 + b'"}'
        head = (
            b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            % len(body)
        )
        for number in range(0, len(head) - 20, 7):
            writer.write(head[number : number + 7])
            await writer.drain()
        written = len(range(0, len(head) - 20, 7)) * 7
        writer.write(head[written:] + body)
        assert (await answer_to(reader)).startswith(b"HTTP/1.1 4")


# -- bodies ------------------------------------------------------------------------------------------------------------

UNFINISHED = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"


async def drip(reader, writer, drop=b" "):
    """Send a little again and again until the server closes; all that it said."""
    answer = asyncio.ensure_future(answer_to(reader))
    while not answer.done():
        await send(writer, [drop])
        await asyncio.wait({answer}, timeout=0.02)
    return await answer


@pytest.mark.slow
@attack("S07", "a body of some bytes a minute, before and after it is answered")
@pytest.mark.parametrize(
    ("path", "status"),
    [(b"/api/v1/runs", b"401"), (b"/nothing", b"404"), (b"/api/v1/hooks/approvals/x", b"408")],
)
async def test_a_body_without_a_credential_has_a_time_and_none_after_its_answer(tmp_path, monkeypatch, path, status):
    monkeypatch.setattr(protocol, "REST_SECONDS", 0.2)
    monkeypatch.setattr(request_reader, "PUBLIC_BODY_SECONDS", 0.2)
    async with serving(tmp_path, tokens=True, real=True) as server, connected(server) as (reader, writer):
        writer.write(UNFINISHED % path)
        assert (await drip(reader, writer)).startswith(b"HTTP/1.1 %s " % status)


@pytest.mark.slow
@attack("S07", "empty lines between requests, which are no beginning of one")
async def test_empty_lines_keep_no_connection_open(tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with serving(tmp_path, real=True) as server, connected(server) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        await drip(reader, writer, b"\r\n")


async def test_a_body_that_ends_soon_after_its_answer_leaves_the_connection_open(tmp_path, monkeypatch):
    made = []
    connection_made = protocol.GuardedProtocol.connection_made

    def note(connection, transport):
        made.append(connection)
        connection_made(connection, transport)

    monkeypatch.setattr(protocol.GuardedProtocol, "connection_made", note)
    async with serving(tmp_path, tokens=True, real=True) as server, connected(server) as (reader, writer):
        writer.write(UNFINISHED % b"/api/v1/runs")
        assert b" 401 " in await whole_answer(reader)
        end = made[-1]._rest
        assert not end.cancelled(), "the rest of the body has a time"
        writer.write(b" " * 1000)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b" 200 " in await whole_answer(reader)
        assert end.cancelled(), "the connection closes no more"
        assert made[-1]._rest is None


async def whole_answer(reader):
    """One answer with its body: the next request must not be taken for a part of it."""
    async with asyncio.timeout(DEADLINE):
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [line.split()[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
        await reader.readexactly(int(length))
        return head


@attack("S07", "one owner of 2**64 addresses takes every place")
def test_connections_of_version_6_are_counted_by_network_and_those_of_version_4_singly():
    doors = protocol.Doors(Bounds(connections=50, per_address=2))
    assert [doors.enter(f"2001:db8::{n}") for n in range(1, 5)] == [True, True, False, False]
    assert doors.enter("2001:db8:0:1::1")
    doors.leave("2001:db8::1")
    assert doors.enter("2001:db8::9")
    # On a socket of both versions an address of version 4 has this form.
    assert all(doors.enter(f"::ffff:192.0.2.{n}") for n in range(1, 5))
    assert [doors.enter("192.0.2.1"), doors.enter("::ffff:192.0.2.1")] == [True, False]
