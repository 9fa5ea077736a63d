"""Whatever stands in Redis, or is said there, by somebody without a key: no process ends, nothing genuine is held up (S20)."""

import asyncio
import base64
import contextlib
from typing import Any

import pytest

from perdure.api import create_app
from perdure.api import server as servers
from perdure.cli.frame import host
from perdure.journal import partition_of
from perdure.limits import Ask, Entered, Limit
from perdure.settings import Settings
from perdure.transports.envelopes import EnvelopeRefused, Keyring
from perdure.transports.redis.messages import Messages
from perdure.transports.redis.names import _PROBES, Keys
from tests.attack.marks import attack
from tests.conformance.transport.messages import beat, claim, receive, result, soon, task
from tests.distributed.conftest import deployment
from tests.distributed.helpers import PARTITIONS, eventually
from tests.engine import helpers as engines
from tests.ports import free_port
from tests.transports.redis.conftest import opened
from tests.transports.redis.helpers import wait_until

__all__ = ["deployment", "opened"]

RING = Keyring({"k": b"k" * 32})
SIGNING_KEYS = "k1:" + base64.b64encode(b"k" * 32).decode()
POISONS = {
    "not text": b"\xff",
    "huge": b"x" * 2_000_000,
    "deep": b"[" * 5_000,
    "no number": b"nan",
    "endless": b"inf",
    "negative": b"-1",
    "nothing": b"",
}
FIELDS = ("task", "at", "message", "signature", "queue", "kind", "ask", "process")


def places(keys):
    """Every key of the protocol."""
    found = [keys.workers_seen, keys.workers_beats, keys.queues, keys.scripts]
    found += [keys.held("default"), keys.lanes("default"), keys.forgotten("default")]
    found += [keys.turns("default", 0), keys.waiting("default", 0), keys.waiting("default", 0, "nobody")]
    found += [keys.lane("default", lane) for lane in ("adopted", "0:task:nobody", LANE)]
    for partition in range(PARTITIONS):
        found += [keys.results(partition), keys.begins(partition), keys.grant(partition, "x")]
    found += keys.stream("x", "x")
    return [*found, keys.slots("default", "vendor"), keys.rate("default", "vendor", 60_000)]


LANE = "0:task:tests.engine.tasks%3Aecho"


def kind_of(key):
    return _PROBES[key.partition("}:")[2].partition(":")[0]][0]


def plant(client, key, poison):
    """As its place wants it, and unreadable."""
    kind = kind_of(key)
    if kind == "XLEN":
        client.xadd(key, dict.fromkeys(FIELDS, poison))
        client.xadd(key, {poison: poison})
        client.xadd(key, {"task": poison, "queue": poison, "message": b"{}"})
    elif kind == "HGET":
        client.hset(key, poison, poison)
    elif kind == "ZSCORE":
        client.zadd(key, {poison: 0})
    elif kind == "SMEMBERS":
        client.sadd(key, poison)
    else:
        client.set(key, poison)


def spoil(client, key):
    """With what is of another type."""
    client.delete(key)
    if kind_of(key) == "GET":
        client.rpush(key, "x")
    else:
        client.set(key, "x")


def shout(client, prefix, poison):
    """On every channel that somebody listens to."""
    heard = client.pubsub_channels(f"{prefix}:wake:*")
    for channel in heard:
        client.publish(channel, poison)
    return {channel.decode().split(":")[2] for channel in heard}


def genuine():
    limits: dict[str, Any] = {
        "concurrency": {"key": "vendor", "limit": 2},
        "rate": {"key": "vendor", "limit": 1000, "per_seconds": 60},
    }
    return engines.workflow(
        engines.task("a", args={"value": 1}, **limits),
        engines.task("b", args={"value": 2}, needs=["a"], effect="at_most_once"),
    )


def check_alive(*processes):
    for engine in processes:
        engine.parts.check()


def test_the_fuzz_knows_every_kind_of_key():
    known = {key.partition("}:")[2].partition(":")[0] for key in places(Keys("p"))}
    assert known == _PROBES.keys()


