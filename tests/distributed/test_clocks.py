"""Machines whose clocks are hours apart, or are set while they work: all have the time of the database (decision 0032)."""

from __future__ import annotations

import time

import pytest

from perdure.clock import SystemClock
from tests.distributed.helpers import Deployment, eventually
from tests.engine.helpers import events, finish, start, state_of, task, until, workflow

pytestmark = pytest.mark.slow
HOUR = 3600.0


class Machine(SystemClock):
    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = shift

    def now(self) -> float:
        return super().now() + self.shift


async def test_machines_whose_clocks_are_hours_apart_work_together(deployment: Deployment):
    await deployment.coordinator(clock=Machine(-7 * HOUR))
    await deployment.coordinator(clock=Machine(3 * HOUR))
    await deployment.worker(clock=Machine(5 * HOUR))
    client = await deployment.open(clock=Machine(-9 * HOUR))
    node = {"id": "w", "type": "wait", "config": {"seconds": 0.1}, "dependencies": ["a"]}
    for number in range(4):  # of each coordinator
        began = time.time()
        state = await finish(client, workflow(task("a"), node), f"r{number}")
        assert state.state.value == "completed"
        times = [one.at for one in await events(client.journal, f"r{number}")]
        assert began - 1 <= min(times) <= max(times) <= time.time() + 1


@pytest.mark.parametrize("step", [-5 * HOUR, 5 * HOUR])
async def test_a_clock_that_is_set_while_a_timer_waits_changes_nothing(deployment: Deployment, step):
    machine = Machine(0.0)
    coordinator = await deployment.coordinator(clock=machine)
    worker = await deployment.worker(clock=machine)
    client = await deployment.open()
    later = {"id": "later", "type": "wait", "config": {"seconds": 3600}}
    soon = {"id": "soon", "type": "wait", "config": {"seconds": 0.5}}
    await start(client, workflow(later, soon, task("b", needs=["soon"])), "r")
    await until(client, lambda state: state_of(state, "later") == "waiting", "r")
    machine.shift = step
    await until(client, lambda state: state_of(state, "b") == "completed", "r")
    assert state_of(await client.runs.state("r"), "later") == "waiting"
    found = await client.journal.list_due_timers(time.time() + 2 * HOUR, 10)
    assert [abs(one.due_at - time.time() - HOUR) < 60 for one in found] == [True]
    await eventually(
        lambda: abs(coordinator.clock.now() - time.time()) < 1 and abs(worker.clock.now() - time.time()) < 1
    )
