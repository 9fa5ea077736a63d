"""begin: an effect that may happen at most once starts after the coordinator said so, and not otherwise."""

import asyncio

from tests.conformance.transport.messages import claim, is_waiting, settle, soon, task

ONCE = task("a", effect="at_most_once")


async def claimed(transport):
    await transport.publish([ONCE])
    await claim(transport)


async def test_a_begin_waits_for_its_answer(transport):
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(ONCE, "w1"))
        request = await soon(transport.receive_begin())
        assert (request.task, request.worker) == (ONCE, "w1")
        assert await is_waiting(beginning)
        await transport.grant_begin(ONCE.task_id, True)
        assert await soon(beginning) is True


async def test_a_begin_may_be_refused(transport):
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(ONCE, "w1"))
        await soon(transport.receive_begin())
        await transport.grant_begin(ONCE.task_id, False)
        assert await soon(beginning) is False


async def test_only_the_worker_that_claimed_it_may_begin(transport):
    await claimed(transport)
    assert await soon(transport.begin(ONCE, "w2")) is False
    assert await soon(transport.begin(task("never sent"), "w1")) is False


async def test_a_begin_of_a_worker_declared_dead_is_refused(transport):
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(ONCE, "w1"))
        await soon(transport.receive_begin())
        await transport.forget_worker("w1")
        assert await soon(beginning) is False


async def test_receive_begin_waits_for_a_request(transport):
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(transport.receive_begin())
        assert await is_waiting(waiting)
        beginning = group.create_task(transport.begin(ONCE, "w1"))
        assert (await soon(waiting)).task == ONCE
        await transport.grant_begin(ONCE.task_id, True)
        assert await soon(beginning)


async def test_an_answer_nobody_waits_for_is_nothing(transport):
    await transport.grant_begin("r1/x/1.1", True)


async def test_a_begin_given_up_can_be_asked_again(transport):
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        beginning = group.create_task(transport.begin(ONCE, "w1"))
        await settle()
        beginning.cancel()
        await settle()
        again = group.create_task(transport.begin(ONCE, "w1"))
        await settle()
        await soon(transport.receive_begin())
        await transport.grant_begin(ONCE.task_id, True)
        assert await soon(again) is True


async def test_a_wish_has_a_name_and_is_answered_by_it(transport):
    """An answer to a wish that was given up begins nothing for the next one, which is answered by itself."""
    await claimed(transport)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(transport.begin(ONCE, "w1", "one"))
        assert (await soon(transport.receive_begin())).ask == "one"
        first.cancel()
        await settle()
        second = group.create_task(transport.begin(ONCE, "w1", "two"))
        assert (await soon(transport.receive_begin())).ask == "two"
        await transport.grant_begin(ONCE.task_id, True, "one")
        assert await is_waiting(second)
        await transport.grant_begin(ONCE.task_id, False, "two")
        assert await soon(second) is False
