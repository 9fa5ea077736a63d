"""Prefect with its own server on SQLite: flows run in this process and report to the server.

Written as its documentation does: "Write and run flows", "Run tasks concurrently" (`submit`, `map`), "Cache workflow steps" and "Persist results",
docs.prefect.io/v3/how-to-guides/workflows/cache-workflow-steps. Results are persisted and looked up by the inputs of a task, so a flow that is run again
after a crash repeats only what was not persisted; nothing runs it again by itself. Prefect's SQLite has `synchronous=NORMAL`, and its result files are
not synced: it is the one subject here that is not durable against the loss of power.
"""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from bench.peers.program import Shape, end, main, spawn
from bench.peers.work import step

PORT = os.environ.get("PEERS_PORT", "")
SETTINGS = {
    "PREFECT_API_URL": f"http://127.0.0.1:{PORT}/api",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def define() -> dict[str, Any]:
    """The flows. The library reads its settings when it is imported: so it is imported when they are set."""
    from prefect import flow, task, unmapped
    from prefect.cache_policies import INPUTS
    from prefect.task_runners import ThreadPoolTaskRunner

    @task(persist_result=True, cache_policy=INPUTS)
    def node(run: str, name: str) -> int:
        return step(run, name)

    @flow
    def chain(run: str, size: int) -> None:
        for number in range(size):
            node(run, f"n{number}")

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=4))
    def diamond(run: str, size: int) -> None:
        node(run, "a")
        middle = [node.submit(run, "b"), node.submit(run, "c")]
        node.submit(run, "d", wait_for=middle).result()

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=20))
    def fan(run: str, size: int) -> None:
        node(run, "first")
        middle = node.map(unmapped(run), [f"m{number}" for number in range(size)])
        node.submit(run, "last", wait_for=middle).result()

    return {"chain": chain, "diamond": diamond, "fan": fan}


class Prefect:
    at_once = 4

    async def open(self, folder: Path) -> None:
        own = {
            **SETTINGS,
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / 'prefect.db'}",
        }
        os.environ.update(own)
        command = [sys.executable, "-m", "prefect", "server", "start", "--port", PORT, "--no-ui"]
        self._server = spawn(*command, log=folder / "server.log")
        await asyncio.to_thread(self._until_healthy)
        self._flows = define()

    def _until_healthy(self) -> None:
        while self._server.poll() is None:
            try:
                with urllib.request.urlopen(f"{SETTINGS['PREFECT_API_URL']}/health", timeout=5):
                    return
            except OSError:
                pass
        raise RuntimeError("the server of Prefect ended")

    async def prepare(self, shape: Shape) -> None:
        """Flows are functions: there is nothing to register."""

    async def run(self, shape: Shape, run: str) -> None:
        await asyncio.to_thread(self._flows[shape.kind], run, shape.size)

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        for run in runs:
            await self.run(shape, run)

    async def close(self) -> None:
        end(self._server)


if __name__ == "__main__":
    main(Prefect())
