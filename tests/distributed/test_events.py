"""Events by name in a deployment: kept by PostgreSQL, heard by whichever coordinator has the run or the trigger (rule 53)."""

from __future__ import annotations

import pytest

from perdure.access import LOCAL
from perdure.doctor import examine
from perdure.kernel.triggers.mailbox import run_of_item
from perdure.runtime.triggers import trigger_id
from perdure.service import Service
from perdure.triggers.declarations import read_data
from tests.distributed.helpers import Deployment, eventually
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    output_of,
    start,
    state_of,
    transform,
    until,
    workflow,
)

pytestmark = pytest.mark.slow
RUNS = [f"r{number}" for number in range(8)]
ID = trigger_id("default", "paid")


def waiting(key: str) -> dict[str, object]:
    gate = {"id": "gate", "type": "wait", "config": {"signal": "go"}}
    wait = {"id": "w", "type": "wait", "config": {"event": "order.paid", "key": key}, "dependencies": ["gate"]}
    return workflow(gate, wait)


async def test_each_wait_and_each_trigger_hears_an_event_once_whichever_coordinator_dies(deployment: Deployment):
    asking = await deployment.open()  # it decides nothing, as a process that only answers requests
    first, second = await deployment.coordinator(), await deployment.coordinator()
    events = Service(asking, LOCAL).events
    await asking.workflows.register(compiled(workflow(transform("a", "{{ inputs.n }}"), name="ship")))
    written = {
        "name": "paid",
        "workflow": "ship",
        "event": {"name": "order.paid"},
        "inputs": {"n": "{{ item.payload.n }}"},
    }
    (trigger,) = read_data(written, 0.0).get_triggers()
    assert not (await asking.triggers.apply(trigger)).refused
    for run_id in RUNS:
        assert not (await start(asking, waiting("{{ run.id }}"), run_id)).refused

    for run_id in RUNS[:4]:  # before the wait
        await events.send("order.paid", {"n": run_id}, key=run_id, id=f"early-{run_id}")
    for run_id in RUNS:
        await ask(asking, "signal", run_id, name="go")
    for run_id in RUNS[:4]:
        assert output_of(await ended(asking, run_id), "w") == {"n": run_id}

    for run_id in RUNS[4:]:  # while it waits, and nobody has half of the runs
        await until(asking, lambda state: state_of(state, "w") == "waiting", run_id)
    deployment.engines.remove(first)
    await crash(first)
    for run_id in RUNS[4:]:
        for number in range(2):
            sent = await events.send("order.paid", {"n": run_id}, key=run_id, id=f"late-{run_id}")
            assert sent["duplicate"] is bool(number)
    for run_id in RUNS[4:]:
        assert output_of(await ended(asking, run_id), "w") == {"n": run_id}
        assert await asking.journal.read_subscriptions(run_id) == []

    async def is_idle() -> bool:
        box = await second.triggers.get("paid")
        return box.position == len(RUNS) and not box.waiting and not box.open

    await eventually(is_idle)
    started = [
        one.run_id
        for event in await check(second.journal, ID)
        if event.type == "trigger.started"
        for one in event.starts
    ]
    ids = [*(f"early-{run_id}" for run_id in RUNS[:4]), *(f"late-{run_id}" for run_id in RUNS[4:])]
    assert sorted(started) == sorted(run_of_item(ID, id) for id in ids)
    assert (await examine(second.journal, second.library)).findings == []
