"""The connection: one write per turn of the loop, replies in order, and an end that everybody hears of."""

import asyncio
import contextlib

import pytest

from perdure.clock import system
from perdure.transports.redis.connection import Connection, ConnectionLost, ReplyError, connect
from perdure.transports.redis.server_url import Address, parse


@contextlib.asynccontextmanager
async def serving(*answers: bytes):
    """A server for one connection: it sends an answer for every write it sees, and remembers the writes."""
    seen: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader, writer):
        with contextlib.suppress(ConnectionError):
            for answer in answers:
                seen.append(await reader.read(100_000))
                writer.write(answer)
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield Address("127.0.0.1", server.sockets[0].getsockname()[1]), seen
    server.close()
    await over.wait()


@contextlib.asynccontextmanager
async def answering(*answers: bytes):
    async with serving(b"+OK\r\n", *answers) as (address, seen):
        connection = await connect(address, system, 5.0, "test")
        yield connection, seen
        connection.end("over")


async def test_what_is_sent_in_one_turn_leaves_in_one_write():
    async with answering(b"+a\r\n:2\r\n$1\r\nc\r\n") as (connection, seen):
        replies = [connection.send("PING"), connection.send("INCR", "x"), connection.send("GET", b"\xff\x00")]
        assert [await reply for reply in replies] == [b"a", 2, b"c"]
        assert seen[1] == b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nINCR\r\n$1\r\nx\r\n*2\r\n$3\r\nGET\r\n$2\r\n\xff\x00\r\n"


async def test_an_error_is_an_answer_like_any_other():
    async with answering(b"-ERR no\r\n+yes\r\n") as (connection, _):
        first, second = connection.send("A"), connection.send("B")
        assert isinstance(await first, ReplyError)
        assert await second == b"yes"


async def test_whoever_gave_up_does_not_get_the_answer_of_another():
    async with answering(b"+a\r\n+b\r\n") as (connection, _):
        first, second = connection.send("A"), connection.send("B")
        first.cancel()
        assert await second == b"b"


async def test_the_end_is_told_to_everybody_who_waits_and_to_everybody_who_comes():
    async with answering(b"+a\r\n") as (connection, _):
        replies = [connection.send("A"), connection.send("B")]
        assert await replies[0] == b"a"
        connection.end("enough")
        assert isinstance(await replies[1], ConnectionLost)
        assert str(await connection.send("C")) == "enough"
        assert connection.lost.result() == "enough"


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+a\r\n+nobody asked\r\n"])
async def test_what_is_not_redis_ends_the_connection(nonsense):
    async with answering(nonsense) as (connection, _):
        connection.send("A")
        assert "not Redis" in await asyncio.wait_for(asyncio.shield(connection.lost), 10)


async def test_a_connection_owes_an_answer_only_while_somebody_waits_for_one(redis_server):
    connection = await connect(parse(redis_server.url), system, 5.0, "test")
    assert connection.silent_seconds == 0.0
    waiting = connection.send("PING")
    assert connection.silent_seconds >= 0.0
    assert await waiting == b"PONG"
    assert connection.silent_seconds == 0.0
    connection.end("over")


async def test_a_thousand_calls_at_once_share_one_connection(redis_server):
    connection = await connect(parse(redis_server.url), system, 5.0, "test")
    replies = [connection.send("ECHO", str(number)) for number in range(1000)]
    assert [await reply for reply in replies] == [str(number).encode() for number in range(1000)]
    connection.end("over")


async def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time():
    async with serving() as (address, _):
        with pytest.raises(TimeoutError):
            await connect(address, system, 0.05, "test")


async def test_nothing_is_written_after_the_end():
    connection = Connection(system)
    connection.send("A")
    connection.end("over")
    await asyncio.sleep(0)
    assert connection._out == []
