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
