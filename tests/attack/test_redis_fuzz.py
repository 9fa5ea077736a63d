"""Odd contents of every kind in every key, in any order, between operations of every kind: none of them fails (S20)."""

import asyncio
import random

import pytest
import redis

from perdure.limits import Ask, Limit
from perdure.streams import Chunks, Name, Superseded
from perdure.transports.envelopes import Keyring
from perdure.transports.redis.names import Keys
from tests.attack.marks import attack
from tests.attack.test_redis_contents import kind_of
from tests.conformance.transport.messages import beat, receive, result, soon, task
from tests.transports.redis.conftest import opened

__all__ = ["opened"]

RING = Keyring({"k": b"k" * 32})
NUMBERS = [float("inf"), float("-inf"), 1e300, -1e300, -1.0, 0.0, 1.5, 2.0**53, 2.0**63, 5e-324]
TEXTS = [
    b"",
    b"\xff\xfe",
    b"nan",
    b"inf",
    b"-1",
    b"9" * 400,
    b"1e999",
    b"\0",
    b"0-0",
    b"[" * 3_000,
    b"x" * 300_000,
    b"@",
    b":",
    b"::@",
]
FIELDS = [b"task", b"at", b"message", b"signature", b"queue", b"kind", b"ask", b"process", b"step"]
QUEUES = ("default", "other")


def keys_of(keys):
    found = [keys.workers_seen, keys.workers_beats, keys.queues]
    for queue in QUEUES:
        found += [
            keys.held(queue),
            keys.lanes(queue),
            keys.forgotten(queue),
            keys.turns(queue, 0),
            keys.turns(queue, 3),
        ]
        found += [keys.waiting(queue, 0), keys.waiting(queue, 3, "acme"), keys.lane(queue, "adopted")]
        found += [keys.lane(queue, lane) for lane in ("0:task:", "3:task:@acme", "0:task:f")]
    for partition in range(8):
        found += [keys.results(partition), keys.begins(partition)]
    return [*found, keys.slots("t", "k"), keys.rate("t", "k", 60_000)]


def damage(client, key, dice):
    """One thing that another client may do to a key."""
    what, kind = dice.randrange(8), kind_of(key)
    try:
        if what == 0:
            client.delete(key)
        elif what == 1:
            client.delete(key)
            dice.choice([client.set, client.rpush, client.sadd])(key, dice.choice(TEXTS))
        elif kind == "XLEN":
            names = dice.sample(FIELDS, dice.randrange(1, len(FIELDS)))
            client.xadd(
                key,
                {name: dice.choice(TEXTS) for name in names},
                id=dice.choice(["*", "*", "18446744073709551615-18446744073709551615"]),
            )
            if what == 2:
                client.xgroup_destroy(key, dice.choice(["workers", "coordinators"]))
            elif what == 3:
                client.xtrim(key, maxlen=0)
        elif kind == "ZSCORE":
            members = client.zrange(key, 0, 2) if what < 5 else []
            client.zadd(key, {member: dice.choice(NUMBERS) for member in [*members, dice.choice(TEXTS)]})
        elif kind == "HGET":
            names = client.hkeys(key)[:2] if what < 5 else []
            client.hset(key, mapping={name: dice.choice(TEXTS) for name in [*names, dice.choice(TEXTS)]})
        elif kind == "SMEMBERS":
            client.sadd(key, dice.choice(TEXTS))
    except redis.ResponseError:
        pass  # the key is of another type already


@attack("S20", "odd contents of every kind in every key, between all operations")
@pytest.mark.parametrize("seed", [0, 3, 6, 9])
async def test_no_operation_fails_for_what_another_client_wrote(opened, seed):
    dice = random.Random(seed)
    transport = await opened(keyring=RING, adopt_seconds=0.0, unlisted_seconds=0.0)
    client, keys = opened.server.client(), Keys(opened.prefix)
    slots, rate = Limit("t", "k", 2), Limit("t", "k", 1000, 60.0)

    def sent(number):
        more = {"priority": 3, "tenant": "acme"} if number % 2 else {}
        return task(f"n{number}", queue=QUEUES[number % 3 % 2], run_id=f"r{number % 5}", **more)

    async def claim(*queues):
        try:
            async with asyncio.timeout(0.05):
                return await transport.claim("w1", queues, 3)
        except TimeoutError:
            return []

    async def receive_some():
        try:
            async with asyncio.timeout(0.05):
                deliveries = await transport.receive(10)
        except TimeoutError:
            return
        await transport.acknowledge([one.receipt for one in deliveries])

    for number in range(40):
        for _ in range(dice.randrange(1, 6)):
            damage(client, dice.choice(keys_of(keys)), dice)
        some = [sent(number + more) for more in range(4)]
        names = [one.task_id for one in some]
        for operation in dice.sample(
            [
                lambda: transport.publish(some),  # noqa: B023
                lambda: claim("default"),
                lambda: claim(*QUEUES),
                lambda: asyncio.to_thread(transport.beat, beat("w1", *names)),  # noqa: B023
                transport.list_workers,
                transport.list_queues,
                lambda: transport.find_missing(names),  # noqa: B023
                lambda: transport.recall(names[:1]),  # noqa: B023
                lambda: transport.stop(names[1:2]),  # noqa: B023
                lambda: transport.report([result(one, tenant=one.tenant) for one in some[:2]]),  # noqa: B023
                receive_some,
                lambda: transport.limits.enter([Ask("o", (slots, rate))]),
                lambda: transport.limits.occupy([("o", slots)]),
                lambda: transport.limits.leave([("o", slots)]),
                lambda: transport.forget_worker("w9"),
            ],
            8,
        ):
            await soon(operation())
        if number % 10 == 0:
            transport.take_over(range(8))
    client.delete(*client.scan_iter(match=f"{opened.prefix}:*"))
    await transport.publish([task("last")])
    found: list[str] = []
    while "last" not in found:
        found += [one.node for one in await soon(transport.claim("w1", ["default"], 10))]
    await transport.report([result("last")])
    while "last" not in await receive(transport):
        pass
    client.delete(*client.scan_iter(match=f"{opened.prefix}:*"))


