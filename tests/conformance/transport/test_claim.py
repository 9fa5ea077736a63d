"""publish and claim: each task to one worker, the most urgent first."""

import asyncio

import msgspec

from tests.conformance.transport.messages import claim, is_waiting, settle, soon, task


async def test_a_task_arrives_as_it_was_sent(transport):
    sent = task("a", scope=(2, 1), item=3, config={"x": [1, None]}, inputs={"b": 1}, checkpoint={"at": 5}, priority=-1)
    await transport.publish([sent])
    [got] = await soon(transport.claim("w1", ["default"], 1))
    assert msgspec.structs.replace(got, expires_at=None) == sent


async def test_tasks_of_one_priority_come_in_the_order_they_were_sent(transport):
    await transport.publish([task(name) for name in "abc"])
    await transport.publish([task("d")])
    assert await claim(transport, 3) == ["a", "b", "c"]
    assert await claim(transport, 3) == ["d"]


async def test_the_higher_priority_comes_first(transport):
    await transport.publish([task("low", priority=-5), task("a"), task("high", priority=7), task("b")])
    assert await claim(transport) == ["high", "a", "b", "low"]


async def test_a_worker_gets_only_from_its_queues(transport):
    await transport.publish([task("a", queue="gpu"), task("b")])
    assert await claim(transport) == ["b"]
    assert await claim(transport, queues=("gpu", "other")) == ["a"]


async def test_over_several_queues_priority_decides_and_then_age(transport):
    await transport.publish([task("a", queue="x"), task("b", queue="y"), task("c", queue="x", priority=1)])
    await transport.publish([task("d", queue="y", priority=1), task("e", queue="x")])
    assert await claim(transport, queues=("y", "x")) == ["c", "d", "a", "b", "e"]


async def test_no_more_than_the_limit_is_claimed(transport):
    await transport.publish([task(name) for name in "abcde"])
    assert await claim(transport, 2) == ["a", "b"]
    assert await claim(transport, 2) == ["c", "d"]


async def test_each_task_goes_to_one_worker(transport):
    await transport.publish([task(f"n{number}") for number in range(100)])
    claimed = [await claim(transport, 7, worker=f"w{number % 3}") for number in range(15)]
    names = [name for batch in claimed for name in batch]
    assert len(names) == len(set(names)) == 100


async def test_a_worker_gets_only_what_it_can_do(transport):
    await transport.publish(
        [
            task("a", type="http"),
            task("b", function="f"),
            task("c"),
            task("d", function="g", priority=1),
            task("e", type="llm"),
        ]
    )
    assert [one.node for one in await soon(transport.claim("w1", ["default"], 9, ["task"], ["f", "h"]))] == ["b", "c"]
    assert [one.node for one in await soon(transport.claim("w1", ["default"], 9, ["http", "task"], ["g"]))] == [
        "d",
        "a",
    ]
    assert await claim(transport) == ["e"]


async def test_what_does_not_fit_keeps_its_place(transport):
    types = ["x", "y", "x", "y", "y", "x"]
    await transport.publish([task(f"n{number}", type=type) for number, type in enumerate(types)])
    assert [one.node for one in await soon(transport.claim("w1", ["default"], 2, ["y"], []))] == ["n1", "n3"]
    assert await claim(transport, 3) == ["n0", "n2", "n4"]
    assert await claim(transport, 3) == ["n5"]


async def test_over_several_queues_only_what_fits_is_counted(transport):
    await transport.publish([task("a", queue="x", type="http"), task("b", queue="y"), task("c", queue="x")])
    await transport.publish([task("d", queue="y", type="http"), task("e", queue="y")])
    assert [one.node for one in await soon(transport.claim("w1", ["x", "y"], 2, ["task"], []))] == ["b", "c"]
    assert [one.node for one in await soon(transport.claim("w1", ["x", "y"], 9, ["task"], []))] == ["e"]
    assert await claim(transport, queues=("x", "y")) == ["a", "d"]


async def test_whoever_can_do_it_is_woken(transport):
    async with asyncio.TaskGroup() as group:
        others = [group.create_task(transport.claim(f"w{number}", ["default"], 1, ["http"], [])) for number in range(3)]
        waiting = group.create_task(transport.claim("w9", ["default"], 1, ["task"], ["f"]))
        await settle()
        await transport.publish([task("a", function="f")])
        assert [one.node for one in await soon(waiting)] == ["a"]
        await transport.publish([task(f"n{number}", type="http") for number in range(3)])
        assert sorted([(await soon(other))[0].node for other in others]) == ["n0", "n1", "n2"]


