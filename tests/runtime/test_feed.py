"""Following runs: readers are told of everything, whoever wrote it, and told when nothing more will come."""

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.clock import system
from perdure.journal import StoredEvent
from perdure.runtime import portions
from perdure.runtime.feed import Feed
from perdure.runtime.parts import EngineStopped, Parts
from tests.engine.helpers import DEADLINE, running, start, transform, workflow


class Journal:
    """The journal of one run, written by another process."""

    def __init__(self) -> None:
        self.stored: list[StoredEvent] = []
        self.ended = False

    def write(self, *bodies: bytes, ended: bool = False) -> None:
        for body in bodies:
            self.stored.append(StoredEvent(len(self.stored) + 1, "node.completed", 0.0, body))
        self.ended = ended

    async def find_run(self, run_id: str) -> Any:
        return SimpleNamespace(seq=len(self.stored), row=SimpleNamespace(ended_at=1.0 if self.ended else None))

    async def find_seqs(self, names: list[str]) -> dict[str, int]:
        return dict.fromkeys(names, len(self.stored))

    async def read_events(self, run_id: str, after: int, limit: int) -> list[StoredEvent]:
        return self.stored[after : after + limit]


async def test_the_last_words_of_a_process_that_died_are_read_by_the_one_that_decides_now():
    journal: Any = Journal()
    journal.write(b"{}")
    decides, parts = False, Parts()
    feed = Feed(journal, system, parts, lambda run_id: decides)
    try:
        async with asyncio.timeout(DEADLINE), aclosing(feed.follow("r1")) as given:
            assert [one.seq for one in await anext(given)] == [1]
            rest = asyncio.ensure_future(anext(given))
            await asyncio.sleep(0)  # it waits for news
            journal.write(b"{}", ended=True)  # the other process writes its last event, and dies
            decides = True  # and before the next look, this process has taken over
            assert [one.seq for one in await rest] == [2]
            with pytest.raises(StopAsyncIteration):
                await anext(given)
    finally:
        await parts.stop()


async def test_large_events_are_given_in_portions_and_other_tasks_have_their_turn_between():
    journal: Any = Journal()
    journal.write(*[b"x" * (portions.PORTION_BYTES // 4)] * 17, ended=True)
    parts, turns = Parts(), 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    sizes, seen = [], []
    async for portion in Feed(journal, system, parts, lambda run_id: True).follow("r1"):
        sizes.append(len(portion))
        seen.append(turns)
    ticking.cancel()
    await parts.stop()
    assert sizes == [4, 4, 4, 4, 1]
    assert len(set(seen)) == len(seen), "a turn of the loop passes between two portions"


async def test_a_reader_that_waits_is_told_that_a_part_of_the_engine_gave_up(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow({"id": "a", "type": "wait", "config": {"signal": "go"}}))
        given = engine.runs.follow("r1")
        while (await anext(given)).type != "node.waiting":
            pass
        rest = asyncio.ensure_future(anext(given))
        await asyncio.sleep(0)

        async def give_up() -> None:
            raise RuntimeError("no more")

        engine.parts.spawn("unlucky", give_up())
        with pytest.raises(EngineStopped, match="no more"):
            await asyncio.wait_for(rest, DEADLINE)


async def test_following_ends_with_the_run(tmp_path):
    async with running(tmp_path) as engine, asyncio.timeout(DEADLINE):
        await start(engine, workflow(transform("a", 1)))
        assert [event.type async for event in engine.runs.follow("r1")][-1] == "run.completed"
        assert engine.feed.followed == 0
