"""What a store of chunks promises: 1, 2, 3 … of one edition, for each reader, without gap, repeat or change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.kernel.values import Part
from perdure.streams import Behind, Chunks, Kept, Over, Streams, Superseded, link, stream_name
from tests.conformance.streams.adapters import Store

NAME = stream_name("run", "a", "out")
END = Over("end")


def bodies(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def read(streams: Streams, after: int, edition: int = 1, reader: str = "r") -> Any:
    return await asyncio.wait_for(streams.read(NAME, edition, reader, after), 30)


async def test_append_then_read_gives_what_comes_after_a_number(store: Store):
    assert await store.streams.append(NAME, 1, 1, bodies(1, 2, 3)) == 4
    assert await read(store.streams, 0) == Chunks(1, bodies(1, 2, 3))
    assert await read(store.streams, 2) == Chunks(3, bodies(3))


async def test_a_read_waits_for_what_is_appended(store: Store):
    waiting = asyncio.create_task(read(store.streams, 0))
    await asyncio.sleep(0)
    await store.streams.append(NAME, 1, 1, bodies(1))
    assert await waiting == Chunks(1, bodies(1))


async def test_what_is_appended_again_is_dropped_by_its_number(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1, 2))
    assert await store.streams.append(NAME, 1, 2, bodies(2, 3)) == 4
    assert await read(store.streams, 0) == Chunks(1, bodies(1, 2, 3))


async def test_nothing_is_appended_behind_a_gap(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1))
    assert await store.streams.append(NAME, 1, 3, bodies(3)) == 2
    assert await read(store.streams, 0) == Chunks(1, bodies(1))


async def test_after_a_loss_append_says_what_is_missing_and_takes_it_again(store: Store):
    part = Part("out", 2, "sha256:x", 2)
    await store.streams.append(NAME, 1, 1, bodies(1, 2, 3))
    await store.streams.keep(NAME, 1, part)
    store.forget()
    assert await store.streams.append(NAME, 1, 4, bodies(4)) == 1
    await store.streams.keep(NAME, 1, part)
    assert await store.streams.append(NAME, 1, 3, bodies(3, 4)) == 5
    assert await read(store.streams, 0) == Kept((part,))
    assert await read(store.streams, 2) == Chunks(3, bodies(3, 4))


async def test_an_older_edition_is_refused_and_a_newer_one_takes_its_place(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1))
    await store.streams.append(NAME, 2, 1, bodies(7))
    with pytest.raises(Superseded):
        await store.streams.append(NAME, 1, 2, bodies(2))
    with pytest.raises(Superseded):
        await read(store.streams, 0, edition=1)
    assert await read(store.streams, 0, edition=2) == Chunks(1, bodies(7))


async def test_keep_lets_go_of_what_is_stored_and_read_says_where_it_is(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1, 2, 3))
    await store.streams.keep(NAME, 1, Part("out", 2, "sha256:x", 2))
    assert await read(store.streams, 0) == Kept((Part("out", 2, "sha256:x", 2),))
    assert await read(store.streams, 2) == Chunks(3, bodies(3))


async def test_close_ends_a_read_once_everything_was_read(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1))
    parts = (Part("out", 1, "sha256:x", 1),)
    await store.streams.close(NAME, 1, END, 1, parts)
    assert await read(store.streams, 0) == Kept(parts)
    assert await read(store.streams, 1) == END


async def test_close_wakes_who_waits_and_may_be_told_twice_or_of_what_is_not_there(store: Store):
    waiting = asyncio.create_task(read(store.streams, 0))
    await asyncio.sleep(0)
    for _ in range(2):
        await store.streams.close(NAME, 1, END, 0, ())
    assert await waiting == END


async def test_a_broken_stream_gives_what_came_before(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1, 2))
    await store.streams.close(NAME, 1, Over("failed", "llm_down: away"), 0, ())
    assert await read(store.streams, 0) == Chunks(1, bodies(1, 2))
    assert await read(store.streams, 2) == Over("failed", "llm_down: away")


async def test_a_stream_that_begins_anew_stops_its_readers_and_its_writer(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1))
    waiting = asyncio.create_task(read(store.streams, 1))
    await asyncio.sleep(0)
    await store.streams.close(NAME, 1, None, 0, ())
    with pytest.raises(Superseded):
        await waiting
    with pytest.raises(Superseded):
        await store.streams.append(NAME, 1, 2, bodies(2))


async def test_the_end_of_an_older_edition_says_nothing_of_a_newer_one(store: Store):
    await store.streams.append(NAME, 2, 1, bodies(1))
    await store.streams.close(NAME, 1, END, 9, ())
    assert await read(store.streams, 0, edition=2) == Chunks(1, bodies(1))


async def test_behind_is_the_slowest_reader_and_leave_forgets_one(store: Store):
    for number, body in enumerate((1, 2, 30), start=1):
        await store.streams.append(NAME, 1, number, bodies(body))
    assert await store.streams.behind(NAME, 1) == Behind(0, 4)
    await read(store.streams, 2, reader="fast")
    await read(store.streams, 1, reader="slow")
    assert await store.streams.behind(NAME, 1) == Behind(1, 3)
    await store.streams.leave(NAME, "slow")
    assert await store.streams.behind(NAME, 1) == Behind(2, 2)


async def test_progress_waits_until_the_slowest_moves_and_not_for_ever(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1, 2))
    await read(store.streams, 0)
    assert not await store.streams.progress(NAME, 1, 0, 0.001)
    waiting = asyncio.create_task(store.streams.progress(NAME, 1, 0, 30))
    await asyncio.sleep(0)
    await read(store.streams, 1)
    assert await waiting


async def test_behind_counts_what_is_kept(store: Store):
    for number, body in enumerate((1, 2, 30), start=1):
        await store.streams.append(NAME, 1, number, bodies(body))
    await read(store.streams, 0)
    await store.streams.keep(NAME, 1, Part("out", 2, "sha256:x", 2))
    assert await store.streams.behind(NAME, 1) == Behind(0, 4)
    await read(store.streams, 2)
    assert await store.streams.behind(NAME, 1) == Behind(2, 2)


async def test_one_who_reads_without_a_name_holds_nobody_up(store: Store):
    await store.streams.append(NAME, 1, 1, bodies(1))
    await store.streams.append(NAME, 1, 2, bodies(2))
    await read(store.streams, 1, reader="r")
    assert await read(store.streams, 0, reader="") == Chunks(1, bodies(1, 2))
    assert await store.streams.behind(NAME, 1) == Behind(1, 1)


async def test_many_chunks_and_large_ones_are_read_as_they_were_appended(store: Store):
    sent = [b'"%s"' % (b"x" * size) for size in [*range(600), 100_000, 200_000, 3, 100_000, 1]]
    assert await store.streams.append(NAME, 1, 1, sent) == len(sent) + 1
    found: list[bytes] = []
    while len(found) < len(sent):
        some = await read(store.streams, len(found))
        assert some.first == len(found) + 1
        found += some.bodies
    assert found == sent
    assert await store.streams.append(NAME, 1, 3, [*sent[2:], b"7"]) == len(sent) + 2
    assert await read(store.streams, len(sent)) == Chunks(len(sent) + 1, [b"7"])


async def test_drop_forgets_a_run_and_no_other(store: Store):
    other = stream_name("another", "a", "out")
    await store.streams.append(NAME, 1, 1, bodies(1))
    await store.streams.append(other, 1, 1, bodies(1))
    await store.streams.drop("run")
    assert await store.streams.append(NAME, 1, 2, bodies(2)) == 1
    assert await store.streams.append(other, 1, 2, bodies(2)) == 3


# -- who goes on -------------------------------------------------------------------------------------------------------


async def append(store: Store, attempt: int, first: int, *numbers: int) -> int:
    chain = link(0, bodies(*range(1, first)))
    return await store.streams.append(NAME, 1, first, bodies(*numbers), attempt=attempt, chain=chain)


async def test_claim_says_what_is_there_and_what_it_came_to(store: Store):
    assert await store.streams.claim(NAME, 1, 1) == (1, 0)
    await append(store, 1, 1, 1, 2, 3)
    await append(store, 1, 2, 2, 3, 4)
    assert await store.streams.claim(NAME, 1, 2) == (5, link(0, bodies(1, 2, 3, 4)))
    assert await append(store, 2, 5, 5) == 6
    assert await store.streams.claim(NAME, 1, 2) == (6, link(0, bodies(1, 2, 3, 4, 5)))
    assert await read(store.streams, 0) == Chunks(1, bodies(1, 2, 3, 4, 5))


async def test_an_attempt_before_the_one_that_goes_on_is_refused(store: Store):
    await append(store, 1, 1, 1, 2)
    await store.streams.claim(NAME, 1, 2)
    with pytest.raises(Superseded):
        await append(store, 1, 3, 3)
    with pytest.raises(Superseded):
        await store.streams.claim(NAME, 1, 1)
    assert await append(store, 2, 3, 3) == 4


async def test_what_is_kept_says_what_it_came_to_where_all_else_is_lost(store: Store):
    part, come_to = Part("out", 3, "sha256:x", 3), link(0, bodies(1, 2, 3))
    await append(store, 1, 1, 1, 2, 3, 4)
    store.forget()
    await store.streams.keep(NAME, 1, part, come_to)
    assert await store.streams.claim(NAME, 1, 2) == (4, come_to)


async def test_another_edition_forgets_who_went_on_with_the_one_before(store: Store):
    await store.streams.claim(NAME, 1, 2)
    assert await store.streams.claim(NAME, 3, 3) == (1, 0)
    with pytest.raises(Superseded):
        await store.streams.claim(NAME, 1, 2)
    with pytest.raises(Superseded):
        await read(store.streams, 0, edition=1)


async def test_many_chunks_in_portions_come_to_the_same(store: Store):
    many = [b'"%d%s"' % (number, b"x" * 999) for number in range(3000)]
    assert await store.streams.append(NAME, 1, 1, many, attempt=1, chain=0) == 3001
    assert await store.streams.claim(NAME, 1, 2) == (3001, link(0, many))
