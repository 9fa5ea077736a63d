"""Nothing forged between processes: what goes through Redis is signed, has an end, and is measured (S09, S10, S20)."""

import msgspec
import pytest
from click.testing import CliRunner

from perdure.cli.app import app
from perdure.journal import partition_of
from perdure.runtime.coordinator.messages import BeginAsked, Reported
from perdure.runtime.worker import outputs
from perdure.transport import LARGEST_BLOB, LONGEST_CODE, LONGEST_MESSAGE, BeginRequest, CannotSend, Delivery
from perdure.transports.envelopes import EnvelopeRefused, Keyring
from perdure.transports.measured_results import measured
from perdure.transports.redis import claims, sent_tasks
from perdure.transports.redis.messages import LARGEST_HEAD, LARGEST_RESULT, Messages
from perdure.transports.redis.names import Keys
from tests.attack.marks import attack
from tests.attack.watchdog import taking_at_most, watching
from tests.conformance.transport.messages import claim, result, soon, task
from tests.engine import helpers as engines
from tests.transports.redis.conftest import opened
from tests.transports.redis.helpers import wait_until

__all__ = ["opened"]

RING = Keyring({"k": b"k" * 32})


@attack("S09", "processes that take unsigned messages without a word")
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_process_does_not_start_unsigned_unless_that_is_said(command, monkeypatch):
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("PERDURE_REDIS_URL", "redis://127.0.0.1:1/0")
    refused = CliRunner().invoke(app, [command])
    assert refused.exit_code != 0
    assert "PERDURE_SIGNING_KEYS" in refused.stderr
    assert "openssl rand -base64 32" in refused.stderr


def copies(opened):
    """Every task there is, as an attacker who reads Redis has it."""
    client = opened.server.client()
    found = []
    for lane in client.scan_iter(match=f"{opened.prefix}:*:tasks:*"):
        found += [(lane, fields) for _, fields in client.xrange(lane)]
    return found


@attack("S10", "a signed task is put back after it was done")
async def test_a_copy_of_a_task_that_was_done_is_given_to_no_worker(opened):
    first, second = await opened(keyring=RING), await opened(keyring=RING, partitions=())
    await first.publish([task("a")])
    [(lane, fields)] = copies(opened)
    assert await claim(first) == ["a"]
    await first.report([result("a", output=7)])
    [delivery] = await soon(first.receive(100))
    await first.acknowledge([delivery.receipt])
    for process in (first, second):  # the one that did it, and one that knows nothing of it
        for _ in range(3):
            opened.server.client().xadd(lane, fields)
        await first.publish([task("b")])  # so that the lane is looked at
        assert await claim(process) == ["b"]
        await process.report([result("b")])
        [delivery] = await soon(first.receive(100))
        assert delivery.result.node == "b"
        await first.acknowledge([delivery.receipt])
    assert copies(opened) == []  # they were taken away


@attack("S10", "a signed task is copied while it waits, and while a worker has it")
async def test_a_copy_of_a_task_that_is_out_is_given_to_no_worker(opened):
    first, second = await opened(keyring=RING), await opened(keyring=RING, partitions=())
    client = opened.server.client()
    await first.publish([task("a")])
    [(lane, fields)] = copies(opened)
    other_lane = Keys(opened.prefix).lane("default", "5:task:")
    client.xadd(lane, fields)
    assert await claim(first) == ["a"]  # once
    await first.publish([task("b", priority=5)])
    client.xadd(lane, fields)
    client.xadd(other_lane, fields)
    assert await claim(second, worker="w2") == ["b"]
    await first.publish([task("c")])  # so that the lane is looked at again
    assert await claim(second, worker="w2") == ["c"]
    assert await first.find_missing([task("a").task_id, task("b").task_id]) == set()


@attack("S10", "a copy that is given out in the name of a worker, which asks what it was given")
async def test_a_copy_in_the_name_of_a_worker_is_not_found_by_it(opened):
    first, second = await opened(keyring=RING), await opened(keyring=RING, partitions=())
    client = opened.server.client()
    await first.publish([task("a"), task("b")])
    (lane, fields), _ = copies(opened)
    assert await claim(first) == ["a", "b"]
    client.xadd(lane, fields)
    client.xreadgroup("workers", "w2", {lane: ">"})
    second._claims._unsure["w2"] = 0.0  # as after an answer that got lost
    await first.publish([task("c")])
    assert await claim(second, worker="w2") == ["c"]


