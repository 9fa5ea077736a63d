"""What stands in Redis, and what does not: names from one file, short streams, nothing searched for, nothing left."""

import asyncio
import re
from pathlib import Path

import pytest

from perdure.limits import Ask, Limit
from perdure.streams import Part, stream_name
from perdure.transport import Delivery
from perdure.transports.redis import names
from perdure.transports.redis.names import Keys, lane_of
from perdure.transports.redis.scripts import all_scripts
from tests.conformance.transport.messages import beat, claim, result, soon, task
from tests.transports.redis.helpers import Coordinator, wait_until, work

FOLDER = Path(names.__file__).parent
SCRIPTS = sorted((FOLDER / "scripts").glob("*.lua"))


def tag(key: str) -> str:
    found = re.search(r"\{(.*?)\}", key)
    assert found
    return found[1]


def test_what_belongs_to_one_queue_or_one_partition_is_in_one_slot():
    keys = Keys()
    of_a_queue = [
        keys.held("a"),
        keys.lanes("a"),
        keys.lane("a"),
        keys.lane("a", lane_of(3, "t", "f")),
        keys.forgotten("a"),
    ]
    of_a_partition = [keys.results(7), keys.begins(7), keys.grant(7, "ask")]
    assert {tag(key) for key in of_a_queue} == {"queue:a"}
    of_a_limit = [keys.slots("t", "a"), keys.rate("t", "a", 60_000)]
    assert {tag(key) for key in of_a_partition} == {"partition:7"}
    assert {tag(key) for key in of_a_limit} == {"limit:t:a"}
    assert {tag(key) for key in [*keys.stream("r", "a.out"), keys.places("r")]} == {"streams:r"}
    assert tag(keys.workers_seen) == tag(keys.workers_beats)


@pytest.mark.parametrize("name", ["a}b", "{x}", "a:b", "a b", "gpu/1", "ü", "%7D", ""])
def test_no_name_breaks_out_of_its_place_in_a_key(name):
    keys = Keys()
    assert tag(keys.held(name)).startswith("queue:")
    assert keys.held(name).endswith(":held")
    assert len(lane_of(1, name, name).split(":")) == 3
    assert keys.held(name) != keys.held(name + "x")


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "a:", ":a", "a::b", "x" * 65])
def test_a_prefix_that_could_break_a_key_is_refused(prefix):
    with pytest.raises(ValueError, match="prefix"):
        Keys(prefix)


async def test_every_key_is_one_that_the_file_documents(opened):
    transport = await opened()
    once = task("a", effect="at_most_once", priority=2, function="f")
    transport.beat(beat("w1", "r1/x/1.1"))
    await transport.publish([once, task("b"), task("c")])
    await claim(transport)
    await transport.report([result("b")])
    await transport.forget_worker("w1")
    await transport.limits.enter([Ask("o", (Limit("t:1", "a {key}", 1), Limit("t", "k", 1, 60.0)))])
    stream = stream_name("r{1}", "a:b", "out")
    await transport.streams.append(stream, 1, 1, [b"1", b"2"])
    await transport.streams.keep(stream, 1, Part("out", 1, "sha256:x", 1))
    await transport.streams.read(stream, 1, "r", 1)
    documented = {
        re.sub(r"\b[A-Z]\b", "*", line.split()[0].removeprefix("perdure:"))
        for line in names.__doc__.splitlines()
        if line.startswith("    perdure:{")
    }
    assert len(documented) == 21
    patterns = [re.compile(re.escape(pattern).replace(r"\*", "[^:]*") + r"\Z") for pattern in documented]
    found = opened.left()
    assert len(found) >= 14
    assert [key for key in found if not any(pattern.match(key) for pattern in patterns)] == []


def test_no_key_is_named_anywhere_else():
    sources = [path for path in [*FOLDER.glob("*.py"), *FOLDER.rglob("*.lua")] if path.name != "names.py"]
    assert len(sources) > 25
    guilty = [
        path.name
        for path in sources
        if re.search(r"""["']perdure:|\{\{queue|\{\{partition|:(held|lanes|results)["']""", path.read_text())
    ]
    assert guilty == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_says_what_it_is_what_it_takes_and_what_it_returns(path):
    text = path.read_text()
    head = "\n".join(line for line in text.splitlines() if line.startswith("--"))
    assert re.search(rf"^-- {path.stem}: \w", head, re.MULTILINE)
    for word in ("KEYS", "ARGV", "returns"):
        assert re.search(rf"^-- {word}\b", head, re.MULTILINE), word
    assert "perdure" not in text


def test_every_script_is_used():
    sources = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    assert [name for name in all_scripts() if f'"{name}"' not in sources] == []


async def test_nothing_is_left_when_everything_is_done(opened):
    transport = await opened()
    transport.beat(beat("w1"))
    tasks = [task(f"n{n}", priority=n % 3, type=f"t{n % 2}", run_id=f"r{n}") for n in range(50)]
    await transport.publish(tasks)
    claimed = await soon(transport.claim("w1", ["default"], 50))
    await transport.report([result(one) for one in claimed])
    received: list[Delivery] = []
    while len(received) < 50:
        received += await soon(transport.receive(100))
    await transport.acknowledge([one.receipt for one in received])
    await transport.close()
    assert opened.left() == {"{queues}:names", "{scripts}:hashes"}


@pytest.mark.slow
async def test_streams_stay_short_however_many_tasks_have_passed(opened_alone):
    transport, worker = await opened_alone(), await opened_alone(partitions=())
    client = opened_alone.server.client()
    longest = 0

    class Watching(Coordinator):
        def _accept(self, receipt, task_id):
            nonlocal longest
            if len(self.accepted) % 50 == 0:
                longest = max(longest, *(client.xlen(key) for key in client.scan_iter(_type="stream")))
            super()._accept(receipt, task_id)

    coordinator = Watching(transport, [task(f"n{n:04}", run_id=f"r{n % 9}") for n in range(1000)], window=20)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work(worker, "w1", []))
        await coordinator.run()
        working.cancel()
        assert 0 < longest <= 20
        waiting = group.create_task(transport.receive(1))
        await wait_until(lambda: not list(client.scan_iter(_type="stream")), "empty streams are taken away")
        waiting.cancel()


async def test_nothing_searches_the_keyspace_or_changes_the_server(opened_alone):
    client = opened_alone.server.client()
    client.config_resetstat()
    transport = await opened_alone()
    once = task("a", effect="at_most_once")
    await transport.publish([once, task("b"), task("c", queue="x")])
    await soon(transport.claim("w1", ["default", "x"], 1, ["task"], []))
    await transport.recall([task("b").task_id])
    await transport.stop([once.task_id])
    transport.beat(beat("w1", once.task_id))
    await transport.report([result("a")])
    [delivery] = await soon(transport.receive(1))
    await transport.acknowledge([delivery.receipt])
    await transport.find_missing(["r1/x/1.1"])
    await transport.forget_worker("w1")
    await transport.close()
    used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert {"evalsha", "xreadgroup", "xadd", "xdel", "publish"} <= used
    assert (
        used & {"keys", "scan", "randomkey", "eval", "flushall", "flushdb", "config|set", "debug", "monitor"} == set()
    )
