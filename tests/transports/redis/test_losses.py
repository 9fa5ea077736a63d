"""When Redis has lost everything: running work goes on, what was queued is sent again, what was lost on the way is found."""

import asyncio

import pytest

from perdure.clock import SystemClock
from perdure.transport import TransportUnavailable
from tests.conformance.transport.messages import beat, claim, receive, result, soon, task
from tests.transports.redis.helpers import insist, wait_until


class Ahead(SystemClock):
    """The real clock, and as far ahead of it as a test says; a reading may take time itself."""

    ahead = 0.0
    step = 0.0

    def monotonic(self) -> float:
        self.ahead += self.step
        return super().monotonic() + self.ahead


A, B, C = (task(name).task_id for name in "abc")


async def test_a_worker_goes_on_with_what_it_runs_after_everything_was_lost(opened_alone):
    transport = await opened_alone()
    await transport.publish([task("a")])
    await claim(transport)
    opened_alone.server.client().flushall()
    assert transport.beat(beat("w1", A)) == ()
    assert await transport.find_missing([A]) == set()
    assert await transport.recall([A]) == {A: "claimed"}
    await transport.publish([task("a"), task("b")])
    assert await claim(transport, worker="w2") == ["b"]
    await transport.stop([A])
    assert transport.beat(beat("w1", A)) == (A,)
    await transport.report([result("a")])
    [delivery] = await soon(transport.receive(1))
    await transport.acknowledge([delivery.receipt])
    assert await transport.find_missing([A, B]) == {A}
    await transport.close()
    assert opened_alone.server.unexplained_keys(opened_alone.prefix) == []


async def test_a_task_sent_again_before_its_worker_could_say_that_it_runs_is_not_run_twice(opened_alone):
    transport = await opened_alone()
    await transport.publish([task("a")])
    await claim(transport)
    opened_alone.server.client().flushall()
    await transport.publish([task("a"), task("b")])
    assert transport.beat(beat("w1", A)) == ()
    assert await claim(transport, worker="w2") == ["b"]


async def test_the_first_worker_stops_when_another_has_it_already(opened_alone):
    transport = await opened_alone()
    await transport.publish([task("a")])
    await claim(transport)
    opened_alone.server.client().flushall()
    await transport.publish([task("a")])
    assert await claim(transport, worker="w2") == ["a"]
    assert transport.beat(beat("w2", A)) == ()
    assert transport.beat(beat("w1", A)) == (A,)


async def test_the_tasks_a_dead_worker_had_adopted_are_its_own(opened_alone):
    transport = await opened_alone()
    await transport.publish([task("a")])
    await claim(transport)
    opened_alone.server.client().flushall()
    transport.beat(beat("w1", A))
    await transport.publish([task("b")])  # queues are known by what is published
    assert await transport.forget_worker("w1") == [A]
    assert transport.beat(beat("w1", A)) == (A,)


async def test_after_a_loss_nothing_is_missing_before_every_worker_could_say_what_it_runs(opened_alone):
    transport = await opened_alone(adopt_seconds=30)
    await transport.publish([task("a"), task("b")])
    await claim(transport, 1)
    opened_alone.server.client().flushall()
    assert await transport.find_missing([A, B, C]) == {C}  # the third was never sent: there is nobody to wait for
    transport.beat(beat("w1", A))
    # One task was found again, so the others are not on their way: what is missing is missing.
    assert await transport.find_missing([A, B]) == {B}


async def test_what_nobody_adopts_is_missing_when_the_time_is_over(opened_alone):
    clock = Ahead()
    transport = await opened_alone(adopt_seconds=600, clock=clock)
    await transport.publish([task("a"), task("b")])
    opened_alone.server.client().flushall()
    assert await transport.find_missing([A, B]) == set()
    clock.ahead += 600
    assert await transport.find_missing([A, B]) == {A, B}
    await transport.publish([task("a")])
    opened_alone.server.client().flushall()
    assert await transport.find_missing([A]) == set()  # a second loss is waited for as the first was