def _millisecond(client):
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


@attack("S20", "an entry with the last id that a stream can have, after which none can be added")
async def test_a_stream_whose_ids_are_used_up_is_begun_anew(opened):
    transport = await opened(keyring=RING, adopt_seconds=0.0)
    client, keys = opened.server.client(), Keys(opened.prefix)
    await transport.publish([task("a")])
    sent = _millisecond(client)
    while _millisecond(client) == sent:
        pass  # ids are milliseconds: in a stream that is begun anew in the same one, `b` would have the id that `a` had
    for stream in (keys.lane("default", "0:task:"), *(keys.results(partition) for partition in range(8))):
        client.xadd(stream, {"x": "x"}, id="18446744073709551615-18446744073709551615")
    await transport.publish([task("b")])
    assert [one.node for one in await soon(transport.claim("w1", ["default"], 10))] == ["b"]
    assert await transport.find_missing([task("a").task_id]) == {task("a").task_id}  # and is sent again
    await transport.report([result("b")])
    [delivery] = await soon(transport.receive(10))
    assert delivery.result.node == "b"
    await transport.acknowledge([delivery.receipt])
    client.delete(*client.scan_iter(match=f"{opened.prefix}:{{partition:*"))


@attack("S20", "an entry in the tail of a stream between nodes, behind which no chunk can be added")
@pytest.mark.parametrize("stays", [True, False])
async def test_what_another_client_added_to_a_stream_is_lost_with_its_tail_and_sent_again(opened, stays):
    streams = (await opened(keyring=RING)).streams
    client, keys = opened.server.client(), Keys(opened.prefix)
    name, bodies = Name("r1", "n", "acme"), [b"1", b"2", b"3"]
    assert await streams.append(name, 1, 1, bodies[:2]) == 3
    tail = keys.stream("r1", "n")[1]
    entry = client.xadd(tail, {"x": "x"})
    if not stays:
        client.xdel(tail, entry)  # its id is used all the same
    assert await soon(streams.append(name, 1, 3, bodies[2:])) == 1  # as where all was lost: it is sent again from there
    assert await soon(streams.append(name, 1, 1, bodies)) == 4
    assert await soon(streams.read(name, 1, "reader", 0)) == Chunks(1, bodies)
    await streams.drop("r1")


EDITIONS = [b"2", b"999", b"inf", b"1e400", b"9" * 400]


@attack("S20", "another edition, or that it begins anew, in what is known of a stream between nodes")
@pytest.mark.parametrize("field", [*({"e": one} for one in EDITIONS), {"x": b"1"}])
async def test_an_edition_that_nothing_shows_holds_up_no_stream(opened, field):
    """One write would hold up writer and readers for a day, or for ever where it does not expire."""
    streams = (await opened(keyring=RING)).streams
    client, keys = opened.server.client(), Keys(opened.prefix)
    name, bodies = Name("r1", "n", "acme"), [b"1", b"2", b"3"]
    assert await streams.append(name, 1, 1, bodies) == 4
    about = keys.stream("r1", "n")[0]
    client.hset(about, mapping=field)
    if "e" in field:
        assert await soon(streams.append(name, 1, 4, [b"4"])) == 1  # as where all was lost: it is sent again
        client.hset(about, mapping=field)
        assert await soon(streams.append(name, 1, 1, bodies)) == 4
        client.hset(about, mapping=field)
        assert (await soon(streams.behind(name, 1))).number == 0
        await soon(streams.append(name, 1, 1, bodies))
        client.hset(about, mapping=field)
        reading = asyncio.create_task(streams.read(name, 1, "reader", 0))
        await soon(streams.append(name, 1, 1, bodies))
        assert await soon(reading) == Chunks(1, bodies)
    else:
        assert await soon(streams.read(name, 1, "reader", 0)) == Chunks(1, bodies)
    await streams.drop("r1")


@attack("S20", "what was once said of an edition, put back where it stood, or where another stream stands")
async def test_only_what_is_signed_of_this_stream_shows_another_edition(opened):
    streams = (await opened(keyring=RING)).streams
    client, keys = opened.server.client(), Keys(opened.prefix)
    mine, other = Name("r1", "n", "acme"), Name("r1", "m", "acme")
    await streams.append(other, 7, 1, [b"7"])
    await streams.append(mine, 1, 1, [b"1"])
    [(_, entry)] = client.xrange(keys.stream("r1", "m")[1])
    about, tail = keys.stream("r1", "n")[:2]
    client.hset(about, mapping={"e": 7})
    client.xadd(tail, entry)
    assert await soon(streams.append(mine, 1, 1, [b"1"])) == 2
    await streams.append(mine, 2, 1, [b"2"])
    with pytest.raises(Superseded):
        await soon(streams.append(mine, 1, 2, [b"3"]))
    await streams.close(mine, 2, None, 0, ())
    with pytest.raises(Superseded):
        await soon(streams.read(mine, 2, "reader", 0))
    await streams.drop("r1")
