"""What a run begins with is known to the very decision that begins it (rules 21, 44)."""

from __future__ import annotations

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine.helpers import compiled, ended, finish, running, start, state_of, transform, workflow

R = RunState


@pytest.mark.parametrize(("flag", "state", "output"), [(True, "completed", 1), (False, "skipped", None)])
async def test_when_of_an_entry_node_reads_the_inputs(tmp_path, flag, state, output):
    definition = workflow(transform("a", 1, when="inputs.flag"), outputs={"o": "{{ a }}", "flag": "{{ inputs.flag }}"})
    async with running(tmp_path) as engine:
        run = await finish(engine, definition, inputs={"flag": flag})
        assert (run.state, state_of(run, "a")) == (R.COMPLETED, state)
        assert run.outputs == {"o": output, "flag": flag}


async def test_when_of_an_entry_node_reads_the_run_itself(tmp_path):
    condition = "run.id == 'r1' && run.workflow == 'tested' && run.version == 1 && run.tags.team == 'x'"
    async with running(tmp_path) as engine:
        await start(engine, workflow(transform("a", 1, when=condition)), tags={"team": "x"})
        assert state_of(await ended(engine), "a") == "completed"


async def test_a_child_that_has_nothing_to_do_gives_its_outputs(tmp_path):
    child = workflow(transform("a", 1, when="inputs.flag"), name="child", outputs={"o": "{{ inputs.n }}"})
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child", "inputs": {"flag": False, "n": 7}}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child))
        run = await finish(engine, workflow(call, outputs={"o": "{{ call.o }}"}))
        assert run.outputs == {"o": 7}
