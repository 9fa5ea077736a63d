"""`make stream-kills`: CHUNKS=1000000 through three stages while the process is killed every second, and the sum is right."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from tests.engine.helpers import check, opened, workflow
from tests.engine.runner import Folder
from tests.engine.test_streams import flow

pytestmark = pytest.mark.slow

CHUNKS = int(os.environ.get("CHUNKS", "40000"))
SECONDS = 1.0 if "CHUNKS" in os.environ else 0.0
MOST_KILLS = 10_000 if "CHUNKS" in os.environ else 3


def stage(id: str, function: str, **more: Any) -> dict[str, Any]:
    config = {"function": f"tests.engine.stream_stages:{function}", "args": more.pop("args", {})}
    return {"id": id, "type": "task", "config": config, **more}


def test_a_stream_is_killed_again_and_again_and_its_sum_is_right(tmp_path):
    folder, kills = Folder(tmp_path), 0
    more = {"max_crashes": 1000}
    nodes = (
        stage("a", "repeat_far", args={"n": CHUNKS}, stream={"restart": "repeat", "collect": "count"}, **more),
        stage("b", "pass_on", stream={"restart": "checkpoint", "collect": "count"}, **more),
        stage("c", "add_far", **more),
    )
    folder.add("r1", workflow(*nodes, edges=[flow("a", "b.numbers"), flow("b", "c.numbers")]))
    while kills < MOST_KILLS:
        with folder.process() as process:
            known = len(folder.effects())
            if folder.wait(process, lambda known=known: len(folder.effects()) > known, "it goes on") is None:
                break
            until = time.monotonic() + SECONDS
            folder.wait(process, lambda until=until: time.monotonic() >= until, "the time is over")
            if process.poll() is not None:
                assert process.returncode == 0, folder.errors()
                break
            process.kill()
            if process.wait(30) == 0:  # it had just ended
                break
            assert process.returncode == -signal.SIGKILL
            kills += 1
    with folder.process() as process:
        assert process.wait(120) == 0, folder.errors()
    print(f"{CHUNKS:,} chunks, {kills} kills")
    assert kills, "it was never killed in the middle"
    asyncio.run(_check(folder))


async def _check(folder: Folder) -> None:
    engine = await opened(folder.path)
    try:
        await check(engine.journal)
        found = await engine.runs.state("r1")
        assert found.find("c").output == CHUNKS * (CHUNKS + 1) // 2
        assert (found.find("a").output, found.find("b").output) == (CHUNKS, CHUNKS)
    finally:
        await engine.close()
