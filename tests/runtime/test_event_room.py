"""Room for events: counted now and then, made where it is full, and refused only for what triggers have still to read."""

from __future__ import annotations

import asyncio

import pytest

from perdure.clock import SystemClock
from perdure.runtime.event_room import COUNT_SECONDS, FULL_SECONDS, EventRoom


class Log:
    """So many events of one tenant, of which some may go."""

    def __init__(self, kept: int, free: int) -> None:
        self.kept, self.free = kept, free
        self.counted = self.dropped = 0

    async def count_occurrences(self, tenant: str, most: int) -> int:
        self.counted += 1
        await asyncio.sleep(0)  # as a database would be waited for
        return min(self.kept, most)

    async def drop_occurrences(self, tenant: str, most: int) -> int:
        gone = min(self.free, most)
        self.kept, self.free, self.dropped = self.kept - gone, self.free - gone, self.dropped + gone
        return gone


class Time(SystemClock):
    at = 0.0

    def monotonic(self) -> float:
        return self.at


def make(log: Log, most: int = 1000) -> tuple[EventRoom, Time]:
    time = Time()
    return EventRoom(log, time, most, 60.0), time  # type: ignore[arg-type]


async def send(room: EventRoom, log: Log, number: int) -> int:
    """How many are taken, and free to go at once."""
    taken = 0
    for _ in range(number):
        if await room.make("t"):
            taken += 1
            log.kept, log.free = log.kept + 1, log.free + 1
    return taken


async def test_the_oldest_go_when_there_are_too_many_and_counting_is_rare():
    log = Log(0, 0)
    room, _ = make(log)
    assert await send(room, log, 5000) == 5000
    assert 900 < log.kept <= 1000
    assert log.counted <= 1 + 4000 // 10


async def test_what_has_still_to_be_read_stays_and_nothing_more_is_taken():
    log = Log(1000, 0)
    room, time = make(log)
    assert await send(room, log, 50) == 0
    assert log.counted == 1  # it is not read again for each
    log.free = 300  # a trigger has been resumed
    time.at += FULL_SECONDS
    assert await send(room, log, 20) == 20
    assert log.kept <= 1000


async def test_others_send_too_so_a_room_that_is_half_full_is_counted_again():
    log = Log(600, 0)
    room, time = make(log)
    await send(room, log, 1)
    log.kept, log.free = 1000, 0
    assert await send(room, log, 5) == 5
    time.at += COUNT_SECONDS
    log.free = 0
    assert await send(room, log, 5) == 0


@pytest.mark.parametrize("kept", [5_000, 50_000])
async def test_much_that_is_too_many_goes_a_part_at_a_time(kept):
    log = Log(kept, kept)
    room, _ = make(log, most=2000)
    assert await room.make("t")
    assert log.dropped <= 10_000


async def test_those_that_send_at_once_make_room_once():
    log = Log(1000, 1000)
    room, _ = make(log)
    assert all(await asyncio.gather(*(room.make("t") for _ in range(8))))
    assert (log.counted, log.dropped) == (1, 10)
