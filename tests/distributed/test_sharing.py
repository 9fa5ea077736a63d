"""Any number of engines on one database and one Redis: each decides for its share, and what one leaves another takes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.kernel.readings.explain import explain
from tests.distributed.helpers import PARTITIONS, Deployment, eventually
from tests.engine.helpers import ask, ended, start, task, transform, until, workflow
from tests.processes import python_path

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

DIAMOND = workflow(
    task("a", args={"value": 1}),
    task("b", args={"value": "{{ a.value }}"}, needs=["a"]),
    task("c", args={"value": "{{ a.value }}"}, needs=["a"]),
    transform("d", "{{ b.value + c.value }}", ["b", "c"]),
)


def held(engine):
    return set(engine.coordinator.share.partitions)


async def completed(engine, *names):
    states = await asyncio.gather(*(ended(engine, name) for name in names))
    return {str(state.state.value) for state in states}


async def test_a_coordinator_and_a_worker_run_what_a_third_process_starts(deployment: Deployment):
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    await start(client, DIAMOND, "r1")
    state = await ended(client, "r1")
    assert state.state.value == "completed"
    assert state.outputs == {"d": 2}


async def test_partitions_are_shared_evenly_as_coordinators_come_and_go(deployment: Deployment):
    one = await deployment.coordinator()
    await eventually(lambda: len(held(one)) == PARTITIONS)
    two = await deployment.coordinator()
    await eventually(lambda: len(held(one)) == len(held(two)) == PARTITIONS // 2)
    assert not held(one) & held(two)
    three = await deployment.coordinator()
    await eventually(lambda: sorted(map(len, map(held, (one, two, three)))) == [5, 5, 6])
    await deployment.close(two)
    await eventually(lambda: len(held(one)) == len(held(three)) == PARTITIONS // 2)


async def test_runs_move_on_while_coordinators_come_and_go(deployment: Deployment):
    one = await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    names = [f"run-{number}" for number in range(60)]
    for name in names[:20]:
        await start(client, DIAMOND, name)
    two = await deployment.coordinator()
    for name in names[20:40]:
        await start(client, DIAMOND, name)
    await deployment.close(one)
    await deployment.coordinator()
    for name in names[40:]:
        await start(client, DIAMOND, name)
    await deployment.close(two)
    assert await completed(client, *names) == {"completed"}


async def test_a_child_is_decided_where_its_parent_is(deployment: Deployment):
    await deployment.coordinator()
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    child = workflow(task("inner", args={"value": "{{ inputs.n }}"}), name="child")
    from perdure.model import compile_definition

    await client.workflows.register(compile_definition(child))
    parent = workflow(
        {
            "id": "each",
            "type": "map",
            "config": {"over": [1, 2, 3], "workflow": "child", "inputs": {"n": "{{ item }}"}},
        },
        name="parent",
    )
    for number in range(6):
        await start(client, parent, f"p{number}")
    assert await completed(client, *(f"p{number}" for number in range(6))) == {"completed"}


async def test_what_no_worker_can_take_is_held_and_goes_on_when_one_comes(deployment: Deployment):
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    await start(client, workflow(task("a"), task("b", needs=["a"], queue="gpu")), "r1")

    async def is_held():
        state = await client.runs.state("r1")
        found = state.find("b", ())
        return found is not None and found.state.value == "held" and found.reason == "no_worker"

    await eventually(is_held)
    await deployment.worker(("gpu",))
    assert (await ended(client, "r1")).state.value == "completed"


async def test_a_node_that_nobody_can_take_says_who_lacks_what(deployment: Deployment):
    await deployment.coordinator()
    worker = await deployment.worker()
    client = await deployment.open()
    nodes = [
        {"id": "a", "type": "task", "config": {"function": "tests.engine.tasks:echo"}, "queue": "gpu"},
        {"id": "b", "type": "task", "config": {"function": "never_registered"}},
    ]
    await start(client, workflow(*nodes), "r1")

    async def are_held() -> bool:
        state = await client.runs.state("r1")
        return state.find("a").state == state.find("b").state == "held"

    await eventually(are_held)
    state = await client.runs.state("r1")
    assert explain(state, "a").endswith(
        ": nobody worked on queue 'gpu'. A worker of its own for that queue: `perdure worker --queues gpu`."
    )
    assert worker.worker is not None
    assert explain(state, "b").endswith(
        f"{worker.worker.worker_id} (process {os.getpid()} on {socket.gethostname()}) on queue 'default' lacked the "
        "function 'never_registered'."
    )


ELSEWHERE = (
    "import asyncio, sys, json\nfrom perdure.engine import Engine\nfrom perdure.settings import Settings\n"
    "async def main():\n"
    "    settings = Settings(database_url=sys.argv[1], **json.loads(sys.argv[2]))\n"
    "    engine = await Engine.open(settings, journal_options={'require_durable': False})\n"
    "    await engine.work(worker_id='able')\n    print('ready', flush=True)\n    await engine.until_broken()\n"
    "asyncio.run(main())"
)


async def test_a_function_that_one_worker_cannot_import_is_left_to_those_that_can(deployment: Deployment, tmp_path):
    (tmp_path / "only_elsewhere.py").write_text("def work():\n    return 'done'\n")
    coordinator = await deployment.coordinator()
    unable = await deployment.worker(concurrency=50)
    assert unable.worker is not None
    worker_id = unable.worker.worker_id
    client = await deployment.open()
    options = {
        "redis_url": deployment.redis.url,
        "redis_prefix": deployment.prefix,
        "worker_heartbeat_seconds": 0.2,
        "blob_url": f"file:{deployment.blobs}",
    }
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", ELSEWHERE, deployment.database_url, json.dumps(options)],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": python_path(tmp_path)},
    )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"ready\n"
        await eventually(lambda: {"able", worker_id} <= {seen.beat.worker for seen in coordinator.roster.workers})
        node = {"id": "a", "type": "task", "config": {"function": "only_elsewhere:work"}, "retry": {"max_attempts": 1}}
        names = [f"r{number}" for number in range(20)]
        for name in names:
            await start(client, workflow(node), name)
        states = await asyncio.gather(*(ended(client, name) for name in names))
        assert {(state.state.value, state.find("a").worker, state.find("a").tries) for state in states} == {
            ("completed", "able", 1)
        }
        assert unable.worker is not None
        assert list(unable.worker._lacking) == ["only_elsewhere:work"]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


async def test_a_function_that_its_worker_cannot_import_fails_its_attempt_and_is_not_held_for_ever(
    deployment: Deployment,
):
    await deployment.coordinator()
    await deployment.worker()
    client = await deployment.open()
    node = {"id": "a", "type": "task", "config": {"function": "no_such_module:work"}, "retry": {"max_attempts": 1}}
    await start(client, workflow(node), "r1")
    state = await ended(client, "r1")
    assert (state.state.value, state.error.code) == ("failed", "function_not_found")


async def test_a_function_that_nobody_can_import_fails_after_everybody_was_asked_and_is_looked_for_anew(
    deployment: Deployment, tmp_path, monkeypatch
):
    coordinator = await deployment.coordinator()
    await deployment.worker()
    await deployment.worker()
    client = await deployment.open()
    await eventually(lambda: len(coordinator.roster.workers) == 2)
    node = {"id": "a", "type": "task", "config": {"function": "comes_later:work"}, "retry": {"max_attempts": 1}}
    await start(client, workflow(node), "r1")
    state = await ended(client, "r1")
    assert (state.state.value, state.error.code) == ("failed", "function_not_found")
    assert coordinator.coordinator.renderer.scarce == set()
    (tmp_path / "comes_later.py").write_text("def work():\n    return 'done'\n")
    monkeypatch.syspath_prepend(tmp_path)
    await ask(client, "retry")
    state = await until(client, lambda state: state.generation == 2 and state.terminal, "r1")
    assert state.outputs == {"a": "done"}
