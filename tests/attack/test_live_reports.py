"""What workers say while they work, and everybody with a page open sees at once: beats, progress, chunks (S14, S15, S20)."""

import asyncio
import json
import random
from typing import Any

import msgspec
import pytest

from perdure.api import Options, chunk_frames
from perdure.clock import system
from perdure.kernel.address import Address, parse_task_id
from perdure.kernel.readings.run_view import read_progress
from perdure.kernel.readings.seen import Working
from perdure.runtime.coordinator.work_reports import WorkReports
from perdure.transport import LONGEST_PROGRESS, MOST_SLOTS, WorkerBeat
from perdure.transports.envelopes import Keyring
from perdure.transports.redis.messages import NOBODY, Messages
from perdure.transports.redis.names import Keys
from perdure.transports.redis.transport import LARGEST_BEAT, LARGEST_BEATS
from tests.api.helpers import API, bearer, serving
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.conformance.transport.messages import beat, soon
from tests.engine.helpers import DEADLINE, until_true, workflow
from tests.transports.redis.conftest import opened

__all__ = ["opened"]

RING = Keyring({"k": b"k" * 32})
SIGNED = Messages(RING)
TASK = "01a1f098c0e27589bb9086d97e2bbd1e/a/1"


def said(**fields):
    return SIGNED.encode_lines("beat", WorkerBeat(**fields), NOBODY)


def put(client, keys, beats):
    """What a worker that has the key, or anybody who has none, may write."""
    now = system.now() * 1000
    client.zadd(keys.workers_seen, dict.fromkeys(beats, now))
    client.hset(keys.workers_beats, mapping=beats)
    for key in (keys.workers_seen, keys.workers_beats):
        client.expire(key, 600)


@pytest.mark.slow
@attack("S20", "ten thousand workers that are made up, with and without a signature")
@pytest.mark.parametrize("signed", [True, False])
async def test_a_look_at_ten_thousand_workers_holds_up_nobody(opened, signed):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    many = {f"x{n}": said(worker=f"x{n}", running=(TASK,), progress={TASK: "1" * 1_500}) for n in range(10_000)}
    put(client, keys, many if signed else {name: one[:-3] for name, one in many.items()})
    await transport.list_workers()  # connected, and the script is known
    with watching():
        found = await soon(transport.list_workers())
    assert len(found) == (10_000 if signed else 0)


@attack("S20", "beats of many megabytes")
async def test_what_all_workers_say_has_a_sum(opened):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    transport.beat(beat("w1"))
    put(client, keys, {"large": b"x" * (LARGEST_BEAT + 1)})
    assert [one.beat.worker for one in await transport.list_workers()] == ["w1"]
    client.delete(keys.workers_seen, keys.workers_beats)
    put(client, keys, {f"x{n}": b"x" * (LARGEST_BEAT - 1) for n in range(10)})
    reply = await transport._link.run(
        "list_workers", [keys.workers_seen, keys.workers_beats], [LARGEST_BEAT, LARGEST_BEATS]
    )
    assert sum(map(len, reply[1::2])) <= LARGEST_BEATS


LIES: dict[str, dict[str, Any]] = {
    "more tasks than a worker may have": {"running": [TASK] * (MOST_SLOTS + 1)},
    "more that have begun": {"started": {f"{TASK}{n}": 0.0 for n in range(MOST_SLOTS + 1)}},
    "progress of more tasks than are told": {"progress": {f"{TASK}{n}": "1" for n in range(65)}},
    "progress that is long": {"progress": {TASK: "1" * (LONGEST_PROGRESS + 1)}},
    "progress that is no text": {"progress": {TASK: {"done": 1}}},
}


@attack("S20", "beats that say more than a worker may")
@pytest.mark.parametrize("what", LIES)
async def test_a_beat_that_says_more_than_a_worker_may_is_refused(opened, what):
    transport = await opened(keyring=RING)
    client, keys = opened.server.client(), Keys(opened.prefix)
    body = msgspec.json.encode({"v": 1, "worker": "liar", **LIES[what]})
    transport.beat(beat("w1"))
    put(client, keys, {"liar": body + b"\n" + RING.sign("beat", NOBODY, body).encode()})
    assert [one.beat.worker for one in await transport.list_workers()] == ["w1"]


