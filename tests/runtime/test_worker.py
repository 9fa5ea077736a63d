"""The worker: handlers executed, results reported, whatever they return or raise."""

import asyncio
import dataclasses
import threading

import pytest

from perdure.outcomes import Abort, Chosen, Failure, NotDone, RetryLater
from perdure.runtime.worker import handlers, outputs
from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import make_task, soon, wait_until, working


async def test_what_an_async_handler_returns_is_the_output():
    async def handler(config, ctx):
        return {"got": config, "in": threading.current_thread() is threading.main_thread()}

    async with working(handler, clock=FakeClock(now=5.0)) as h:
        result = await h.do(make_task("n", scope=(2,), item=3, attempt=4, generation=5, undo=True, config={"x": 1}))
    assert result.kind == "completed"
    assert result.output == {"got": {"x": 1}, "in": True}
    assert (result.run_id, result.node, result.scope, result.item) == ("r1", "n", (2,), 3)
    assert (result.attempt, result.generation, result.undo, result.worker) == (4, 5, True, "w1")
    assert result.started_at == 5.0
    assert result.size == len(b'{"got":{"x":1},"in":true}')


async def test_a_sync_handler_runs_in_a_thread():
    def handler(config, ctx):
        return threading.current_thread().name

    async with working(handler) as h:
        assert (await h.do(make_task())).output == "w1-0"


async def test_a_handler_may_change_its_config_and_inputs_without_anybody_noticing():
    async def handler(config, ctx):
        config["list"].append(1)
        ctx.inputs["a"]["b"] = 2

    task = make_task(config={"list": []}, inputs={"a": {}})
    async with working(handler) as h:
        assert (await h.do(task)).kind == "completed"
    assert (task.config, task.inputs) == ({"list": []}, {"a": {}})


async def test_a_config_that_fits_is_looked_at_once_for_all_attempts_that_are_given_the_same_object(monkeypatch):
    looked: list[object] = []

    def explain(node_type, config):
        looked.append(dict(config))  # the handler changes its own
        return "it is odd" if "odd" in config else ""

    monkeypatch.setattr(handlers, "explain_rendered", explain)

    async def handler(config, ctx):
        return config.pop("x")

    fits, odd = {"x": 1}, {"odd": True}
    async with working(handler) as h:
        given = [fits, fits, {"x": 1}, odd, odd, fits]
        found = [await h.do(make_task(attempt=number, config=config)) for number, config in enumerate(given, 1)]
    assert [result.output if result.kind == "completed" else result.code for result in found] == [
        *(1, 1, 1),
        *("bad_config", "bad_config"),
        1,
    ]
    assert looked == [fits, {"x": 1}, odd, odd]


async def test_the_context_tells_what_runs():
    async def handler(config, ctx):
        return [ctx.run_id, ctx.node, ctx.attempt, ctx.idempotency_key, ctx.key("mail"), ctx.inputs, ctx.cancelled]

    async with working(handler) as h:
        result = await h.do(make_task(attempt=3, inputs={"a": 1}))
    assert result.output == ["r1", "n", 3, "r1/n/do", "r1/n/do/mail", {"a": 1}, False]


async def test_log_records_say_which_attempt_they_are_about(caplog):
    async def handler(config, ctx):
        ctx.log.warning("careful", extra={"more": 1})

    async with working(handler) as h:
        await h.do(make_task())
    [record] = [record for record in caplog.records if record.name == "perdure.task"]
    assert (record.run_id, record.node, record.attempt, record.more) == ("r1", "n", 1, 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such city"), {"code": "error", "message": "ValueError: no such city", "retryable": True}),
        (KeyError(), {"code": "error", "message": "KeyError", "retryable": True}),
        (SystemExit(3), {"code": "error", "message": "SystemExit: 3", "retryable": True}),
        (KeyboardInterrupt(), {"code": "error", "retryable": True}),
        (StopIteration("x"), {"code": "error", "retryable": True}),
        (RetryLater("busy", after=7.5), {"code": "retry_later", "message": "busy", "retry_after": 7.5}),
        (Abort("bad account"), {"code": "aborted", "message": "bad account", "retryable": False}),
        (NotDone("refused"), {"code": "not_done", "message": "refused", "not_done": True, "retryable": True}),
        (Failure("http:503", "down", details={"a": 1}), {"code": "http:503", "message": "down", "details": {"a": 1}}),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_what_a_handler_raises_is_its_failure(error, expected, kind):
    async def on_loop(config, ctx):
        raise error

    def in_thread(config, ctx):
        raise error

    async with working(on_loop if kind == "async" else in_thread) as h:
        result = await h.do(make_task())
    assert result.kind == "failed"
    assert {name: getattr(result, name) for name in expected} == expected


async def test_a_failure_shows_the_users_frames_and_no_others():
    def inner():
        raise ValueError("x" * 5000)

    async def handler(config, ctx):
        inner()

    async with working(handler) as h:
        result = await h.do(make_task())
    assert len(result.message) == 1000
    assert "in inner" in result.details
    assert "test_worker.py" in result.details
    assert "execution.py" not in result.details


async def test_an_error_whose_text_cannot_be_made_is_reported_all_the_same():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    async def handler(config, ctx):
        raise Odd

    async with working(handler) as h:
        assert (await h.do(make_task())).message == "Odd: (its text cannot be shown)"


async def test_a_choice_travels_beside_the_output():
    async def handler(config, ctx):
        return Chosen({"a": 1}, ("x", "y"), "because")

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.output, result.choice, result.reasoning) == ({"a": 1}, ("x", "y"), "because")


async def test_a_type_the_worker_does_not_have_is_a_failure_that_says_what_it_has():
    async with working() as h:
        result = await h.do(make_task(type="http"))
    assert (result.kind, result.code, result.retryable) == ("failed", "unknown_type", True)
    assert "'http'" in result.message
    assert "task" in result.message


