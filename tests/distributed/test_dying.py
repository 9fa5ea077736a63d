"""Processes that die by a real SIGKILL, with a real PostgreSQL: a run that kills its coordinator (X34), and how soon work
goes on beside a dead process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.helpers import DEADLINE, Deployment, eventually
from tests.engine.helpers import ended, start, task, transform, workflow
from tests.processes import python_path

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, sys
from tests.distributed.helpers import Deployment
from tests.engine.runner import _plant_bomb

class Redis:
    url = sys.argv[2]
    def new_prefix(self): return sys.argv[3]

async def main():
    _plant_bomb("BOMB")
    deployment = Deployment(sys.argv[1], Redis(), sys.argv[4])
    options = {name: float(value) for name, value in (one.split("=") for one in sys.argv[5:])}
    engine = await deployment.coordinator(**options)
    if options:
        await engine.work()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def coordinate(deployment: Deployment, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """A process that decides, and works in this folder, as `perdure serve` does in its own; with options, it executes tasks
    too."""
    (folder / "program.py").write_text(PROGRAM)
    arguments = [deployment.database_url, deployment.redis.url, deployment.prefix, str(deployment.blobs), *options]
    with (folder / "stderr").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "program.py", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.PIPE,
            stderr=errors,
        )


async def test_with_postgres_a_run_that_kills_its_process_twice_is_quarantined_at_the_third_start(
    deployment: Deployment, tmp_path: Path, monkeypatch: Any
):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    asking = await deployment.worker()
    bomb = workflow(task("a"), transform("boom", "{{ inputs.a ~ 'BOMB' }}", ["a"]), name="bomb")
    processes = []
    try:
        process = coordinate(deployment, folder)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", (folder / "stderr").read_text()
        await start(asking, bomb, "killer", inputs={"a": "x"})
        assert await asyncio.to_thread(process.wait, DEADLINE) == -signal.SIGKILL
        assert (folder / ".perdure" / "perdure.handled").exists()
        process = coordinate(deployment, folder)
        processes.append(process)
        assert await asyncio.to_thread(process.wait, DEADLINE) == -signal.SIGKILL, (folder / "stderr").read_text()
        process = coordinate(deployment, folder)
        processes.append(process)

        async def quarantined() -> str | None:
            assert process.poll() is None, (folder / "stderr").read_text()
            return (await asking.journal.get_run("killer")).quarantined

        assert "2 times the process died" in await eventually(quarantined)
        await start(asking, workflow(task("fine"), name="fine"), "innocent")
        assert (await ended(asking, "innocent")).state.value == "completed"
        assert process.poll() is None
    finally:
        for one in processes:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()


async def test_beside_a_dead_process_its_runs_and_its_tasks_go_on_before_it_has_been_silent(
    deployment: Deployment, tmp_path: Path, monkeypatch: Any
):
    """No lease lapses here and no worker is silent for long enough: only the lifelines in the folder tell of the death."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_TEST_EFFECTS", str(tmp_path / "effects"))
    asking = await deployment.open()
    slow = ("lease_seconds=3000", "worker_dead_seconds=3000", "sweep_seconds=3000")
    waiting = workflow(
        task("a", "wait_for_file", args={"path": str(tmp_path / "go")}), task("b", needs=["a"]), name="w"
    )
    processes = []
    try:
        for number in (1, 2):
            process = coordinate(deployment, folder, *slow)
            processes.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", (folder / "stderr").read_text()
            if number == 1:
                await start(asking, waiting, "r1")
                await eventually((tmp_path / "effects").exists)
                process.kill()
                process.wait()
        (tmp_path / "go").touch()
        state = await ended(asking, "r1")
        assert state.state.value == "completed"
        found = state.find("a")
        assert found is not None
        assert found.attempt == 2
        alive = folder / ".perdure" / "perdure.alive"
        await eventually(lambda: len(list(alive.iterdir())) == 2)  # of the one that lives
    finally:
        for one in processes:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
