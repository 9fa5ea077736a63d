"""Long stretches of work give way: while the effects of one large decision are carried out, the loop goes on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.model import compile_definition
from perdure.nodes import installed
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store

NODES = 1000


class SlowClock(FakeClock):
    """A clock by which everything takes long, and which counts the turns that were given to others."""

    turns = 0

    def monotonic(self) -> float:
        self._now += 0.03
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.turns += 1
        await super().sleep(seconds)


async def test_a_decision_that_sends_many_nodes_does_not_send_them_in_one_go():
    clock = SlowClock()
    journal = MemoryJournal(Store(4), clock=clock)
    coordinator = Coordinator(cast(Journal, journal), LocalTransport(clock=clock), installed(), clock)
    sent: list[int] = []
    queue = coordinator.publisher.queue

    def note(loaded: Any, address: Any) -> None:
        sent.append(clock.turns)
        queue(loaded, address)

    coordinator.publisher.queue = note  # type: ignore[method-assign]
    nodes = [
        {"id": f"n{i}", "type": "task", "config": {"function": "tests.runtime.functions:echo"}} for i in range(NODES)
    ]
    ir = compile_definition({"name": "wide", "nodes": nodes}).get_ir()
    running = asyncio.create_task(coordinator.run())
    try:
        start = c.Start(at=clock.now(), run_id="r", ir=ir)
        await coordinator.ask("r", lambda state: start, starts=True)
        assert len(sent) == NODES
        assert max(map(sent.count, sent)) <= 100, "more were sent between two turns of the loop"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
