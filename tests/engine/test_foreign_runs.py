"""A run whose functions only another process has is held, not failed."""

import asyncio
import os

from perdure.engine import Engine
from perdure.kernel.readings.explain import explain
from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request

NODES = [
    {"id": "ask", "type": "wait", "config": {"signal": "go"}},
    {"id": "work", "type": "task", "config": {"function": "only_there:work"}, "dependencies": ["ask"]},
]


async def until(engine: Engine, run_id: str, *types: str) -> None:
    async with asyncio.timeout(20):
        async for event in engine.runs.follow(run_id):
            if event.type in types:
                return


async def test_what_this_process_cannot_import_waits_for_one_that_can(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'perdure.db'}"
    starter = await Engine.open(url)
    await starter.hold()
    ir, _ = await starter.workflows.register(compile_definition({"name": "w", "nodes": NODES}))
    await starter.runs.request(Request(kind="start", run_id="r1", ir=ir.hash))
    await starter.close()

    stranger = await Engine.open(url)
    await stranger.hold()
    await stranger.runs.request(Request(kind="signal", run_id="r1", name="go"))
    await until(stranger, "r1", "node.held")
    assert explain(await stranger.runs.state("r1"), "work") == (
        "work is ready, and held until a worker is there that can run it: "
        f"process {os.getpid()} (in {os.getcwd()}) could not import only_there:work."
    )
    await stranger.close()

    (tmp_path / "only_there.py").write_text("def work():\n    return 'done'\n")
    monkeypatch.syspath_prepend(tmp_path)
    again = await Engine.open(url)
    await again.hold()
    await until(again, "r1", "run.completed")
    assert (await again.runs.state("r1")).outputs == {"work": "done"}
    await again.close()


async def test_what_the_process_that_started_the_run_cannot_import_fails_at_once(tmp_path):
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    await engine.hold()
    nodes = [{"id": "x", "type": "task", "config": {"function": "nowhere:x"}}]
    ir, _ = await engine.workflows.register(compile_definition({"name": "w", "nodes": nodes}))
    await engine.runs.request(Request(kind="start", run_id="r1", ir=ir.hash))
    await until(engine, "r1", "run.failed")
    error = (await engine.runs.state("r1")).error
    assert error is not None
    assert error.code == "function_not_found"
    await engine.close()
