"""Tenants share the slots of workers however many coordinators send their tasks: Redis gives them out by turns (S16)."""

from __future__ import annotations

import asyncio

import pytest

from perdure.transports.redis import claims
from perdure.transports.redis.names import Keys
from perdure.transports.redis.wakes import Ticket
from tests.attack.marks import attack
from tests.conformance.transport.messages import claim, result, soon, task
from tests.distributed.helpers import Deployment, eventually
from tests.engine import tasks
from tests.engine.helpers import ended, start, workflow
from tests.engine.helpers import task as node
from tests.transports.redis.conftest import opened, opened_alone, own_server

__all__ = ["opened", "opened_alone", "own_server"]


def many(number: int, tenant: str, **fields):
    return [task(f"{tenant}{index}", tenant=tenant, **fields) for index in range(number)]


@attack("S16", "several coordinators that each know one tenant alone")
async def test_tenants_take_turns_whoever_sends_their_tasks(opened):
    one, two, worker = [await opened(partitions=()) for _ in range(3)]
    await one.publish(many(50, "x"))
    await two.publish(many(3, "y"))
    assert await claim(worker, 6) == ["x0", "x1", "x2", "y0", "y1", "y2"]  # in the order of their age
    await one.publish(many(1, "z"))
    assert [await claim(worker, 1) for _ in range(3)] == [["x3"], ["z0"], ["x4"]]


@attack("S16", "the same, one slot after the other")
async def test_the_next_slot_goes_to_who_waited_longest(opened):
    one, two, worker = [await opened(partitions=()) for _ in range(3)]
    await one.publish(many(50, "x"))
    assert await claim(worker, 4) == ["x0", "x1", "x2", "x3"]
    await two.publish(many(9, "y"))
    got = [(await claim(worker, 1))[0] for _ in range(8)]
    assert [name[0] for name in got] == ["x", "y"] * 4


@attack("S16", "a tenant whose tasks are of many types")
async def test_a_tenant_has_one_turn_however_many_lanes_it_uses(opened):
    one, two, worker = [await opened(partitions=()) for _ in range(3)]
    for number in range(20):
        await one.publish(many(1, f"x{number}-", type=f"t{number}", function=f"f{number}"))
    await one.publish([task(f"x{number}", tenant="x", type=f"t{number % 10}") for number in range(100)])
    await two.publish(many(10, "y"))
    got = [(await claim(worker, 1))[0] for _ in range(40)]
    assert len([name for name in got if name.startswith("y")]) >= 1
    after = got[22:]  # each of the others has had its only turn
    assert [name[0] for name in after[:14]].count("y") == 7
    mine = [int(name[1:]) for name in got if name[0] == "x" and "-" not in name]
    assert mine == sorted(mine)  # and its own tasks come in their order, whatever their types


@attack("S16", "the same over several queues")
async def test_tenants_take_turns_over_queues(opened):
    one, two, worker = [await opened(partitions=()) for _ in range(3)]
    await one.publish(many(30, "x", queue="p"))
    await one.publish(many(30, "v", queue="p"))
    await two.publish(many(5, "y", queue="q"))
    got = [(await claim(worker, 1, queues=("p", "q")))[0] for _ in range(15)]
    assert {name: [one[0] for one in got].count(name) for name in "xvy"} == {"x": 5, "v": 5, "y": 5}


@attack("S16", "handlers that never end, of one tenant, in all slots")
@pytest.mark.parametrize("queues", [("default",), ("default", "more")])
async def test_a_worker_leaves_some_slots_to_others(opened, queues):
    one, two, worker = [await opened(partitions=()) for _ in range(3)]
    await one.publish([*many(1, "y"), *many(50, "x")])
    assert sorted(await claim(worker, 2, queues=queues)) == ["x0", "y0"]
    await worker.report([result(task("y0", tenant="y"), tenant="y")])
    assert len(await claim(worker, 15, queues=queues)) == 13  # of 16 slots, x has 14
    await two.publish(many(3, "y", run_id="r2", queue=queues[-1]))
    assert await claim(worker, 2, queues=queues) == ["y0", "y1"]


async def test_a_tenant_without_anything_that_fits_holds_up_no_other(opened):
    one, worker = await opened(partitions=()), await opened(partitions=())
    for number in range(30):
        await one.publish(many(1, f"t{number}-", type="other"))
    await one.publish(many(3, "y", type="http"))
    found = await soon(worker.claim("w1", ["default"], 2, ["http"], ()))
    assert [one.node for one in found] == ["y0", "y1"]
    found = await soon(worker.claim("w1", ["default", "more"], 2, ["http"], ()))
    assert [one.node for one in found] == ["y2"]


def commands(client):
    return sum(row["calls"] for name, row in client.info("commandstats").items() if "evalsha" not in name)


