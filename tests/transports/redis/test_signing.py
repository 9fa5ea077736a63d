"""Signed messages in Redis: whoever can write there, but has no key, makes nobody do or believe anything."""

import asyncio

import pytest

from perdure.streams import Chunks, Over, stream_name
from perdure.transports.envelopes import Keyring
from perdure.transports.redis.names import Keys
from tests.conformance.transport.messages import beat, claim, receive, result, soon, task
from tests.transports.redis.helpers import Coordinator, wait_for_more, wait_until, work

OLD, NEW = b"o" * 32, b"n" * 32
RING = Keyring({"old": OLD})


def _lane(opened, client):
    [key] = client.scan_iter(match=f"{opened.prefix}:*:tasks:*")
    return key


def _age(opened) -> int:
    """Milliseconds since the youngest claim."""
    client = opened.server.client()
    rows = client.xpending_range(_lane(opened, client), "workers", "-", "+", 10)
    return min(row["time_since_delivered"] for row in rows)


def _rewrite(opened, **changes):
    """Take the one task out of its lane and put it back changed, as an attacker would."""
    client = opened.server.client()
    lane = _lane(opened, client)
    [(entry, fields)] = client.xrange(lane)
    new = client.xadd(lane, fields | {name.encode(): value for name, value in changes.items()})
    client.xdel(lane, entry)
    held = next(client.scan_iter(match=f"{opened.prefix}:*:held"))
    client.hset(held, fields[b"task"], client.hget(held, fields[b"task"]).replace(entry, new))
    return fields


