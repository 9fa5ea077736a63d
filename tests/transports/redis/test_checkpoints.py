"""Checkpoints: on request, one counts as reported only when it is acknowledged."""

import asyncio

import pytest

from perdure.transport import CheckpointsRefused, Delivery, TransportClosed
from perdure.transports.envelopes import Keyring
from tests.conformance.transport.messages import claim, is_waiting, result, soon, task
from tests.transports.redis.helpers import wait_until


@pytest.mark.parametrize("keyring", [None, Keyring({"k": b"k" * 32})], ids=["unsigned", "signed"])
async def test_a_report_of_a_checkpoint_waits_until_it_is_acknowledged(keyring, opened):
    transport = await opened(keyring=keyring)
    worker = await opened(keyring=keyring, partitions=(), durable_checkpoints=True)
    await transport.publish([task("a")])
    await claim(worker)
    async with asyncio.TaskGroup() as group:
        reporting = group.create_task(worker.report([result("a", "checkpointed", output={"page": 1})]))
        [delivery] = await soon(transport.receive(1))
        assert delivery.result.output == {"page": 1}
        assert await is_waiting(reporting)
        await transport.acknowledge([delivery.receipt])
        await soon(reporting)
    await soon(worker.report([result("a")]))
    assert [one.result.kind for one in await soon(transport.receive(1))] == ["completed"]


@pytest.mark.parametrize("keyring", [None, Keyring({"k": b"k" * 32})], ids=["unsigned", "signed"])
async def test_a_worker_hears_that_its_checkpoint_is_refused(keyring, opened):
    transport = await opened(keyring=keyring)
    worker = await opened(keyring=keyring, partitions=(), durable_checkpoints=True)
    said = [result("a", "checkpointed"), result("b", "checkpointed")]
    reporting = asyncio.ensure_future(worker.report(said))
    deliveries: list[Delivery] = []
    while len(deliveries) < 2:
        deliveries += await soon(transport.receive(2))
    refused = [one.receipt for one in deliveries if one.result.node == "a"]
    await transport.acknowledge([one.receipt for one in deliveries], refused)
    with pytest.raises(CheckpointsRefused) as caught:
        await soon(reporting)
    assert caught.value.names == {said[0].task_id}


@pytest.mark.slow
async def test_a_checkpoint_that_was_lost_is_sent_again(opened_alone):
    transport = await opened_alone()
    worker = await opened_alone(partitions=(), durable_checkpoints=True)
    async with asyncio.TaskGroup() as group:
        reporting = group.create_task(worker.report([result("a", "checkpointed", output={"page": 1})]))
        client = opened_alone.server.client()
        await wait_until(lambda: list(client.scan_iter(_type="stream")), "it is there")
        client.flushall()
        [delivery] = await soon(transport.receive(1))
        assert not reporting.done()
        await transport.acknowledge([delivery.receipt])
        await soon(reporting)


@pytest.mark.slow
async def test_a_checkpoint_that_waits_for_a_coordinator_is_there_once_however_long_it_takes(opened):
    worker = await opened(partitions=(), durable_checkpoints=True)
    reporting = asyncio.ensure_future(worker.report([result("a", "checkpointed")]))
    client = opened.server.client()
    sent = worker._results._checkpoints
    looked = 0

    async def count(checkpoints):
        nonlocal looked
        await type(sent)._send_lost(sent, checkpoints)
        looked += 1

    sent._send_lost = count
    await wait_until(lambda: looked >= 2, "it looked twice")
    [stream] = client.scan_iter(match=f"{opened.prefix}:*:results")
    assert client.xlen(stream) == 1
    await worker.close()
    with pytest.raises(TransportClosed):
        await soon(reporting)
