"""take_over and hand_back: each process receives for its own partitions, and what one leaves another takes."""

import asyncio

from perdure.journal import partition_of
from tests.conformance.shared_transport.adapters import PARTITIONS
from tests.conformance.transport.messages import beat, claim, is_waiting, receive, result, soon, task


def run_in(partition: int) -> str:
    """A run of that partition."""
    return next(f"run{n}" for n in range(100_000) if partition_of(f"run{n}", PARTITIONS) == partition)


LOW, HIGH = run_in(1), run_in(6)


async def test_a_result_goes_to_the_process_that_holds_its_run(opened):
    low, high, worker = (
        await opened(partitions=range(4)),
        await opened(partitions=range(4, 8)),
        await opened(partitions=()),
    )
    async with asyncio.TaskGroup() as group:
        receiving = [group.create_task(one.receive(10)) for one in (low, high)]
        await worker.report([result(task("a", run_id=LOW)), result(task("b", run_id=HIGH))])
        assert [[one.result.node for one in await soon(some)] for some in receiving] == [["a"], ["b"]]


async def test_what_was_received_and_not_acknowledged_is_taken_over_at_once(opened):
    first, second = await opened(), await opened(partitions=())
    await first.report([result("a"), result("b"), result("c")])
    deliveries = await soon(first.receive(3))
    await first.acknowledge([deliveries[0].receipt])
    second.take_over(range(PARTITIONS))
    assert await receive(second) == ["b", "c"]


async def test_a_process_that_handed_back_neither_receives_nor_acknowledges(opened):
    first, second = await opened(), await opened(partitions=())
    await first.report([result("a")])
    [delivery] = await soon(first.receive(1))
    first.hand_back(range(PARTITIONS))
    second.take_over(range(PARTITIONS))
    await first.acknowledge([delivery.receipt])
    assert await receive(second) == ["a"]
    waiting = asyncio.ensure_future(first.receive(1))
    await second.report([result("b")])
    assert await receive(second) == ["b"]
    assert await is_waiting(waiting)
    waiting.cancel()


async def test_each_process_forgets_a_dead_worker_for_its_own_runs(opened):
    low, high = await opened(partitions=range(4)), await opened(partitions=range(4, 8))
    a, b = task("a", run_id=LOW), task("b", run_id=HIGH)
    await low.publish([a])
    await high.publish([b])
    await claim(low)
    low.beat(beat("w1", a.task_id, b.task_id))
    assert await low.forget_worker("w1") == [a.task_id]
    assert [seen.beat.worker for seen in await high.list_workers()] == ["w1"]
    assert await high.find_missing([b.task_id]) == set()
    assert await high.forget_worker("w1") == [b.task_id]
    assert await high.list_workers() == []


async def test_wishes_are_answered_by_whoever_holds_the_run_also_after_a_hand_over(opened):
    once = task("a", effect="at_most_once")
    first, second, worker = await opened(), await opened(partitions=()), await opened(partitions=())
    await first.publish([once])
    await claim(worker)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(worker.begin(once, "w1"))
        await soon(first.receive_begin())
        first.hand_back(range(PARTITIONS))
        second.take_over(range(PARTITIONS))
        request = await soon(second.receive_begin())
        assert (request.task, request.worker) == (once, "w1")
        await second.grant_begin(once.task_id, True)
        assert await soon(beginning) is True
