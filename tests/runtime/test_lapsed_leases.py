"""A coordinator whose lease has lapsed while it waited for something: others may have its runs, and it leaves them alone."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure.journal import OutcomeUnknown
from perdure.kernel import commands as c
from tests.runtime.peers import LEASE_SECONDS, sharing

LONG = 3 * LEASE_SECONDS


def task(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "task", "config": {"action": "work"}, "dependencies": list(needs), **more}


# -- what it has written -----------------------------------------------------------------------------------------------


async def test_what_was_written_is_not_acted_upon_when_the_answer_comes_after_the_lease_has_lapsed() -> None:
    """R7: the commit was durable at the first try and its answer was lost; asked again, the journal answered long after another
    coordinator had sent the next node, heard its outcome and ended the run."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a"), task("b", "a"))
        one.journal.troubles["append"] = [OutcomeUnknown("its answer was lost"), LONG]
        one.report("r", "a")
        await peers.clock.advance(1)
        assert peers.events("r")[-2:] == ["node.completed", "node.scheduled"]
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LEASE_SECONDS + 1)
        two = await peers.join("two")
        assert two.published == ["r/b/1.1"]
        two.report("r", "b")
        await peers.clock.advance(1)
        assert peers.events("r")[-1] == "run.completed"
        await peers.clock.advance(LONG)
        assert one.published == ["r/a/1.1"]
        assert "r" not in one.coordinator.memory.runs


async def test_who_asked_hears_that_it_was_written_although_the_lease_has_lapsed_meanwhile() -> None:
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a"))
        one.journal.troubles["append"] = [OutcomeUnknown("its answer was lost"), LONG]
        asking = asyncio.create_task(one.coordinator.ask("r", lambda state: c.Pause(at=peers.clock.now())))
        await peers.clock.advance(1)
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LONG)
        assert await asking == "paused"
        assert one.published == ["r/a/1.1"]


async def test_a_start_that_may_happen_once_is_not_granted_after_the_lease_has_lapsed() -> None:
    """V6: whoever has the run now may have decided otherwise; a worker that hears nothing says that it did not begin."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a", effect="at_most_once"))
        one.journal.troubles["append"] = [OutcomeUnknown("its answer was lost"), LONG]
        one.ask_begin("r", "a")
        await peers.clock.advance(1)
        assert peers.events("r")[-1] == "node.started"
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LONG)
        assert one.granted == []


async def test_what_waited_for_a_limit_is_not_published_after_the_lease_has_lapsed() -> None:
    async with sharing() as peers:
        one = await peers.join("one")
        one.limits.troubles["enter"] = [LONG]
        starting = asyncio.create_task(one.start("r", task("a", concurrency={"key": "k", "limit": 1})))
        await peers.clock.advance(1)
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LONG)
        assert (await starting, one.published) == ("running", [])


async def test_what_another_run_kept_waiting_is_not_acted_upon_after_the_lease_has_lapsed() -> None:
    """Two runs in one batch: telling the worker of the first to stop takes longer than the lease."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("q", task("a"))
        await one.start("r", task("a"), task("b", "a"))
        one.transport.troubles["recall"] = [LONG]
        cancelling = asyncio.create_task(one.coordinator.ask("q", lambda state: c.Cancel(at=peers.clock.now())))
        one.report("r", "a")
        await peers.clock.advance(1)
        assert peers.events("r")[-1] == "node.scheduled"
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LONG)
        await cancelling
        assert one.published == ["q/a/1.1", "r/a/1.1"]


# -- what it remembers -------------------------------------------------------------------------------------------------


async def test_runs_are_forgotten_when_the_lease_lapses_while_the_database_keeps_its_renewal_back() -> None:
    """J5: another coordinator goes on with the run, and what is in memory here would be otherwise than the journal."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a"))
        one.leases.troubles["lease"] = [LONG]
        await peers.clock.advance(LEASE_SECONDS - 1)
        assert "r" in one.coordinator.memory.runs
        await peers.clock.advance(2)
        assert (
            one.coordinator.memory.runs,
            len(one.coordinator.publisher.dispatcher),
            one.coordinator.share.partitions,
        ) == ({}, 0, [])
        assert one.receives == set()
        await peers.clock.advance(LONG)  # nobody else came, and it has them again
        assert set(one.coordinator.memory.runs) == {"r"}
        assert one.receives == {0, 1, 2, 3}


async def test_runs_are_forgotten_when_the_lease_lapses_while_the_database_keeps_a_hand_back_waiting() -> None:
    async with sharing() as peers:
        one = await peers.join("one")
        for name in ("q", "r", "s", "t", "u"):
            await one.start(name, task("a"))
        one.leases.troubles["give_back"] = [LONG]
        two = await peers.join("two")  # so that one has more than its share
        await peers.clock.advance(LEASE_SECONDS / 2)
        assert one.coordinator.memory.runs, "some of them are its own to keep"
        await peers.clock.advance(LEASE_SECONDS + 1)
        assert one.coordinator.memory.runs == {}
        assert set(two.coordinator.memory.runs) == {"q", "r", "s", "t", "u"}


async def test_what_is_found_lost_is_left_alone_at_once_while_a_batch_goes_on() -> None:
    """Its own clock says that the lease is good; the answer to its renewal says that somebody else has the partitions."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a"), task("b", "a"))
        one.journal.troubles["append"] = [OutcomeUnknown("its answer was lost"), LEASE_SECONDS / 2]
        one.report("r", "a")
        await peers.clock.advance(1)
        peers.store.epochs = {number: epoch + 1 for number, epoch in peers.store.epochs.items()}
        await peers.clock.advance(LEASE_SECONDS / 2)
        assert not one.coordinator.share.lapsed
        assert "r" in one.coordinator.memory.runs, "it has taken them again, and gone on with the run"
        assert one.published == ["r/a/1.1", "r/b/1.1"]


# -- what it has again -------------------------------------------------------------------------------------------------


async def test_runs_are_listed_again_when_their_partition_is_taken_again_under_the_same_epoch() -> None:
    """R2: the answer to a renewal comes when the lease that it grants has lapsed already, so what is listed then is turned away.
    The listing is not over when the next renewal gives the same epochs: it counted for that one too."""
    async with sharing() as peers:
        one = await peers.join("one")
        await one.start("r", task("a"))
        await one.start("s", task("a"))
        one.leases.troubles["lease"] = [LONG]
        one.journal.troubles["list_active_runs"] = [0.0, LEASE_SECONDS / 2]  # the second page, which is empty
        await peers.clock.advance(LEASE_SECONDS / 3 + LONG + 1)
        assert one.coordinator.share.lapsed
        assert one.coordinator.memory.runs == {}
        epochs = dict(peers.store.epochs)
        await peers.clock.advance(LEASE_SECONDS)
        assert peers.store.epochs == epochs
        assert set(one.coordinator.memory.runs) == {"r", "s"}
        assert one.published == ["r/a/1.1", "s/a/1.1"] * 2
