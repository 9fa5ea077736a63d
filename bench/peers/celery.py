"""Celery with Valkey as its broker and its result backend: one worker process with its default pool.

Written as its documentation does: "Canvas: Designing Work-flows" (chains, groups and chords of immutable signatures),
docs.celeryq.dev/en/stable/userguide/canvas.html, and "Using Redis", …/getting-started/backends-and-brokers/redis.html. For durability: tasks are
acknowledged after they ran (`task_acks_late`, `task_reject_on_worker_lost`), and Valkey writes every command to disk (`appendfsync always`).
What a killed worker had taken is delivered again after the visibility timeout, which is an hour by default; here it is 15 s, as long as Perdure
waits for a silent worker. A worker looks for such tasks every `unacked_restore_interval` (10 s), but by default only each tenth look asks the broker,
100 s apart; kombu's reference (…/projects/kombu/en/stable/reference/kombu.transport.redis.html) says to set `unacked_restore_throttle` to 1 where that
is too long. There is nothing to resume by hand.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from celery import Celery, chain, group
from celery.result import AsyncResult

from bench.peers.program import Shape, end, main, spawn
from bench.peers.work import step

URL = os.environ.get("PEERS_VALKEY_SOCKET", "")
app = Celery("bench.peers.celery", broker=f"redis+socket://{URL}", backend=f"redis+socket://{URL}")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    broker_transport_options={"visibility_timeout": 15, "unacked_restore_throttle": 1},
    broker_connection_retry_on_startup=True,
)


@app.task(name="node")
def node(run: str, name: str) -> int:
    return step(run, name)


def build(shape: Shape, run: str) -> Any:
    if shape.kind == "chain":
        return chain(node.si(run, f"n{number}") for number in range(shape.size))
    if shape.kind == "diamond":
        return chain(node.si(run, "a"), group(node.si(run, "b"), node.si(run, "c")), node.si(run, "d"))
    middle = group(node.si(run, f"m{number}") for number in range(shape.size))
    return chain(node.si(run, "first"), middle, node.si(run, "last"))


class CeleryWorker:
    at_once = 16

    async def open(self, folder: Path) -> None:
        command = [sys.executable, "-m", "celery", "-A", "bench.peers.celery", "worker", "--loglevel", "WARNING"]
        self._worker = spawn(*command, log=folder / "worker.log")

    async def prepare(self, shape: Shape) -> None:
        """Canvases are sent with each run: there is nothing to register."""

    async def run(self, shape: Shape, run: str) -> None:
        await asyncio.to_thread(self._run, shape, run)

    def _run(self, shape: Shape, run: str) -> None:
        build(shape, run).apply_async(task_id=run).get(interval=0.005)

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        for run in runs:
            await asyncio.to_thread(AsyncResult(run, app=app).get)

    async def close(self) -> None:
        end(self._worker)


if __name__ == "__main__":
    from bench.peers.celery import CeleryWorker as Imported  # the worker imports this module by its name: so do we

    main(Imported())
