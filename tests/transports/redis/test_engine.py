"""The real coordinator and the real journal over Redis, with workers in this process, in others, and in plain Python."""

import asyncio
import contextlib
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.model import compile_definition
from perdure.runtime.coordinator.requests import Request
from perdure.transports.redis import open_redis
from tests.engine import tasks
from tests.engine.helpers import ENDS, open_engine, task, transform, workflow
from tests.transports.redis.helpers import wait_until, with_tempo

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "worker-any-language" / "worker.py"


@contextlib.asynccontextmanager
async def running(folder, url, prefix, monkeypatch, **options):
    """An engine whose transport is Redis."""
    transport = await open_redis(
        url, prefix=prefix, partitions=range(256), durable_checkpoints=True, **with_tempo(options)
    )
    monkeypatch.setattr("perdure.engine.LocalTransport", lambda **_: transport)
    engine = await open_engine(
        f"sqlite:///{folder / 'perdure.db'}", worker_heartbeat_seconds=0.1, worker_dead_seconds=2.0, sweep_seconds=0.2
    )
    try:
        await engine.hold()
        yield engine
    finally:
        await asyncio.wait_for(engine.close(0.5), 20)


async def start(engine, definition, run_id):
    compiled = compile_definition(definition)
    assert compiled.ir is not None, compiled.problems
    await engine.workflows.register(compiled)
    await engine.runs.request(Request(kind="start", run_id=run_id, ir=compiled.ir.hash))


async def end(engine, run_id):
    async with asyncio.timeout(60):
        async for event in engine.runs.follow(run_id):
            if event.type in ENDS:
                break
    return await engine.runs.state(run_id)


def fan(width):
    middle = [task(f"m{n}", args={"value": n}, needs=["first"]) for n in range(width)]
    last = transform("last", "{{ m0 }}", needs=[one["id"] for one in middle])
    return workflow(task("first", args={"value": 0}), *middle, last)


async def test_a_run_completes_over_redis_and_leaves_nothing(tmp_path, redis_server, monkeypatch):
    prefix = redis_server.new_prefix()
    async with running(tmp_path, redis_server.url, prefix, monkeypatch) as engine:
        await start(engine, fan(50), "r1")
        state = await end(engine, "r1")
        assert state.state.value == "completed"
    assert redis_server.unexplained_keys(prefix) == []
    with redis_server.client() as client:
        left = {key.decode().removeprefix(prefix) for key in client.scan_iter(match=f"{prefix}:*")}
    assert left <= {":{queues}:names", ":{scripts}:hashes"}


HARMS = 6


def stages(number, length):
    """Chains that each begin as the test opens their gate: before the last is open, nothing can have ended."""
    nodes: list[dict[str, Any]] = []
    for stage in range(number):
        names = [f"gate{stage}", *(f"n{stage}-{n}" for n in range(length))]
        for n, name in enumerate(names):
            needs = [nodes[-1]["id"]] if nodes else None
            more = {"args": {"value": n}} if n else {"function": "gate", "args": {"name": name}}
            nodes.append(task(name, needs=needs, **more))
    return workflow(*nodes)


@pytest.mark.slow
async def test_runs_complete_though_redis_is_flushed_and_killed_again_and_again(tmp_path, own_server, monkeypatch):
    async with running(
        tmp_path, own_server.url, "perdure", monkeypatch, timeout_seconds=0.5, adopt_seconds=0.3
    ) as engine:
        for number in range(3):
            await start(engine, stages(HARMS, 6), f"r{number}")

        def have_come_to(stage: int) -> bool:
            return {f"r{number}/gate{stage}/do" for number in range(3)} <= {key for key, _ in tasks.seen}

        def goes_on(begun: int) -> bool:
            return len(tasks.seen) > begun

        for hurt in range(HARMS):
            await wait_until(functools.partial(have_come_to, hurt), f"they go on to stage {hurt}", seconds=120)
            tasks.gate_of(f"gate{hurt}").set()
            begun = len(tasks.seen)
            await wait_until(functools.partial(goes_on, begun), "it goes on")
            if hurt % 3 == 2:
                await asyncio.to_thread(own_server.kill)
                await asyncio.to_thread(own_server.start)
            else:
                own_server.client().flushall()
        ends = await asyncio.gather(*(end(engine, f"r{number}") for number in range(3)))
        assert [state.state.value for state in ends] == ["completed"] * 3


