"""A lease that lapses may be taken, and then its former holder can write no more."""

import asyncio

import pytest

from perdure.journal import Accepted, Epoch, Fenced
from tests.conformance.journal.commits import append, commit
from tests.conformance.leases.adapters import PARTITIONS

LONG, SHORT = 600.0, 0.05


async def until_taken(leases, name: str) -> dict[int, int]:
    async with asyncio.timeout(60):
        while True:
            answer = await leases.lease(name, LONG)
            if len(answer.epochs) == PARTITIONS:
                return dict(answer.epochs)
            await asyncio.sleep(0.005)


async def test_a_lease_that_lapsed_is_taken_and_its_epoch_raised(leases):
    first = await leases.lease("a", LONG)
    assert (await leases.lease("b", LONG)).epochs == {}
    await leases.lease("a", SHORT)
    assert await until_taken(leases, "b") == {partition: epoch + 1 for partition, epoch in first.epochs.items()}


async def test_a_lease_that_is_renewed_is_not_taken(leases):
    await leases.lease("a", 0.0)
    await leases.lease("a", LONG)
    assert (await leases.lease("b", LONG)).epochs == {}


async def test_who_was_late_is_told_what_it_lost(leases):
    await leases.lease("a", SHORT)
    await until_taken(leases, "b")
    answer = await leases.lease("a", LONG)
    assert (answer.epochs, answer.share) == ({}, PARTITIONS // 2)


async def test_who_was_late_keeps_what_nobody_took_under_the_same_epoch(leases):
    first = await leases.lease("a", LONG)
    for name in "bc":
        assert (await leases.lease(name, LONG)).epochs == {}
    await leases.lease("a", 0.0)
    taken = (await leases.lease("b", LONG)).epochs
    assert len(taken) == PARTITIONS // 2
    again = await leases.lease("a", LONG)
    assert again.epochs == {partition: epoch for partition, epoch in first.epochs.items() if partition not in taken}


async def test_an_append_under_a_lapsed_lease_that_was_taken_is_refused(office):
    leases, journal = office
    mine = (await leases.lease("a", SHORT)).epochs
    assert await append(journal, commit("r1", epoch=Epoch(3, mine[3]))) == Accepted(1)
    theirs = await until_taken(leases, "b")
    assert await append(journal, commit("r1", 1, epoch=Epoch(3, mine[3]))) == Fenced(theirs[3], 1)
    assert await append(journal, commit("r1", 1, epoch=Epoch(3, theirs[3]))) == Accepted(2)


@pytest.mark.parametrize("end", ["give_back", "leave"])
async def test_an_append_after_handing_over_is_refused_even_before_somebody_takes_it(office, end):
    leases, journal = office
    mine = (await leases.lease("a", LONG)).epochs
    await (leases.give_back("a", [3]) if end == "give_back" else leases.leave("a"))
    assert await append(journal, commit("r1", epoch=Epoch(3, mine[3]))) == Fenced(mine[3] + 1, 1)
    assert await journal.find_run("r1") is None


async def test_the_only_one_that_was_late_goes_on_where_it_was(leases):
    first = await leases.lease("a", 0.0)
    assert await leases.lease("a", LONG) == first
