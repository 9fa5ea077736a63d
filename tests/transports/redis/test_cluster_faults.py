"""What may happen to the servers of a cluster, one by one, while work goes on. Only `make cluster` runs these."""

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from perdure.transport import TransportUnavailable
from perdure.transports.redis import RedisTransport, cluster_link
from perdure.transports.redis.names import Keys
from tests.conformance.transport.messages import beat, result, soon, task
from tests.servers.redis_cluster import Node, RedisCluster
from tests.transports.redis.conftest import Opener
from tests.transports.redis.helpers import Coordinator, insist, wait_until
from tests.waiting import wait_until as wait_in_thread

QUEUES = [f"q{number}" for number in range(9)]
TASKS = [task(f"n{n:03}", queue=QUEUES[n % 9], run_id=f"run{n % 17}") for n in range(600)]

pytestmark = pytest.mark.slow

Start = Callable[..., Opener]


@pytest.fixture
def started() -> Iterator[Start]:
    """Transports of a cluster of their own."""
    with contextlib.ExitStack() as stack:

        def start(masters: int = 3, replicas: int = 0, *options: str) -> Opener:
            cluster = RedisCluster(masters, replicas, options).start()
            stack.callback(cluster.remove)
            return Opener(cluster)

        yield start


async def work(transport: RedisTransport, worker: str) -> None:
    while True:
        tasks = await insist(transport.claim, worker, QUEUES, 10)
        await insist(transport.report, [result(one, worker=worker) for one in tasks])


async def beat_on(transport: RedisTransport, worker: str) -> None:
    """Whatever happens, with a short time in between."""
    while True:
        await insist(asyncio.to_thread, transport.beat, beat(worker, queues=QUEUES))
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def working(opened: Opener, **options) -> AsyncIterator[Coordinator]:
    """A coordinator and two workers with all the tasks; in the end everything was accepted, and nothing twice."""
    options = {"timeout_seconds": 0.5, "stale_seconds": 1.0, "adopt_seconds": 0.1, "unlisted_seconds": 1.0} | options
    transport = await opened(**options)
    workers = [await opened(**options, partitions=()) for _ in range(2)]
    coordinator = Coordinator(transport, TASKS)
    async with asyncio.TaskGroup() as group:
        agents = [group.create_task(work(one, f"w{number}")) for number, one in enumerate(workers)]
        agents += [group.create_task(beat_on(one, f"w{number}")) for number, one in enumerate(workers)]
        running = group.create_task(asyncio.wait_for(coordinator.run(), 120))
        yield coordinator
        await running
        for agent in agents:
            agent.cancel()
    assert sorted(coordinator.accepted) == sorted(one.task_id for one in TASKS)
    assert coordinator.repeated == []
    await opened.close()


async def wait_for_more(coordinator: Coordinator, number: int = 20) -> None:
    """Than are accepted now."""
    wanted = min(len(coordinator.accepted) + number, len(TASKS))
    await wait_until(lambda: len(coordinator.accepted) >= wanted, "it goes on")


async def do_all(transport: RedisTransport) -> None:
    """A task through every queue, and so through every server."""
    tasks = [task("a", queue=queue, run_id=f"run{number}") for number, queue in enumerate(QUEUES)]
    await insist(transport.publish, tasks)
    left = {one.task_id for one in tasks}
    while left:
        claimed = await insist(transport.claim, "w1", QUEUES, 100)
        await insist(transport.report, [result(one) for one in claimed])
        left -= {one.task_id for one in claimed}
    left = {one.task_id for one in tasks}
    while left:
        for delivery in await insist(transport.receive, 100):
            await insist(transport.acknowledge, [delivery.receipt])
            left.discard(delivery.result.task_id)


