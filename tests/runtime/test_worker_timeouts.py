"""Timeouts and cancellation: what a worker ends, and what it says of it."""

import asyncio
import threading

from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import call, make_task, soon, wait_until, working


async def forever(config, ctx):
    await asyncio.Event().wait()


async def test_an_async_handler_is_cancelled_when_its_time_is_over():
    clock, cleaned = FakeClock(), []

    async def handler(config, ctx):
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.cancelled)

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(timeout_seconds=30.0))
        await clock.advance(29.9)
        assert h.worker.running == ("r1/n/1.1",)
        await clock.advance(0.2)
        result = await h.result()
        assert h.worker.free_slots == 4
    assert (result.kind, result.code, result.retryable, result.not_done) == ("failed", "timeout", True, False)
    assert result.message == "not finished after 30 s"
    assert cleaned == [True]


async def test_the_nearest_of_many_timeouts_comes_first():
    clock = FakeClock()
    async with working(forever, clock=clock) as h:
        await h.publish(*[make_task(f"n{seconds}", timeout_seconds=float(seconds)) for seconds in (50, 10, 30)])
        for expected in (10, 30, 50):
            await clock.advance(expected - (clock.now() - 1_000_000.0) + 0.1)
            assert (await h.result()).node == f"n{expected}"


async def test_a_handler_that_returns_after_its_time_has_still_timed_out():
    clock = FakeClock()

    async def handler(config, ctx):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(timeout_seconds=1.0))
        await clock.advance(1.1)
        assert (await h.result()).code == "timeout"


async def test_an_async_handler_that_ignores_its_cancellation_is_reported_and_keeps_its_slot():
    clock, let_go = FakeClock(), asyncio.Event()
    ignored: list[bool] = []

    async def handler(config, ctx):
        while not let_go.is_set() and len(ignored) < 3:  # or a failure of this test would hang at its end
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                ignored.append(True)

    async with working(handler, clock=clock, unwind_seconds=5.0) as h:
        await h.publish(make_task(timeout_seconds=1.0))
        await clock.advance(1.1)
        await h.has_nothing()
        await clock.advance(5.1)
        assert (await h.result()).code == "timeout"
        assert (h.worker.free_slots, h.worker.running, ignored) == (3, (), [True])
        let_go.set()
        await wait_until(lambda: h.worker.free_slots == 4, "the slot is free")
        await h.has_nothing()


async def test_a_sync_handler_that_times_out_keeps_its_slot_until_it_returns():
    clock, go, entered = FakeClock(), threading.Event(), threading.Event()

    def handler(config, ctx):
        entered.set()
        go.wait(20)
        return "too late"

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(timeout_seconds=1.0))
        await wait_until(entered.is_set, "the handler has begun")
        await clock.advance(1.1)
        assert (await h.result()).code == "timeout"
        assert (h.worker.free_slots, h.worker.running) == (3, ())
        go.set()
        await wait_until(lambda: h.worker.free_slots == 4, "the slot is free")
        await h.has_nothing()


async def test_a_heartbeat_in_a_thread_whose_attempt_is_over_ends_it():
    clock, go, entered, ended = FakeClock(), threading.Event(), threading.Event(), []

    def handler(config, ctx):
        entered.set()
        go.wait(20)
        try:
            ctx.heartbeat()
        except asyncio.CancelledError as error:
            ended.append(str(error))
            raise

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(timeout_seconds=1.0))
        await wait_until(entered.is_set, "the handler has begun")
        await clock.advance(1.1)
        await h.result()
        go.set()
        await wait_until(lambda: h.worker.free_slots == 4, "the slot is free")
    assert ended == ["r1/n/1.1 is over"]


async def test_a_handler_that_gives_no_sign_of_life_is_ended():
    clock = FakeClock()
    beats: asyncio.Queue[None] = asyncio.Queue()

    async def handler(config, ctx):
        while True:
            await beats.get()
            ctx.heartbeat()

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(heartbeat_timeout_seconds=10.0, timeout_seconds=1000.0))
        for _ in range(5):
            await clock.advance(9.0)
            beats.put_nowait(None)
            await clock.advance(0.0)
        await h.has_nothing()
        await clock.advance(10.1)
        result = await h.result()
    assert (result.kind, result.code, result.retryable) == ("failed", "heartbeat_timeout", True)
    assert result.message == "no heartbeat for 10 s"


async def test_time_spent_waiting_for_permission_to_begin_does_not_count():
    clock = FakeClock()

    async def handler(config, ctx):
        return "done"

    async with working(handler, clock=clock) as h:
        await h.publish(make_task(timeout_seconds=1.0, effect="at_most_once"))
        await soon(h.transport.receive_begin())
        await clock.advance(60.0)
        await h.transport.grant_begin(make_task().task_id, True)
        assert (await h.result()).kind == "completed"


