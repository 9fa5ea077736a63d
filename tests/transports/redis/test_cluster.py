"""A cluster of three servers, in small: commands find their master, wake-ups come from anywhere, one server's fault is mended.

`make cluster` runs the conformance suites and the fault tests on such a cluster too.
"""

import asyncio
import binascii
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.clock import system
from perdure.errors import SettingsInvalid
from perdure.journal import partition_of
from perdure.limits import Ask, Entered, Limit
from perdure.transport import Delivery, TransportUnavailable
from perdure.transports.redis import open_redis
from perdure.transports.redis.blocking_cluster_link import BlockingClusterLink
from perdure.transports.redis.cluster_link import ClusterLink
from perdure.transports.redis.names import Keys
from perdure.transports.redis.scripts import all_scripts
from perdure.transports.redis.server_link import ServerLink
from perdure.transports.redis.server_url import Address, parse
from perdure.transports.redis.slots import SLOTS, place, read_slots, slot_of
from tests.conformance.transport.messages import beat, claim, receive, result, settle, soon, task
from tests.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster
from tests.transports.redis.conftest import PARTITIONS, Opener
from tests.transports.redis.helpers import Coordinator, insist, wait_until, work
from tests.transports.redis.test_rights import DOCUMENT

QUEUES = [f"q{number}" for number in range(12)]
HOME = Address("home", 7000, username="u", password="p", tls=True)


@pytest.fixture
def cluster(redis_servers) -> RedisCluster:
    """Shared: what is done to it must be mended, or be of no consequence to others."""
    return redis_servers.get("three")


@pytest.fixture
def alone() -> Iterator[RedisServer]:
    server = RedisServer().start()
    yield server
    server.remove()


@pytest.fixture
async def opened(cluster):
    opener = Opener(cluster)
    yield opener
    await opener.close()
    assert cluster.unexplained_keys(opener.prefix) == []


# the map


@pytest.mark.parametrize(
    ("key", "counts"),
    [("a", "a"), ("x{a}y", "a"), ("{a}{b}", "a"), ("x{}a", "x{}a"), ("x{a", "x{a"), ("{{a}}", "{a"), ("ü{ä}", "ä")],
)
def test_what_stands_in_the_first_braces_decides_on_the_slot(key, counts):
    assert slot_of(key) == slot_of(key.encode()) == binascii.crc_hqx(counts.encode(), 0) % SLOTS


def test_slots_are_counted_as_the_server_counts_them(cluster):
    chance = random.Random(1)
    keys = ["".join(chance.choices("{}ab:ü", k=chance.randrange(1, 9))) for _ in range(200)]
    with cluster.masters[0].client() as client:
        assert [client.execute_command("CLUSTER", "KEYSLOT", key) for key in keys] == [slot_of(key) for key in keys]


def test_a_map_is_read_as_the_server_means_it():
    reply = [
        [0, 10, [b"one", 1, b"id1"], [b"two", 2, b"id2"]],
        [11, 20, [b"", 3, b"id3"]],
        [21, 30, [None, 4, b"id4"]],
        [31, 40, [b"?", 5, b"id5"]],
        [41, 41, [b"one", 1, b"id1"]],
    ]
    found = read_slots(reply, HOME)
    one, two, three, four = HOME.at("one", 1), HOME.at("two", 2), HOME.at("home", 3), HOME.at("home", 4)
    assert (found.masters, found.others) == ((one, three, four), (two,))
    owners = [found.owners[slot] for slot in (0, 10, 11, 20, 21, 30, 31, 40, 41, 42, SLOTS - 1)]
    assert owners == [one, one, three, three, four, four, None, None, one, None, None]
    assert (one.username, one.password, one.tls) == ("u", "p", True)


def test_a_server_without_a_port_is_the_one_that_was_asked():
    home = Address(path="/run/redis.sock")
    assert read_slots([[0, 5, [b"", 0, b"id"]]], home).masters == (home,)


