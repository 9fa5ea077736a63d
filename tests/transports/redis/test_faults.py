"""What the server and the network do to us: after each of it everything works again, and nothing is accepted twice."""

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from perdure.transport import TransportUnavailable
from tests.conformance.transport.messages import beat, claim, result, soon, task
from tests.servers.redis import RedisServer
from tests.transports.redis.helpers import Coordinator, insist, wait_until, work


def restart(server: RedisServer) -> None:
    server.kill()
    server.start()


def flush(server: RedisServer) -> None:
    server.client().flushall()


def forget_scripts(server: RedisServer) -> None:
    server.client().script_flush()


def kill_clients(server: RedisServer) -> None:
    client = server.client()
    for kind in ("normal", "pubsub"):
        client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


def drop_groups(server: RedisServer) -> None:
    client = server.client()
    for key in client.scan_iter(_type="stream"):
        with contextlib.suppress(redis.ResponseError):  # it went meanwhile
            for group in client.xinfo_groups(key):
                client.xgroup_destroy(key, group["name"])


FAULTS: dict[str, Callable[[RedisServer], None]] = {
    "killed and restarted empty": restart,
    "flushed": flush,
    "scripts forgotten": forget_scripts,
    "clients killed": kill_clients,
    "groups dropped": drop_groups,
}


@pytest.fixture(params=FAULTS)
def fault(request) -> Callable[[RedisServer], None]:
    return FAULTS[request.param]


async def test_whoever_waits_during_a_fault_is_served_after_it(fault, opened_alone):
    transport = await opened_alone()
    async with asyncio.TaskGroup() as group:
        claiming = group.create_task(insist(transport.claim, "w1", ["default"], 1))
        receiving = group.create_task(insist(transport.receive, 1))
        await wait_until(lambda: transport._wakes.connections, "it listens")
        fault(opened_alone.server)
        await insist(transport.publish, [task("a")])
        assert [one.node for one in await soon(claiming)] == ["a"]
        await insist(transport.report, [result("a")])
        [delivery] = await soon(receiving)
        await insist(transport.acknowledge, [delivery.receipt])
    assert await insist(transport.find_missing, [task("a").task_id]) == {task("a").task_id}
    await transport.close()
    assert opened_alone.server.unexplained_keys(opened_alone.prefix) == []
    assert not {key for key in opened_alone.left() if "queue:" in key or "partition:" in key}


@pytest.mark.parametrize("moment", ["queued", "claimed", "reported", "received"])
async def test_a_fault_at_any_moment_loses_no_task(fault, moment, opened_alone):
    transport = await opened_alone(adopt_seconds=0.05)
    sent = task("a")
    steps = [
        lambda: insist(transport.publish, [sent]),
        lambda: insist(transport.claim, "w1", ["default"], 1),
        lambda: insist(transport.report, [result("a")]),
        lambda: insist(transport.receive, 1),
    ]
    for step in steps[: ["queued", "claimed", "reported", "received"].index(moment) + 1]:
        await step()
    fault(opened_alone.server)
    coordinator = Coordinator(transport, [sent])
    transport.take_over(range(8))  # as one does that starts now
    said = beat("w1", sent.task_id) if moment == "claimed" else beat("w1")
    await insist(asyncio.to_thread, transport.beat, said)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work(transport, "w2", []))
        if moment == "claimed":
            await insist(transport.report, [result("a")])
        await soon(coordinator.run())
        working.cancel()
    assert coordinator.accepted == ["r1/a/1.1"]
    assert coordinator.repeated == []


