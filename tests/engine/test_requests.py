"""A request is decided in this process as it would come out of the journal in another one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from perdure.runtime.coordinator.requests import Request
from tests.engine.helpers import compiled, ended, finish, running, start, transform, workflow

SEEN = workflow(transform("a", "{{ inputs.given }}"))


async def test_a_run_sees_the_inputs_that_a_replay_sees(tmp_path):
    """JSON has no tuples and no NaN: what is decided on is what is written."""
    async with running(tmp_path) as engine:
        state = await finish(engine, SEEN, inputs={"given": ((1, 2), float("nan"))})
        assert state.inputs == {"given": [[1, 2], None]}
        assert state.find("a").output == [[1, 2], None]


async def test_what_its_caller_does_to_the_inputs_afterwards_is_nothing_to_a_run(tmp_path):
    given: list[Any] = ["as it was"]
    async with running(tmp_path) as engine:
        ir, _ = await engine.workflows.register(compiled(SEEN))
        request = Request(kind="start", run_id="r1", ir=ir.hash, inputs={"given": given})
        asking = asyncio.ensure_future(engine.runs.request(request))
        await asyncio.sleep(0)  # it has the request, and has not decided
        given.append("changed")
        await asking
        assert (await ended(engine)).find("a").output == ["as it was"]


async def test_a_request_of_the_wrong_type_is_refused_before_anything_is_written(tmp_path):
    async with running(tmp_path) as engine:
        with pytest.raises(msgspec.ValidationError, match=r"\$\.tags"):
            await start(engine, SEEN, inputs={"given": 1}, tags={"number": 7})
        assert await engine.journal.find_run("r1") is None
