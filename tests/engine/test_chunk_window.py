"""What a run of another process yields is seen as it comes, by whoever has the same database file (rule 74)."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.service import Service
from perdure.service.runs.node_chunks import Ended, SomeChunks
from perdure.streams import Name, Over, Superseded
from perdure.transports.chunk_window import ShownStreams, Window
from tests.engine.helpers import DEADLINE, ended, opened, running, start, until_true, workflow
from tests.engine.tasks import gate_of

WORDS = {"id": "a", "type": "task", "config": {"function": "tests.engine.streaming:words"}, "stream": {}}
STREAM = Name("r1", "a.out")


@asynccontextmanager
async def shown(path: Path) -> Any:
    streams = ShownStreams(path=path)
    showing = asyncio.create_task(streams.show())
    try:
        yield streams
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["near", "far" * 40])
async def test_words_of_another_process_come_while_they_are_said(tmp_path, folder):
    path = tmp_path / folder
    path.mkdir()
    async with asyncio.timeout(DEADLINE), running(path) as works:
        looks = await opened(path)  # it holds nothing, as a second process
        try:
            await start(works, workflow(WORDS))
            await until_true(lambda: (path / "perdure.db.chunks").exists(), "the window")
            reader = Service.of_owner(looks).runs.chunks("r1", "a", follow=True)
            said: list[bytes] = []
            async with aclosing(reader.read()) as news:
                async for one in news:
                    if isinstance(one, SomeChunks):
                        said += one.bodies
                    if said == [b'"one "', b'"two "']:  # the third is not said before they were seen
                        gate_of("words r1").set()
                    if isinstance(one, Ended):
                        break
            assert said == [b'"one "', b'"two "', b'"three"']
            await ended(works)
        finally:
            await looks.close(0.5)
    assert not (path / "perdure.db.chunks").exists()


async def test_who_looks_in_is_told_what_is_over_and_what_begins_anew(tmp_path):
    path = tmp_path / "db.chunks"
    async with asyncio.timeout(DEADLINE), shown(path) as streams:
        await streams.append(STREAM, 1, 1, [b"1", b"2"])
        await until_true(path.exists, "the window")
        window = Window(path)
        assert (await window.read(STREAM, 1, "", 1)).bodies == [b"2"]
        waiting = asyncio.create_task(window.read(STREAM, 1, "", 2))
        await until_true(lambda: streams._waiting, "the question")
        await streams.append(STREAM, 1, 3, [b"3"])
        assert (await waiting).bodies == [b"3"]
        assert (await streams.behind(STREAM, 1)).number == 0  # who looks in has no place among the readers
        await streams.close(STREAM, 1, Over("failed", "no"), 0, ())
        assert await window.read(STREAM, 1, "", 3) == Over("failed", "no")
        await streams.append(STREAM, 2, 1, [b"4"])
        with pytest.raises(Superseded):
            await window.read(STREAM, 1, "", 3)


async def test_who_has_gone_is_waited_for_no_longer(tmp_path):
    path = tmp_path / "db.chunks"
    async with asyncio.timeout(DEADLINE), shown(path) as streams:
        await streams.append(STREAM, 1, 1, [b"1"])
        await until_true(path.exists, "the window")
        looking = asyncio.create_task(Window(path).read(STREAM, 1, "", 1))
        await until_true(lambda: streams._waiting, "the question")
        looking.cancel()
        await until_true(lambda: not streams._waiting and not streams._looking, "nobody looks in")


async def test_only_the_owner_may_look_in_and_what_a_dead_process_left_is_no_hindrance(tmp_path):
    path = tmp_path / "db.chunks"
    async with asyncio.timeout(DEADLINE), shown(path) as streams:
        await streams.append(STREAM, 1, 1, [b"1"])
        await until_true(path.exists, "the window")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        os.link(path, tmp_path / "left")
    os.rename(tmp_path / "left", path)
    async with asyncio.timeout(DEADLINE), shown(path) as streams:
        await streams.append(STREAM, 1, 1, [b"2"])
        await until_true(lambda: streams._path is not None and path.stat().st_nlink == 1, "the window")
        assert await _first(path) == [b"2"]


async def _first(path: Path) -> list[bytes]:
    """The window may not be open yet: then nothing comes, and it is asked again."""
    while True:
        try:
            found: Any = await asyncio.wait_for(Window(path).read(STREAM, 1, "", 0), 0.2)
        except TimeoutError:
            continue
        return list(found.bodies)


async def test_a_file_that_is_no_window_is_left_alone(tmp_path):
    path = tmp_path / "db.chunks"
    path.write_text("mine")
    async with asyncio.timeout(DEADLINE), shown(path) as streams:
        assert await streams.append(STREAM, 1, 1, [b"1"]) == 2
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Window(path).read(STREAM, 1, "", 0), 0.05)
    assert path.read_text() == "mine"