async def test_a_server_that_is_away_is_unavailable_and_answers_again_when_it_is_back(opened_alone):
    transport = await opened_alone(timeout_seconds=0.5)
    opened_alone.server.kill()
    calls: dict[str, list[Any]] = {
        "publish": [[task("a")]],
        "recall": [["r1/a/1.1"]],
        "stop": [["r1/a/1.1"]],
        "receive": [1],
        "find_missing": [["r1/a/1.1"]],
        "list_workers": [],
        "forget_worker": ["w1"],
        "claim": ["w1", ["default"], 1],
        "begin": [task("a"), "w1"],
        "report": [[result("a")]],
    }
    for name, arguments in calls.items():
        with pytest.raises(TransportUnavailable, match="Redis at"):
            await soon(getattr(transport, name)(*arguments))
    with pytest.raises(TransportUnavailable, match="Redis at"):
        await asyncio.to_thread(transport.beat, beat())
    opened_alone.server.start()
    await insist(asyncio.to_thread, transport.beat, beat())
    assert [seen.beat for seen in await insist(transport.list_workers)] == [beat()]


@pytest.mark.slow
async def test_while_one_call_tries_to_connect_again_the_others_fail_at_once(opened_alone):
    """Or each batch of a coordinator would take as long as several time-outs."""
    transport = await opened_alone(timeout_seconds=0.5)
    opened_alone.server.pause()
    try:
        with pytest.raises(TransportUnavailable):  # no answer
            await transport.list_workers()
        with pytest.raises(TransportUnavailable):  # no new connection either, and from now on that is known
            await transport.list_workers()
        link = transport._link
        await wait_until(lambda: link._clock.monotonic() > link._not_before, "the next call may try again")
        calls = [asyncio.create_task(transport.list_workers()) for _ in range(3)]
        done, trying = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(trying)) == (2, 1)
    finally:
        opened_alone.server.go_on()
    await asyncio.gather(*calls, return_exceptions=True)
    await insist(transport.list_workers)


@pytest.mark.slow
async def test_a_paused_server_is_unavailable_in_time_and_goes_on_afterwards(opened_alone):
    transport = await opened_alone(timeout_seconds=0.4)
    opened_alone.server.pause()
    start = time.monotonic()
    with pytest.raises(TransportUnavailable, match=r"no answer for 0\.4 s"):
        await soon(transport.publish([task("a")]))
    with pytest.raises(TransportUnavailable):
        await asyncio.to_thread(transport.beat, beat())
    assert time.monotonic() - start < 60
    opened_alone.server.go_on()
    await insist(transport.publish, [task("a"), task("b")])
    assert await claim(transport) == ["a", "b"]  # also if the first publish went through after all


async def test_a_connection_that_is_half_open_is_noticed_and_replaced(opened_alone):
    with opened_alone.server.proxy() as proxy:
        transport = await opened_alone(f"redis://{proxy.host}:{proxy.port}", timeout_seconds=0.4)
        waiting = asyncio.ensure_future(insist(transport.claim, "w1", ["default"], 1))
        await wait_until(lambda: transport._wakes.connections, "it listens")
        before = transport._wakes.connections
        proxy.go_silent()
        with pytest.raises(TransportUnavailable):
            await soon(transport.list_workers())
        await wait_until(lambda: transport._wakes._connection is None, "the subscription is given up")
        proxy.cut()
        proxy.heal()
        await wait_until(lambda: transport._wakes.connections > before, "it listens again")
        await insist(transport.publish, [task("a")])
        assert [one.node for one in await soon(waiting)] == ["a"]
        await transport.close()


async def test_a_network_that_refuses_and_cuts_is_outlived(opened_alone):
    with opened_alone.server.proxy() as proxy:
        transport = await opened_alone(f"redis://{proxy.host}:{proxy.port}", timeout_seconds=0.5)
        proxy.refuse()
        proxy.cut()
        with pytest.raises(TransportUnavailable, match=r"cannot be reached|reset|closed"):
            await soon(transport.publish([task("a")]))
        proxy.heal()
        await insist(transport.publish, [task("a")])
        assert await claim(transport) == ["a"]
        await transport.close()