@attack("S20", "unreadable bytes in every key and on every channel, with no key to sign them")
@pytest.mark.slow
async def test_whatever_stands_in_redis_genuine_runs_complete_and_no_part_ends(deployment):
    coordinator = await deployment.coordinator(signing_keys=SIGNING_KEYS)
    worker = await deployment.worker(signing_keys=SIGNING_KEYS)
    await eventually(lambda: len(coordinator.coordinator.share.partitions or ()) == PARTITIONS)
    assert (await engines.finish(coordinator, genuine(), "before")).state.value == "completed"
    keys = Keys(deployment.prefix)
    with deployment.redis.client() as client:
        for number, poison in enumerate(POISONS.values()):
            for key in places(keys):
                plant(client, key, poison)
            assert shout(client, deployment.prefix, poison) >= {
                "results",
                "begins",
                "limits",
                "queue",
                "worker",
                "topic",
            }
            assert (await engines.finish(coordinator, genuine(), f"r{number}")).state.value == "completed"
            await coordinator.transport.list_queues()
            check_alive(coordinator, worker)
        for key in places(keys):
            spoil(client, key)
            shout(client, deployment.prefix, "0")
        assert (await engines.finish(coordinator, genuine(), "spoilt")).state.value == "completed"
        await coordinator.transport.list_queues()
        check_alive(coordinator, worker)
        for partition in range(PARTITIONS):
            await eventually(lambda: not client.exists(keys.results(partition), keys.begins(partition)))  # noqa: B023


@attack("S20", "the same in each key alone, of another type, while work is out")
@pytest.mark.parametrize(
    "place", ["held", "lanes", "turns", "waiting", "forgotten", "lane", "adopted", "seen", "beats", "names", "results"]
)
async def test_a_key_of_another_type_is_taken_away_and_work_goes_on(opened, place):
    transport = await opened(keyring=RING, adopt_seconds=0.0)
    keys = Keys(opened.prefix)
    lane = keys.lane("default", "0:task:")
    key = {
        "held": keys.held("default"),
        "lanes": keys.lanes("default"),
        "turns": keys.turns("default", 0),
        "waiting": keys.waiting("default", 0),
        "forgotten": keys.forgotten("default"),
        "lane": lane,
        "adopted": keys.lane("default", "adopted"),
        "seen": keys.workers_seen,
        "beats": keys.workers_beats,
        "names": keys.queues,
        "results": keys.results(0),
    }[place]
    client = opened.server.client()
    await transport.publish([task("a"), task("b")])
    assert sorted(await claim(transport)) == ["a", "b"]
    spoil(client, key)
    transport.beat(beat("w1", task("a").task_id, task("b").task_id))
    assert [seen.beat.worker for seen in await transport.list_workers()] in (["w1"], [])  # or with its next beat
    transport.beat(beat("w1", task("a").task_id, task("b").task_id))
    assert [seen.beat.worker for seen in await transport.list_workers()] == ["w1"]
    await transport.list_queues()
    await transport.find_missing([task("a").task_id])
    transport.take_over(range(8))
    await transport.report([result("a"), result("b")])
    for delivery in await soon(transport.receive(10)):
        await transport.acknowledge([delivery.receipt])
    await transport.publish([task("c")])
    assert await claim(transport) == ["c"]
    await transport.report([result("c")])
    assert "c" in await receive(transport)
    await transport.forget_worker("w1")
    for one in await soon(transport.find_missing([task(name).task_id for name in "abc"])):
        assert one
    client.delete(key)  # one that nobody asked about, and what is left of a lane
    for left in client.scan_iter(match=f"{opened.prefix}:{{queue:*"):
        client.delete(left)


@attack("S20", "entries in front of genuine results that cannot be read")
@pytest.mark.parametrize("ring", [RING, None], ids=["signed", "unsigned"])
async def test_results_that_cannot_be_read_are_taken_away_and_hide_no_other(opened, ring):
    transport = await opened(keyring=ring)
    client = opened.server.client()
    await transport.publish([task("a")])
    await claim(transport)
    stream = Keys(opened.prefix).results(partition_of("r1", 8))
    body, signature = Messages(ring).encode("result", result("a"), "default")
    deep = b'{"v":1,"run_id":"r1","node":"a","kind":"completed","output":' + b"[" * 5000 + b"]" * 5000 + b"}"
    deep_signature = "" if ring is None else ring.sign("result", "default", deep)
    bad = [
        {"task": b"\xff", "message": body, "signature": signature},
        {"task": task("a").task_id, "queue": b"\xff", "message": body, "signature": signature},
        {"task": task("a").task_id, "ask": b"\xff", "message": body, "signature": signature},
        {"task": task("a").task_id, "process": b"\xff", "message": body, "signature": signature},
        {"task": task("a").task_id, "message": deep, "signature": deep_signature},
        {"x": b"\xff"},
    ]
    for fields in bad:
        client.xadd(stream, fields)
    await transport.report([result("a", output=7)])
    [delivery] = await soon(transport.receive(100))
    assert delivery.result.output == 7
    await wait_until(lambda: client.xlen(stream) == 1, "what was refused is gone")
    assert transport.refused == {"result": len(bad)}
    await transport.acknowledge([delivery.receipt])


