"""Several processes: each receives for its own partitions, and what one leaves another takes."""

import asyncio

import pytest

from perdure.journal import partition_of
from perdure.transport import Delivery, Task
from tests.conformance.transport.messages import beat, claim, is_waiting, receive, result, soon, task
from tests.transports.redis.helpers import wait_until

COUNT = 8


def run_in(partition: int, number: int = 0) -> str:
    """A run of that partition."""
    found = (f"run{n}" for n in range(100_000) if partition_of(f"run{n}", COUNT) == partition)
    return [next(found) for _ in range(number + 1)][-1]


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
    second.take_over(range(COUNT))
    assert await receive(second) == ["b", "c"]


async def test_a_process_that_handed_back_neither_receives_nor_acknowledges(opened):
    first, second = await opened(), await opened(partitions=())
    await first.report([result("a")])
    [delivery] = await soon(first.receive(1))
    first.hand_back(range(COUNT))
    second.take_over(range(COUNT))
    await first.acknowledge([delivery.receipt])
    assert await receive(second) == ["a"]
    waiting = asyncio.ensure_future(first.receive(1))
    await second.report([result("b")])
    assert await receive(second) == ["b"]
    assert await is_waiting(waiting)
    waiting.cancel()


async def test_what_a_lost_process_had_received_is_taken_after_a_while(opened):
    first, second = await opened(stale_seconds=0.2), await opened(stale_seconds=0.2)
    await first.report([result("a")])
    assert await receive(first) == ["a"]
    assert await soon(second.receive(1))
    # The second works on it: it does not come again to the same process, however long that takes.
    waiting = asyncio.ensure_future(second.receive(1))
    assert await is_waiting(waiting)
    waiting.cancel()


async def test_what_a_lost_process_had_received_is_taken_also_while_other_results_keep_coming(opened, monkeypatch):
    """Both believe that they hold partition 1; the first one received its result, and will not say so."""
    monkeypatch.setattr("perdure.transports.redis.results.POLL_SECONDS", 0.5)
    first, second = await opened(partitions=[1]), await opened(stale_seconds=0.2)
    received: list[str] = []
    nodes = (f"other{number}" for number in range(1_000_000))

    async def receive_another() -> None:
        await first.report([result(task(next(nodes), run_id=HIGH))])
        deliveries = await second.receive(100)
        received.extend(one.result.node for one in deliveries)
        await second.acknowledge([one.receipt for one in deliveries])

    await wait_until(lambda: f"{opened.prefix}:wake:results" in second._wakes.heard, "it is woken by results")
    while second._results._held[1].mode != "new":
        await receive_another()
    await first.report([result(task("lost", run_id=LOW))])
    assert await receive(first) == ["lost"]
    async with asyncio.timeout(20):
        while "lost" not in received:
            await receive_another()


async def test_consumers_that_are_gone_are_removed(opened):
    names: list[str] = []
    for _ in range(3):
        one = await opened()
        await one.report([result(f"a{len(names)}")])
        await soon(one.receive(10))
        names.append(one.process)
    client = opened.server.client()
    [stream] = client.scan_iter(match=f"{opened.prefix}:*:results")
    await wait_until(lambda: len(client.xinfo_consumers(stream, "coordinators")) == 1, "only the last one is there")
    assert client.xinfo_consumers(stream, "coordinators")[0]["name"].decode() == names[-1]


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


async def test_a_dead_worker_is_no_consumer_of_a_busy_lane_any_more(opened):
    transport = await opened()
    await transport.publish([task("a"), task("b"), task("c")])
    for worker in ("w1", "w2"):
        await claim(transport, 1, worker=worker)
    await transport.report([result("a")])
    assert await transport.forget_worker("w1") == []  # its result is on its way
    assert await transport.forget_worker("w2") == [task("b").task_id]
    client = opened.server.client()
    [lane] = client.scan_iter(match=f"{opened.prefix}:*:tasks:*")
    assert {one["name"] for one in client.xinfo_consumers(lane, "workers")} == {b"gone"}
    [delivery] = await soon(transport.receive(1))
    assert await transport.find_missing([task(name).task_id for name in "abc"]) == {task("b").task_id}
    await transport.acknowledge([delivery.receipt])
    assert await claim(transport) == ["c"]


