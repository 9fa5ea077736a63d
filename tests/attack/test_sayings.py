"""What a function says besides its output stops no worker, quarantines no run and is never reported for ever (S20)."""

import asyncio
from typing import Any

import msgspec
import pytest

import perdure
from perdure import functions
from perdure.journal import partition_of
from perdure.runtime.failures import describe
from perdure.runtime.worker import attempt as attempts
from perdure.runtime.worker import execution
from perdure.transport import (
    LONGEST_MESSAGE,
    LONGEST_RETRY_SECONDS,
    CannotSend,
    CheckpointsRefused,
    Result,
    encode_message,
)
from perdure.transports.envelopes import Keyring
from perdure.transports.measured_results import measured
from perdure.transports.redis.names import Keys
from tests.api.helpers import serving
from tests.attack import saying
from tests.attack.marks import attack
from tests.attack.saying import COMPLETED, FAILURES, STEPS, Text
from tests.conformance.transport.messages import claim, result, soon, task
from tests.engine.helpers import DEADLINE, until_true
from tests.runtime.harness import call, make_task, working
from tests.transports.redis.conftest import opened

__all__ = ["opened"]

HERE = "tests.attack.saying"
RING = Keyring({"k": b"k" * 32})


def reads_the_same(said: Result) -> bool:
    """Whether a coordinator in another process reads just what the worker wrote."""
    return msgspec.json.decode(encode_message(said), type=Result) == said


@attack("S20", "codes, choices and times that cannot be written, or not be read")
@pytest.mark.parametrize("what", FAILURES)
async def test_whatever_a_function_says_its_result_can_be_sent_and_read(what):
    async with working() as h:
        failed = await h.do(call(f"{HERE}:say", args={"what": what}))
    assert (failed.kind, failed.code) == ("failed", FAILURES[what][1])
    assert failed.message
    assert failed.retry_after is None or failed.retry_after <= LONGEST_RETRY_SECONDS
    assert reads_the_same(failed)


@attack("S20", "codes, choices and times that cannot be written, or not be read")
@pytest.mark.parametrize("what", COMPLETED)
async def test_a_choice_in_another_class_of_text_is_the_choice(what):
    async with working() as h:
        done = await h.do(call(f"{HERE}:say", args={"what": what}))
    assert (done.kind, done.output, done.choice) == ("completed", 1, ("a",))
    assert len(done.reasoning) <= LONGEST_MESSAGE
    assert reads_the_same(done)


@pytest.mark.slow
@attack("S20", "the same, from a process of its own")
async def test_an_isolated_process_says_the_same_and_lives_on():
    async with working() as h:
        for number, what in enumerate([*FAILURES, *COMPLETED]):
            task = call(f"{HERE}:say", f"n{number}", args={"what": what}, isolation="process")
            said = await h.do(task)
            assert said.code == (FAILURES[what][1] if what in FAILURES else ""), (what, said)
            assert reads_the_same(said)
        for number, what in enumerate(STEPS):
            said = await h.do(call(f"{HERE}:step", f"s{number}", args={"what": what}, isolation="process"))
            assert said.message.startswith("ValueError: a step cannot be named"), said
        assert (await h.do(call(f"{HERE}:log_half", "log", isolation="process"))).output == 1
        assert h.worker._processes.count == 1


@attack("S20", "names of steps that cannot be kept")
@pytest.mark.parametrize("function", ["step", "step_async"])
@pytest.mark.parametrize("what", STEPS)
async def test_a_step_whose_name_cannot_be_kept_is_refused_where_it_is_called(what, function):
    async with working() as h:
        failed = await h.do(call(f"{HERE}:{function}", args={"what": what}))
    assert (failed.kind, failed.code) == ("failed", "error")
    assert failed.message.startswith("ValueError: a step cannot be named"), failed.message
    assert len(failed.message) < 300
    assert reads_the_same(failed)


async def test_the_name_of_a_step_is_kept_as_text():
    async with working() as h:
        await h.publish(call(f"{HERE}:step_text"))
        kept = await h.result()
        assert (kept.kind, type(kept.step), kept.step) == ("checkpointed", str, "abc")
        assert (await h.result()).output == 1


@attack("S20", "the same, in one process with its journal")
@pytest.mark.parametrize(
    ("function", "what", "code"),
    [
        ("say", "code_half", "a\\ud800"),
        ("say", "next_numbers", "bad_output"),
        ("say", "next_half", "bad_output"),
        ("step", "half", "error"),
        ("step_text", "", None),
        ("say", "next_text", None),
        ("log_half", "", None),
    ],
)
async def test_no_run_is_quarantined_for_what_its_function_said(tmp_path, function, what, code):
    config = {"function": f"{HERE}:{function}", "args": {"what": what} if what else {}}
    node = {"id": "n", "type": "task", "config": config, "on_failure": "fail", "retry": {"max_attempts": 1}}
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": [node]}, wait=DEADLINE)
        assert run["state"] == ("completed" if code is None else "failed"), run
        assert (run["error"] or {}).get("code") == code
        events = (await server.get(f"/runs/{run['run_id']}/events")).json()["items"]
        assert events[-1]["type"] == f"run.{run['state']}"


