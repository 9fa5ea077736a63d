"""Streams between workers in two processes: whoever dies in the middle, and if Redis loses everything, the sum is right."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.engine import Engine
from tests.distributed.helpers import Deployment, eventually
from tests.engine.helpers import ended, start, workflow
from tests.processes import python_path

pytestmark = pytest.mark.slow

NUMBERS = 400
PROGRAM = """
import asyncio, sys
from tests.distributed.helpers import Deployment

class Redis:
    url = sys.argv[2]
    def new_prefix(self): return sys.argv[3]

async def main():
    await Deployment(sys.argv[1], Redis(), sys.argv[4]).worker(queues=(sys.argv[5],))
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Workers:
    """Two processes: one takes tasks of the queue `out`, the other of `in`."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self._about = (deployment.database_url, deployment.redis.url, deployment.prefix, str(deployment.blobs))
        self._errors = folder / "stderr"
        self.processes = {queue: self._begin(queue) for queue in ("out", "in")}
        for process in self.processes.values():
            self._await(process)

    def _begin(self, queue: str) -> subprocess.Popen[bytes]:
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *self._about, queue],
                env={**os.environ, "PYTHONPATH": python_path()},
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", self._errors.read_text()

    def replace(self, queue: str) -> None:
        process = self.processes[queue]
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        assert process.stdout is not None
        process.stdout.close()
        self.processes[queue] = self._begin(queue)
        self._await(self.processes[queue])

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


def flow(gate: Path) -> dict[str, Any]:
    def node(id: str, function: str, queue: str, **args: Any) -> dict[str, Any]:
        config = {"function": f"tests.engine.streaming:{function}", "args": args}
        return {"id": id, "type": "task", "config": config, "queue": queue, "max_crashes": 100}

    nodes = [node("a", "count_to_gate", "out", n=NUMBERS, path=str(gate)), node("b", "add_and_keep", "in")]
    return workflow(*nodes, edges=[{"from": "a", "to": "b.numbers"}])


async def half_way(engine: Engine, run_id: str) -> None:
    """The reader has kept what it made of the first half."""

    async def kept() -> bool:
        state = await engine.runs.state(run_id)
        found = state.find("b")
        return found is not None and any(read >= NUMBERS // 2 for _, read in (found.cursors or {}).values())

    await eventually(kept)


async def test_the_sum_is_right_whoever_dies(deployment: Deployment, tmp_path: Path):
    engine = await deployment.coordinator()
    workers = Workers(deployment, tmp_path)

    def lose_redis() -> None:
        with deployment.redis.client() as client:
            for key in list(client.scan_iter(match=f"{deployment.prefix}:{{streams:*")):
                client.delete(key)

    harms: dict[str, Any] = {
        "nothing": lambda: None,
        "producer": lambda: workers.replace("out"),
        "reader": lambda: workers.replace("in"),
        "redis": lose_redis,
    }
    began = {}
    try:
        for name, harm in harms.items():
            gate = tmp_path / name
            await start(engine, flow(gate), name)
            await half_way(engine, name)
            await asyncio.to_thread(harm)
            gate.touch()
            state = await ended(engine, name)
            assert state.state.value == "completed", (name, state.error)
            assert state.find("b").output["sum"] == NUMBERS * (NUMBERS + 1) // 2, name
            began[name] = state.find("b").output["began"]
    finally:
        workers.end()
    assert began["reader"] >= NUMBERS // 2, "a reader goes on from its checkpoint"
    with deployment.redis.client() as client:
        await eventually(lambda: not list(client.scan_iter(match=f"{deployment.prefix}:{{streams:*")))
