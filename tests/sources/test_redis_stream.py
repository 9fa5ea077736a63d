"""A Redis stream as a source, on a real server: nothing is lost in silence."""

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from perdure.model.trigger_sources import Stream
from perdure.sources import SourceFailed, SourceRefused
from perdure.sources.redis_stream import RedisStreamSource, SourceTrimmed
from perdure.testing.source_checks import check_source

KEY = "perdure-test-stream"
FAILURES = (OSError, redis.RedisError)


@pytest.fixture
async def client(redis_server):
    async with redis.asyncio.Redis(unix_socket_path=str(redis_server.socket)) as client:
        await client.delete(KEY)
        yield client
        await client.delete(KEY)


def make(client, from_="start", key=KEY):
    return RedisStreamSource(Stream("", key, from_), client, FAILURES)


async def add(client, *numbers):
    for number in numbers:
        await client.xadd(KEY, {"n": number}, id=f"{number}-0")


def numbers(polled):
    return [int(item.data["fields"]["n"]) for item in polled.items]


async def test_a_stream_loses_and_repeats_nothing(client):
    await add(client, *range(1, 8))
    items = await check_source(lambda: make(client))
    assert [item.id for item in items] == [f"{number}-0" for number in range(1, 8)]
    assert items[0].data == {"id": "1-0", "fields": {"n": "1"}}


async def test_many_entries_come_in_several_polls(client):
    await add(client, *range(1, 151))
    first = await make(client).poll(None)
    second = await make(client).poll(first.cursor)
    assert (len(first.items), first.more, len(second.items), second.more) == (100, True, 50, False)


async def test_what_is_there_at_first_is_no_item_unless_it_is_asked_for(client):
    absent = await make(client, "end").poll(None)
    await add(client, 1, 2)
    assert numbers(await make(client, "end").poll(absent.cursor)) == [1, 2]
    there = await make(client, "end").poll(None)
    assert there.items == ()
    await add(client, 3)
    assert numbers(await make(client, "end").poll(there.cursor)) == [3]


async def test_entries_that_are_removed_after_they_were_read_are_not_missed(client):
    await add(client, 1, 2, 3, 4)
    polled = await make(client).poll(None)
    await client.xtrim(KEY, maxlen=1, approximate=False)
    await add(client, 5)
    assert numbers(await make(client).poll(polled.cursor)) == [5]
    await client.xdel(KEY, "4-0")
    assert numbers(await make(client).poll(polled.cursor)) == [5]
    polled = await make(client).poll(polled.cursor)
    await client.xtrim(KEY, maxlen=0, approximate=False)
    assert numbers(await make(client).poll(polled.cursor)) == []
    await add(client, 9)
    assert numbers(await make(client).poll(polled.cursor)) == [9]


@pytest.mark.parametrize(
    "remove",
    [
        lambda client: client.xtrim(KEY, maxlen=1, approximate=False),
        lambda client: client.xtrim(KEY, maxlen=0, approximate=False),
        lambda client: client.xdel(KEY, "4-0"),
        lambda client: client.delete(KEY),
    ],
    ids=["trimmed", "emptied", "deleted", "gone"],
)
async def test_entries_that_are_removed_before_they_were_read_stop_it(client, remove):
    await add(client, 1, 2)
    polled = await make(client).poll(None)
    await add(client, 3, 4, 5)
    await remove(client)
    with pytest.raises(SourceTrimmed, match="after 2-0"):
        await make(client).poll(polled.cursor)
    await client.xadd(KEY, {"n": 10}, id="10-0")
    with pytest.raises(SourceTrimmed):
        await make(client).poll(polled.cursor)


async def test_from_the_start_what_was_removed_before_is_not_missed(client):
    await add(client, *range(1, 10))
    await client.xtrim(KEY, maxlen=4, approximate=False)
    await client.xdel(KEY, "8-0")
    polled = await make(client).poll(None)
    assert numbers(polled) == [6, 7, 9]
    await client.xtrim(KEY, maxlen=0, approximate=False)
    await add(client, 11)
    polled = await make(client).poll(polled.cursor)
    assert numbers(polled) == [11]
    await add(client, 12)
    await client.xtrim(KEY, maxlen=0, approximate=False)
    with pytest.raises(SourceTrimmed):
        await make(client).poll(polled.cursor)


async def test_bytes_that_are_no_text_are_kept(client):
    await client.xadd(KEY, {b"\xffk": b"\xff", "t": "é"}, id="1-0")
    polled = await make(client).poll(None)
    assert polled.items[0].data["fields"] == {"\\xffk": {"$bytes": "/w=="}, "t": "é"}


async def test_what_is_no_stream_fails(client):
    await client.set(KEY, "text")
    with pytest.raises(SourceFailed):
        await make(client).poll(None)


async def test_a_server_that_is_gone_fails():
    async with redis.asyncio.Redis(unix_socket_path="/nowhere/redis.sock", retry=Retry(NoBackoff(), 0)) as gone:
        with pytest.raises(SourceFailed):
            await make(gone).poll(None)


@pytest.mark.parametrize("cursor", ["", "5", "[]", '{"id": "x", "count": 1}', '{"id": "1-0"}'])
async def test_a_cursor_of_something_else_is_refused(client, cursor):
    with pytest.raises(SourceRefused):
        await make(client).poll(cursor)