@attack("S20", "a wish to begin whose name is not text: it ended every coordinator")
async def test_wishes_that_cannot_be_read_are_taken_away_and_hide_no_other(opened):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    once = task("a", effect="at_most_once")
    await transport.publish([once])
    await claim(transport)
    for partition in range(8):
        client.hset(keys.begins(partition), mapping={b"\xff": b"x", b"r1/x": b"\xff", b"": b"[" * 5000})
        client.publish(keys.wake_begins, partition)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(once, "w1"))
        assert (await soon(transport.receive_begin())).task.task_id == once.task_id
        await transport.grant_begin(once.task_id, True)
        assert await soon(beginning)
    waiting = asyncio.ensure_future(transport.receive_begin())
    left = [keys.begins(partition) for partition in range(8)]
    await wait_until(lambda: not any(client.exists(key) for key in left), "what was refused is gone")
    waiting.cancel()
    await transport.report([result("a")])


@attack("S20", "a wake-up that cannot be read: it ended the subscription")
@pytest.mark.parametrize("said", [b"\xff", b"x", b"1 x", b"9" * 5000, b"x" * 2_000_000, b"-1"])
async def test_a_wake_up_that_cannot_be_read_leaves_the_subscription_as_it_is(opened, said):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    heard: list[str] = []
    transport.on_wake("news", heard.append)
    channels = {keys.wake_results, keys.wake_begins, keys.wake_topic("news")}
    await wait_until(lambda: channels <= transport._wakes.heard, "it listens")
    for channel in (keys.wake_results, keys.wake_begins, keys.wake_limits):
        client.publish(channel, said)
    await transport.wake("news", "hello")
    await wait_until(lambda: "hello" in heard, "the news came")
    assert transport._wakes.connections == 1


@attack("S20", "a name of a queue that is not text: GET /queues answered 500")
async def test_a_queue_whose_name_is_not_text_is_forgotten(opened):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    await transport.publish([task("a")])
    client.sadd(keys.queues, b"\xff")
    assert [seen.queue for seen in await transport.list_queues()] == ["default"]
    await wait_until(lambda: client.smembers(keys.queues) == {b"default"}, "it is gone")
    await claim(transport)
    await transport.report([result("a")])


@attack("S20", "the place of a task, or who has it, overwritten: it was never sent again, or the sweep ended")
@pytest.mark.parametrize("place", [b"\xff", b"garbage", b"99999999999999999999999-1 - x", b"1-1 - 0:task:", b"x - y"])
async def test_a_task_whose_place_is_not_one_is_sent_again(opened, place):
    transport = await opened(keyring=RING, adopt_seconds=0.0)
    client, keys = opened.server.client(), Keys(opened.prefix)
    task_id = task("a").task_id
    client.sadd(keys.queues, "default")
    client.hset(keys.held("default"), task_id, place)
    transport.beat(beat("w2", task_id))
    assert await transport.recall([task_id]) == {task_id: "unknown"}
    client.hset(keys.held("default"), task_id, place)
    assert await transport.find_missing([task_id]) == {task_id}
    await transport.publish([task("a")])
    assert await claim(transport) == ["a"]
    client.hset(keys.held("default"), task_id, place)
    await transport.report([result("a")])
    [delivery] = await soon(transport.receive(10))
    await transport.acknowledge([delivery.receipt])
    assert not client.hexists(keys.held("default"), task_id)
    client.delete(*client.scan_iter(match=f"{opened.prefix}:{{queue:*"))  # its entry, which nobody finds any more


@attack("S20", "the same: a consumer whose name is not text")
async def test_a_claim_in_a_name_that_is_not_text_ends_nothing(opened):
    transport = await opened(keyring=RING, unlisted_seconds=0.0, adopt_seconds=0.0)
    client, keys = opened.server.client(), Keys(opened.prefix)
    await transport.publish([task("a")])
    [lane] = client.zrange(keys.lanes("default"), 0, -1)
    client.xreadgroup("workers", b"\xff", {keys.lane("default", lane.decode()): ">"})
    await transport.stop([task("a").task_id])
    await asyncio.sleep(0.002)  # so that it was claimed some milliseconds ago
    assert await transport.find_missing([task("a").task_id]) == {task("a").task_id}


