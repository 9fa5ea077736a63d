"""A transport that fails: results are kept and delivered later, nothing more is claimed meanwhile, the worker lives on."""

import asyncio
import threading

from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.transport_faults import Fault, FaultKind, with_transport_faults
from tests.runtime.harness import make_task, soon, wait_until, working


async def echo(config, ctx):
    return ctx.node


def failing(operation: str, kind: FaultKind, numbers: set[int]):
    return lambda name, number: Fault(kind) if name == operation and number in numbers else None


async def test_results_are_kept_while_delivery_fails_and_nothing_is_claimed():
    clock, inner = FakeClock(), LocalTransport()
    transport = with_transport_faults(inner, failing("report", FaultKind.FAIL_BEFORE, {1, 2, 3}), clock)
    async with working(echo, clock=clock, transport=transport, concurrency=2) as h:
        await h.publish(*[make_task(f"n{number}") for number in range(5)])
        await wait_until(lambda: h.worker._reporter.failing, "delivery fails")
        await h.has_nothing()
        assert h.worker._reporter.count == 2
        assert await inner.recall([make_task("n4").task_id]) == {make_task("n4").task_id: "withdrawn"}
        await clock.advance(10.0)
        assert {(await h.result()).output for _ in range(4)} == {"n0", "n1", "n2", "n3"}
        assert not h.worker._reporter.failing


async def test_a_result_delivered_without_an_answer_is_delivered_again():
    clock = FakeClock()
    transport = with_transport_faults(LocalTransport(), failing("report", FaultKind.FAIL_AFTER, {1}), clock)
    async with working(echo, clock=clock, transport=transport) as h:
        await h.publish(make_task())
        assert (await h.result()).output == "n"
        await clock.advance(1.0)
        assert (await h.result()).output == "n"


async def test_a_claim_that_fails_is_tried_again():
    clock = FakeClock()
    transport = with_transport_faults(LocalTransport(), failing("claim", FaultKind.FAIL_BEFORE, {1, 2}), clock)
    async with working(echo, clock=clock, transport=transport) as h:
        await h.publish(make_task())
        await wait_until(lambda: clock.sleeping, "it pauses")
        await clock.advance(1.0)
        assert (await h.result()).output == "n"


async def test_a_task_delivered_twice_while_it_runs_is_executed_once():
    ran, go = [], asyncio.Event()

    async def handler(config, ctx):
        ran.append(ctx.node)
        await go.wait()

    transport = with_transport_faults(LocalTransport(), failing("publish", FaultKind.DUPLICATE, {1}))
    async with working(handler, transport=transport) as h:
        await h.publish(make_task())
        await h.publish(make_task("m"))
        await wait_until(lambda: "m" in ran, "the other one runs")
        assert sorted(ran) == ["m", "n"]
        assert h.worker.free_slots == 2
        go.set()
        assert {(await h.result()).node for _ in range(2)} == {"n", "m"}
        await h.has_nothing()


async def test_heartbeats_go_on_after_one_failed():
    beats = threading.Semaphore(0)
    transport = LocalTransport()
    beat = transport.beat

    def fail_first(said):
        beats.release()
        if not transport._workers:
            transport._workers["w1"] = None  # type: ignore[assignment]
            raise OSError("unreachable")
        return beat(said)

    transport.beat = fail_first  # type: ignore[method-assign]
    async with working(echo, transport=transport, heartbeat_seconds=0.01) as h:
        await soon(asyncio.to_thread(beats.acquire))
        await soon(asyncio.to_thread(beats.acquire))
        await soon(asyncio.to_thread(beats.acquire))
        assert (await h.do(make_task())).output == "n"


async def test_a_permission_that_cannot_be_asked_for_hands_the_task_back():
    clock = FakeClock()
    transport = with_transport_faults(LocalTransport(), failing("begin", FaultKind.FAIL_BEFORE, {1}), clock)
    async with working(echo, clock=clock, transport=transport) as h:
        result = await h.do(make_task(effect="at_most_once"))
    assert (result.kind, result.not_done) == ("handed_back", True)


async def test_draining_ends_although_results_cannot_be_delivered():
    clock = FakeClock()
    transport = with_transport_faults(
        LocalTransport(), failing("report", FaultKind.FAIL_BEFORE, set(range(1, 1000))), clock
    )
    async with working(echo, clock=clock, transport=transport) as h:
        await h.publish(make_task())
        await wait_until(lambda: h.worker._reporter.failing, "delivery fails")
        draining = asyncio.ensure_future(h.worker.drain(1.0))
        await clock.advance(20.0)
        await soon(draining)
