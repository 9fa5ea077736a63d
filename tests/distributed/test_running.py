"""What runs is seen by every process that asks, and a worker that died is not said to work for long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.kernel.readings.explain import explain
from perdure.kernel.readings.run_view import run_view
from tests.distributed.helpers import Deployment, eventually
from tests.engine.helpers import ended, start, workflow

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def gated(path: Path, progress: Any = None, **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"function": "tests.cli.work:wait_until", "args": {"path": str(path)}}
    if progress is not None:
        config = {"function": "tests.cli.work:tell_until", "args": {"path": str(path), "progress": progress}}
    return workflow({"id": "a", "type": "task", "config": config, **more})


async def seen_running(client: Any, run_id: str = "r1") -> Any:
    state = await client.runs.state(run_id)
    seen = await client.work_reports.of(state)
    view = run_view(state, seen=seen)
    return (view, explain(state, "a", seen)) if view["nodes"]["a"]["state"] == "running" else None


async def test_a_process_that_neither_decides_nor_works_sees_what_runs(deployment: Deployment, tmp_path: Path):
    flag = tmp_path / "flag"
    await deployment.coordinator()
    worker = await deployment.worker(
        worker_heartbeat_seconds=60.0, worker_dead_seconds=90.0
    )  # it is told before the next beat is due
    client = await deployment.open(worker_dead_seconds=90.0)
    await start(client, gated(flag, {"done": 1, "total": 3}), "r1")
    view, said = await eventually(lambda: seen_running(client))

    async def is_told() -> bool:
        found = await seen_running(client)
        return found is not None and found[0]["nodes"]["a"].get("progress") == {"done": 1, "total": 3}

    await eventually(is_told)
    assert worker.worker is not None
    assert view["nodes"]["a"]["worker"] == worker.worker.worker_id
    assert view["nodes"]["a"]["pid"] == os.getpid()
    assert view["started_at"] == view["nodes"]["a"]["started_at"]
    assert said.startswith(f"a is running on worker {worker.worker.worker_id} (process {os.getpid()} on ")
    types = [one.type for one in await client.journal.read_events("r1", 0)]
    assert types == ["run.created", "node.scheduled"]
    flag.touch()
    assert (await ended(client, "r1")).started_at == view["started_at"]


async def test_a_worker_that_was_killed_is_not_said_to_work_once_it_was_silent_for_so_long(
    deployment: Deployment, tmp_path: Path
):
    flag = tmp_path / "flag"
    code = (
        "import asyncio, sys, json\nfrom perdure.engine import Engine\nfrom perdure.settings import Settings\n"
        "async def main():\n"
        "    settings = Settings(database_url=sys.argv[1], **json.loads(sys.argv[2]))\n"
        "    engine = await Engine.open(settings, journal_options={'require_durable': False})\n"
        "    await engine.work(worker_id='doomed')\n    print('ready', flush=True)\n    await engine.until_broken()\n"
        "asyncio.run(main())"
    )
    options = (
        f'{{"redis_url": "{deployment.redis.url}", "redis_prefix": "{deployment.prefix}", "worker_heartbeat_seconds": 0.2,'
        f'"blob_url": "file:{deployment.blobs}"}}'
    )
    coordinator = await deployment.coordinator()
    client = await deployment.open()
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", code, deployment.database_url, options], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"ready\n"
        await start(client, gated(flag), "r1")
        view, _ = await eventually(lambda: seen_running(client))
        assert (view["nodes"]["a"]["worker"], view["nodes"]["a"]["pid"]) == ("doomed", process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]

    async def is_forgotten() -> bool:
        return await seen_running(client) is None and await seen_running(coordinator) is None

    await eventually(is_forgotten)
    await deployment.worker()
    view, said = await eventually(lambda: seen_running(client))
    assert (view["nodes"]["a"]["attempt"], "attempt 2" in said) == (2, True)
    flag.touch()
    await ended(client, "r1")


async def test_where_redis_does_not_answer_it_is_said_that_nobody_can_tell(deployment: Deployment, tmp_path: Path):
    flag = tmp_path / "flag"
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    await start(client, gated(flag), "r1")
    await eventually(lambda: seen_running(client))
    lost = await deployment.open()
    await lost.connect()
    await lost.transport.close()
    state = await lost.runs.state("r1")
    said = explain(state, "a", await lost.work_reports.of(state))
    assert said.startswith(
        "a is queued in 'default' (attempt 1), and may be running already: workers cannot be asked ("
    )
    flag.touch()
    await ended(client, "r1")
