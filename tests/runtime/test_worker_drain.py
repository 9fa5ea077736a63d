"""Graceful shutdown: running work gets its grace, the rest is handed back and counts as no failure."""

import asyncio
import threading

import pytest

from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import call, make_task, soon, wait_until, working


async def forever(config, ctx):
    await asyncio.Event().wait()


async def test_an_idle_worker_drains_at_once():
    async with working(forever) as h:
        await wait_until(lambda: h.worker._claiming is not None, "it claims")
        await soon(h.worker.drain())
        await h.publish(make_task())
        await h.has_nothing()
        assert h.worker.running == ()


async def test_running_work_may_finish_within_its_grace():
    clock, go = FakeClock(), asyncio.Event()

    async def handler(config, ctx):
        await go.wait()
        return "done"

    async with working(handler, clock=clock) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        draining = asyncio.ensure_future(h.worker.drain(30.0))
        await clock.advance(29.0)
        assert not draining.done()
        go.set()
        await soon(draining)
        assert (await h.result()).output == "done"


async def test_work_that_outlasts_its_grace_is_cancelled_and_handed_back():
    clock = FakeClock()
    async with working(forever, clock=clock, grace_seconds=10.0) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        draining = asyncio.ensure_future(h.worker.drain())
        await clock.advance(9.9)
        await h.has_nothing()
        await clock.advance(0.2)
        await soon(draining)
        result = await h.result()
    assert (result.kind, result.not_done, result.code) == ("handed_back", False, "")


async def test_a_thread_that_outlasts_its_grace_does_not_hold_up_the_shutdown():
    clock, go, entered = FakeClock(), threading.Event(), threading.Event()

    def handler(config, ctx):
        entered.set()
        go.wait(20)

    async with working(handler, clock=clock) as h:
        await h.publish(make_task())
        await wait_until(entered.is_set, "the handler has begun")
        draining = asyncio.ensure_future(h.worker.drain(1.0))
        await clock.advance(1.1)
        await soon(draining)
        assert (await h.result()).kind == "handed_back"
        go.set()


@pytest.mark.slow
async def test_an_isolated_process_that_outlasts_its_grace_is_killed(tmp_path):
    began = tmp_path / "began"
    async with working() as h:
        await h.publish(call("tests.runtime.functions:hang", args={"path": str(began)}, isolation="process"))
        await wait_until(lambda: began.exists() and began.read_text(), "the function has begun")
        await soon(h.worker.drain(0.0))
        assert (await h.result()).kind == "handed_back"


async def test_what_was_claimed_and_not_begun_is_handed_back_without_grace():
    async with working(forever) as h:
        await h.publish(make_task(effect="at_most_once"))
        await soon(h.transport.receive_begin())
        draining = asyncio.ensure_future(h.worker.drain(3600.0))
        result = await h.result()
        await soon(draining)
    assert (result.kind, result.not_done) == ("handed_back", True)


async def test_work_that_finishes_while_it_is_being_cancelled_is_done():
    async def handler(config, ctx):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished the page"

    async with working(handler) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        await soon(h.worker.drain(0.0))
        assert (await h.result()).output == "finished the page"


async def test_the_worker_ends_when_it_is_drained():
    async with working(forever) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        await soon(h.worker.drain(0.0))
        await wait_until(lambda: not [t for t in threading.enumerate() if "heartbeat" in t.name], "its thread is gone")
        assert h.transport._wakes == {}  # type: ignore[attr-defined]
