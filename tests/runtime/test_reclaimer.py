"""A worker that died beside this process, together with the coordinator whose runs it worked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.model import compile_definition
from perdure.model import ir as irs
from perdure.nodes import installed
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.reclaimer import Reclaimer
from perdure.tempo import Tempo
from perdure.transport import WorkerBeat
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store

NODE = {"id": "n", "type": "task", "config": {"function": "tests.runtime.functions:echo"}}


class Lifelines:
    """One worker is dead."""

    def find_dead(self, kind: str) -> list[str]:
        return ["w"] if kind == "worker" else []

    def bury(self, kind: str, name: str) -> None: ...


async def end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("resumed_first", [True, False])
async def test_a_crash_counts_also_before_the_runs_of_the_dead_are_resumed(resumed_first: bool) -> None:
    """It was dropped: the attempt was sent again as if nothing had died, and a task that kills its process did so for ever."""
    clock, transport = FakeClock(), LocalTransport()
    journal: Any = MemoryJournal(Store(4), clock=clock)
    ir = compile_definition({"name": "flow", "nodes": [NODE]}).get_ir()
    await journal.put_definition(ir.hash, "ir", irs.encode(ir))
    first = Coordinator(cast(Journal, journal), transport, installed(), clock)
    deciding = asyncio.create_task(first.run())
    start = c.Start(at=clock.now(), run_id="r", ir=ir)
    await first.ask("r", lambda state: start, starts=True)
    transport.beat(WorkerBeat("w", slots=1))
    [claimed] = await asyncio.wait_for(transport.claim("w", ["default"], 1), 60)
    assert claimed.attempt == 1
    await end(deciding)

    second = Coordinator(cast(Journal, journal), transport, installed(), clock)
    lifelines: Any = Lifelines()
    reclaimer = Reclaimer(transport, second, clock, Tempo(), lifelines)
    deciding = asyncio.create_task(second.run())
    if resumed_first:
        second.take_over("r")
        await second.settled()
    await reclaimer.sweep()
    if not resumed_first:
        second.take_over("r")
    await second.settled()
    found = second.memory.runs["r"].state.find("n")
    assert found is not None
    assert (found.attempt, found.crashes) == (2, 1)
    await reclaimer.sweep()
    await second.settled()
    assert (found.attempt, found.crashes) == (2, 1)
    await end(deciding)
