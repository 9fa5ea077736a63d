"""Limits on the embedded engine: concurrency, rates, queues, tenants, and what is refused when too much waits."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from perdure.errors import SettingsInvalid
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import RunState as R
from perdure.limits import read_queue_limits
from tests.engine import counting, tasks
from tests.engine.helpers import (
    ask,
    crash,
    ended,
    finish,
    opened,
    running,
    start,
    state_of,
    until,
    until_true,
    workflow,
)


@pytest.fixture(autouse=True)
def _count_anew():
    counting.reset()


def work(id: str, name: str = "all", **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "type": "task",
        "config": {"function": "tests.engine.counting:work", "args": {"name": name, "turns": more.pop("turns", 5)}},
        **more,
    }


def stubborn(id: str, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "type": "task",
        "config": {"function": "tests.engine.counting:stubborn", "args": {"name": "all"}},
        **more,
    }


def gate(id: str, name: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "task", "config": {"function": "tests.engine.tasks:gate", "args": {"name": name}}, **more}


def map_of(many: int, item: dict[str, Any]) -> dict[str, Any]:
    item = {key: value for key, value in item.items() if key != "id"}
    return {"id": "m", "type": "map", "config": {"over": list(range(many)), "node": item}}


# -- concurrency -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_map_of_fifty_with_a_limit_of_three_never_has_more_at_work(tmp_path):
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(map_of(50, work("x", concurrency={"key": "vendor", "limit": 3}))))
        assert state.state is R.COMPLETED
        assert counting.most["all"] == 3
        assert len(counting.began["all"]) == 50


async def test_a_key_is_shared_by_runs_and_workflows(tmp_path):
    limit = {"key": "vendor", "limit": 2}
    async with running(tmp_path) as engine:
        for number in range(6):
            nodes = [work(f"n{n}", concurrency=limit) for n in range(3)]
            await start(engine, workflow(*nodes, name=f"flow{number % 2}"), f"r{number}")
        for number in range(6):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        assert counting.most["all"] == 2


async def test_a_key_is_a_template_and_each_value_has_its_own_slots(tmp_path):
    nodes = [
        {"id": "t", "type": "transform", "config": {"value": {"n": 7}}},
        work("a", "by input", concurrency={"key": "{{ inputs.customer }}", "limit": 1}),
        work("b", "by output", dependencies=["t"], concurrency={"key": "{{ t.n }}", "limit": 1}),
    ]
    async with running(tmp_path) as engine:
        for number in range(8):
            await start(engine, workflow(*nodes), f"r{number}", {"customer": f"c{number % 2}"})
        for number in range(8):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        assert counting.most["by input"] == 2
        assert counting.most["by output"] == 1


async def test_items_of_a_map_may_be_limited_by_what_they_are(tmp_path):
    item = work("x", "{{ item }}", concurrency={"key": "host {{ item }}", "limit": 1})
    definition = workflow({"id": "m", "type": "map", "config": {"over": ["a", "b"] * 10, "node": {**item}}})
    del definition["nodes"][0]["config"]["node"]["id"]
    async with running(tmp_path) as engine:
        assert (await finish(engine, definition)).state is R.COMPLETED
        assert (counting.most["a"], counting.most["b"]) == (1, 1)


async def test_without_a_key_the_node_of_the_workflow_is_the_key(tmp_path):
    async with running(tmp_path) as engine:
        definition = workflow(work("a", "a", concurrency={"limit": 1}), work("b", "b", concurrency={"limit": 1}))
        for number in range(5):
            await start(engine, definition, f"r{number}")
        for number in range(5):
            await ended(engine, f"r{number}")
        assert (counting.most["a"], counting.most["b"]) == (1, 1)


async def test_tenants_do_not_share_keys(tmp_path):
    async with running(tmp_path) as engine:
        for tenant in ("one", "two"):
            definition = workflow(gate("g", "g", concurrency={"key": "k", "limit": 1}))
            await start(engine, definition, tenant, tenant=tenant)
        await until_true(lambda: len(tasks.seen) == 2, "both are at work")
        tasks.gate_of("g").set()
        for tenant in ("one", "two"):
            assert (await ended(engine, tenant)).state is R.COMPLETED


@pytest.mark.parametrize("value", ["", None, [1], {"a": 1}, "x" * 501])
async def test_a_key_that_is_none_fails_its_node_with_the_place(tmp_path, value):
    async with running(tmp_path) as engine:
        nodes = [work("a", concurrency={"key": "{{ inputs.key }}", "limit": 1})]
        await start(engine, workflow(*nodes), inputs={"key": value})
        state = await ended(engine)
        assert state.state is R.FAILED
        assert "the key of concurrency of a" in state.error.message
        assert counting.began == {}


async def test_a_failed_attempt_leaves_its_slot_and_its_retry_takes_one(tmp_path):
    limit = {"key": "k", "limit": 1}
    failing = {
        "id": "f",
        "type": "task",
        "config": {"function": "tests.engine.tasks:fail", "args": {"times": 2}},
        "retry": {"max_attempts": 3, "backoff_ms": 1},
        "concurrency": limit,
    }
    async with running(tmp_path) as engine:
        state = await finish(engine, workflow(failing, work("a", concurrency=limit), work("b", concurrency=limit)))
        assert state.state is R.COMPLETED
        assert engine.transport.limits._slots == {}
        assert engine.coordinator.publisher.limiter._held == {}


@pytest.mark.parametrize("effect", ["idempotent", "at_most_once"])
async def test_a_cancelled_attempt_keeps_its_slot_until_its_worker_has_stopped_it(tmp_path, effect):
    """Whether the journal knows that it has begun, or not."""
    limit = {"key": "k", "limit": 1}
    async with running(tmp_path) as engine:
        await start(engine, workflow(stubborn("s", concurrency=limit, effect=effect)), "first")
        await until_true(lambda: counting.now["all"], "it is at work")
        await start(engine, workflow(work("w", concurrency=limit)), "second")
        name = Address("second", "w").task_id
        await until_true(lambda: engine.coordinator.publisher.dispatcher.why(name), "it waits")
        assert engine.coordinator.publisher.dispatcher.why(name) == "waits for concurrency key 'k' (1 of 1)"
        state = await engine.runs.state("second")
        assert engine.coordinator.publisher.why(state, "w") == "waits for concurrency key 'k' (1 of 1)"
        assert engine.coordinator.publisher.why(state, "nothing") is None
        assert engine.coordinator.publisher.why(await engine.runs.state("first"), "s") is None
        await ask(engine, "cancel", "first")
        await until_true(lambda: counting.stopping, "it was told to stop")
        await finish(engine, workflow(work("x", "other")), "third")
        assert len(counting.began["all"]) == 1, "it has not stopped yet"
        counting.stopping["all"].set()
        assert (await ended(engine, "second")).state is R.COMPLETED
        assert counting.most["all"] == 1


async def test_what_waits_for_a_slot_can_be_paused_and_cancelled(tmp_path):
    limit = {"key": "k", "limit": 1}
    async with running(tmp_path) as engine:
        await start(engine, workflow(gate("g", "first", concurrency=limit)), "first")
        await until_true(lambda: tasks.seen, "it is at work")
        for run_id in ("paused", "gone"):
            await start(engine, workflow(work("w", concurrency=limit)), run_id)
        await ask(engine, "pause", "paused")
        await until(engine, lambda state: state_of(state, "w") == "held", "paused")
        await ask(engine, "cancel", "gone")
        assert (await ended(engine, "gone")).state is R.CANCELLED
        tasks.gate_of("first").set()
        await ended(engine, "first")
        await ask(engine, "resume", "paused")
        assert (await ended(engine, "paused")).state is R.COMPLETED
        await until_true(lambda: len(engine.coordinator.publisher.dispatcher) == 0, "nothing is left")


async def test_a_crash_in_the_middle_loses_nothing_and_exceeds_nothing(tmp_path):
    definition = workflow(map_of(30, work("x", turns=20, concurrency={"key": "k", "limit": 3})))
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, definition)
    await until_true(lambda: len(counting.began["all"]) > 5, "some are done, some at work")
    await crash(engine)
    assert counting.most["all"] == 3
    counting.now.clear()
    async with running(tmp_path) as engine:
        assert (await ended(engine)).state is R.COMPLETED
        assert counting.most["all"] == 3
        assert 30 <= len(counting.began["all"]) <= 33 + 3


async def test_the_items_of_a_map_say_why_they_wait(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, workflow(map_of(3, gate("x", "g", concurrency={"key": "k", "limit": 1}))))
        await until_true(lambda: tasks.seen, "one is at work")
        state = await engine.runs.state("r1")
        assert engine.coordinator.publisher.why(state, "m") == "waits for concurrency key 'k' (1 of 1)"
        tasks.gate_of("g").set()
        assert (await ended(engine)).state is R.COMPLETED


# -- rates -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_rate_is_kept_over_runs(tmp_path):
    rate = {"key": "mail", "limit": 4, "per_seconds": 0.25}
    async with running(tmp_path) as engine:
        for number in range(3):
            await start(engine, workflow(map_of(4, work("x", rate=rate))), f"r{number}")
        for number in range(3):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
    times = sorted(counting.began["all"])
    assert len(times) == 12
    # They begin a little after they were let through; twelve need three stretches, with two of them between.
    assert times[-1] - times[0] >= 2 * 0.25 - 0.05


# -- queues ------------------------------------------------------------------------------------------------------------


async def test_a_queue_may_be_limited_for_everybody(tmp_path):
    async with running(tmp_path, queue_limits="gpu=2") as engine:
        for number in range(4):
            nodes = [*(work(f"g{n}", "gpu", queue="gpu") for n in range(3)), *(work(f"n{n}", "free") for n in range(3))]
            await start(engine, workflow(*nodes), f"r{number}", tenant=f"t{number % 2}")
        for number in range(4):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        assert counting.most["gpu"] == 2
        assert counting.most["free"] > 2


async def test_a_task_that_waits_for_its_queue_says_so(tmp_path):
    async with running(tmp_path, queue_limits="gpu=1") as engine:
        await start(engine, workflow(gate("a", "a", queue="gpu"), gate("b", "a", queue="gpu")))
        await until_true(lambda: tasks.seen, "one is at work")
        why = [engine.coordinator.publisher.dispatcher.why(Address("r1", node).task_id) for node in "ab"]
        assert sorted(why, key=str) == [None, "queue gpu: 1 of 1 slots taken"]
        tasks.gate_of("a").set()
        assert (await ended(engine)).state is R.COMPLETED


# -- tenants -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_tenant_with_very_much_to_do_does_not_keep_another_waiting(tmp_path):
    async with running(tmp_path, concurrency=4) as engine:
        await start(engine, workflow(map_of(2000, work("x"))), "loud", tenant="loud")
        await until_true(lambda: counting.order, "it has begun")
        await start(engine, workflow(work("x")), "calm", tenant="calm")
        before = len(counting.order)
        await ended(engine, "calm")
        waited = counting.order.index("calm") - before
        assert waited <= 4 * 8, "a window is eight, and the batch before it"
        await ask(engine, "cancel", "loud")
        await ended(engine, "loud")


# -- too much ----------------------------------------------------------------------------------------------------------


async def test_a_start_beyond_the_bound_is_refused_before_anything_is_written_and_runs_go_on(tmp_path):
    async with running(tmp_path, concurrency=1, max_backlog=3) as engine:
        nodes = [gate(f"g{number}", "g") for number in range(10)]
        await start(engine, workflow(*nodes))
        await until_true(lambda: engine.coordinator.publisher.dispatcher.backlog >= 3, "much waits")
        reply = await start(engine, workflow(work("x")), "r2")
        assert reply.code == "overloaded"
        assert reply.message == "8 tasks wait here already, and max_backlog is 3; try again later, or add workers"
        assert await engine.journal.find_run("r2") is None
        tasks.gate_of("g").set()
        assert (await ended(engine)).state is R.COMPLETED
        assert (await finish(engine, workflow(work("x")), "r2")).state is R.COMPLETED


# -- settings ----------------------------------------------------------------------------------------------------------


async def test_a_setting_that_is_refused_is_refused_before_a_database_is_made(tmp_path):
    with pytest.raises(SettingsInvalid, match="queue_limits"):
        await opened(tmp_path, queue_limits="gpu")
    assert list(tmp_path.iterdir()) == []


def test_queue_limits_are_read_and_every_mistake_is_named():
    found = read_queue_limits(" gpu=2, mail=100/60s ,mail=5,x.y=3/0.5 ")
    assert [(limit.key, limit.limit, limit.per_seconds) for limit in itertools.chain(*found.values())] == [
        ("queue:gpu", 2, None),
        ("queue:mail", 100, 60.0),
        ("queue:mail", 5, None),
        ("queue:x.y", 3, 0.5),
    ]
    assert read_queue_limits("") == {}
    with pytest.raises(
        Exception, match=r"from perdure\.toml: .*got 'gpu', 'a=0', 'b=1/0s', '=3', 'c=x', 'd=1/0.0005'"
    ) as raised:
        read_queue_limits("gpu, ok=1, a=0, b=1/0s, =3, c=x, d=1/0.0005", "perdure.toml")
    assert raised.value.code == "settings_invalid"


@pytest.mark.slow
async def test_two_hundred_runs_with_keys_of_their_own_do_not_hinder_each_other(tmp_path):
    definition = workflow(work("x", concurrency={"key": "{{ inputs.k }}", "limit": 1}))
    async with running(tmp_path) as engine:
        await asyncio.gather(*(start(engine, definition, f"r{n}", {"k": n // 2}) for n in range(200)))
        for number in range(200):
            assert (await ended(engine, f"r{number}")).state is R.COMPLETED
        assert engine.coordinator.publisher.limiter._counts == {}
        assert engine.transport.limits._slots == {}
