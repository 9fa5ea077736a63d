"""lease, give_back, leave: coordinators share the partitions fairly, and none has two holders."""

import asyncio

import pytest

from tests.conformance.leases.adapters import PARTITIONS

LONG = 600.0
ALL = set(range(PARTITIONS))


async def settle(leases, names) -> dict[str, set[int]]:
    """As coordinators do: ask, and give back what is above the share, until nothing changes. Who then holds what."""
    held: dict[str, set[int]] = {}
    while True:
        before = dict(held)
        for name in names:
            answer = await leases.lease(name, LONG)
            held[name] = set(answer.epochs)
            if surplus := sorted(held[name])[answer.share :]:
                await leases.give_back(name, surplus)
                held[name] -= set(surplus)
        if held == before:
            return held


async def test_the_only_one_gets_everything(leases):
    answer = await leases.lease("a", LONG)
    assert answer.epochs == dict.fromkeys(range(PARTITIONS), 1)
    assert answer.share == PARTITIONS


async def test_asking_again_changes_nothing(leases):
    first = await leases.lease("a", LONG)
    assert await leases.lease("a", LONG) == first


async def test_nothing_is_taken_away_from_who_holds_more_than_its_share(leases):
    await leases.lease("a", LONG)
    newcomer = await leases.lease("b", LONG)
    assert (newcomer.epochs, newcomer.share) == ({}, PARTITIONS // 2)
    again = await leases.lease("a", LONG)
    assert (set(again.epochs), again.share) == (ALL, PARTITIONS // 2)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 13])
async def test_each_of_many_has_its_share_and_none_has_two_more_than_another(leases, count):
    held = await settle(leases, [f"coordinator {number:02}" for number in range(count)])
    sizes = sorted(len(partitions) for partitions in held.values())
    assert sum(sizes) == PARTITIONS
    assert set().union(*held.values()) == ALL
    assert sizes[-1] - sizes[0] <= 1
    assert sizes[-1] == -(-PARTITIONS // count)


async def test_those_who_stay_take_over_from_who_leaves_at_once(leases):
    await settle(leases, ["a", "b", "c"])
    await leases.leave("b")
    held = await settle(leases, ["a", "c"])
    assert sorted(len(partitions) for partitions in held.values()) == [4, 4]


async def test_what_is_given_back_has_a_higher_epoch_for_the_next(leases):
    first = await leases.lease("a", LONG)
    await leases.lease("b", LONG)
    await leases.give_back("a", [0, 1])
    second = await leases.lease("b", LONG)
    assert set(second.epochs) == {0, 1}
    assert all(second.epochs[partition] > first.epochs[partition] for partition in (0, 1))
    assert set((await leases.lease("a", LONG)).epochs) == ALL - {0, 1}


async def test_nobody_gives_back_what_another_holds(leases):
    first = await leases.lease("a", LONG)
    await leases.give_back("b", [0, 1])
    await leases.leave("b")
    await leases.give_back("a", [])
    await leases.give_back("a", [PARTITIONS + 5])
    assert await leases.lease("a", LONG) == first


async def test_who_left_may_come_back(leases):
    await leases.lease("a", LONG)
    await leases.leave("a")
    await leases.leave("a")
    assert set((await leases.lease("a", LONG)).epochs) == ALL


async def test_many_that_ask_at_the_same_moment_never_hold_the_same(leases):
    names = [f"c{number}" for number in range(6)]
    owner: dict[tuple[int, int], str] = {}

    async def work(name: str) -> None:
        for _ in range(15):
            answer = await leases.lease(name, LONG)
            for place in answer.epochs.items():
                assert owner.setdefault(place, name) == name  # an epoch of a partition belongs to one
            await leases.give_back(name, sorted(answer.epochs)[answer.share :])

    await asyncio.gather(*(work(name) for name in names))
    held = await settle(leases, names)
    assert sorted(len(partitions) for partitions in held.values()) == [1, 1, 1, 1, 2, 2]


async def test_the_time_is_that_of_the_clock_the_leases_use(leases):
    before = await leases.now()
    assert 1.7e9 < before <= await leases.now()
