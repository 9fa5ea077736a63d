"""Scripts are loaded by hash, and again whenever the server has forgotten them."""

import re
from pathlib import Path

import pytest

import perdure.transports.redis
from perdure.limits import Ask, Entered, Limit
from perdure.transports.redis.scripts import all_scripts
from tests.conformance.transport.messages import beat, claim, receive, result, soon, task


async def test_every_operation_survives_the_loss_of_the_scripts(opened_alone):
    transport = await opened_alone()
    forget = opened_alone.server.client().script_flush
    a = task("a", effect="at_most_once")
    forget()
    transport.beat(beat("w1"))
    forget()
    assert len(await transport.list_workers()) == 1
    forget()
    await transport.publish([a, task("b"), task("c")])
    forget()
    assert await transport.recall([task("c").task_id]) == {task("c").task_id: "withdrawn"}
    forget()
    assert await claim(transport) == ["a", "b"]
    forget()
    await transport.stop([task("b").task_id])
    forget()
    assert transport.beat(beat("w1", a.task_id, task("b").task_id)) == (task("b").task_id,)
    forget()
    await transport.report([result("a")])
    [delivery] = await soon(transport.receive(1))
    forget()
    await transport.acknowledge([delivery.receipt])
    forget()
    assert await transport.find_missing([a.task_id, task("b").task_id]) == {a.task_id}
    forget()
    assert await transport.forget_worker("w1") == [task("b").task_id]
    forget()
    await transport.publish([task("d", queue="x"), task("e", queue="y")])
    forget()
    assert await claim(transport, queues=("x", "y")) == ["d", "e"]
    forget()
    transport.take_over(range(8))
    await transport.report([result("d")])
    assert await receive(transport) == ["d"]
    slots, rate = Limit("t", "k", 1), Limit("t", "k", 1, 60.0)
    forget()
    assert [type(answer) for answer in await transport.limits.enter([Ask("o", (slots, rate))])] == [Entered]
    forget()
    await transport.limits.occupy([("o", slots)])
    forget()
    await transport.limits.leave([("o", slots)])


async def test_workers_in_other_languages_find_the_hashes_by_name(opened):
    await opened(partitions=())
    client = opened.server.client()
    found = client.hgetall(f"{opened.prefix}:{{scripts}}:hashes")
    assert {name.decode(): digest.decode() for name, digest in found.items()} == {
        script.name: script.hash for script in all_scripts().values()
    }
    assert all(client.script_exists(*found.values()))


@pytest.mark.parametrize("script", all_scripts().values(), ids=lambda script: script.name)
def test_the_hash_is_the_one_the_server_computes(script, redis_server):
    with redis_server.client() as client:
        assert client.script_load(script.text) == script.hash


def test_only_commands_that_redis_7_knows_are_used(redis_server):
    """Valkey says with which version, of Redis up to 7.2, a command came."""
    used = {name for script in all_scripts().values() for name in re.findall(r"call\('(\w+)'", script.text)}
    used |= {name for script in all_scripts().values() for name in re.findall(r"command = \{ '(\w+)'", script.text)}
    sources = "".join(path.read_text() for path in Path(perdure.transports.redis.__file__).parent.glob("*.py"))
    used |= set(re.findall(r"""(?:call\(|send\(|\[)"([A-Z]{3,})",""", sources))
    assert {"XREADGROUP", "XAUTOCLAIM", "HGETALL", "SUBSCRIBE", "PUBLISH", "SMEMBERS"} <= used
    with redis_server.client(protocol=3) as client:
        client.response_callbacks.clear()
        since = {
            name: client.execute_command("COMMAND", "DOCS", name)[name.lower().encode()][b"since"] for name in used
        }
    assert {name: version for name, version in since.items() if tuple(map(int, version.split(b"."))) > (7, 0)} == {}