@dataclasses.dataclass
class Point:
    x: int


class Model:
    def model_dump(self, mode, by_alias):
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ((1, (2,)), [1, [2]]),
        (Point(3), {"x": 3}),
        ([Point(3), {"p": Model()}], [{"x": 3}, {"p": {"mode": "json"}}]),
        ({1: "a"}, {"1": "a"}),
        ([None, 1.5, "ü", 2**70], [None, 1.5, "ü", 2**70]),
    ],
)
async def test_outputs_become_plain_json(value, output):
    async def handler(config, ctx):
        return value

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.kind, result.output) == ("completed", output)


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, object()]}, "$.a[1] is of type object"),
        ({"a": float("nan")}, "$.a is nan"),
        ([1.0, -float("inf")], "$[1] is -inf"),
        ({(1, 2): 3}, "a key of $ is of type tuple"),
        ({"a": "\ud800"}, "$.a is text that is not valid Unicode"),
        ({"a": Abort}, "$.a is of type type"),
        (deep(300), "nested more than 200"),
        (deep(5000), "nested more than 200"),
    ],
)
async def test_an_output_that_is_not_json_is_refused_and_its_place_named(value, words):
    async def handler(config, ctx):
        return value

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.kind, result.code, result.retryable) == ("failed", "bad_output", False)
    assert words in result.message


async def test_an_output_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(outputs, "MAX_BYTES", 1000)

    async def handler(config, ctx):
        return "x" * 1000

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.code, result.retryable, result.output) == ("bad_output", False, None)


async def test_no_more_attempts_run_at_once_than_there_are_slots():
    running, most, go = 0, 0, asyncio.Event()

    async def handler(config, ctx):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    async with working(handler, concurrency=3) as h:
        await h.publish(*[make_task(f"n{number}") for number in range(10)])
        await wait_until(lambda: running == 3, "every slot is taken")
        assert h.worker.free_slots == 0
        go.set()
        assert {(await h.result()).kind for _ in range(10)} == {"completed"}
        await wait_until(lambda: h.worker.free_slots == 3, "the slots are free again")
    assert most == 3


async def test_results_that_are_ready_together_are_reported_together():
    batches = []

    async def handler(config, ctx):
        return None

    async with working(handler, concurrency=50) as h:
        report = h.transport.report

        async def counted(results):
            batches.append(len(results))
            await report(results)

        h.transport.report = counted  # type: ignore[method-assign]
        h.transport.report_now = lambda result: False  # type: ignore[method-assign]  # as where a server lies between
        await h.publish(*[make_task(f"n{number}") for number in range(50)])
        for _ in range(50):
            await h.result()
    assert batches == [50]


async def test_an_at_most_once_effect_starts_only_when_granted():
    started = []

    async def handler(config, ctx):
        started.append(ctx.node)

    async with working(handler) as h:
        await h.publish(make_task("yes", effect="at_most_once"), make_task("no", effect="at_most_once"))
        for _ in range(2):
            request = await soon(h.transport.receive_begin())
            assert started == []
            assert request.worker == "w1"
        await h.transport.grant_begin(make_task("no").task_id, False)
        refused = await h.result()
        assert (refused.node, refused.kind, refused.not_done, started) == ("no", "handed_back", True, [])
        await h.transport.grant_begin(make_task("yes").task_id, True)
        assert (await h.result()).kind == "completed"
    assert started == ["yes"]


async def test_a_closed_transport_ends_the_worker():
    async with working() as h:
        await wait_until(lambda: h.transport._workers, "the worker beats")  # type: ignore[attr-defined]
        await h.transport.close()
        await soon(h.worker._drained.wait())


async def test_a_task_that_is_published_while_a_claim_waits_begins_in_the_next_turn():
    turns = []

    async def handler(config, ctx):
        turns.append(turn)

    async with working(handler, concurrency=2) as h:
        await h.do(make_task("first"))
        await wait_until(lambda: h.transport._claims, "the worker claims again")  # type: ignore[attr-defined]
        turns.clear()
        turn = 0
        await h.publish(make_task("second"))
        for turn in range(1, 10):  # noqa: B007  the handler reads it
            await asyncio.sleep(0)
            if turns:
                break
        assert turns in ([0], [1])
        assert (await h.result()).node == "second"


async def test_tasks_beyond_the_slots_wait_also_where_each_is_offered():
    free = asyncio.Event()
    began = []

    async def handler(config, ctx):
        began.append(ctx.node)
        await free.wait()

    async with working(handler, concurrency=2) as h:
        for number in range(5):
            await h.publish(make_task(f"n{number}"))
        await wait_until(lambda: len(began) == 2, "both slots are taken")
        assert h.worker.free_slots == 0
        free.set()
        assert [(await h.result()).node for _ in range(5)] == [f"n{number}" for number in range(5)]
    assert began == [f"n{number}" for number in range(5)]


@pytest.mark.parametrize("by", ["the worker", "whoever"])
async def test_an_attempt_that_is_cancelled_before_it_begins_is_reported_and_leaves_its_slot(by):
    async def handler(config, ctx):
        raise AssertionError("it was to begin never")

    async with working(handler, concurrency=1) as h:
        await wait_until(lambda: h.transport._claims, "the worker claims")  # type: ignore[attr-defined]
        await h.publish(make_task("n"))
        (attempt,) = h.worker._running.values()
        if by == "the worker":
            h.worker._end(attempt, "cancelled")
        else:
            attempt.handle.cancel()
        result = await h.result()
        assert (result.kind, result.code) == ("failed", "cancelled" if by == "the worker" else "error")
        await wait_until(lambda: h.worker.free_slots == 1, "the slot is free again")