@attack("S10", "what a copy came to, and a wish to begin it, when the attempt is over")
async def test_a_copy_of_an_attempt_that_is_over_is_not_granted_and_its_outcome_changes_nothing(tmp_path):
    async with engines.running(tmp_path) as engine:
        once = engines.task("a", args={"value": 7}, effect="at_most_once")
        await engines.start(engine, engines.workflow(once))
        state = await engines.ended(engine)
        before = await engines.events(engine.journal)
        assert engine.coordinator is not None
        asked = BeginAsked(BeginRequest(task("a", effect="at_most_once"), "w2"))
        engine.coordinator.put(asked)
        for kind, fields in (("completed", {"output": 8, "size": 1}), ("failed", {"code": "error"})):
            engine.coordinator.put(Reported(Delivery("none", result("a", kind, **fields))))
        await engine.coordinator.drained()
        assert not asked.granted
        assert await engines.events(engine.journal) == before
        assert (await engine.runs.state("r1")).outputs == state.outputs


@attack("S10", "a signed task is kept, and sent much later")
async def test_a_copy_is_worth_nothing_when_its_time_is_over(opened, monkeypatch):
    monkeypatch.setattr(sent_tasks, "TASK_SECONDS", -1.0)
    old, other = await opened(keyring=RING), await opened(keyring=RING, partitions=())
    await old.publish([task("a")])
    monkeypatch.setattr(sent_tasks, "TASK_SECONDS", 900.0)
    await old.publish([task("b")])
    assert await claim(other) == ["b"]
    assert other.refused == {"task": 1}
    await wait_until(lambda: len(copies(opened)) == 1, "the old one is gone")
    assert await old.find_missing([task("a").task_id, task("b").task_id]) == {task("a").task_id}
    await old.publish([task("a")])
    assert await claim(other) == ["a"]  # whoever wants it still sends it anew


async def test_results_are_remembered_up_to_a_size(opened, monkeypatch):
    monkeypatch.setattr(claims, "RECENT_BYTES", 5_000)
    transport = await opened(keyring=RING)
    names = [f"n{number}" for number in range(20)]
    await transport.publish([task(name) for name in names])
    assert sorted(await claim(transport, 20)) == sorted(names)
    await transport.report([result(name, output="x" * 400, size=402) for name in names])
    assert 1 <= len(transport._claims._reported) <= 6
    assert transport._claims._reported_bytes <= 5_000


def nested(depth):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@attack("S20", "a worker that lies about sizes, or sends what breaks readers")
@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"output": "x" * 100_000, "size": 8}, ""),
        ({"output": nested(900)}, "bad_output"),
        ({"output": {"a": "\0"}}, "bad_output"),
        ({"output": {"a\0": 1}}, "bad_output"),
        ({"kind": "failed", "code": "c" * 100_000, "message": "m" * 5_000_000}, "c" * LONGEST_CODE + "…"),
        ({"kind": "failed", "code": "a\0b", "details": "d" * 5_000_000}, "a\ufffdb"),
        ({"kind": "failed", "code": "deep", "details": nested(300)}, "deep"),
        ({"reasoning": "r" * 1_000_000, "worker": "w" * 10_000}, ""),
    ],
)
def test_what_a_worker_sends_is_measured(given, code):
    got = measured(result("a", **given))
    assert got.code == code
    assert got.size == (0 if got.output is None else len(msgspec.json.encode(got.output)))
    assert len(got.message) <= LONGEST_MESSAGE + 1
    assert len(got.reasoning) <= LONGEST_MESSAGE + 1
    assert len(got.worker) <= LONGEST_CODE + 1
    assert got.details is None
    if code == "bad_output":
        assert (got.kind, got.output, got.retryable) == ("failed", None, False)