@pytest.mark.parametrize("readings", range(10))
async def test_those_of_one_loss_are_missing_at_the_same_moment(opened, readings):
    clock = Ahead()
    transport = await opened(adopt_seconds=600, clock=clock)
    await transport.publish([task("a"), task("b")])
    with opened.server.client() as client:
        client.delete(*client.scan_iter(match=f"{opened.prefix}:{{queue:*"))
    assert await transport.find_missing([A, B]) == set()
    clock.step = 10.0  # time passes while it is asked
    clock.ahead += 595 - clock.step * readings
    while not (missing := await transport.find_missing([A, B])):
        pass
    assert missing == {A, B}


async def test_after_a_restart_nothing_is_missing_at_once_either(opened_alone):
    clock = Ahead()
    transport = await opened_alone(adopt_seconds=600, clock=clock)
    await transport.publish([task("a")])
    opened_alone.server.kill()
    opened_alone.server.start()
    assert await insist(transport.find_missing, [A]) == set()
    clock.ahead += 600
    while not (missing := await insist(transport.find_missing, [A])):
        clock.ahead += 600
    assert missing == {A}


async def test_a_claim_whose_worker_does_not_run_it_is_found_to_be_lost(opened):
    transport = await opened(unlisted_seconds=0.05)
    await transport.publish([task("a"), task("b"), task("c")])
    await claim(transport)
    transport.beat(beat("w1", A))
    await transport.report([result("c")])
    missing: set[str] = set()
    while not missing:
        missing = await transport.find_missing([A, B, C])
    assert missing == {B}
    await transport.publish([task("b")])
    assert await claim(transport, worker="w2") == ["b"]
    assert await receive(transport) == ["c"]


async def test_what_belongs_to_a_worker_nobody_knows_is_found_to_be_lost(opened):
    transport = await opened(unlisted_seconds=0.05)
    await transport.publish([task("a")])
    await claim(transport)
    while await transport.find_missing([A]) != {A}:
        pass
    assert transport.beat(beat("w1", A)) == ()  # it lives after all, and has it again before anybody else
    assert await transport.find_missing([A]) == set()


async def test_a_task_reported_once_sent_again_and_given_in_a_lost_answer_is_found(opened_alone):
    transport = await opened_alone()
    with opened_alone.server.proxy() as proxy:
        worker = await opened_alone(f"redis://{proxy.host}:{proxy.port}", partitions=())
        await transport.publish([task("a")])
        await claim(worker)
        await worker.report([result("a")])
        opened_alone.server.client().flushall()
        await transport.publish([task("a")])
        proxy.cut_at(A.encode())
        with pytest.raises(TransportUnavailable):
            await soon(worker.claim("w1", ["default"], 1))
        async with asyncio.TaskGroup() as group:  # it is done, and said to be once more
            waiting = group.create_task(insist(worker.claim, "w1", ["default"], 1))
            assert [one.result.node for one in await soon(transport.receive(1))] == ["a"]
            waiting.cancel()
        await worker.close()


@pytest.mark.slow
async def test_a_wish_to_begin_survives_the_loss_of_everything(opened_alone):
    once = task("a", effect="at_most_once")
    transport = await opened_alone()
    await transport.publish([once])
    await claim(transport)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(once, "w1"))
        client = opened_alone.server.client()
        await wait_until(lambda: list(client.scan_iter(match="*:begins")), "the wish is there")
        client.flushall()
        request = await soon(transport.receive_begin())
        await transport.grant_begin(request.task.task_id, True)
        assert await soon(beginning) is True


@pytest.mark.slow
async def test_a_grant_that_was_lost_is_given_again_to_the_same_wish(opened_alone):
    once = task("a", effect="at_most_once")
    transport = await opened_alone()
    with opened_alone.server.proxy() as proxy:
        worker = await opened_alone(f"redis://{proxy.host}:{proxy.port}", partitions=())
        await transport.publish([once])
        await claim(worker)
        async with asyncio.TaskGroup() as group:
            beginning = group.create_task(worker.begin(once, "w1"))
            request = await soon(transport.receive_begin())
            proxy.go_silent()
            await transport.grant_begin(request.task.task_id, True)
            opened_alone.server.client().flushall()  # the worker could not look in between
            proxy.heal()
            receiving = group.create_task(transport.receive_begin())
            assert await soon(beginning) is True
            assert not receiving.done()  # nobody is asked to decide it a second time
            receiving.cancel()
        await worker.close()
