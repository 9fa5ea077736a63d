"""DBOS on PostgreSQL, in one process.

Written as its documentation does: "Workflows" and "Steps", asynchronous, parallel steps by `asyncio.gather`, docs.dbos.dev/python/tutorials/workflow-tutorial
and …/step-tutorial. PostgreSQL runs with `fsync` on. After a crash, `DBOS.launch()` recovers the runs of this executor by itself.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dbos import DBOS, SetWorkflowID

from bench.peers.program import Shape, main
from bench.peers.work import astep


@DBOS.step()
async def node(run: str, name: str) -> int:
    return await astep(run, name)


@DBOS.workflow()
async def chain(run: str, size: int) -> None:
    for number in range(size):
        await node(run, f"n{number}")


@DBOS.workflow()
async def diamond(run: str, size: int) -> None:
    await node(run, "a")
    await asyncio.gather(node(run, "b"), node(run, "c"))
    await node(run, "d")


@DBOS.workflow()
async def fan(run: str, size: int) -> None:
    await node(run, "first")
    await asyncio.gather(*(node(run, f"m{number}") for number in range(size)))
    await node(run, "last")


WORKFLOWS = {"chain": chain, "diamond": diamond, "fan": fan}


class Dbos:
    at_once = 50

    async def open(self, folder: Path) -> None:
        url = os.environ["PEERS_DATABASE_URL"]
        DBOS(
            config={
                "name": "peers",
                "system_database_url": url,
                "application_version": "1",
                "executor_id": "local",
                "log_level": "WARNING",
                "run_admin_server": False,
            }
        )
        DBOS.launch()

    async def prepare(self, shape: Shape) -> None:
        """Workflows are functions: there is nothing to register."""

    async def run(self, shape: Shape, run: str) -> None:
        with SetWorkflowID(run):
            handle = await DBOS.start_workflow_async(WORKFLOWS[shape.kind], run, shape.size)
        await handle.get_result()

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        for run in runs:
            handle = await DBOS.retrieve_workflow_async(run)
            await handle.get_result()

    async def close(self) -> None:
        DBOS.destroy()


if __name__ == "__main__":
    main(Dbos())
