"""Starts: once for each id, and refused cleanly."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import ask, ended, finish, running, start, task, workflow

R = RunState


async def test_an_unknown_node_type_is_a_clean_failure(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(task("a"), {"id": "b", "type": "teleport", "dependencies": ["a"]}))
        assert (state.state, state.error.code) == (R.FAILED, "unknown_type")
        assert "teleport" in state.error.message


async def test_the_same_run_id_is_started_once(tmp_path):
    definition = workflow(task("a"))
    async with running(tmp_path) as engine:
        assert not (await start(engine, definition)).refused
        assert (await start(engine, definition)).code == "exists"
        await ended(engine)
        assert (await start(engine, definition)).code == "exists"
        assert len(tasks.seen) == 1


async def test_what_does_not_exist_is_refused(tmp_path):
    async with running(tmp_path) as engine:
        for kind in ("pause", "resume", "cancel", "retry", "rollback", "signal"):
            assert (await ask(engine, kind, "nobody")).code in ("not_found", "unknown_run")
        await start(engine, workflow(task("a", "gate", args={"name": "a"})))
        assert (await ask(engine, "requeue", node="nothing")).refused
        assert (await ask(engine, "discard", node="nothing")).refused
        assert (await ask(engine, "requeue", node="a")).refused
        assert (await ask(engine, "vote", approval="nothing", by="x")).code == "unknown_approval"
        tasks.gate_of("a").set()
        assert (await ended(engine)).state is R.COMPLETED


async def test_inputs_that_cannot_be_stored_are_refused_and_hurt_nobody(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(Exception, match=r"(?i)(encod|unsupported|type)"):
            await start(engine, workflow(task("a")), "bad", inputs={"x": object()})
        state = await finish(engine, workflow(task("a")), "good")
        assert state.state is R.COMPLETED