@pytest.mark.parametrize("field", ["message", "signature"])
async def test_an_altered_task_is_refused_counted_and_sent_again(field, opened):
    transport = await opened(keyring=RING)
    sent = task("a", config={"url": "https://example.com"})
    await transport.publish([sent])
    fields = _rewrite(opened)
    changed = bytearray(fields[field.encode()])
    changed[len(changed) // 2] ^= 1
    _rewrite(opened, **{field: bytes(changed)})
    await transport.publish([task("b")])
    assert await claim(transport) == ["b"]
    assert transport.refused == {"task": 1}
    assert await transport.find_missing([sent.task_id, task("b").task_id]) == {sent.task_id}
    await transport.publish([sent])
    assert await claim(transport) == ["a"]


async def test_an_unsigned_task_is_refused(opened):
    unsigned, transport = await opened(), await opened(keyring=RING)
    await unsigned.publish([task("a")])
    await transport.publish([task("b")])
    assert await claim(transport) == ["b"]
    assert transport.refused == {"task": 1}


async def test_a_task_does_not_pass_for_another_nor_in_another_queue(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a"), task("b", queue="other")])
    client = opened.server.client()
    message = {}
    for lane in client.scan_iter(match=f"{opened.prefix}:*:tasks:*"):
        [(_, fields)] = client.xrange(lane)
        message[fields[b"task"]] = (lane, fields)
    (lane_a, a), (_, b) = message[b"r1/a/1.1"], message[b"r1/b/1.1"]
    held, lane = Keys(opened.prefix).held("default"), lane_a.rpartition(b":tasks:")[2].decode()
    entry = client.xadd(lane_a, b)  # a task of the other queue
    client.hset(held, "r1/b/1.1", f"{entry.decode()} - {lane}")  # by one who forges the record of deliveries, too
    entry = client.xadd(lane_a, a | {b"task": b"r1/c/1.1"})  # under another name
    client.hset(held, "r1/c/1.1", f"{entry.decode()} - {lane}")
    assert await claim(transport) == ["a"]
    assert transport.refused == {"task": 2}


async def test_results_altered_unsigned_or_of_another_run_are_refused(opened):
    unsigned, transport = await opened(partitions=()), await opened(keyring=RING, unlisted_seconds=0.0)
    await transport.publish([task("a"), task("b"), task("c")])
    await claim(transport)
    transport.beat(beat("w1", task("a").task_id))
    await unsigned.report([result("a")])
    await transport.report([result("b", output={"paid": False})])
    client = opened.server.client()
    [stream] = client.scan_iter(match=f"{opened.prefix}:*:results")
    [_, (entry, fields)] = client.xrange(stream)
    client.xdel(stream, entry)
    client.xadd(stream, fields | {b"message": fields[b"message"].replace(b"false", b"true")})
    client.xadd(stream, fields | {b"task": b"r1/c/1.1"})  # the result of one task for another
    other = next(n for n in range(8) if f"{{partition:{n}}}" not in stream.decode())
    client.xadd(f"{opened.prefix}:{{partition:{other}}}:results", fields)  # where runs of others are decided
    await transport.report([result("c")])
    assert await receive(transport) == ["c"]
    await wait_until(lambda: transport.refused.get("result") == 4, "all four are refused")
    waiting = [task(name).task_id for name in "abc"]
    # One runs, one has a result on its way; of one the worker is done, and its result was no good.
    await wait_until(lambda: _age(opened) > 1, "some time has passed")
    assert await transport.find_missing(waiting) == {task("b").task_id}


async def test_a_repeated_result_is_the_same_result_and_fenced_by_its_attempt(opened):
    transport = await opened(keyring=RING)
    await transport.report([result("a")])
    client = opened.server.client()
    [stream] = client.scan_iter(match=f"{opened.prefix}:*:results")
    [(_, fields)] = client.xrange(stream)
    client.xadd(stream, fields)
    deliveries = await soon(transport.receive(10))
    while len(deliveries) < 2:
        deliveries += await soon(transport.receive(10))
    assert {(one.result.run_id, one.result.node, one.result.attempt) for one in deliveries} == {("r1", "a", 1)}


async def test_heartbeats_and_wishes_without_a_key_do_not_count(opened):
    once = task("a", effect="at_most_once")
    unsigned, transport = await opened(partitions=()), await opened(keyring=RING)
    unsigned.beat(beat("intruder"))
    transport.beat(beat("w1"))
    assert [seen.beat.worker for seen in await transport.list_workers()] == ["w1"]
    await transport.publish([once])
    await claim(transport)
    wishing = asyncio.ensure_future(unsigned.begin(once, "w1"))
    receiving = asyncio.ensure_future(transport.receive_begin())
    await wait_until(lambda: transport.refused.get("begin"), "the wish is refused")
    assert not receiving.done()
    for one in (wishing, receiving):
        one.cancel()


async def test_a_forged_grant_starts_nothing(opened):
    once = task("a", effect="at_most_once")
    transport = await opened(keyring=RING)
    await transport.publish([once])
    await claim(transport)
    beginning = asyncio.ensure_future(transport.begin(once, "w1"))
    request = await soon(transport.receive_begin())
    _, wish = transport._begins._asked[request.task.task_id]
    client = opened.server.client()
    forged = b'{"v":1,"tenant":"default","ask":"%s","task_id":"r1/a/1.1","granted":true}\n' % wish.ask.encode()
    [begins] = client.scan_iter(match=f"{opened.prefix}:*:begins")
    client.set(begins.decode().replace(":begins", f":grant:{wish.ask}"), forged, ex=60)
    client.publish(f"{opened.prefix}:wake:process:{transport.process}", "r1/a/1.1")
    assert await soon(beginning) is False
    assert transport.refused == {"grant": 1}


async def test_keys_are_rotated_while_two_processes_work_and_nothing_is_lost(opened):
    """Give everybody the new key, let everybody sign with it, take the old one away: one process after the other."""
    stages = [{"old": OLD}, {"old": OLD, "new": NEW}, {"new": NEW, "old": OLD}, {"new": NEW}]
    transport = await opened(keyring=Keyring(stages[0]))
    worker = await opened(keyring=Keyring(stages[0]), partitions=())
    tasks = [task(f"n{number:03}", run_id=f"r{number % 7}") for number in range(300)]
    coordinator = Coordinator(transport, tasks)
    done: list[str] = []
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work(worker, "w1", done))
        running = group.create_task(coordinator.run())
        for stage in stages[1:]:
            for process in (worker, transport):
                await wait_for_more(coordinator.accepted, 10)
                process._messages._keyring = Keyring(stage)
        await running
        working.cancel()
    assert sorted(coordinator.accepted) == sorted(one.task_id for one in tasks)
    assert len(done) == len(tasks)
    assert transport.refused == worker.refused == {}


async def test_chunks_and_ends_that_are_not_signed_are_not_read(opened):
    forger, transport = await opened(), await opened(keyring=RING)
    stream = stream_name("r1", "a", "out")
    await forger.streams.append(stream, 1, 1, [b"1"])
    reading = asyncio.create_task(transport.streams.read(stream, 1, "r", 0))
    await wait_until(lambda: transport.refused.get("chunks"), "it was refused")
    assert not reading.done()
    await forger.streams.drop("r1")
    await transport.streams.append(stream, 1, 1, [b"2"])
    assert await soon(reading) == Chunks(1, [b"2"])
    await forger.streams.close(stream, 1, Over("failed", "forged"), 0, ())
    reading = asyncio.create_task(transport.streams.read(stream, 1, "r", 1))
    await wait_until(lambda: transport.refused.get("end"), "it was refused")
    await transport.streams.close(stream, 1, Over("failed", "true"), 0, ())
    assert await soon(reading) == Over("failed", "true")
    await transport.streams.drop("r1")