async def test_a_claim_waits_for_a_task(transport):
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(claim(transport))
        assert await is_waiting(waiting)
        await transport.publish([task("a", queue="other")])
        assert await is_waiting(waiting)
        await transport.publish([task("b")])
        assert await soon(waiting) == ["b"]


async def test_everybody_who_waits_gets_one_when_there_are_enough(transport):
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(claim(transport, 1, worker=f"w{number}")) for number in range(5)]
        await settle()
        await transport.publish([task(f"n{number}") for number in range(5)])
        assert sorted([(await soon(one))[0] for one in waiting]) == [f"n{number}" for number in range(5)]


async def test_a_claim_given_up_takes_no_task_with_it(transport):
    async with asyncio.TaskGroup() as group:
        given_up = group.create_task(transport.claim("w1", ["default"], 1))
        other = group.create_task(claim(transport, worker="w2"))
        await settle()
        await transport.publish([task("a")])
        given_up.cancel()
        assert await soon(other) == ["a"]


async def test_a_task_that_is_there_already_is_not_sent_twice(transport):
    await transport.publish([task("a"), task("a")])
    await transport.publish([task("a"), task("b")])
    assert await claim(transport) == ["a", "b"]
    await transport.publish([task("a"), task("c")])
    assert await claim(transport) == ["c"]


async def test_another_attempt_is_another_task(transport):
    await transport.publish([task("a"), task("a", attempt=2), task("a", generation=2), task("a", undo=True)])
    assert await claim(transport) == ["a", "a", "a", "a"]


async def test_what_is_imported_goes_to_whoever_has_not_said_that_it_lacks_it(transport):
    await transport.publish([task("a", function="mod:x"), task("b", function="mod:y"), task("c")])
    claimed = await soon(transport.claim("w1", ["default"], 10, ["task"], ["f"], ["mod:x"]))
    assert [one.node for one in claimed] == ["b", "c"]
    claimed = await soon(transport.claim("w2", ["default"], 10, ["task"], [], ["mod:z"]))
    assert [one.node for one in claimed] == ["a"]


async def test_what_a_worker_finds_that_it_lacks_while_it_waits_is_not_given_to_it(transport):
    lacking: set[str] = set()
    waiting = asyncio.ensure_future(transport.claim("w1", ["default"], 10, ["task"], [], lacking))
    await settle()
    lacking.add("mod:x")
    await transport.publish([task("a", function="mod:x")])
    assert await is_waiting(waiting)
    claimed = await soon(transport.claim("w2", ["default"], 10, ["task"], []))
    assert [one.node for one in claimed] == ["a"]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_task_is_offered_or_claimed_and_not_both(transport):
    offered: list[str] = []

    def take(found):
        offered.append(found.node)
        return found.node != "not now"

    transport.on_task("w1", ["default"], take)
    claiming = asyncio.ensure_future(transport.claim("w1", ["default"], 3))
    await settle()
    await transport.publish([task("a"), task("elsewhere", queue="gpu")])
    await transport.publish([task("not now"), task("behind it")])
    claimed = [found.node for found in await soon(claiming)]
    taken = [name for name in offered if name != "not now"]
    if len(taken + claimed) < 3:
        claimed += await claim(transport, 3 - len(claimed))
    assert taken + claimed == ["a", "not now", "behind it"]
    assert await claim(transport, queues=("gpu",)) == ["elsewhere"]


async def test_a_worker_gets_no_more_than_its_claim_is_for_also_when_offered(transport):
    taken: list[str] = []

    def take(found):
        taken.append(found.node)
        return True

    transport.on_task("w1", ["default"], take)
    claiming = asyncio.ensure_future(transport.claim("w1", ["default"], 2))
    await settle()
    await transport.publish([task(name) for name in "abc"])
    taken += [found.node for found in await soon(claiming)]
    assert taken == ["a", "b"]
    transport.on_task("w1", ["default"], None)
    assert await claim(transport) == ["c"]
    again = asyncio.ensure_future(transport.claim("w1", ["default"], 2))
    await settle()
    await transport.publish([task("d")])
    assert [found.node for found in await soon(again)] == ["d"]
    assert taken == ["a", "b"]