def test_a_redirection_without_a_host_is_to_the_host_that_said_so():
    assert place(":7", HOME) == HOME.at("home", 7)
    assert place("::1:7", HOME) == HOME.at("::1", 7)


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("redis://a:1,b:2,c", [("a", 1), ("b", 2), ("c", 6379)]),
        ("rediss://u:p@a:1,[::1]:2", [("a", 1), ("::1", 2)]),
        ("redis://a", [("a", 6379)]),
    ],
)
def test_a_url_may_name_several_servers(url, places):
    address = parse(url)
    assert [(one.host, one.port) for one in address.each()] == places
    assert {(one.username, one.tls, one.others) for one in address.each()} == {(address.username, address.tls, ())}
    assert str(address) == ",".join(f"{host}:{port}" for host, port in places)


@pytest.mark.parametrize("url", ["redis://a:1,:2", "redis://a:1,b:x", "redis://a,"])
def test_a_url_with_a_server_that_is_none_is_refused(url):
    with pytest.raises(SettingsInvalid, match="of a cluster also several servers"):
        parse(url)


# one or many


async def test_whether_it_is_a_cluster_the_server_says(cluster, opened, alone):
    assert isinstance((await opened(cluster.nodes[1].url))._link, ClusterLink)
    transport = await open_redis(alone.url)
    assert isinstance(transport._link, ServerLink)
    await transport.close()


async def test_several_servers_that_are_no_cluster_are_refused(alone):
    with Proxy(alone.socket) as proxy, pytest.raises(SettingsInvalid, match="is not in a cluster"):
        await open_redis(f"redis://{proxy.host}:{proxy.port},{proxy.host}:{proxy.port}")


async def test_every_operation_finds_its_master(opened):
    transport, worker = await opened(unlisted_seconds=0.0), await opened(partitions=(), durable_checkpoints=True)
    names = [f"n{number}" for number in range(24)]
    sent = [task(name, queue=QUEUES[n % 12], run_id=f"r{n}") for n, name in enumerate(names)]
    worker.beat(beat("w1", queues=QUEUES))
    await transport.publish(sent)
    assert await transport.recall([sent[0].task_id]) == {sent[0].task_id: "withdrawn"}
    claimed = await soon(worker.claim("w1", QUEUES, 100))
    assert sorted(one.task_id for one in claimed) == sorted(one.task_id for one in sent[1:])
    await transport.stop([sent[1].task_id])
    assert worker.beat(beat("w1", *(one.task_id for one in claimed))) == (sent[1].task_id,)
    await worker.report([result(one) for one in claimed[:20]])
    received: list[Delivery] = []
    while len(received) < 20:
        received += await soon(transport.receive(100))
    await transport.acknowledge([one.receipt for one in received])
    assert len(await transport.list_workers()) == 1
    assert sorted(await transport.forget_worker("w1")) == sorted(one.task_id for one in claimed[20:])
    assert {link.address.port for link in transport._link._links.values() if link.is_connected} == {
        node.port for node in opened.server.nodes
    }


async def test_a_checkpoint_and_a_wish_to_begin_are_answered(opened):
    transport, worker = await opened(), await opened(partitions=(), durable_checkpoints=True)
    once = task("a", effect="at_most_once")
    await transport.publish([once])
    await claim(worker)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(worker.begin(once, "w1"))
        await soon(transport.receive_begin())
        await transport.grant_begin(once.task_id, True)
        assert await soon(beginning) is True
        reporting = group.create_task(worker.report([result("a", "checkpointed", output={"page": 1})]))
        [delivery] = await soon(transport.receive(1))
        await transport.acknowledge([delivery.receipt])
        await soon(reporting)


async def test_limits_are_kept_each_by_its_own_master(opened):
    one, other = (await opened()).limits, (await opened()).limits
    slots = [Limit("t", f"k{number}", 1) for number in range(12)]
    rates = [Limit("t", f"k{number}", 1, 60.0) for number in range(12)]
    asks = [Ask(f"o{n}", (slot, rate)) for n, (slot, rate) in enumerate(zip(slots, rates, strict=True))]
    assert [type(answer) for answer in await one.enter(asks)] == [Entered] * 12
    assert [answer.limit for answer in await other.enter([Ask("x", (slot,)) for slot in slots])] == slots
    await one.occupy([(f"o{n}", slot) for n, slot in enumerate(slots)])
    await one.leave([(f"o{n}", slot) for n, slot in enumerate(slots)])
    assert [type(answer) for answer in await other.enter([Ask("x", (slot,)) for slot in slots])] == [Entered] * 12
    await other.leave([("x", slot) for slot in slots])


