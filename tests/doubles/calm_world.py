"""A world without faults and without checks, on the loop of a test: for the connections of simulated processes, which must
then not be noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

from perdure.blob_stores.memory import MemoryObjects
from perdure.blob_stores.objects import ObjectBlobs
from perdure.clock import Clock, system
from perdure.simulation.faults import Chaos
from perdure.simulation.store import Store


class CalmWorld:
    def __init__(self, store: Store | None = None, clock: Clock = system) -> None:
        self.store = store or Store()
        self.clock = clock
        self.blob_objects: dict[str, tuple[bytes, float]] = {}
        self.random = Random(0)
        self.chaos = Chaos(Random(0), {})
        self.plan = SimpleNamespace(journal_seconds=0.0, transport_seconds=0.0, blob_seconds=0.0, divided=False)
        self.outage_until = self.transport_outage_until = self.blob_outage_until = -1.0
        self.loop = _Loop()
        self.checks = SimpleNamespace(
            published=lambda task, by: None,
            granted=lambda task_id: None,
            fail=lambda rule, message: None,
            promises=SimpleNamespace(acknowledged=lambda result: None),
        )
        self.process: Any = SimpleNamespace(name="process", clock=clock, lock=None)

    async def append(self, journal: Any, by: str, commits: Any) -> Any:
        return await journal.append(commits)

    def blobs(self, clock: Clock) -> ObjectBlobs:
        return ObjectBlobs(MemoryObjects(self.blob_objects, clock=clock), clock.new_id)


class _Loop:
    world = None

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def run_in(self, host: Any, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    def call_later(self, seconds: float, callback: Any) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback)