PROGRESS = [
    "[" * 999 + "]" * 999, '{"a":' * 400 + "1" + "}" * 400, "9" * 2_000, "1e999", "NaN", '"\\u0000"', '"\\ud800"', '"\x1b[2J"', "[1,\n2]",
    '{"$perdure:secret":"token"}', '{"$ref":"cas://x"}', "", "{", '"a" "b"', '{"__proto__":{"admin":true}}', '"<script>alert(1)</script>"',
]  # fmt: skip


@attack("S20", "progress of every odd kind, of a worker that lies")
@pytest.mark.parametrize("said", PROGRESS)
def test_progress_is_shallow_data_or_nothing(said):
    found = read_progress(said)
    assert found is None or json.loads(msgspec.json.encode(found)) == found
    assert "\0" not in str(found)


@attack("S20", "progress made of random bytes")
def test_no_progress_fails_whatever_it_is():
    dice = random.Random(20)
    for _ in range(2_000):
        text = "".join(dice.choice('[]{}",:0123456789e-.\\u0tfn \n\x00é\u202e') for _ in range(dice.randrange(60)))
        msgspec.json.encode(read_progress(text))


@attack("S20", "a worker that says it executes tasks of every run")
async def test_a_reader_of_a_run_goes_through_the_tasks_of_others_quickly(monkeypatch):
    """Each reader of a page does it twice a second: nothing is read of what is not its run's."""
    names = [Address(f"{n:032x}", "a").task_id for n in range(MOST_SLOTS)]
    busy: Any = _Busy(names)
    reports = WorkReports(system, 30.0, None, lambda: busy, None)
    read: list[str] = []

    def parse(name: str) -> Any:
        read.append(name)
        return parse_task_id(name)

    monkeypatch.setattr("perdure.runtime.coordinator.work_reports.parse_task_id", parse)
    found = await reports.list_tasks(f"{7:032x}")
    assert ([one["node"] for one in found], read) == (["a"], [names[7]])


class _Busy:
    def __init__(self, names):
        self.names = names

    def list_working(self):
        return {name: Working("w", 0.0, "h", 1) for name in self.names}


@attack("S20", "chunks with line breaks between their parts, to end an event of the stream that a page reads")
@pytest.mark.parametrize("body", [b"[1,\n\n2]", b'{\r\n"a"\r:1}', b'"\n\nevent: end\ndata: {}\n\n"'])
def test_a_chunk_is_one_line_whatever_is_in_it(body):
    frame = chunk_frames._chunk(1, 1, body)
    lines = frame.decode().split("\n")
    assert [line.partition(":")[0] for line in lines] == ["id", "event", "data", "", ""]
    assert "\r" not in frame.decode()


STREAM = workflow(
    {
        "id": "a",
        "type": "task",
        "config": {"function": "tests.engine.streaming:words"},
        "stream": {},
    },
    name="talk",
)


@pytest.mark.slow
@attack("S14", "a viewer opens streams of chunks until nobody else gets one")
async def test_streams_of_chunks_take_places_too(tmp_path):
    options = Options(streams_per_key=2, streams_per_tenant=3)
    async with serving(tmp_path, real=True, tokens=True, options=options) as server:
        run_id = (await server.start(STREAM, wait=0, headers=bearer()))["run_id"]
        path = f"{API}/runs/{run_id}/nodes/a/chunks"

        async def there():
            return (
                await server.get(f"/runs/{run_id}/nodes/a/chunks?follow=false", headers=bearer())
            ).status_code == 200

        await until_true(there, "it yields")
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            answers: list[int] = []
            held = asyncio.Event()

            async def ask(name):
                async with server.client.stream("GET", path, headers=bearer(name, "viewer")) as response:
                    answers.append(response.status_code)
                    if response.status_code == 200:
                        await held.wait()

            for name in ("eve", "eve", "eve", "eve", "bob", "bob"):
                group.create_task(ask(name))
            await until_true(lambda: len(answers) == 6, "all have an answer")
            assert sorted(answers) == [200, 200, 200, 429, 429, 429]
            held.set()
        await server.ok(f"/runs/{run_id}/cancel", {}, headers=bearer())
