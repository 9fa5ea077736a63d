"""Any number of engines on one database and one Redis: each decides for its share, and what one leaves another takes."""

from __future__ import annotations

import asyncio

import pytest

from tests.distributed.helpers import PARTITIONS, Deployment, eventually
from tests.engine.helpers import ended, start, task, transform, workflow

pytestmark = pytest.mark.slow

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

    await client.register(compile_definition(child))
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
        state = await client.state("r1")
        found = state.find("b", ())
        return found is not None and found.state.value == "held" and found.reason == "no_worker"

    await eventually(is_held)
    await deployment.worker(("gpu",))
    assert (await ended(client, "r1")).state.value == "completed"


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
