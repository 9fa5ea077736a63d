"""Perdure on PostgreSQL and Valkey: `perdure serve` and `perdure worker`, one process each, and a client over HTTP.

Written as docs/guides/client.md and docs/operations/deployment.md do. PostgreSQL, which holds the journal, has `fsync` on; Valkey only carries messages.
After a crash, both processes resume the open runs by themselves once the leases of the dead ones have lapsed.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path

import perdure
from bench.peers.perdure_embedded import build
from bench.peers.program import Shape, end, main, spawn
from perdure.client import ApiError
from perdure.engine import Engine
from perdure.journals.postgres import migrate_postgres
from perdure.model import compile_definition
from perdure.settings import Settings

PORT = os.environ.get("PEERS_PORT", "")


class PerdureDistributed:
    at_once = 200

    async def open(self, folder: Path) -> None:
        database = os.environ["PEERS_DATABASE_URL"]
        await migrate_postgres(database)
        own = {
            "PERDURE_DATABASE_URL": database,
            "PERDURE_REDIS_URL": f"unix://{os.environ['PEERS_VALKEY_SOCKET']}",
            "PERDURE_SIGNING_KEYS": f"bench:{base64.b64encode(bytes(32)).decode()}",
            "PERDURE_BLOB_URL": f"file:{folder / 'blobs'}",
        }
        self._settings = Settings(database_url=database, blob_url=own["PERDURE_BLOB_URL"])
        program = [sys.executable, "-m", "perdure"]
        self._processes = [
            spawn(*program, "serve", "--port", PORT, log=folder / "serve.log", environment=own),
            spawn(*program, "worker", log=folder / "worker.log", environment=own),
        ]
        self._client = perdure.AsyncClient(f"http://127.0.0.1:{PORT}")
        self._known: set[Shape] = set()
        while not await self._answers():
            assert all(process.poll() is None for process in self._processes), "a process of Perdure ended"
            await asyncio.sleep(0.05)

    async def _answers(self) -> bool:
        try:
            await self._client.runs.list(limit=1).first()
        except ApiError:
            return False
        return True

    async def prepare(self, shape: Shape) -> None:
        """As `perdure workflows push` does on the database: over HTTP, a definition of 10,000 nodes is larger than a body may be."""
        if shape not in self._known:
            engine = await Engine.open(self._settings)
            await engine.workflows.register(compile_definition(build(shape)))
            await engine.close()
            self._known.add(shape)

    async def run(self, shape: Shape, run: str) -> None:
        """The same key starts a run once; after that, it is the run that there is."""
        name = f"{shape.kind}-{shape.size}"
        started = await self._client.runs.start(name, {"run": run}, idempotency_key=run, wait_seconds=300)
        state = started["state"]
        if state != "completed":
            state = (await self._client.runs.wait(started["run_id"]))["state"]
        assert state == "completed", state

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        await asyncio.gather(*(self.run(shape, run) for run in runs))

    async def close(self) -> None:
        await self._client.close()
        for process in self._processes:
            end(process)


if __name__ == "__main__":
    main(PerdureDistributed())
