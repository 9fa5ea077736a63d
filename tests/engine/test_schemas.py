"""Inputs and outputs are held to their schemas."""

import asyncio

from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request


async def test_inputs_that_do_not_fit_are_refused_and_no_run_exists(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    await engine.hold()
    inputs = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    node = {"id": "a", "type": "transform", "config": {"value": 1}}
    ir, _ = await engine.workflows.register(compile_definition({"name": "w", "inputs": inputs, "nodes": [node]}))
    for bad in (None, {}, {"n": "x"}):
        reply = await engine.runs.request(Request(kind="start", run_id="r1", ir=ir.hash, inputs=bad))
        assert reply.code == "invalid_inputs"
        assert "n" in reply.message
    assert await engine.journal.find_run("r1") is None
    assert not (await engine.runs.request(Request(kind="start", run_id="r1", ir=ir.hash, inputs={"n": 1}))).refused
    await engine.close()


async def test_an_output_that_does_not_fit_fails_the_attempt(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    await engine.hold()
    retry = {"max_attempts": 2, "backoff_ms": 1}
    node = {
        "id": "a",
        "type": "transform",
        "config": {"value": "text"},
        "output_schema": {"type": "integer"},
        "retry": retry,
    }
    ir, _ = await engine.workflows.register(compile_definition({"name": "w", "nodes": [node]}))
    await engine.runs.request(Request(kind="start", run_id="r1", ir=ir.hash))
    async with asyncio.timeout(20):
        async for event in engine.runs.follow("r1"):
            if event.type == "run.failed":
                break
    state = await engine.runs.state("r1")
    assert state.error is not None
    assert (state.error.code, state.error.attempts) == ("output_schema", 2)
    await engine.close()