async def test_a_master_that_dies_is_followed_by_its_replica_and_back_again(started):
    opened = started(3, 1)
    cluster = opened.server
    first, replica = cluster.masters[0], cluster.nodes[3]
    transport = await opened(timeout_seconds=1.0, adopt_seconds=0.1)
    await do_all(transport)
    for old, new in ((first, replica), (replica, first)):
        await asyncio.to_thread(old.kill)
        await do_all(transport)
        assert new.is_master
        await insist(asyncio.to_thread, transport.beat, beat("w1"))
        await asyncio.to_thread(old.start)
        await asyncio.to_thread(cluster.wait)
    await opened.close()


async def test_that_a_server_cannot_be_reached_is_reason_enough_to_ask_for_the_map(started, monkeypatch):
    """Also if nothing else is called, and no other server complains."""
    monkeypatch.setattr(cluster_link, "MAP_SECONDS", 1e9)
    opened = started(3, 1, "--cluster-require-full-coverage", "no")
    transport = await opened(partitions=(), timeout_seconds=1.0)
    key = next(one for one in map(Keys(opened.prefix).held, QUEUES) if _owner(opened, one) is opened.server.masters[0])
    assert await transport._link.call("HLEN", key) == 0
    await asyncio.to_thread(opened.server.masters[0].kill)
    assert await insist(transport._link.call, "HLEN", key) == 0
    await opened.close()


def _owner(opened: Opener, key: str) -> Node:
    assert isinstance(opened.server, RedisCluster)
    return opened.server.owner_of(key)


async def test_each_master_may_be_killed_and_come_back_empty(started):
    opened = started()
    async with working(opened) as coordinator:
        for node in opened.server.masters:
            await wait_for_more(coordinator)
            await asyncio.to_thread(node.kill)
            await asyncio.to_thread(node.start)
    assert opened.server.unexplained_keys(opened.prefix) == []


async def test_a_killed_master_is_away_until_the_others_have_given_it_up_and_comes_back(started):
    opened = started()
    async with working(opened) as coordinator:
        await wait_for_more(coordinator)
        gone, other = opened.server.masters[1:]
        await asyncio.to_thread(gone.kill)
        down = functools.partial(_says, other, b"cluster_state:fail")
        await asyncio.to_thread(wait_in_thread, down, "the cluster is down")
        await asyncio.to_thread(gone.start)
    assert opened.server.unexplained_keys(opened.prefix) == []


def _says(node: Node, what: bytes) -> bool:
    return what in node.ask("CLUSTER", "INFO")


async def test_while_a_master_is_silent_the_others_serve_their_queues(started):
    opened = started(3, 0, "--cluster-require-full-coverage", "no")
    transport = await opened(timeout_seconds=0.5)
    await do_all(transport)
    keys = Keys(opened.prefix)
    silent = opened.server.owner_of(keys.held("q1"))
    others = [queue for queue in QUEUES if opened.server.owner_of(keys.held(queue)) is not silent]
    assert others
    silent.pause()
    start = time.monotonic()
    with pytest.raises(TransportUnavailable, match=r"no answer for 0\.5 s|cannot be reached"):
        await soon(transport.publish([task("b", queue="q1")]))
    assert time.monotonic() - start < 60
    for queue in others:
        await insist(transport.publish, [task("b", queue=queue)])
        assert [one.queue for one in await insist(transport.claim, "w1", [queue], 1)] == [queue]
    silent.go_on()
    await do_all(transport)
    await opened.close()


async def test_whoever_listens_at_a_server_that_dies_listens_at_another(started):
    opened = started(3, 0, "--cluster-require-full-coverage", "no")
    transport = await opened(partitions=(), timeout_seconds=1.0)
    heard: list[str] = []
    transport.on_wake("t", heard.append)
    channel = Keys(opened.prefix).wake_topic("t")
    await wait_until(lambda: channel in transport._wakes.heard, "it listens")
    node = next(one for one in opened.server.nodes if one.port == transport._wakes._address.port)
    await asyncio.to_thread(node.kill)
    await wait_until(
        lambda: channel in transport._wakes.heard and transport._wakes._address.port != node.port,
        "it listens elsewhere",
    )
    await insist(transport.wake, "t", "7")
    await wait_until(lambda: "7" in heard, "it hears")
    await opened.close()


