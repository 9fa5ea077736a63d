"""What is special to the in-process transport: its bounds."""

import asyncio

import pytest

from perdure.transport import TransportFull
from perdure.transports.local import LocalTransport
from tests.conformance.transport.messages import claim, is_waiting, receive, result, soon, task


async def test_more_tasks_than_it_may_hold_are_refused_and_none_of_them_taken():
    transport = LocalTransport(capacity=3)
    await transport.publish([task("a"), task("b")])
    with pytest.raises(TransportFull, match="holds 2 tasks and may hold 3; 2 more were not taken"):
        await transport.publish([task("c"), task("d")])
    await transport.publish([task("c")])
    assert await claim(transport) == ["a", "b", "c"]


async def test_reporting_waits_while_nobody_receives():
    transport = LocalTransport(max_results=2)
    await transport.report([result("a"), result("b")])
    async with asyncio.TaskGroup() as group:
        reporting = group.create_task(transport.report([result("c")]))
        assert await is_waiting(reporting)
        assert await receive(transport, 1) == ["a"]
        await soon(reporting)
    assert await receive(transport) == ["b", "c"]


async def test_withdrawn_tasks_do_not_pile_up():
    transport = LocalTransport()
    for _ in range(1000):
        await transport.publish([task("a")])
        await transport.recall([task("a").task_id])
    queue = transport._queues["default"]
    assert sum(map(len, queue._lanes.values())) <= 65
    assert transport._kept == {}
