"""In one process a checkpoint counts as reported when it is acknowledged: a step begins after the one before is durable."""

import asyncio

import pytest

from perdure.transport import CheckpointsRefused, TransportClosed
from perdure.transports.local import LocalTransport
from tests.conformance.transport.messages import result


async def test_reporting_a_checkpoint_waits_until_it_is_acknowledged():
    transport = LocalTransport(durable_checkpoints=True)
    async with asyncio.TaskGroup() as group:
        reporting = group.create_task(transport.report([result("a", "checkpointed"), result("b")]))
        received = await transport.receive(10)
        assert [delivery.result.node for delivery in received] == ["a", "b"]
        await transport.acknowledge([received[1].receipt])
        await asyncio.sleep(0)
        assert not reporting.done()
        await transport.acknowledge([received[0].receipt])
    assert reporting.done()


async def test_whoever_reports_hears_which_checkpoints_are_refused():
    transport = LocalTransport(durable_checkpoints=True)
    said = [result("a", "checkpointed"), result("b", "checkpointed"), result("d")]
    reporting = asyncio.ensure_future(transport.report(said))
    received = await transport.receive(10)
    await transport.acknowledge([one.receipt for one in received], [received[0].receipt])
    with pytest.raises(CheckpointsRefused) as caught:
        await reporting
    assert caught.value.names == {said[0].task_id}


async def test_results_are_not_waited_for():
    transport = LocalTransport(durable_checkpoints=True)
    await asyncio.wait_for(transport.report([result("a")]), 5)


async def test_whoever_waits_hears_that_the_transport_was_closed():
    transport = LocalTransport(durable_checkpoints=True)
    with pytest.raises(TransportClosed):
        async with asyncio.timeout(5):
            await asyncio.gather(transport.report([result("a", "checkpointed")]), _close_soon(transport))


async def _close_soon(transport):
    await transport.receive(1)
    await transport.close()