async def test_a_worker_that_leaves_in_peace_is_not_found_dead(opened):
    transport, worker = await opened(), await opened(partitions=())
    await transport.publish([task("a"), task("b")])
    worker.beat(beat("w1"))
    await claim(worker, 1)
    await worker.report([result("a")])
    await worker.close()
    assert await transport.list_workers() == []
    assert await receive(transport) == ["a"]  # what it had reported is not lost


async def test_a_worker_that_leaves_with_work_undone_is_found_dead(opened):
    transport, worker = await opened(), await opened(partitions=())
    await transport.publish([task("a")])
    worker.beat(beat("w1"))
    await claim(worker)
    await worker.close()
    assert [seen.beat.worker for seen in await transport.list_workers()] == ["w1"]
    assert await transport.forget_worker("w1") == [task("a").task_id]


async def test_a_task_is_found_by_a_process_that_did_not_send_it(opened):
    first, second = await opened(), await opened()
    await first.publish([task("a", queue="gpu"), task("b")])
    a, b = task("a").task_id, task("b").task_id
    assert await second.find_missing([a, b, "r1/x/1.1"]) == {"r1/x/1.1"}
    assert await second.recall([a]) == {a: "withdrawn"}
    await claim(first)
    assert await second.recall([b]) == {b: "claimed"}
    await second.stop([b])
    assert first.beat(beat("w1", b)) == (b,)


async def test_a_stop_wakes_a_worker_in_another_process(opened):
    transport, worker = await opened(), await opened(partitions=())
    woken = []
    worker.on_stop("w1", lambda: woken.append("w1"))
    await transport.publish([task("a")])
    await claim(worker)
    await wait_until(lambda: f"{opened.prefix}:wake:worker:w1" in worker._wakes.heard, "it listens")
    await transport.stop([task("a").task_id])
    await wait_until(lambda: woken, "it is woken")


async def test_wishes_are_answered_by_whoever_holds_the_run_also_after_a_hand_over(opened):
    once = task("a", effect="at_most_once")
    first, second, worker = await opened(), await opened(partitions=()), await opened(partitions=())
    await first.publish([once])
    await claim(worker)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(worker.begin(once, "w1"))
        await soon(first.receive_begin())
        first.hand_back(range(COUNT))
        second.take_over(range(COUNT))
        request = await soon(second.receive_begin())
        assert (request.task, request.worker) == (once, "w1")
        await second.grant_begin(once.task_id, True)
        assert await soon(beginning) is True


async def test_a_topic_wakes_whoever_listens_in_any_process(opened):
    one, other = await opened(partitions=()), await opened(partitions=())
    heard: list[str] = []
    end = other.on_wake("run:r1", heard.append)
    await wait_until(lambda: heard == [""], "it is told that something may have been missed")
    await one.wake("run:r1", "7")
    await wait_until(lambda: heard == ["", "7"], "it hears")
    end()
    await one.wake("run:r1", "8")
    other.on_wake("run:r2", heard.append)
    await one.wake("run:r2", "9")
    await wait_until(lambda: "9" in heard, "it hears the other topic")
    assert "8" not in heard


@pytest.mark.parametrize("partitions", [range(256)])
async def test_all_partitions_of_a_database_can_be_held_at_once(opened, partitions):
    transport = await opened(partitions=partitions, partition_count=256)
    tasks = [task("a", run_id=f"r{number}") for number in range(600)]
    await transport.publish(tasks)
    claimed: list[Task] = []
    while len(claimed) < 600:
        claimed += await soon(transport.claim("w1", ["default"], 100))
    await transport.report([result(one) for one in claimed])
    received: list[Delivery] = []
    while len(received) < 600:
        received += await soon(transport.receive(100))
    await transport.acknowledge([one.receipt for one in received])
    assert {one.result.run_id for one in received} == {one.run_id for one in tasks}
