"""The rights that the documents give to workers and coordinators: enough, and no more (X32)."""

import asyncio
import re
from pathlib import Path

import pytest
import redis

import perdure.transports.redis
from perdure.limits import Ask, Entered, Limit
from perdure.streams import Chunks, Over, Part, stream_name
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
    stream, part = stream_name("r1", "a", "out"), Part("out", 1, "sha256:x", 1)
    for one in (worker := await opened_alone(users["worker"], prefix="perdure", partitions=()), coordinator):
        assert await one.streams.append(stream, 1, 1, [b"1", b"2"]) == 3
        assert await one.streams.read(stream, 1, "r", 1) == Chunks(2, [b"2"])
        await one.streams.keep(stream, 1, part)
        assert not await one.streams.progress(stream, 1, 1, 0.0)
        await one.streams.leave(stream, "r")
    await coordinator.streams.close(stream, 1, Over("end"), 2, [part])
    assert await worker.streams.read(stream, 1, "r", 2) == Over("end")
    await coordinator.streams.drop("r1")


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
    client = own_server.client(username="perdure-worker", password="secret")
    assert client.ping()
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_a_coordinator_is_refused_what_could_hurt_the_server(users, own_server):
    client = own_server.client(username="perdure-coordinator", password="secret")
    for command in (["EVAL", "return 1", 0], ["CONFIG", "GET", "*"], ["FLUSHALL"], ["KEYS", "*"], ["SHUTDOWN"]):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


ROLES = ("worker", "coordinator")


def client_of(own_server, role):
    return own_server.client(username=f"perdure-{role}", password="secret")


def granted(role):
    """The commands of a set, as the document has them."""
    [line] = re.findall(rf"^ACL SETUSER perdure-{role} .*$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return {word[1:] for word in line.split() if word.startswith("+")}


@pytest.mark.parametrize("role", ROLES)
def test_a_user_has_the_commands_keys_and_channels_of_the_document_alone(users, own_server, role):
    with own_server.client() as client:
        found = client.acl_getuser(f"perdure-{role}")
    assert "nopass" not in found["flags"]
    assert found["categories"] == ["-@all"]
    assert set(found["commands"]) == {f"+{name}" for name in granted(role)}
    assert ([*found["keys"]], [*found["channels"]]) == (["~perdure:*"], ["&perdure:wake:*"])


@pytest.mark.parametrize("role", ROLES)
def test_a_user_has_no_command_that_perdure_does_not_use(role):
    """The sets are called the smallest."""
    folder = Path(perdure.transports.redis.__file__).parent
    text = "\n".join(one.read_text(encoding="utf-8") for one in folder.rglob("*") if one.suffix in (".py", ".lua"))
    written = {word.split()[0].lower() for word in re.findall(r"""["']([A-Z]{2,}(?: [A-Z]+)?)["']""", text)}
    called = set(re.findall(r"\.([a-z_]+)\(", text))
    unused = {
        name for name in granted(role) if not {name.partition("|")[0], name.replace("|", "_")} & (written | called)
    }
    assert unused == set()


def test_what_only_a_coordinator_does_is_refused_to_a_worker(users, own_server):
    """Beyond the names of commands: what a worker may not decide about the server and about others."""
    with own_server.client() as client:
        client.xadd("perdure:x", {"a": "b"})
        client.xgroup_create("perdure:x", "g")
    worker = client_of(own_server, "worker")
    for command in (
        ["INFO"],
        ["SET", "perdure:y", "1"],
        ["HGETALL", "perdure:h"],
        ["HINCRBY", "perdure:h", "f", 1],
        ["SADD", "perdure:s", "x"],
        ["SREM", "perdure:s", "x"],
        ["PEXPIRE", "perdure:x", 1],
        ["XAUTOCLAIM", "perdure:x", "g", "w2", 0, "0"],
        ["XINFO", "CONSUMERS", "perdure:x", "g"],
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            worker.execute_command(*command)
    assert granted("coordinator") - granted("worker") >= {"info", "set", "sadd", "xautoclaim", "script|load"}


@pytest.mark.parametrize("role", ROLES)
def test_neither_user_reaches_a_key_or_a_channel_of_another_program(users, own_server, role):
    client = client_of(own_server, role)
    for command in (
        ["GET", "somebody:else"],
        ["DEL", "somebody:else"],
        ["HSET", "somebody:else", "a", "b"],
        ["XADD", "somebody:else", "*", "a", "b"],
        ["XRANGE", "somebody:else", "-", "+"],
        ["ZADD", "perdur", 1, "a"],
        ["DEL", "perdure:own", "somebody:else"],
        ["PUBLISH", "somebody:else", "x"],
        ["PUBLISH", "perdure:other", "x"],
        ["SUBSCRIBE", "somebody:else"],
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


@pytest.mark.parametrize("role", ROLES)
def test_neither_user_moves_the_place_of_a_group_or_changes_the_server(users, own_server, role):
    with own_server.client() as client:
        client.xadd("perdure:x", {"a": "b"})
        client.xgroup_create("perdure:x", "g")
    client = client_of(own_server, role)
    for command in (
        ["XGROUP", "SETID", "perdure:x", "g", "$"],
        ["XGROUP", "DESTROY", "perdure:x", "g"],
        ["XTRIM", "perdure:x", "MAXLEN", 0],
        ["RENAME", "perdure:x", "perdure:y"],
        ["RESTORE", "perdure:z", 0, "x"],
        ["EVAL", "return 1", 0],
        ["SCRIPT", "FLUSH"],
        ["FUNCTION", "FLUSH"],
        ["ACL", "SETUSER", f"perdure-{role}", "+@all"],
        ["CONFIG", "SET", "dir", "."],
        ["CLIENT", "LIST"],
        ["CLIENT", "PAUSE", 10],
        ["MONITOR"],
        ["SCAN", 0],
        ["SAVE"],
        ["SWAPDB", 0, 1],
        ["SLAVEOF", "NO", "ONE"],
        ["SHUTDOWN", "NOSAVE"],
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


def test_a_script_does_no_more_than_the_user_that_runs_it_may(users, own_server):
    coordinator, worker = client_of(own_server, "coordinator"), client_of(own_server, "worker")
    setting = coordinator.script_load("return redis.call('SET', KEYS[1], '1')")
    assert coordinator.evalsha(setting, 1, "perdure:x")
    with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)permission|ACL"):
        worker.evalsha(setting, 1, "perdure:x")
    for client in (coordinator, worker):
        reading = coordinator.script_load(
            "return redis.call('GET', 'somebody' .. ARGV[1])"
        )  # a key that is not declared
        with pytest.raises(redis.exceptions.ResponseError, match=r"(?i)permission|ACL|key"):
            client.evalsha(reading, 0, ":else")
