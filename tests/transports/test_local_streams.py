"""The store of streams inside one process: what other adapters have no need of."""

from __future__ import annotations

import asyncio

from perdure.streams import Chunks, stream_name
from perdure.transports.local_streams import LocalStreams

NAME = stream_name("r1", "a", "out")


async def test_two_attempts_of_one_reader_do_not_wake_each_other_for_ever():
    """The one before may not have ended yet: each noted where it is whenever the other had, and nothing else had a turn."""
    streams = LocalStreams()
    await streams.append(NAME, 1, 1, [b"1", b"2"])
    woken = 0
    real = streams._wake

    def wake(stream):
        nonlocal woken
        woken += 1
        real(stream)

    streams._wake = wake  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        reads = [group.create_task(streams.read(NAME, 1, "b.read", after)) for after in (2, 3)]
        for _ in range(100):
            await asyncio.sleep(0)
        assert woken <= 2
        await streams.append(NAME, 1, 3, [b"3", b"4"])
        assert await reads[0] == Chunks(3, [b"3", b"4"])
        assert await reads[1] == Chunks(4, [b"4"])


async def test_who_waits_says_again_where_it_is_to_a_store_that_has_lost_it():
    streams = LocalStreams()
    await streams.append(NAME, 1, 1, [b"1"])
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(streams.read(NAME, 1, "b.read", 1))
        await asyncio.sleep(0)
        streams.lose()
        await streams.append(NAME, 1, 1, [b"1"])
        await asyncio.sleep(0)
        assert (await streams.behind(NAME, 1)).number == 1
        await streams.append(NAME, 1, 2, [b"2"])
        assert await reading == Chunks(2, [b"2"])