async def test_a_wake_up_is_heard_through_whichever_server_it_was_sent(cluster, opened):
    transport = await opened(partitions=())
    heard: list[str] = []
    transport.on_wake("t", heard.append)
    channel = Keys(opened.prefix).wake_topic("t")
    await wait_until(lambda: channel in transport._wakes.heard, "it listens")

    def send() -> bool:
        """Servers pass on what is published while their connection stands, and repeat nothing."""
        missing = {str(number): node for number, node in enumerate(cluster.nodes) if str(number) not in heard}
        for number, node in missing.items():
            node.ask("PUBLISH", channel, number)
        return not missing

    await wait_until(send, "it hears")


async def test_a_wake_up_is_sent_only_when_what_it_is_about_is_there(cluster, opened):
    """They go by different servers, and whoever looks too early looks again two seconds later."""
    transport = await opened()
    keys = Keys(opened.prefix)
    way = next(one for one in cluster.masters if one.port == transport._link._owner(("PUBLISH",)).port)
    run_id = next(
        run_id
        for run_id in (f"run{number}" for number in range(1000))
        if cluster.owner_of(keys.results(partition_of(run_id, PARTITIONS))) is not way
    )
    home = cluster.owner_of(keys.results(partition_of(run_id, PARTITIONS)))
    await transport.publish([task("a", queue=queue) for queue in QUEUES])  # and so every server is connected
    with way.client() as client, client.pubsub() as listener:
        listener.subscribe(keys.wake_results, "over")
        home.pause()
        try:
            reporting = asyncio.ensure_future(transport.report([result(task("a", run_id=run_id))]))
            await settle()
            await transport._link._link(parse(way.url)).call("PING")  # what was sent there before has been done
            way.ask("PUBLISH", "over", "")
            assert [one["channel"] for one in _until(listener, b"over")] == [b"over"]
        finally:
            home.go_on()
        await soon(reporting)
        assert [one["channel"] for one in _until(listener, keys.wake_results.encode())]
    [delivery] = await soon(transport.receive(1))
    await transport.acknowledge([delivery.receipt])
    assert len(await soon(transport.claim("w1", QUEUES, 100))) == len(QUEUES)
    await transport.forget_worker("w1")


def _until(listener: Any, channel: bytes) -> list[Any]:
    """What is heard, up to the first on this channel."""
    heard: list[Any] = []
    while not heard or heard[-1]["channel"] != channel:
        said = listener.get_message(timeout=10.0)
        assert said is not None
        heard += [said] if said["type"] == "message" else []
    return heard


async def test_the_rights_of_the_document_and_those_for_a_cluster_are_enough(cluster, opened):
    text = DOCUMENT.read_text(encoding="utf-8")
    [block] = re.findall(r"```acl\n(.*?)```", text, re.DOTALL)
    [more] = re.findall(r"In a cluster both also need `([^`]*)`", text)
    for node in cluster.nodes:
        for line in block.strip().splitlines():
            node.ask(*line.split(), *more.split())
    urls = [cluster.url.replace("redis://", f"redis://perdure-{name}:secret@") for name in ("coordinator", "worker")]
    coordinator = await opened(urls[0], prefix="perdure")
    worker = await opened(urls[1], prefix="perdure", partitions=())
    worker.beat(beat("w1"))
    await coordinator.publish([task("a", queue=queue) for queue in QUEUES])
    for queue in QUEUES:
        assert await claim(worker, queues=(queue,)) == ["a"]
    await worker.report([result("a")])
    [delivery] = await soon(coordinator.receive(1))
    await coordinator.acknowledge([delivery.receipt])
    await coordinator.forget_worker("w1")
    await worker.close()
    for node in cluster.nodes:
        node.ask("SCRIPT", "FLUSH")
    await wait_until(lambda: "perdure:wake:scripts" in coordinator._wakes.heard, "the coordinator listens")
    worker = await opened(urls[1], prefix="perdure", partitions=())
    await insist(asyncio.to_thread, worker.beat, beat("w1"))
    assert not worker._link.may_load


