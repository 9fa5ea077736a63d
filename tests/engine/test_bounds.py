"""What waits is bounded."""

import asyncio

import pytest

from perdure.engine import Engine
from perdure.model import compile_definition
from perdure.runtime.coordinator import coordinator
from perdure.runtime.coordinator.requests import Request


@pytest.mark.slow
async def test_more_requests_than_the_inbox_takes_wait_and_are_all_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(coordinator, "MOST_WAITING", 3)
    engine = await Engine.open(f"sqlite:///{tmp_path / 'perdure.db'}")
    await engine.hold()
    node = {"id": "a", "type": "transform", "config": {"value": 1}}
    ir, _ = await engine.workflows.register(compile_definition({"name": "w", "nodes": [node]}))
    requests = [Request(kind="start", run_id=f"r{n}", ir=ir.hash) for n in range(200)]
    async with asyncio.timeout(30):
        replies = await asyncio.gather(*(engine.runs.request(request) for request in requests))
    assert {reply.state for reply in replies} == {"completed"}
    await engine.close()
