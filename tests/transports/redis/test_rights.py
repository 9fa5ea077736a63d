"""The rights that the documents give to workers and coordinators: enough, and no more (X32)."""

import asyncio
import re
from pathlib import Path

import pytest
import redis

from perdure.limits import Ask, Entered, Limit
from perdure.transport import TransportUnavailable
from tests.conformance.transport.messages import beat, claim, result, soon, task
from tests.transports.redis.helpers import insist, wait_until

DOCUMENT = Path(__file__).parents[3] / "docs" / "operations" / "redis.md"


@pytest.fixture
def users(own_server):
    """The lines of the document, executed; URLs by user."""
    [block] = re.findall(r"```acl\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    lines = block.strip().splitlines()
    assert len(lines) == 2
    with own_server.client() as client:
        for line in lines:
            client.execute_command(*line.split())
    return {name: f"unix://perdure-{name}:secret@{own_server.socket}" for name in ("worker", "coordinator")}


async def test_with_these_rights_everything_works(users, opened_alone):
    coordinator = await opened_alone(users["coordinator"], prefix="perdure", unlisted_seconds=0.0)
    worker = await opened_alone(users["worker"], prefix="perdure", partitions=())
    once = task("a", effect="at_most_once", priority=1)
    worker.on_stop("w1", lambda: None)
    worker.beat(beat("w1"))
    await coordinator.publish([once, task("b"), task("c"), task("d", queue="gpu"), task("e", queue="gpu")])
    assert await claim(worker, 2) == ["a", "b"]
    assert await claim(worker, 2, queues=("default", "gpu")) == ["c", "d"]
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(worker.begin(once, "w1"))
        await soon(coordinator.receive_begin())
        await coordinator.grant_begin(once.task_id, True)
        assert await soon(beginning)
    waiting = asyncio.ensure_future(worker.claim("w1", ["empty"], 1))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await coordinator.recall([task("e").task_id]) == {task("e").task_id: "withdrawn"}
    await coordinator.stop([task("b").task_id])
    assert worker.beat(beat("w1", *(task(name).task_id for name in "abcd"))) == (task("b").task_id,)
    await worker.report([result(name) for name in "ab"])
    received = await soon(coordinator.receive(10))
    await coordinator.acknowledge([one.receipt for one in received])
    assert len(await coordinator.list_workers()) == 1
    assert await coordinator.find_missing([task(name).task_id for name in "acd"]) == {task("a").task_id}
    assert sorted(await coordinator.forget_worker("w1")) == [task("c").task_id, task("d").task_id]
    coordinator.take_over(range(8))
    worker.beat(beat("w2"))
    await worker.close()
    assert await coordinator.list_workers() == []
    await coordinator.wake("topic")
    slots, rate = Limit("t", "k", 1), Limit("t", "k", 1, 60.0)
    assert [type(answer) for answer in await coordinator.limits.enter([Ask("o", (slots, rate))])] == [Entered]
    await coordinator.limits.occupy([("o", slots)])
    await coordinator.limits.leave([("o", slots)])


async def test_a_worker_may_not_load_scripts_and_waits_for_a_coordinator_that_does(users, opened_alone):
    worker = await opened_alone(users["worker"], prefix="perdure", partitions=())
    with pytest.raises(TransportUnavailable, match="a coordinator loads them"):
        await soon(worker.claim("w1", ["default"], 1))
    with pytest.raises(TransportUnavailable, match=r"NOSCRIPT|No matching script"):
        worker.beat(beat("w1"))
    coordinator = await opened_alone(users["coordinator"], prefix="perdure")
    await coordinator.publish([task("a"), task("b")])
    assert await claim(worker, 1) == ["a"]
    await wait_until(lambda: "perdure:wake:scripts" in coordinator._wakes.heard, "the coordinator listens")
    opened_alone.server.client().script_flush()
    assert [one.node for one in await insist(worker.claim, "w1", ["default"], 1)] == ["b"]
    opened_alone.server.client().script_flush()
    await insist(asyncio.to_thread, worker.beat, beat("w1"))


@pytest.mark.parametrize(
    "command",
    [
        ("EVAL", "return 1", 0),
        ("SCRIPT", "LOAD", "return 1"),
        ("SCRIPT", "FLUSH"),
        ("FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('x', function() return 1 end)"),
        ("CONFIG", "GET", "*"),
        ("CONFIG", "SET", "dir", "/tmp"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("SCAN", 0),
        ("DEBUG", "SLEEP", 0),
        ("ACL", "LIST"),
        ("SHUTDOWN", "NOSAVE"),
        ("REPLICAOF", "NO", "ONE"),
        ("MODULE", "LIST"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("MONITOR",),
        ("SET", "perdure:x", "1"),
        ("GET", "somebody:else"),
        ("XADD", "somebody:else", "*", "a", "b"),
        ("PUBLISH", "somebody:else", "x"),
    ],
    ids=lambda command: " ".join(map(str, command[:2])).split("\n")[0],
)
def test_a_worker_is_refused_everything_else(users, own_server, command):
    client = redis.Redis(unix_socket_path=str(own_server.socket), username="perdure-worker", password="secret")
    assert client.ping()
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_a_coordinator_is_refused_what_could_hurt_the_server(users, own_server):
    client = redis.Redis(unix_socket_path=str(own_server.socket), username="perdure-coordinator", password="secret")
    for command in (["EVAL", "return 1", 0], ["CONFIG", "GET", "*"], ["FLUSHALL"], ["KEYS", "*"], ["SHUTDOWN"]):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
