"""Who speaks for one tenant decides nothing of another's runs (S1, X29)."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.messages import BeginAsked, Reported
from perdure.transport import BeginRequest, Delivery, Result, Task
from tests.attack.marks import attack
from tests.engine import tasks
from tests.engine.helpers import ended, events, running, start, task, until_true, workflow

R = RunState
FORGED = {
    "completed": {"kind": "completed", "output": "FORGED", "size": 8},
    "failed": {"kind": "failed", "code": "error", "retryable": False},
    "handed_back": {"kind": "handed_back"},
    "checkpointed": {"kind": "checkpointed", "output": "FORGED", "size": 8},
}


@attack("S08", "a result for a run of another tenant")
@pytest.mark.parametrize("kind", FORGED)
async def test_a_result_of_another_tenant_is_not_heard(tmp_path, kind):
    async with running(tmp_path) as engine:
        await start(engine, workflow(task("a", "gate", args={"name": "a"})), tenant="acme")
        await until_true(lambda: tasks.seen, "the handler runs")
        before = await events(engine.journal)
        forged = Result(tenant="bobco", run_id="r1", node="a", **FORGED[kind])
        engine.coordinator.put(Reported(Delivery("none", forged)))
        await engine.coordinator.drained()
        assert await events(engine.journal) == before
        tasks.gate_of("a").set()
        state = await ended(engine)
        assert (state.state, state.tenant, state.outputs) == (R.COMPLETED, "acme", {"a": {"passed": "a"}})


@attack("S08", "a wish to begin a task of another tenant")
async def test_a_wish_to_begin_of_another_tenant_is_not_granted(tmp_path):
    async with running(tmp_path) as engine:
        once = task("a", "gate", args={"name": "a"}, effect="at_most_once", queue="elsewhere")
        await start(engine, workflow(once), tenant="acme")
        await engine.coordinator.drained()
        before = await events(engine.journal)
        for tenant in ("bobco", "default"):
            wish = Task(tenant=tenant, run_id="r1", node="a", type="task", idempotency_key="k")
            asked = BeginAsked(BeginRequest(wish, "w"))
            engine.coordinator.put(asked)
            await engine.coordinator.drained()
            assert not asked.granted
        started = [event.worker for event in await events(engine.journal) if event.type == "node.started"]
        assert "w" not in started
        assert len(before) <= 3
        tasks.gate_of("a").set()
        assert (await ended(engine)).state is R.COMPLETED
