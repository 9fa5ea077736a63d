"""report, receive and acknowledge: no result is lost before what it led to is durable."""

import asyncio

from perdure.transport import Delivery
from tests.conformance.transport.messages import claim, is_waiting, receive, result, settle, soon, task


async def test_a_result_arrives_as_it_was_sent(transport):
    sent = result("a", "failed", code="http:503", details={"x": 1}, retry_after=2.5, started_at=12.5, not_done=True)
    await transport.report([sent])
    [delivery] = await soon(transport.receive(10))
    assert delivery.result == sent


async def test_results_come_in_the_order_they_were_reported(transport):
    await transport.report([result("a"), result("b")])
    await transport.report([result("c")])
    assert await receive(transport, 2) == ["a", "b"]
    assert await receive(transport, 2) == ["c"]


async def test_receive_waits_for_a_result(transport):
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(receive(transport))
        assert await is_waiting(waiting)
        await transport.report([result("a")])
        assert await soon(waiting) == ["a"]


async def test_a_receive_given_up_takes_no_result_with_it(transport):
    async with asyncio.TaskGroup() as group:
        given_up = group.create_task(transport.receive(1))
        other = group.create_task(receive(transport))
        await settle()
        await transport.report([result("a")])
        given_up.cancel()
        assert await soon(other) == ["a"]


async def test_two_receivers_share_what_is_there(transport):
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(receive(transport, 1)) for _ in range(2)]
        await settle()
        await transport.report([result("a"), result("b")])
        assert sorted([(await soon(one))[0] for one in waiting]) == ["a", "b"]


async def test_an_unacknowledged_result_can_be_received_again(adapter, transport):
    await transport.report([result(name) for name in "abc"])
    deliveries = await soon(transport.receive(2))
    await transport.acknowledge([deliveries[0].receipt])
    adapter.redeliver()
    assert await receive(transport) == ["b", "c"]


async def test_an_acknowledged_result_never_comes_again(adapter, transport):
    await transport.report([result("a")])
    [delivery] = await soon(transport.receive(1))
    await transport.acknowledge([delivery.receipt])
    await transport.acknowledge([delivery.receipt, "never given"])
    adapter.redeliver()
    await transport.report([result("b")])
    assert await receive(transport) == ["b"]


async def test_a_result_of_a_task_nobody_sent_is_delivered_all_the_same(transport):
    await transport.report([result("ghost")])
    assert await receive(transport) == ["ghost"]


async def test_reporting_nothing_is_nothing(transport):
    await transport.report([])
    await transport.report([result("a")])
    assert await receive(transport) == ["a"]


async def test_a_task_whose_result_waits_is_not_sent_to_a_worker_again(transport):
    await transport.publish([task("a")])
    await claim(transport)
    await transport.report([result("a")])
    await transport.publish([task("a"), task("b")])
    assert await claim(transport) == ["b"]


async def test_a_result_reported_at_once_is_like_any_other(adapter, transport):
    await transport.publish([task("a")])
    await claim(transport)
    sent = result("a")
    if not transport.report_now(sent):
        await transport.report([sent])
    await transport.publish([task("a")])
    [delivery] = await soon(transport.receive(10))
    assert delivery.result == sent
    adapter.redeliver()
    assert await receive(transport) == ["a"]


async def test_a_result_is_heard_or_received_and_not_both(transport):
    heard: list[str] = []
    await transport.report([result("first")])
    transport.on_result(lambda delivery: heard.append(delivery.result.node))
    await transport.report([result("second")])  # behind the first, which nobody hears any more
    assert await receive(transport, 2) == ["first", "second"]
    await transport.report([result("third")])
    rest = [] if heard else await receive(transport)
    assert heard + rest == ["third"]


async def test_a_heard_result_that_is_not_acknowledged_comes_again(adapter, transport):
    heard: list[Delivery] = []
    transport.on_result(heard.append)
    await transport.report([result("a"), result("b")])
    deliveries = heard or await soon(transport.receive(10))
    transport.on_result(None)
    await transport.acknowledge([deliveries[0].receipt])
    adapter.redeliver()
    await transport.report([result("c")])
    assert await receive(transport, 1) + await receive(transport, 1) == ["b", "c"]  # together or one after the other
