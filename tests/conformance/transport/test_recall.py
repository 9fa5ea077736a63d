"""recall and find_missing: what the transport still has, and taking it back."""

from tests.conformance.transport.messages import claim, receive, result, soon, task


async def test_a_queued_task_is_withdrawn_and_nobody_gets_it(transport):
    await transport.publish([task("a"), task("b")])
    assert await transport.recall([task("a").task_id]) == {task("a").task_id: "withdrawn"}
    assert await claim(transport) == ["b"]


async def test_a_claimed_task_is_not_withdrawn(transport):
    await transport.publish([task("a")])
    await claim(transport)
    assert await transport.recall([task("a").task_id]) == {task("a").task_id: "claimed"}


async def test_an_unknown_task_is_said_to_be_unknown(transport):
    assert await transport.recall(["r1/x/1.1"]) == {"r1/x/1.1": "unknown"}
    assert await transport.recall([]) == {}


async def test_a_withdrawn_task_can_be_sent_again(transport):
    await transport.publish([task("a")])
    await transport.recall([task("a").task_id])
    await transport.publish([task("a")])
    assert await claim(transport) == ["a"]


async def test_withdrawing_many_leaves_the_others_in_order(transport):
    tasks = [task(f"n{number:03}", priority=number % 3) for number in range(300)]
    await transport.publish(tasks)
    await transport.recall([one.task_id for one in tasks if not one.node.endswith("7")])
    left = [one.node for one in sorted(tasks, key=lambda one: -one.priority) if one.node.endswith("7")]
    assert await claim(transport, 1000) == left


async def test_what_is_queued_or_claimed_is_not_missing(transport):
    await transport.publish([task("a"), task("b")])
    await claim(transport, 1)
    ids = {name: task(name).task_id for name in "abc"}
    assert await transport.find_missing(ids.values()) == {ids["c"]}


async def test_what_was_withdrawn_is_missing(transport):
    await transport.publish([task("a")])
    await transport.recall([task("a").task_id])
    assert await transport.find_missing([task("a").task_id]) == {task("a").task_id}


async def test_a_task_is_not_missing_while_its_result_is_on_its_way(transport):
    await transport.publish([task("a")])
    await claim(transport)
    await transport.report([result("a")])
    assert await transport.find_missing([task("a").task_id]) == set()
    [delivery] = await soon(transport.receive(1))
    assert await transport.find_missing([task("a").task_id]) == set()
    await transport.acknowledge([delivery.receipt])
    assert await transport.find_missing([task("a").task_id]) == {task("a").task_id}


async def test_a_checkpoint_does_not_end_a_task(transport):
    await transport.publish([task("a")])
    await claim(transport)
    await transport.report([result("a", "checkpointed")])
    [delivery] = await soon(transport.receive(1))
    await transport.acknowledge([delivery.receipt])
    assert await transport.find_missing([task("a").task_id]) == set()
    await transport.report([result("a")])
    assert await receive(transport) == ["a"]
