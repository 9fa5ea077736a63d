"""Handlers that ask, over PostgreSQL and Redis: the worker that asked is gone when the answers come."""

from __future__ import annotations

import pytest

from tests.distributed.helpers import Deployment
from tests.engine.helpers import ask, compiled, ended, output_of, start, state_of, task, until, workflow

pytestmark = pytest.mark.slow


async def test_another_worker_goes_on_with_the_answers(deployment: Deployment) -> None:
    child = workflow(
        task("inner", "add", args={"a": "{{ inputs.n }}", "b": 1}), name="child", outputs={"n": "{{ inner.sum }}"}
    )
    engine = await deployment.coordinator()
    first = await deployment.worker()
    await engine.workflows.register(compiled(child))
    await start(engine, workflow(task("a", "asks_for_all", args={"nap": 0.01})), "r1")
    state = await until(
        engine,
        lambda state: (
            state_of(state, "a") == "waiting" and len((state.find("a").checkpoint or {"steps": ()})["steps"]) == 2
        ),
        "r1",
    )
    await first.close()
    second = await deployment.worker()
    approval = state.find("a").asks["ok"].approval
    await ask(engine, "signal", "r1", name="payment", payload=7)
    await ask(engine, "vote", "r1", approval=approval, decision="reject", by="ann")
    state = await ended(engine, "r1")
    answers = output_of(state, "a")
    assert (answers["attempt"], answers["ok"]["decision"], answers["paid"]["payload"]) == (1, "reject", 7)
    assert answers["sub"] == {"state": "completed", "output": {"n": 42}, "error": None}
    assert second.worker is not None
    assert state.find("a").worker == second.worker.worker_id
