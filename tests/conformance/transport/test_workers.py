"""beat, stop, list_workers and forget_worker: who lives, who is told to stop, and what the dead had."""

import time

from tests.conformance.transport.messages import beat, claim, receive, result, soon, task

A, B = task("a").task_id, task("b").task_id


async def test_a_worker_that_beat_is_listed_with_what_it_said(transport):
    said = beat(
        "w1",
        "r1/a/1.1",
        slots=4,
        queues=("gpu",),
        types=("task",),
        functions=("f",),
        lag_seconds=0.5,
        started={"r1/a/1.1": 12.5},
        host="box",
        pid=7,
        lacking=("mod:x",),
    )
    transport.beat(said)
    [seen] = await transport.list_workers()
    assert seen.beat == said


async def test_the_last_beat_counts(transport):
    transport.beat(beat("w1"))
    transport.beat(beat("w1", slots=9))
    [seen] = await transport.list_workers()
    assert seen.beat.slots == 9


async def test_a_worker_is_silent_since_its_last_beat(transport):
    transport.beat(beat("w1"))
    before = time.monotonic()
    [first] = await transport.list_workers()
    while (later := (await transport.list_workers())[0]).silent_seconds < first.silent_seconds + 0.05:
        pass
    assert 0 <= first.silent_seconds < later.silent_seconds
    assert later.silent_seconds - first.silent_seconds < time.monotonic() - before + 0.01
    begun = time.monotonic()
    transport.beat(beat("w1"))
    [again] = await transport.list_workers()
    # Not less than before: on a busy machine a look takes longer than the silence was.
    assert again.silent_seconds < time.monotonic() - begun + 0.01


async def test_a_stop_reaches_the_worker_with_every_beat_until_the_task_ends(transport):
    await transport.publish([task("a"), task("b")])
    await claim(transport)
    assert transport.beat(beat("w1", A, B)) == ()
    await transport.stop([A])
    assert transport.beat(beat("w1", A, B)) == (A,)
    assert transport.beat(beat("w1", A, B)) == (A,)
    await transport.report([result("a", "failed", code="cancelled")])
    assert transport.beat(beat("w1", B)) == ()


async def test_a_stop_for_a_queued_task_reaches_whoever_claims_it(transport):
    await transport.publish([task("a")])
    await transport.stop([A])
    await claim(transport, worker="w2")
    assert transport.beat(beat("w2", A)) == (A,)


async def test_stopping_what_is_not_there_is_nothing(transport):
    await transport.stop(["r1/x/1.1"])
    await transport.stop([])


async def test_a_worker_that_runs_what_is_not_its_own_is_told_to_stop(transport):
    await transport.publish([task("a")])
    await claim(transport, worker="w1")
    assert transport.beat(beat("w2", A, "r1/x/1.1")) == (A, "r1/x/1.1")
    assert transport.beat(beat("w1", A)) == ()


async def test_a_stop_wakes_the_worker_that_has_the_task(transport):
    woken = []
    transport.on_stop("w1", lambda: woken.append("w1"))
    transport.on_stop("w2", lambda: woken.append("w2"))
    await transport.publish([task("a"), task("b")])
    await claim(transport, 1, worker="w1")
    await claim(transport, 1, worker="w2")
    await transport.stop([B])
    assert woken == ["w2"]
    transport.on_stop("w1", None)
    await transport.stop([A])
    assert woken == ["w2"]


async def test_the_tasks_of_a_dead_worker_are_named_and_no_longer_held(transport):
    await transport.publish([task("a"), task("b"), task("c")])
    await claim(transport, 1, worker="w2")
    await claim(transport, 1, worker="w1")
    transport.beat(beat("w1", B))
    assert await transport.forget_worker("w1") == [B]
    assert await transport.list_workers() == []
    assert await transport.find_missing([A, B]) == {B}
    assert await transport.forget_worker("w1") == []


async def test_what_a_dead_worker_had_finished_is_not_counted_as_lost(transport):
    await transport.publish([task("a"), task("b")])
    await claim(transport)
    await transport.report([result("a")])
    assert await transport.forget_worker("w1") == [B]
    assert await receive(transport) == ["a"]


async def test_a_worker_that_comes_back_from_the_dead_is_told_to_stop(transport):
    await transport.publish([task("a")])
    await claim(transport)
    await transport.forget_worker("w1")
    assert transport.beat(beat("w1", A)) == (A,)


async def test_a_late_result_of_a_worker_declared_dead_is_delivered(transport):
    await transport.publish([task("a")])
    await claim(transport)
    await transport.forget_worker("w1")
    await transport.report([result("a")])
    assert await receive(transport) == ["a"]


async def test_a_queue_is_listed_with_how_many_wait_and_how_many_workers_have(transport):
    assert await transport.list_queues() == []
    await transport.publish([task("a"), task("b", priority=2), task("c", function="f"), task("d", queue="gpu")])
    claimed = await soon(transport.claim("w1", ["default"], 1))
    counts = {one.queue: (one.waiting, one.claimed) for one in await transport.list_queues()}
    assert counts == {"default": (2, 1), "gpu": (1, 0)}
    await transport.report([result(claimed[0])])
    (delivery,) = await soon(transport.receive(10))
    await transport.acknowledge([delivery.receipt])
    counts = {one.queue: (one.waiting, one.claimed) for one in await transport.list_queues()}
    assert counts == {"default": (2, 0), "gpu": (1, 0)}