async def test_a_stop_cancels_an_async_handler_at_once():
    seen = []

    async def handler(config, ctx):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.cancelled)
            raise

    async with working(handler) as h:  # the next heartbeat would be in an hour
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        await h.transport.stop([make_task().task_id])
        result = await h.result()
    assert (result.kind, result.code, result.retryable) == ("failed", "cancelled", False)
    assert seen == [True]


async def test_a_stop_of_one_leaves_the_others_alone():
    async with working(forever) as h:
        await h.publish(make_task("a"), make_task("b"))
        await wait_until(lambda: len(h.worker.running) == 2, "both run")
        await h.transport.stop([make_task("a").task_id])
        assert (await h.result()).node == "a"
        assert h.worker.running == (make_task("b").task_id,)


async def test_a_sync_handler_sees_that_it_should_stop_and_may_give_up():
    entered = threading.Event()

    def handler(config, ctx):
        entered.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        raise RuntimeError("gave up")

    async with working(handler) as h:
        await h.publish(make_task())
        await wait_until(entered.is_set, "the handler has begun")
        await h.transport.stop([make_task().task_id])
        result = await h.result()
    assert (result.kind, result.code, result.retryable) == ("failed", "cancelled", False)


async def test_work_that_was_done_in_spite_of_a_stop_is_reported_as_done():
    entered, go = threading.Event(), threading.Event()

    def handler(config, ctx):
        entered.set()
        go.wait(20)
        return "the mail is out"

    async with working(handler) as h:
        await h.publish(make_task())
        await wait_until(entered.is_set, "the handler has begun")
        await h.transport.stop([make_task().task_id])
        go.set()
        result = await h.result()
    assert (result.kind, result.output) == ("completed", "the mail is out")


async def test_what_a_handler_cleans_up_is_not_interrupted_by_being_told_to_stop_again():
    """Whoever has a stopped task hears of it with every beat."""
    began, told, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(config, ctx):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()
            await cleaned.wait()

    async with working(handler) as h:
        await h.publish(make_task())
        await soon(began.wait())
        for _ in range(2):
            h.worker._stop([make_task().task_id])
            await soon(told.wait())
        for _ in range(50):
            await asyncio.sleep(0)
        assert h.worker.running == (make_task().task_id,)
        cleaned.set()
        assert (await h.result()).code == "cancelled"


async def test_a_task_stopped_while_it_was_queued_is_reported_as_cancelled():
    async with working(forever, concurrency=1) as h:
        await h.publish(make_task("a"), make_task("b"))
        await wait_until(lambda: h.worker.running, "the slot is taken")
        await h.transport.stop([make_task("b").task_id])
        await h.transport.stop([make_task("a").task_id])
        results = [await h.result(), await h.result()]
    assert [(result.node, result.code) for result in results] == [("a", "cancelled"), ("b", "cancelled")]


async def test_a_stop_while_waiting_for_permission_to_begin_means_it_never_did():
    async with working(forever) as h:
        await h.publish(make_task(effect="at_most_once"))
        await soon(h.transport.receive_begin())
        await h.transport.stop([make_task().task_id])
        result = await h.result()
    assert (result.code, result.not_done) == ("cancelled", True)


async def test_a_handler_that_cancels_itself_has_failed():
    async def handler(config, ctx):
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(0)

    async with working(handler) as h:
        result = await h.do(make_task())
    assert (result.kind, result.code, result.retryable) == ("failed", "error", True)


async def test_a_function_that_returned_just_before_the_stop_arrived_has_completed():
    """The thread has ended, the handler's task has not gone on yet: the stop falls between the two."""
    async with working() as h:
        worker = h.worker
        collect = worker._threads._collect

        def collect_and_stop() -> None:
            collect()
            worker._stop([call("tests.runtime.functions:add").task_id])

        worker._threads._collect = collect_and_stop  # type: ignore[method-assign]
        result = await h.do(call("tests.runtime.functions:add", args={"a": 1}))
    assert (result.kind, result.output) == ("completed", 2)


async def test_a_stop_during_a_step_keeps_the_step_and_begins_no_other():
    entered, go, second = threading.Event(), threading.Event(), []

    def step():
        entered.set()
        go.wait(20)
        return 1

    async def handler(config, ctx):
        await ctx.step("first", step)
        second.append(await ctx.step("second", int))

    async with working(handler) as h:
        await h.publish(make_task())
        await wait_until(entered.is_set, "the step has begun")
        h.worker._stop([make_task().task_id])
        go.set()
        kept, end = await h.result(), await h.result()
    assert (kept.step, kept.output) == ("first", 1)
    assert (end.kind, end.code, second) == ("failed", "cancelled", [])
