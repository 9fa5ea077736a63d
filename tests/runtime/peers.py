"""Coordinators that share the runs of one journal by leases, on a clock that a test moves. Each has its own connections, whose
calls can be kept waiting; workers are the test's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.model import compile_definition
from perdure.model import ir as irs
from perdure.nodes import installed
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.messages import BeginAsked, Reported
from perdure.runtime.coordinator.ownership.leftovers import list_active
from perdure.runtime.coordinator.ownership.partitions import Sharing
from perdure.simulation.leases import MemoryLeases
from perdure.tempo import TEMPO
from perdure.transport import BeginRequest, Delivery, Result, Task
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store

LEASE_SECONDS = TEMPO.lease_seconds


class Connection:
    """Looks like what it wraps; the calls a test names take as long as the test says."""

    def __init__(self, inner: Any, clock: FakeClock) -> None:
        self._inner = inner
        self._clock = clock
        self.troubles: dict[str, list[Any]] = {}
        """By operation, for its next calls: seconds to wait before it is done, or an error to raise once it is."""

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*arguments: Any, **named: Any) -> Any:
            trouble = self.troubles.get(name)
            found = trouble.pop(0) if trouble else 0.0
            if isinstance(found, float) and found:
                await self._clock.sleep(found)
            answer = await attribute(*arguments, **named)
            if isinstance(found, Exception):
                raise found
            return answer

        return call


class Peer:
    """One process of several that decide."""

    def __init__(self, peers: Peers, name: str, **options: Any) -> None:
        clock = peers.clock
        self._clock = clock
        self.journal = Connection(MemoryJournal(peers.store, clock=clock), clock)
        self.leases = Connection(MemoryLeases(peers.store, clock=clock), clock)
        self.transport = Connection(peers.transport, clock)
        self.limits = Connection(peers.transport.limits, clock)
        self.published: list[str] = []
        self.granted: list[str] = []
        self.receives: set[int] = set()
        self.coordinator = Coordinator(
            cast(Journal, self.journal),
            cast(Any, self),
            installed(),
            clock,
            limits=cast(Any, self.limits),
            **options,
        )
        self.sharing = Sharing(
            cast(Any, self.leases),
            self.coordinator,
            cast(Any, self),
            clock,
            holder=name,
            recover=self._recover,
            lease_seconds=LEASE_SECONDS,
        )
        loops = (self.coordinator.run, self.sharing.run, self.sharing.watch, self.sharing.recover)
        self._tasks = [asyncio.create_task(loop()) for loop in loops]

    # -- its transport -------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    async def publish(self, tasks: Sequence[Task]) -> None:
        self.published += [task.task_id for task in tasks]
        await self.transport.publish(tasks)

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        if granted:
            self.granted.append(task_id)

    def take_over(self, partitions: Collection[int]) -> None:
        self.receives.update(partitions)

    def hand_back(self, partitions: Collection[int]) -> None:
        self.receives.difference_update(partitions)

    # -- what happens to it --------------------------------------------------------------------------------------------

    async def start(self, run_id: str, *nodes: dict[str, Any], **more: Any) -> Any:
        ir = compile_definition({"name": "flow", "nodes": list(nodes), **more}).get_ir()
        await self.journal.put_definition(ir.hash, "ir", irs.encode(ir))
        start = c.Start(at=self._clock.now(), run_id=run_id, ir=ir)
        return await self.coordinator.ask(run_id, lambda state: start, starts=True)

    def report(self, run_id: str, node: str, **more: Any) -> None:
        result = Result(run_id=run_id, node=node, **{"kind": "completed", "output": {}} | more)
        self.coordinator.put(Reported(Delivery(f"{run_id}/{node}", result)))

    def ask_begin(self, run_id: str, node: str) -> None:
        task = Task(run_id=run_id, node=node, type="task", idempotency_key="k", effect="at_most_once")
        self.coordinator.put(BeginAsked(BeginRequest(task, "worker")))

    async def _recover(self, partitions: Collection[int]) -> None:
        async for record in list_active(cast(Journal, self.journal), self._clock, partitions, busy=True):
            self.coordinator.take_over(record.run_id)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Peers:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Store(4)
        self.transport = LocalTransport(self.clock)
        self._joined: list[Peer] = []

    async def join(self, name: str, **options: Any) -> Peer:
        """Another process begins to coordinate, and has what is free of the partitions."""
        peer = Peer(self, name, **options)
        self._joined.append(peer)
        await self.clock.advance(0)
        return peer

    def events(self, run_id: str) -> list[str]:
        return [event.type for event in self.store.events[run_id]]

    async def close(self) -> None:
        for peer in self._joined:
            await peer.leave()


@asynccontextmanager
async def sharing() -> AsyncIterator[Peers]:
    peers = Peers()
    try:
        yield peers
    finally:
        await peers.close()