@attack("S20", "a worker that says of a blob that it is larger than any, or smaller than nothing")
@pytest.mark.parametrize(
    ("said", "counts"), [(-1, 0), (40_000, 40_000), (2**53, LARGEST_BLOB), (2**63 - 1, LARGEST_BLOB)]
)
def test_a_blob_counts_for_no_more_than_a_blob_can_have(said, counts):
    assert LARGEST_BLOB == outputs.MAX_BYTES
    assert measured(result("a", output_ref="cas://sha256:" + "0" * 64, size=said)).size == counts


@attack("S20", "the same, through Redis")
async def test_the_size_of_an_output_is_found_out_where_it_is_received(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a")])
    await claim(transport)
    await transport.report([result("a", output="x" * 100_000, size=8)])
    [delivery] = await soon(transport.receive(100))
    assert delivery.result.size == 100_002
    await transport.acknowledge([delivery.receipt])


def signed(output, ring=RING):
    """A result that is good but for its output, given as JSON."""
    body = b'{"v":1,"run_id":"r1","node":"a","kind":"completed","output":' + output + b"}"
    return {"task": task("a").task_id, "message": body, "signature": ring.sign("result", "default", body)}


@attack("S20", "one signed result of millions of lists, or of more bytes than anybody needs")
@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"[" + b"[]," * 4_000_000 + b"0]", "bytes"),
        (b"[" + b"[]," * 1_000_000 + b"0]", "more parts than one process reads at once"),
        (b'"' + b"x" * 5_000_000 + b'"', "bytes"),
    ],
    ids=["huge", "heavy", "long"],
)
async def test_a_result_that_takes_long_to_read_fails_its_attempt_unread(opened, output, why):
    transport = await opened(keyring=RING)
    await transport.publish([task("a")])
    await claim(transport)
    opened.server.client().xadd(Keys(opened.prefix).results(partition_of("r1", 8)), signed(output))
    with watching():
        [delivery] = await soon(transport.receive(100))
    assert (delivery.result.kind, delivery.result.code, delivery.result.output) == ("failed", "bad_output", None)
    assert why in delivery.result.message
    await transport.acknowledge([delivery.receipt])


@attack("S20", "many results, each as heavy as one may be")
async def test_results_that_are_heavy_together_are_read_one_in_a_turn(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a")])
    await claim(transport)
    fields = signed(b"[" + b"[]," * 150_000 + b"0]")
    for _ in range(6):
        opened.server.client().xadd(Keys(opened.prefix).results(partition_of("r1", 8)), fields)
    found: list[Delivery] = []
    with watching():
        while len(found) < 6:
            found += await soon(transport.receive(1))
    assert {len(delivery.result.output) for delivery in found} == {150_001}
    await transport.acknowledge([delivery.receipt for delivery in found])


@attack("S20", "a result so large that not even its head is read")
async def test_a_result_beyond_every_measure_is_taken_away_and_hides_no_other(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a")])
    await claim(transport)
    stream = Keys(opened.prefix).results(partition_of("r1", 8))
    opened.server.client().xadd(stream, signed(b'"' + b"x" * LARGEST_HEAD + b'"'))
    await transport.report([result("a", output=7)])
    [delivery] = await soon(transport.receive(100))
    assert delivery.result.output == 7
    assert transport.refused == {"result": 1}
    await transport.acknowledge([delivery.receipt])


@attack("S20", "a wish to begin that takes long to read")
def test_whatever_a_worker_says_is_weighed_before_it_is_read():
    body = b'{"v":1,"x":[' + b"[]," * 1_000_000 + b"0]}"
    for kind in ("result", "begin", "grant", "beat"):
        with taking_at_most(0.1), pytest.raises(EnvelopeRefused, match="more parts"):
            Messages(None).decode(kind, body, b"")


async def test_a_worker_is_told_that_a_result_is_too_large_to_be_sent(opened):
    transport = await opened(keyring=RING)
    with pytest.raises(CannotSend) as refused:
        await transport.report([result("a"), result("b", output="x" * LARGEST_RESULT)])
    assert list(refused.value.problems) == [1]
    assert "4,194,304 can be sent" in refused.value.problems[1]