async def test_slots_that_are_moved_key_by_key_while_work_goes_on_take_nothing_along(started):
    opened = started()
    cluster = opened.server
    keys = Keys(opened.prefix)
    chance = random.Random(1)
    async with working(opened) as coordinator:
        for queue in QUEUES * 2:
            await wait_for_more(coordinator, 10)
            source = cluster.owner_of(keys.held(queue))
            target = chance.choice([node for node in cluster.masters if node is not source])
            end = await asyncio.to_thread(cluster.move, _slot(source, keys.held(queue)), target)
            await asyncio.to_thread(end)


def _slot(node: Node, key: str) -> int:
    return int(node.ask("CLUSTER", "KEYSLOT", key))


async def test_a_server_may_give_its_slots_away_and_leave_while_work_goes_on(started):
    opened = started()
    cluster = opened.server
    leaving, staying = cluster.masters[2], cluster.masters[:2]
    async with working(opened) as coordinator:
        await wait_for_more(coordinator)
        ranges = [
            (first, last)
            for first, last, master, *_ in leaving.ask("CLUSTER", "SLOTS")
            if master[2].decode() == leaving.id
        ]
        for first, last in ranges:
            leaving.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", staying[0].id)
        given = functools.partial(_has_given, leaving)
        await asyncio.to_thread(wait_in_thread, given, "the slots are given away")
        for node in staying:
            node.ask("CLUSTER", "FORGET", leaving.id)
        await asyncio.to_thread(leaving.kill)
        await wait_for_more(coordinator)


def _has_given(node: Node) -> bool:
    return all(master[2].decode() != node.id for _, _, master, *_ in node.ask("CLUSTER", "SLOTS"))


@pytest.mark.parametrize("seed", range(4))
async def test_a_storm_of_faults_of_single_servers_loses_nothing_and_accepts_nothing_twice(seed, started):
    opened = started()
    cluster = opened.server
    chance = random.Random(seed)

    def restart(node: Node) -> None:
        node.kill()
        node.start()

    def flush(node: Node) -> None:
        node.ask("FLUSHALL")

    def forget_scripts(node: Node) -> None:
        node.ask("SCRIPT", "FLUSH")

    def kill_clients(node: Node) -> None:
        for kind in ("normal", "pubsub"):
            node.ask("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    faults: list[Callable[[Node], None]] = [restart, flush, forget_scripts, kill_clients]

    async def be_silent(node: Node, coordinator: Coordinator) -> None:
        """Until somebody who asks it gives up."""
        key = next(key for key in map(Keys(opened.prefix).held, QUEUES) if cluster.owner_of(key) is node)
        node.pause()
        with contextlib.suppress(TransportUnavailable):
            await coordinator.transport._link.call("HLEN", key)
        node.go_on()

    with cluster.proxy() as proxy:
        cuts: list[Callable[[], Awaitable[None]]] = [
            lambda: asyncio.to_thread(chance.choice(proxy.proxies).cut),
            lambda: asyncio.to_thread(chance.choice(proxy.proxies).cut_after, chance.randrange(2000)),
        ]
        hurts = 0
        async with working(opened) as coordinator:
            while len(coordinator.accepted) < len(TASKS):
                await wait_for_more(coordinator, 15)
                node, kind = chance.choice(cluster.masters), chance.random()
                if kind < 0.25:
                    await chance.choice(cuts)()
                elif kind < 0.4:
                    await be_silent(node, coordinator)
                else:
                    await asyncio.to_thread(chance.choice(faults), node)
                hurts += 1
        assert hurts > 5
    assert await soon(_nothing_odd(cluster, opened.prefix))


async def _nothing_odd(cluster: RedisCluster, prefix: str) -> bool:
    return await asyncio.to_thread(cluster.unexplained_keys, prefix) == []
