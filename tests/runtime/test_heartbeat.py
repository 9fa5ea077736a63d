"""Heartbeats: from a thread of their own, with what runs and how late the loop is."""

import asyncio
import threading

from perdure.runtime.worker.heartbeat import Heartbeat
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.runtime.harness import make_task, wait_until, working


async def forever(config, ctx):
    await asyncio.Event().wait()


async def test_a_beat_says_what_the_worker_is_and_does():
    async with working(forever, queues=("default", "gpu"), heartbeat_seconds=0.01) as h:
        await h.publish(make_task())
        seen = h.transport._workers  # type: ignore[attr-defined]
        await wait_until(lambda: seen.get("w1") and seen["w1"][0].running, "a beat names the task")
        beat = seen["w1"][0]
    assert beat.running == (make_task().task_id,)
    assert (beat.slots, beat.queues) == (4, ("default", "gpu"))
    assert set(beat.types) == {"task", "probe"}


async def test_a_worker_is_seen_before_it_claims():
    order = []

    class Watched(LocalTransport):
        def beat(self, beat):
            order.append("beat")
            return super().beat(beat)

        async def claim(self, worker, queues, limit, *args, **kwargs):
            order.append("claim")
            return await super().claim(worker, queues, limit, *args, **kwargs)

    async with working(forever, transport=Watched()) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
    assert order[0] == "beat"


async def test_heartbeats_go_on_while_the_loop_is_wedged_and_tell_how_late_it_is():
    beats = threading.Semaphore(0)
    lags = []

    class Watched(LocalTransport):
        def beat(self, beat):
            lags.append(beat.lag_seconds)
            beats.release()
            return super().beat(beat)

    async def wedge(config, ctx):
        for _ in range(5):
            beats.acquire(timeout=20)

    async with working(wedge, transport=Watched(), heartbeat_seconds=0.01) as h:
        assert (await h.do(make_task())).kind == "completed"
    assert max(lags) > 0.005


async def test_in_simulation_heartbeats_come_by_the_clock_and_on_the_loop():
    clock = FakeClock()
    before = threading.active_count()
    async with working(forever, clock=clock, heartbeat_seconds=5.0, heartbeat_in_thread=False) as h:
        await clock.advance(0.0)
        await clock.advance(4.0)
        assert [seen.silent_seconds for seen in await h.transport.list_workers()] == [4.0]
        await clock.advance(1.0)
        assert [seen.silent_seconds for seen in await h.transport.list_workers()] == [0.0]
        assert threading.active_count() <= before
        await h.publish(make_task())
        await wait_until(lambda: h.worker.running, "it runs")
        await h.transport.stop([make_task().task_id])
        await clock.advance(5.0)
        assert (await h.result()).code == "cancelled"


def test_a_beat_comes_early_where_there_is_something_to_tell():
    beats: list[None] = []
    news = [False]
    told = threading.Event()

    def beat() -> None:
        beats.append(None)
        if len(beats) == 2:
            told.set()
        news[0] = False

    heartbeat = Heartbeat(beat, 60.0, "w", has_news=lambda: news[0], look_seconds=0.01)
    heartbeat.start()
    try:
        news[0] = True
        assert told.wait(10)
    finally:
        heartbeat.stop()