@pytest.mark.slow
async def test_over_a_slow_network_everything_takes_longer_and_nothing_else(opened_alone):
    with opened_alone.server.proxy() as proxy:
        transport = await opened_alone(f"redis://{proxy.host}:{proxy.port}")
        proxy.slow_down(0.03)
        coordinator = Coordinator(transport, [task(f"n{number}") for number in range(40)])
        done: list[str] = []
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work(transport, "w1", done))
            await soon(coordinator.run())
            working.cancel()
        assert sorted(coordinator.accepted) == sorted(done) == sorted(task(f"n{n}").task_id for n in range(40))
        await transport.close()


async def test_tasks_given_in_an_answer_that_got_lost_are_given_again_to_the_same_worker(opened_alone):
    coordinator = await opened_alone()
    with opened_alone.server.proxy() as proxy:
        worker = await opened_alone(f"redis://{proxy.host}:{proxy.port}", partitions=())
        await coordinator.publish([task("a"), task("b"), task("c")])
        assert await claim(worker, 1) == ["a"]
        proxy.cut_at(task("b").task_id.encode())
        with pytest.raises(TransportUnavailable):
            await soon(worker.claim("w1", ["default"], 2))
        await wait_until(lambda: _pending(opened_alone) == 3, "the server gave them out")
        assert [one.node for one in await insist(worker.claim, "w1", ["default"], 1)] == ["b"]
        assert [one.node for one in await insist(worker.claim, "w1", ["default"], 5)] == ["c"]
        await coordinator.publish([task("d")])
        assert await claim(worker) == ["d"]  # and what is at work is not given twice
        await worker.close()


async def insist_in_vain(call) -> None:
    with contextlib.suppress(TransportUnavailable):
        await call()


def _pending(opened) -> int:
    client = opened.server.client()
    return sum(client.xpending(key, "workers")["pending"] for key in client.scan_iter(match="*:tasks:*"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_a_storm_of_faults_loses_nothing_and_accepts_nothing_twice(seed, opened_alone):
    chance = random.Random(seed)
    server = opened_alone.server
    tasks = [task(f"n{number:03}", run_id=f"run{number % 17}") for number in range(400)]
    with server.proxy() as proxy:
        url = f"redis://{proxy.host}:{proxy.port}"
        transport = await opened_alone(url, timeout_seconds=0.4, stale_seconds=1.0, adopt_seconds=0.1)
        workers = [await opened_alone(url, timeout_seconds=0.4, partitions=()) for _ in range(2)]
        coordinator = Coordinator(transport, tasks)

        async def pause() -> None:
            """Until somebody gives a connection up."""
            await insist(transport.list_workers)
            server.pause()
            await insist_in_vain(transport.list_workers)
            server.go_on()

        faults: list[Callable[[], Awaitable[None]]] = [
            *(functools.partial(asyncio.to_thread, one, server) for one in FAULTS.values()),
            pause,
            functools.partial(asyncio.to_thread, proxy.cut),
            lambda: asyncio.to_thread(proxy.cut_after, chance.randrange(2000)),
        ]
        hurts = 0

        async def hurt() -> None:
            nonlocal hurts
            while not finished():
                await wait_until(functools.partial(has_more, len(coordinator.accepted) + 5), "it goes on")
                await chance.choice(faults)()
                hurts += 1

        def has_more(number: int) -> bool:
            return len(coordinator.accepted) > number or finished()

        def finished() -> bool:
            return len(coordinator.accepted) == len(tasks)

        async with asyncio.TaskGroup() as group:
            working = [group.create_task(work(one, f"w{n}", [])) for n, one in enumerate(workers)]
            working.append(group.create_task(hurt()))
            async with asyncio.timeout(90):
                await coordinator.run()
            for one in working:
                one.cancel()
        assert sorted(coordinator.accepted) == sorted(one.task_id for one in tasks)
        assert coordinator.repeated == []
        assert hurts > 5
        for one in (transport, *workers):
            await one.close()