@attack("S16", "a tenant that makes choosing dear, with lanes without number")
async def test_choosing_costs_no_more_however_many_lanes_there_are(opened_alone):
    transport = await opened_alone(partitions=())
    client = opened_alone.server.client()

    async def cost(limit):
        before = commands(client)
        assert len(await claim(transport, limit)) == limit
        return commands(client) - before

    await transport.publish([task(f"a{n}", type=f"t{n % 10}", tenant=f"u{n % 10}") for n in range(100)])
    few = await cost(20)
    await transport.publish([task(f"b{n}", type=f"t{n}", tenant=f"v{n % 300}") for n in range(1500)])
    lots = await cost(20)
    assert lots <= few + 40  # as if there were ten lanes; 1,500 are there
    assert lots <= 20 * 12 + 60


async def test_nothing_is_left_of_turns(opened):
    coordinator, worker = await opened(), await opened(partitions=())
    sent = [task(f"n{n}", tenant=f"u{n % 4}", type=f"t{n % 3}", priority=n % 2, run_id=f"r{n}") for n in range(24)]
    await coordinator.publish(sent)
    gone = [one.task_id for one in sent[:6]]
    assert set((await coordinator.recall(gone)).values()) == {"withdrawn"}
    claimed = await soon(worker.claim("w1", ["default"], 24))
    assert len(claimed) == 18
    await worker.report([result(one, tenant=one.tenant) for one in claimed])
    left = {one.task_id for one in claimed}
    while left:
        for delivery in await soon(coordinator.receive(100)):
            await coordinator.acknowledge([delivery.receipt])
            left.discard(delivery.result.task_id)
    await coordinator.close()
    assert opened.left() == {"{queues}:names", "{scripts}:hashes"}


@attack("S20", "what says whose turn it is, taken away or spoilt")
@pytest.mark.parametrize("how", ["deleted", "spoilt", "later"])
async def test_turns_that_are_lost_are_found_again(opened, how):
    coordinator = await opened()
    client, keys = opened.server.client(), Keys(opened.prefix)
    sent = [task("a", tenant="x"), task("b", tenant="y")]
    await coordinator.publish(sent)
    for key in (keys.turns("default", 0), keys.waiting("default", 0, "x"), keys.waiting("default", 0, "y")):
        if how == "later":
            for member in client.zrange(key, 0, -1):
                client.zadd(key, {member: float("inf")})
        else:
            client.delete(key)
        if how == "spoilt":
            client.set(key, "x")
    assert await coordinator.find_missing([one.task_id for one in sent]) == set()
    assert sorted(await claim(coordinator)) == ["a", "b"]


@pytest.mark.slow
@attack("S16", "one tenant's map before all slots, with two coordinators")
async def test_of_two_coordinators_neither_lets_one_tenant_have_all_slots(deployment: Deployment):
    for _ in range(2):
        await deployment.coordinator()
    worker = await deployment.worker(concurrency=4)
    client = await deployment.open()
    gated = [node(f"n{number}", "gate", args={"name": "open"}) for number in range(10)]
    for number in range(12):
        await start(client, workflow(*gated), f"x{number}", tenant="x")
    await eventually(lambda: len(tasks.seen) >= 4)
    waiting = Keys(deployment.prefix).waiting("default", 0, "y")
    await start(client, workflow(node("n", "gate", args={"name": "open"})), "y", tenant="y")
    server = deployment.redis.client()
    await eventually(lambda: server.exists(waiting))
    begun = len(tasks.seen)  # more than 4 where a busy machine let the worker be taken for dead
    tasks.gate_of("open").set()
    assert (await ended(client, "y")).state.value == "completed"
    runs = [key.partition("/")[0] for key, _ in tasks.seen]
    assert runs.index("y") <= begun + 4, runs[: begun + 20]
    await asyncio.gather(*(ended(client, f"x{number}") for number in range(12)))
    assert worker is not None


async def test_a_slot_that_its_tenant_left_is_filled_at_once(opened, monkeypatch):
    asked = asyncio.Event()

    class Unhurried(Ticket):
        """There is no next look: who waits is woken, or waits for ever."""

        async def wait(self, seconds: float) -> bool:
            asked.set()
            return await super().wait(3600)

    one, worker = await opened(partitions=()), await opened(partitions=())
    await one.publish([*many(1, "y"), *many(30, "x")])
    assert sorted(await claim(worker, 2)) == ["x0", "y0"]
    await worker.report([result(task("y0", tenant="y"), tenant="y")])
    assert len(await claim(worker, 15)) == 13  # of 16 slots, x has 14
    monkeypatch.setattr(claims, "Ticket", Unhurried)
    waiting = asyncio.create_task(claim(worker, 2))
    await soon(asked.wait())
    assert not waiting.done()
    await worker.report([result(task("x0", tenant="x"), tenant="x")])
    assert await waiting == ["x14"]