# faults of one server


async def test_a_result_goes_only_after_its_task(cluster, opened):
    """They are on different servers: were it the other way round, a task whose result is gone could stay for ever."""
    transport = await opened(timeout_seconds=0.3)
    keys = Keys(opened.prefix)
    home = cluster.owner_of(keys.held("default"))
    streams = {f"run{number}": keys.results(partition_of(f"run{number}", PARTITIONS)) for number in range(1000)}
    run_id, stream = next((name, key) for name, key in streams.items() if cluster.owner_of(key) is not home)
    sent = task("a", run_id=run_id)
    await transport.publish([sent])
    await claim(transport)
    await transport.report([result(sent)])
    [delivery] = await soon(transport.receive(1))
    home.pause()
    try:
        with pytest.raises(TransportUnavailable, match=r"no answer for 0\.3 s"):
            await soon(transport.acknowledge([delivery.receipt]))
        assert cluster.owner_of(stream).client().xlen(stream) == 1
    finally:
        home.go_on()
    await insist(transport.acknowledge, [delivery.receipt])
    assert cluster.owner_of(stream).client().xlen(stream) == 0


async def test_scripts_are_loaded_on_every_master_and_again_where_they_were_forgotten(cluster, opened):
    transport = await opened()
    hashes = [script.hash for script in all_scripts().values()]
    with cluster.client() as client:
        assert all(client.script_exists(*hashes))
    for attempt, node in enumerate(cluster.nodes, 1):
        node.ask("SCRIPT", "FLUSH")
        sent = [task("a", queue=queue, attempt=attempt) for queue in QUEUES]
        await transport.publish(sent)
        transport.beat(beat("w1"))
        node.ask("SCRIPT", "FLUSH")
        transport.beat(beat("w1", *(one.task_id for one in sent[:1]), queues=QUEUES))
        assert len(await soon(transport.claim("w1", QUEUES, 100))) == len(QUEUES)
        await transport.report([result(one) for one in sent[:1]])
        [delivery] = await soon(transport.receive(1))
        await transport.acknowledge([delivery.receipt])
        await transport.forget_worker("w1")