@contextlib.asynccontextmanager
async def foreign_worker(url, name, queue, *more, program=EXAMPLE):
    words = (sys.executable, str(program), url, name, queue, *more)
    process = await asyncio.create_subprocess_exec(*words, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        _, errors = await process.communicate()
        assert b"Traceback" not in errors, errors.decode()


def foreign(id, function, needs=(), **args):
    node = {"id": id, "type": "task", "queue": "images", "config": {"function": function, "args": args}}
    return node | ({"dependencies": list(needs)} if needs else {})


@pytest.mark.slow
async def test_a_worker_in_plain_python_executes_nodes_of_a_real_run(tmp_path, redis_server, monkeypatch):
    prefix = redis_server.new_prefix()
    definition = workflow(
        foreign("sum", "add", a=2, b=3),
        foreign("loud", "shout", ["sum"], text="{{ sum }} is the sum"),
        foreign("bad", "add", ["sum"], a=1) | {"retry": {"max_attempts": 2, "backoff_ms": 1}, "on_failure": "continue"},
        transform("last", "{{ loud }}", ["loud", "bad"]),
    )
    async with running(tmp_path, redis_server.url, prefix, monkeypatch) as engine:
        async with foreign_worker(redis_server.url, "plain", "images", prefix):
            await start(engine, definition, "r1")
            state = await end(engine, "r1")
            assert state.state.value == "completed"
            outputs = {state.name(one.node): one.output for one in state.activations.values()}
            assert outputs["loud"] == outputs["last"] == "5 IS THE SUM"
            assert "missing 1 required positional argument: 'b'" in outputs["bad"]["error"]["message"]
            seen = {one.beat.worker: one.beat for one in await engine.transport.list_workers()}
            assert seen["plain"].functions == ("shout", "add")
            assert engine.transport.refused == {}
            redis_server.client().delete(f"{prefix}:{{scripts}}:hashes")  # as after a loss of everything
            await start(engine, definition, "r2")
            assert (await end(engine, "r2")).state.value == "completed"
        # It died in the middle of nothing: it is found dead and forgotten, and no key of it stays.
        with redis_server.client() as client:
            beats = f"{prefix}:{{workers}}:beats"
            await wait_until(lambda: not client.hexists(beats, "plain"), "it is forgotten")
    assert redis_server.unexplained_keys(prefix) == []


@pytest.mark.slow
async def test_a_worker_in_plain_python_that_is_killed_has_its_work_done_by_the_next(
    tmp_path, redis_server, monkeypatch
):
    prefix = redis_server.new_prefix()
    definition = workflow(*(foreign(f"n{number}", "add", a=number, b=1) for number in range(40)))
    async with running(tmp_path, redis_server.url, prefix, monkeypatch) as engine:
        async with foreign_worker(redis_server.url, "first", "images", prefix):
            await start(engine, definition, "r1")
            await wait_until(lambda: engine.coordinator.memory.runs["r1"].state.seq > 3, "it has begun")
        async with foreign_worker(redis_server.url, "second", "images", prefix):
            state = await end(engine, "r1")
    assert state.state.value == "completed"
    assert sorted(one.output for one in state.activations.values()) == list(range(1, 41))


def test_the_example_is_short_and_imports_nothing_of_perdure():
    text = EXAMPLE.read_text()
    code = [
        line
        for line in text.split('"""', 2)[2].splitlines()
        if line.strip() and not line.startswith(("import ", "from "))
    ]
    assert len(code) <= 45
    assert "import perdure" not in text
    assert "from perdure" not in text


ADD = {"function": "tests.engine.streaming:add"}
STREAMING = EXAMPLE.with_name("streaming.py")


@pytest.mark.slow
async def test_a_worker_in_plain_python_streams_to_a_function_of_perdure(tmp_path, redis_server, monkeypatch):
    prefix = redis_server.new_prefix()
    reader: dict[str, Any] = {"id": "sum", "type": "task", "config": ADD}
    late = reader | {"id": "late", "dependencies": ["sum"]}
    made = foreign("count", "count", n=500) | {"stream": {"collect": "count"}}
    edges = [{"from": "count", "to": "sum.numbers"}, {"from": "count", "to": "late.numbers"}]
    definition = workflow(made, reader, late, edges=edges)
    async with running(tmp_path, redis_server.url, prefix, monkeypatch) as engine:
        more = (f"{tmp_path / 'perdure.db'}.blobs", prefix)
        async with foreign_worker(redis_server.url, "plain", "images", *more, program=STREAMING):
            await start(engine, definition, "r1")
            state = await end(engine, "r1")
    assert state.state.value == "completed", state.error
    outputs = {state.name(one.node): one.output for one in state.activations.values()}
    assert outputs == {"count": 500, "sum": 125_250, "late": 125_250}
    assert redis_server.unexplained_keys(prefix) == []


def test_the_worker_that_streams_is_short_and_imports_nothing_of_perdure():
    text = STREAMING.read_text()
    lines = [line for line in text.split('"""', 2)[2].splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(("import ", "from "))]) <= 67
    assert "import perdure" not in text
    assert "from perdure" not in text