@attack("S20", "a time to wait that no calendar has")
@pytest.mark.parametrize("what", ["retry_after_big", "retry_after_huge", "retry_later_big"])
async def test_a_run_waits_a_hundred_years_at_most_for_the_next_attempt(tmp_path, what):
    config = {"function": f"{HERE}:say", "args": {"what": what}}
    node = {"id": "n", "type": "task", "config": config, "retry": {"max_attempts": 2}}
    async with serving(tmp_path) as server:
        run = await server.start({"name": "w", "nodes": [node]}, wait=0)
        at = f"/runs/{run['run_id']}"

        async def retrying() -> list[Any]:
            items = (await server.get(f"{at}/events")).json()["items"]
            return [one for one in items if one["type"] == "node.retrying"]

        [event] = await until_true(retrying, "the first attempt has failed")
        assert event["data"]["retry_at"] - event["at"] == pytest.approx(LONGEST_RETRY_SECONDS)
        for view in ("", "/explain"):
            assert (await server.get(at + view)).status_code == 200


def test_an_error_may_be_its_own_cause():
    error = ValueError("m")
    error.__cause__ = error
    assert describe(error)["message"] == "ValueError: m"


@attack("S20", "names of functions that no beat of a worker can hold")
@pytest.mark.parametrize("name", ["\ud800", "a\0b", "a" * 10_000, "", 5])
def test_a_function_whose_name_cannot_be_sent_is_refused_where_it_is_defined(name):
    with pytest.raises(ValueError, match="cannot be named"):
        perdure.task(name=name)(lambda: 1)


def test_the_name_of_a_function_is_kept_as_text():
    functions.register(Text(f"{HERE}.text"), saying.log_half)
    [kept] = [name for name in functions.names() if name == f"{HERE}.text"]
    assert type(kept) is str


# -- what was missed is no outage --------------------------------------------------------------------------------------


def unchecked(monkeypatch):
    """Let a worker make results as it did before they were checked."""
    monkeypatch.setattr(execution, "choice_of", lambda value: (tuple(value.next_nodes), value.reasoning))


@attack("S20", "a result that cannot be made into a message")
async def test_a_result_that_cannot_be_sent_fails_its_attempt_and_holds_up_no_other(opened, monkeypatch):
    unchecked(monkeypatch)
    transport = await opened(keyring=RING)
    async with working(transport=transport) as h:
        failed = await h.do(call(f"{HERE}:say", "a", args={"what": "next_half"}))
        assert (failed.kind, failed.code, failed.retryable) == ("failed", "bad_output", False)
        assert "cannot be sent: UnicodeEncodeError" in failed.message
        assert not h.worker._reporter.failing
        done = await h.do(call("tests.runtime.functions:add", "b", args={"a": 1}))
        assert (done.kind, done.node) == ("completed", "b")


@attack("S20", "a checkpoint that cannot be made into a message")
async def test_a_checkpoint_that_cannot_be_sent_is_an_error_of_its_handler(opened, monkeypatch):
    made = attempts.Attempt.checkpointed
    monkeypatch.setattr(
        attempts.Attempt,
        "checkpointed",
        lambda self, left, step, worker, *rest, **more: made(self, left, "\ud800", worker),
    )

    async def handler(config: Any, ctx: Any) -> Any:
        if config:
            await ctx.step("a", lambda: 1)
        return "done"

    transport = await opened(keyring=RING, durable_checkpoints=True)
    async with working(handler, transport=transport) as h:
        failed = await h.do(make_task("a", config={"steps": 1}))
        assert (failed.kind, failed.code, failed.retryable) == ("failed", "bad_output", False)
        assert "the checkpoint cannot be sent" in failed.message
        assert (await h.do(make_task("b"))).output == "done"