async def test_connections_that_one_server_kills_are_replaced(cluster, opened):
    transport = await opened()
    for node in cluster.nodes:
        for kind in ("normal", "pubsub"):
            node.ask("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        await insist(transport.publish, [task("a", queue=queue) for queue in QUEUES])
        found: set[str] = set()
        while found != set(QUEUES):
            found |= {one.queue for one in await insist(transport.claim, "w1", QUEUES, 100)}
        await insist(asyncio.to_thread, transport.beat, beat("w1"))
        await insist(transport.forget_worker, "w1")


async def test_a_slot_on_its_way_and_one_that_went_are_followed(cluster, opened):
    transport, worker = await opened(), await opened(partitions=())
    keys = Keys(opened.prefix)
    slot, source = slot_of(keys.held("default")), cluster.owner_of(keys.held("default"))
    target = next(node for node in cluster.masters if node is not source)
    await transport.publish([task("a")])
    assert await claim(worker) == ["a"]
    assert worker.beat(beat("w1", task("a").task_id)) == ()
    cluster.move(slot, target)()
    worker.beat(beat("w1", task("a").task_id))  # MOVED, in the thread of the heart
    await transport.publish([task("b"), task("c")])  # MOVED
    assert await claim(worker) == ["b", "c"]
    cluster.move(slot, source)()
    assert transport.beat(beat("w1", *(task(name).task_id for name in "abc"))) == ()
    await worker.report([result(name) for name in "abc"])
    assert sorted(await receive(transport)) == ["a", "b", "c"]
    assert await transport.forget_worker("w1") == []


async def test_what_of_a_slot_is_already_elsewhere_is_asked_for_there(cluster, opened):
    """An empty slot on its way: everything new is made at its new home, after ASK."""
    transport = await opened()
    stream = Keys(opened.prefix).results(partition_of("r1", PARTITIONS))
    slot, source = slot_of(stream), cluster.owner_of(stream)
    target = next(node for node in cluster.masters if node is not source)
    end = cluster.move(slot, target)
    try:
        await transport.report([result("a")])
        assert stream.encode() in target.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
        assert stream.encode() not in source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
        [delivery] = await soon(transport.receive(1))
        await transport.acknowledge([delivery.receipt])
        heart = BlockingClusterLink(parse(cluster.url), system, seconds=5.0, name="test")
        assert heart.execute([("XLEN", stream), ("EXISTS", stream)]) == [0, 1]
        heart.close()
    finally:
        end()
        cluster.move(slot, source)()


async def test_a_queue_on_its_way_is_unavailable_until_it_is_there(cluster, opened):
    """Redis refuses an operation on several keys while they may be in two places."""
    transport = await opened(timeout_seconds=0.3)
    held = Keys(opened.prefix).held("gpu")
    slot, source = slot_of(held), cluster.owner_of(held)
    target = next(node for node in cluster.masters if node is not source)
    end = cluster.move(slot, target)
    try:
        with pytest.raises(TransportUnavailable, match="TRYAGAIN"):
            await soon(transport.publish([task("a", queue="gpu")]))
        with pytest.raises(TransportUnavailable, match="during rehashing"):
            transport.beat(beat("w1", task("a").task_id, queues=("gpu",)))
        publishing = asyncio.ensure_future(insist(transport.publish, [task("a", queue="gpu")]))
        end()
        await soon(publishing)
        assert await claim(transport, queues=("gpu",)) == ["a"]
    finally:
        end()
        cluster.move(slot, source)()
    assert await transport.forget_worker("w1") == [task("a").task_id]


async def test_a_slot_that_nobody_serves_is_unavailable_in_time_and_served_again(cluster, opened):
    transport = await opened(timeout_seconds=0.5)
    keys = Keys(opened.prefix)
    slot, owner = slot_of(keys.held("lost")), cluster.owner_of(keys.held("lost"))
    for node in cluster.masters:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        node.ask("CLUSTER", "DELSLOTS", slot)
    try:
        with pytest.raises(TransportUnavailable, match="CLUSTERDOWN"):
            await soon(transport.publish([task("a", queue="lost")]))
        publishing = asyncio.ensure_future(insist(transport.publish, [task("a", queue="lost")]))
    finally:
        for node in cluster.masters:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", owner.id)
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
        await asyncio.to_thread(cluster.wait)
    await soon(publishing)
    assert [one.node for one in await insist(transport.claim, "w1", ["lost"], 1)] == ["a"]


# the beginning and the end


async def test_the_first_server_of_the_url_may_be_away(cluster, opened):
    transport = await opened(f"redis://127.0.0.1:1,127.0.0.1:{cluster.nodes[2].port}")
    transport.beat(beat("w1"))
    await transport.publish([task("a")])
    assert await claim(transport) == ["a"]


async def test_nothing_stays_behind_when_it_is_closed(cluster):
    before = len(asyncio.all_tasks())
    transport = await open_redis(cluster.url, prefix=cluster.new_prefix())
    transport.beat(beat("w1"))
    await transport.publish([task("a", queue=queue) for queue in QUEUES])
    await transport.close()
    with pytest.raises(TransportUnavailable, match="closed"):
        await transport._link.call("SMEMBERS", "x")
    await wait_until(lambda: len(asyncio.all_tasks()) == before, "its tasks are over")
    for node in cluster.nodes:
        names = [one["name"] for one in node.client().client_list()]
        assert [name for name in names if name.startswith(f"perdure-{transport.process[-8:]}")] == []


async def test_work_goes_through_all_servers_at_once(opened):
    transport, worker = await opened(), await opened(partitions=())
    tasks = [task(f"n{number:03}", run_id=f"run{number % 17}") for number in range(300)]
    coordinator = Coordinator(transport, tasks)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work(worker, "w1", []))
        await asyncio.wait_for(coordinator.run(), 60)
        working.cancel()
    assert sorted(coordinator.accepted) == sorted(one.task_id for one in tasks)
    assert coordinator.repeated == []
