"""Slots: never more than the limit, over all processes; a lease that nobody renews ends."""

import asyncio

from perdure.limits import EVERYBODY, Ask, Entered, Full, Limit
from tests.conformance.transport.messages import soon

THREE = Limit("t", "key", 3)


def asks(owners, *limits):
    return [Ask(owner, limits or (THREE,)) for owner in owners]


async def enter(limits, owners, *wanted):
    """Who was let in."""
    owners = list(owners)
    answers = await limits.enter(asks(owners, *wanted))
    return [owner for owner, answer in zip(owners, answers, strict=True) if isinstance(answer, Entered)]


async def until_in(limits, owner, limit):
    while True:
        if await enter(limits, [owner], limit):
            return
        await asyncio.sleep(0.005)


async def test_never_more_than_the_limit_are_in_over_all_processes(pair):
    answers = await pair.one.enter(asks("ab"))
    assert answers == [Entered((1,)), Entered((1,))] or answers == [Entered((2,)), Entered((1,))]
    assert await enter(pair.other, "cde") == ["c"]
    assert await pair.one.enter(asks("f")) == [Full(THREE)]


async def test_many_who_ask_at_the_same_time_are_not_more_than_the_limit(pair):
    both = await asyncio.gather(
        *(enter(limits, [f"{number}{limits is pair.one}"]) for number in range(20) for limits in pair[:2])
    )
    assert len({owner for some in both for owner in some}) == 3


async def test_who_is_in_stays_in_and_takes_no_second_slot(pair):
    assert await enter(pair.one, "abc") == ["a", "b", "c"]
    assert await enter(pair.other, "ca") == ["c", "a"]
    await pair.one.leave([("a", THREE)])
    assert await enter(pair.other, "de") == ["d"]


async def test_a_slot_that_was_left_is_free_at_once(pair):
    await enter(pair.one, "abc")
    await pair.other.leave([("b", THREE), ("b", THREE), ("nobody", THREE)])
    assert await enter(pair.one, "xy") == ["x"]


async def test_keys_and_tenants_do_not_share_slots(pair):
    assert await enter(pair.one, "abc") == ["a", "b", "c"]
    for other in (Limit("u", "key", 3), Limit("t", "key2", 3), Limit("t:key", "", 3), Limit(EVERYBODY, "key", 3)):
        assert await enter(pair.one, "xyz", other) == ["x", "y", "z"]


async def test_a_key_is_text_of_any_kind(pair):
    for key in ("a b", "a:b", "{x}", "ü", "a/b%2F", "*", "x" * 500):
        assert await enter(pair.one, "xy", Limit("t", key, 1)) == ["x"]


async def test_one_key_with_two_limits_is_one_set_of_slots(pair):
    assert await enter(pair.one, "ab", Limit("t", "key", 2)) == ["a", "b"]
    assert await enter(pair.one, "cd", THREE) == ["c"]
    assert await enter(pair.one, "e", Limit("t", "key", 2)) == []
    assert await enter(pair.one, "f", Limit("t", "key", 4)) == ["f"]


async def test_all_limits_of_an_ask_are_entered_or_none(pair):
    one, two = Limit("t", "one", 2), Limit("t", "two", 1)
    assert await enter(pair.one, "a", two) == ["a"]
    assert await pair.one.enter(asks("b", one, two)) == [Full(two)]
    assert await enter(pair.one, "cde", one) == ["c", "d"], "b took no slot of the first"


async def test_who_asks_again_and_is_refused_elsewhere_keeps_nothing_new(pair):
    one, two = Limit("t", "one", 1), Limit("t", "two", 1)
    await enter(pair.one, "a", two)
    assert await enter(pair.one, "bb", one, two) == []
    assert await enter(pair.other, "c", one) == ["c"]


async def test_a_lease_that_nobody_renews_ends(pair):
    pair.one.lease_seconds = 0.05
    assert await enter(pair.one, "abc") == ["a", "b", "c"]

    pair.other.lease_seconds = 60
    await soon(until_in(pair.other, "x", THREE))


async def test_a_lease_that_is_renewed_does_not_end(pair):
    short, long = Limit("t", "short", 1), Limit("t", "long", 1)
    pair.one.lease_seconds = 0.3
    await enter(pair.one, "a", short)
    await enter(pair.one, "a", long)
    pair.one.lease_seconds = 60
    await pair.one.occupy([("a", long)])
    await soon(until_in(pair.other, "x", short))
    assert await enter(pair.other, "x", long) == []


async def test_after_the_loss_of_everything_holders_are_in_again_and_nobody_else_until_there_is_room(pair):
    await enter(pair.one, "abc")
    pair.forget()
    assert await enter(pair.other, "d") == ["d"]
    await pair.one.occupy([(owner, THREE) for owner in "abc"])
    assert await enter(pair.other, "e") == []
    await pair.one.leave([("a", THREE)])
    assert await enter(pair.other, "e") == [], "b, c and d are in"
    await pair.one.leave([("b", THREE)])
    assert await enter(pair.other, "e") == ["e"]


async def test_whoever_waits_is_told_when_somebody_leaves(pair):
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    end = pair.other.on_room(lambda tenant, key: heard.put_nowait((tenant, key)))
    limit = Limit("t:{1}", "a key: with/everything", 1)
    await enter(pair.one, "a", limit)

    async def listen():
        while True:
            said = await heard.get()
            if said == (limit.tenant, limit.key):
                return said
            await enter(pair.one, "a", limit)  # the subscription begins: what was left before may have been missed
            await pair.one.leave([("a", limit)])

    await pair.one.leave([("a", limit)])
    assert await soon(listen()) == ("t:{1}", "a key: with/everything")
    end()


async def test_a_thousand_owners_of_one_key_are_let_in_at_once(pair):
    wide = Limit("t", "wide", 1500)
    owners = [f"run/node#{number}/1.1" for number in range(2000)]
    assert await enter(pair.one, owners, wide) == owners[:1500]
    await pair.one.occupy([(owner, wide) for owner in owners[:1500]])
    await pair.one.leave([(owner, wide) for owner in owners[:1500]])
    assert await enter(pair.other, owners[1500:], wide) == owners[1500:]