async def test_nothing_is_sent_with_a_result_that_cannot_be(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a"), task("b")])
    await claim(transport)
    with pytest.raises(CannotSend) as caught:
        await transport.report([result("a"), result("b", code="\ud800")])
    assert list(caught.value.problems) == [1]
    await transport.report([result("b"), result("a")])
    assert [one.result.node for one in await soon(transport.receive(100))] == ["b", "a"]


# -- the coordinator's side --------------------------------------------------------------------------------------------


def put(opened, body: bytes, ring: Keyring | None, tenant: str = "default", **more: Any) -> None:
    """Put bytes into Redis as a result of task a."""
    signature = "" if ring is None else ring.sign("result", tenant, body)
    fields = {"task": task("a").task_id, "message": body, "signature": signature, **more}
    opened.server.client().xadd(Keys(opened.prefix).results(partition_of("r1", 8)), fields)


BODY = b'{"v":1,"run_id":"r1","node":"a","kind":"completed",'
UNREADABLE = {
    "choice": BODY + b'"choice":[1,2]}',
    "code": BODY + b'"code":404}',
    "retry_after": BODY + b'"retry_after":1' + b"0" * 400 + b"}",
    "retryable": BODY + b'"retryable":"no"}',
    "numbers": BODY + b'"output":[' + b",".join([b"1e300"] * 50) + b"]}",
    "text": BODY + b'"output":"\xff"}',
    "half": BODY + b'"output":"\\ud800"}',
}


@attack("S20", "a worker's own result that cannot be read, reported for ever")
@pytest.mark.parametrize("ring", [RING, None], ids=["signed", "unsigned"])
@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_result_that_cannot_be_read_fails_its_attempt(opened, what, ring):
    transport = await opened(keyring=ring)
    await transport.publish([task("a")])
    await claim(transport)
    put(opened, UNREADABLE[what], ring)
    [delivery] = await soon(transport.receive(100))
    failed = delivery.result
    assert (failed.kind, failed.code, failed.retryable) == ("failed", "bad_output", False)
    assert failed.address == task("a").address
    assert failed.message.startswith("its worker reported a result that")
    assert transport.refused == {"result": 1}
    await transport.acknowledge([delivery.receipt])
    assert await transport.find_missing([task("a").task_id]) == {task("a").task_id}, "it is over"


@attack("S20", "results that somebody else wrote, to end attempts that are not his")
async def test_nobody_ends_an_attempt_with_a_result_that_is_not_its_own(opened):
    transport = await opened(keyring=RING)
    await transport.publish([task("a")])
    await claim(transport)
    bad = UNREADABLE["choice"]
    put(opened, bad, None)
    put(opened, bad, Keyring({"k": b"x" * 32}))
    put(opened, bad, RING, tenant="another")
    put(opened, bad.replace(b'"v":1', b'"v":2'), RING)
    put(opened, bad.replace(b'"node":"a"', b'"node":"b"'), RING)
    put(opened, bad.replace(b'"run_id":"r1",', b""), RING)
    await transport.report([result("a", output=7)])
    [delivery] = await soon(transport.receive(100))
    assert delivery.result.output == 7
    await transport.acknowledge([delivery.receipt])


@attack("S20", "a checkpoint that cannot be read: its worker sent it again for ever")
async def test_a_worker_hears_that_its_checkpoint_cannot_be_read(opened):
    transport = await opened(keyring=RING)
    worker = await opened(keyring=RING, partitions=(), durable_checkpoints=True)
    await transport.publish([task("a")])
    await claim(worker)
    odd: Any = {"step": 5}
    reporting = asyncio.ensure_future(worker.report([result("a", "checkpointed", **odd)]))
    [delivery] = await soon(transport.receive(1))
    assert (delivery.result.kind, delivery.result.code) == ("failed", "bad_output")
    await transport.acknowledge([delivery.receipt])
    with pytest.raises(CheckpointsRefused):
        await soon(reporting)


@attack("S20", "numbers and names that no calendar and no database has")
@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"choice": ("a\0",)}, "bad_output"),
        ({"choice": ("a" * 1_000,)}, "bad_output"),
        ({"choice": ("a",) * 10_000}, "bad_output"),
        ({"output_ref": "cas://\0"}, "bad_output"),
        ({"output_ref": "c" * 10_000}, "bad_output"),
        ({"kind": "failed", "code": "x", "retry_after": 1e308, "started_at": 1e308}, "x"),
        ({"kind": "failed", "code": "x", "retry_after": -1.0, "started_at": -1e308}, "x"),
        ({"kind": "checkpointed", "number": 10**30}, ""),
        ({"output_ref": "cas://x", "size": 10**30}, ""),
    ],
)
def test_all_that_a_worker_sends_is_measured(given, code):
    got = measured(result("a", **given))
    assert got.code == code
    assert got.choice is None
    assert got.retry_after is None or 0 <= got.retry_after <= LONGEST_RETRY_SECONDS
    assert got.started_at is None
    assert got.number < 2**63
    assert got.size < 2**63
    if code == "bad_output":
        assert (got.kind, got.output, got.output_ref, got.retryable) == ("failed", None, None, False)