@attack("S20", "tasks whose order cannot be read, in several lanes and queues")
@pytest.mark.parametrize("at", [b"nan", b"inf", b"\xff", b"1.5", b"", b"9" * 400])
async def test_the_order_of_tasks_that_cannot_be_read_hides_no_other(opened, at):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    body, signature = Messages(RING).encode("task", task("x"), "default")
    await transport.publish([task("a"), task("b", type="agent"), task("c", queue="other")])
    lanes = [lane.decode() for lane in client.zrange(keys.lanes("default"), 0, -1)]
    for lane in lanes:
        entry = {"task": task("x").task_id, "at": at, "message": body, "signature": signature}
        client.xadd(keys.lane("default", lane), entry)
        client.xadd(keys.lane("default", lane), {"x": at})
    client.zadd(keys.lanes("default"), {"odd": float("inf"), b"\xff": 1.5})
    found: set[str] = set()
    while not found >= {"a", "b", "c"}:
        found.update(await claim(transport, 1, queues=("default", "other")))
    await transport.report([result(name) for name in sorted(found)])
    for delivery in await soon(transport.receive(10)):
        await transport.acknowledge([delivery.receipt])
    client.delete(*client.scan_iter(match=f"{opened.prefix}:{{queue:*"))  # the copies of x that nobody took


@attack("S20", "counts of a rate that are no numbers: nothing passed any more")
async def test_a_rate_whose_counts_are_no_numbers_lets_pass(opened):
    transport = await opened(keyring=RING)
    limit = Limit("t", "k", 1, 60.0)
    bad = {b"\xff": b"1", b"x": b"x", b"nan": b"1", b"inf": b"5", b"1e18": b"9"}
    opened.server.client().hset(Keys(opened.prefix).rate("t", "k", 60_000), mapping=bad)
    assert [type(one) for one in await transport.limits.enter([Ask("o", (limit,))])] == [Entered]


@pytest.mark.slow
@attack("S20", "a part that breaks: the process could not listen again, and ended")
async def test_a_process_of_which_a_part_broke_begins_again_on_the_same_port(tmp_path):
    """Whatever breaks a part: the process begins again, on the same port, with somebody connected."""
    port = free_port()
    began: list[Any] = []

    async def begin(engine, stop):
        ready = asyncio.Event()

        async def part():
            await ready.wait()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            raise RuntimeError("a part of it broke")

        began.append(engine)
        if len(began) == 3:
            stop.set()
        else:
            engine.parts.spawn("part", part())
        await servers.serve(create_app(engine), "127.0.0.1", port, lambda _: ready.set(), stop)

    writers: list[asyncio.StreamWriter] = []
    loop = asyncio.get_running_loop()
    try:
        await soon(host.host(Settings(database_url=f"sqlite:///{tmp_path / 'perdure.db'}"), begin, grace_seconds=0.5))
    finally:
        for number in (2, 15):
            with contextlib.suppress(ValueError):
                loop.remove_signal_handler(number)
        for writer in writers:
            writer.close()
    assert len(began) == 3


# -- what stands there for ever ----------------------------------------------------------------------------------------


@attack("S20", "a slot that is taken for ever")
async def test_a_lease_that_never_ends_keeps_no_slot(opened):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    limit = Limit("t", "k", 1)
    client.zadd(keys.slots("t", "k"), {"nobody": float("inf"), "somebody": 9e15})
    entered = await transport.limits.enter([Ask("r1/a", (limit,))])
    assert isinstance(entered[0], Entered)


@attack("S20", "workers that beat in the future, and many of them")
async def test_workers_who_were_made_up_hide_none_and_have_a_number(opened):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    transport.beat(beat("w1"))
    client.zadd(keys.workers_seen, {f"x{n}": float("inf") for n in range(20_000)})
    client.hset(keys.workers_beats, mapping={f"x{n}": "x" for n in range(20_000)})
    assert [one.beat.worker for one in await transport.list_workers()] == ["w1"]
    assert client.zcard(keys.workers_seen) == 1


@attack("S20", "what is refused at every look fills the log")
async def test_what_is_refused_again_and_again_is_said_once_in_a_while(caplog, monkeypatch):
    said = Messages(RING)
    for _ in range(1_000):
        with pytest.raises(EnvelopeRefused):
            said.decode_lines("beat", b"{}\nx")
    with pytest.raises(EnvelopeRefused):
        said.decode_lines("grant", b"{}\nx")
    assert len(caplog.records) == 2
    assert said.refused == {"beat": 1_000, "grant": 1}
    said._said["beat"] = (0.0, 999)
    with pytest.raises(EnvelopeRefused):
        said.decode_lines("beat", b"{}\nx")
    assert "999 more" in caplog.records[-1].getMessage()
