"""put_occurrence, read_occurrences, list_topics, last_occurrence, list_subscribers, read_subscriptions, prune_occurrences,
count_occurrences, drop_occurrences, count_subscribers: what happened, and who has still to read it."""

import asyncio

from perdure.journal import Occurrence, Subscription, Topic, partition_of
from tests.conformance.journal.commits import append, commit


def happened(id="o1", topic="event:paid", **fields):
    return Occurrence(**({"id": id, "topic": topic, "at": 10.0, "body": b"{}"} | fields))


def subscribed(run_id="r1", place="", topic="event:paid", **fields):
    return Subscription(run_id=run_id, place=place or f"{run_id}/receive", topic=topic, **fields)


async def ids(journal, topic="event:paid", tenant="default", **fields):
    return [one.id for one in await journal.read_occurrences(tenant, topic, **fields)]


async def test_what_happened_is_kept_whole_and_in_order(journal):
    assert await journal.last_occurrence() == 0
    first, new = await journal.put_occurrence(happened(key="k", tenant="acme", at=1.5, body=b'{"a":"\xc3\xa9"}'))
    assert new
    assert first > 0
    (found,) = await journal.read_occurrences("acme", "event:paid")
    assert found == happened(key="k", tenant="acme", at=1.5, body=b'{"a":"\xc3\xa9"}', position=first)
    second, _ = await journal.put_occurrence(happened("o2", tenant="acme"))
    assert second > first
    assert await journal.last_occurrence() == second
    assert await ids(journal, tenant="acme") == ["o1", "o2"]
    assert await ids(journal, tenant="acme", after=first) == ["o2"]
    assert await ids(journal, tenant="acme", limit=1) == ["o1"]
    assert await ids(journal, tenant="acme", key="k") == ["o1"]
    assert await ids(journal, tenant="acme", since=2.0) == ["o2"]
    assert await ids(journal) == await ids(journal, "event:other", tenant="acme") == []


async def test_an_id_is_known_within_its_topic(journal):
    first, _ = await journal.put_occurrence(happened())
    assert await journal.put_occurrence(happened(body=b"other")) == (first, False)
    assert (await journal.put_occurrence(happened(tenant="acme")))[1]
    assert (await journal.put_occurrence(happened(topic="event:sent")))[1]
    answers = await asyncio.gather(*(journal.put_occurrence(happened(f"n{n % 3}")) for n in range(9)))
    assert len({position for position, _ in answers}) == 3
    assert await ids(journal) == ["o1", *sorted({f"n{n}" for n in range(3)}, key=["n0", "n1", "n2"].index)]


async def test_what_happens_with_a_commit_is_kept_where_somebody_has_subscribed(journal):
    ended = happened("e1", "run:report")
    await append(journal, commit("r1", occurrences=(ended,)))
    assert await ids(journal, "run:report") == []
    await append(journal, commit("t1", subscriptions=(subscribed("t1", topic="run:report"),)))
    await append(
        journal,
        commit("r2", occurrences=(happened("e2", "run:report"), happened("e3", "run:other"))),
        commit("r3", occurrences=(happened("e4", "run:report"),)),
        commit("r1", 0, commit_id="late", occurrences=(happened("e5", "run:report"),)),
    )
    assert await ids(journal, "run:report") == ["e2", "e4"]
    assert await ids(journal, "run:other") == []


async def test_topics_are_what_happened_lately(journal):
    await journal.put_occurrence(happened("o1", key="a", at=9.0))
    seen, _ = await journal.put_occurrence(happened("o2", key="a", at=5.0))
    third, _ = await journal.put_occurrence(happened("o3", "event:sent"))
    found = sorted(await journal.list_topics(0), key=lambda one: one.position)
    assert found == [Topic("default", "event:paid", "a", seen, 9.0), Topic("default", "event:sent", "", third, 10.0)]
    assert [one.topic for one in await journal.list_topics(seen)] == ["event:sent"]
    assert [one.topic for one in await journal.list_topics(0, limit=1)] == ["event:paid"]
    assert await journal.list_topics(third) == []


async def test_subscriptions_follow_their_commits(journal):
    one, two = subscribed(since=3, key="k", since_at=1.5), subscribed(place="wait[1]", topic="event:sent")
    await append(journal, commit("r1", subscriptions=(one, two)))
    assert await journal.read_subscriptions("r1") == [one, two]
    moved = subscribed(since=9, topic="event:sent")
    refused = commit("r1", 0, commit_id="late", subscriptions_cleared=("r1/receive",))
    await append(
        journal, refused, commit("r1", 1, subscriptions=(moved,), subscriptions_cleared=("wait[1]", "r1/receive"))
    )
    assert await journal.read_subscriptions("r1") == [moved]
    await append(journal, commit("r1", 2, subscriptions_cleared=("r1/receive",)))
    assert await journal.read_subscriptions("r1") == []


async def test_a_run_that_goes_on_leaves_its_place_to_the_next_one(journal):
    await append(journal, commit("r1", subscriptions=(subscribed(place="p"),)))
    await append(journal, commit("r1", 1), commit("r2", subscriptions=(subscribed("r2", "p", since=4),)), commit("r3"))
    assert await journal.read_subscriptions("r1") == []
    assert await journal.read_subscriptions("r2") == [subscribed("r2", "p", since=4)]
    partition = {partition_of("r2", journal.partition_count)}
    found = await journal.list_subscribers(Topic("default", "event:paid", "", 9, 10.0), partition)
    assert [one.run_id for one in found] == ["r2"]
    cleared = commit("r2", 1, subscriptions_cleared=("p",))
    await append(journal, cleared, commit("r3", 1, subscriptions=(subscribed("r3", "p"),)))
    assert await journal.read_subscriptions("r3") == [subscribed("r3", "p")]


async def test_those_who_have_something_to_read_are_found_by_pages(journal):
    names = [f"r{number}" for number in range(5)]
    rows = [commit(name, subscriptions=(subscribed(name, since=number),)) for number, name in enumerate(names)]
    other = commit("k", subscriptions=(subscribed("k", key="x"), subscribed("k", "k/late", since_at=20.0)))
    await append(journal, *rows, other)

    async def found(position, key="", at=10.0, **fields):
        topic = Topic("default", "event:paid", key, position, at)
        return [one.run_id for one in await journal.list_subscribers(topic, **fields)]

    assert await found(9) == names
    assert await found(3) == names[:3]
    assert await found(9, "x") == ["k"]
    assert await found(9, at=21.0) == ["k", *names]
    assert await found(9, limit=2) == names[:2]
    assert await found(9, after="r1/receive") == names[2:]
    mine = partition_of("r2", journal.partition_count)
    assert "r2" in await found(9, partitions={mine})
    assert await found(9, partitions=set(range(journal.partition_count)) - {mine}) == [
        name for name in names if partition_of(name, journal.partition_count) != mine
    ]
    assert await journal.list_subscribers(Topic("acme", "event:paid", "", 9, 10.0)) == []


async def test_the_oldest_of_a_tenant_are_dropped_unless_a_reader_has_still_to_read_them(journal):
    positions = [(await journal.put_occurrence(happened(f"o{n}")))[0] for n in range(4)]
    await journal.put_occurrence(happened("other", tenant="acme"))
    await append(journal, commit("w", subscriptions=(subscribed("w", since_at=0.0),)))  # a wait holds nothing back
    await append(journal, commit("r1", subscriptions=(subscribed(since=positions[2]),)))
    assert [await journal.count_occurrences("default", most) for most in (3, 9)] == [3, 4]
    assert await journal.drop_occurrences("default", 2) == 2
    assert await ids(journal) == ["o2", "o3"]
    assert await journal.drop_occurrences("default", 9) == 1
    assert await journal.drop_occurrences("default", 9) == 0
    assert await ids(journal) == ["o3"]
    assert [await journal.count_occurrences(tenant, 9) for tenant in ("default", "acme", "nobody")] == [1, 1, 0]


async def test_who_listens_is_counted_by_name_and_by_key(journal):
    rows = [subscribed("r1"), subscribed("r2", key="a"), subscribed("r3", key="a"), subscribed("r4", key="b")]
    for row in rows:
        await append(journal, commit(row.run_id, subscriptions=(row,)))
    counted = [await journal.count_subscribers("default", "event:paid", key) for key in ("", "a", "b", "c", None)]
    assert counted == [1, 3, 2, 1, 4]
    assert await journal.count_subscribers("default", "event:paid", "a", 2) == 2
    assert await journal.count_subscribers("default", "event:sent") == 0
    assert await journal.count_subscribers("acme", "event:paid") == 0


async def test_what_is_old_is_forgotten_unless_a_reader_has_still_to_read_it(journal):
    positions = [(await journal.put_occurrence(happened(f"o{n}", at=float(n))))[0] for n in range(4)]
    await append(journal, commit("w", subscriptions=(subscribed("w", since_at=0.0),)))  # a wait holds nothing back
    await append(journal, commit("r1", subscriptions=(subscribed(since=positions[0]),)))
    assert await journal.prune_occurrences(3.0) == 1
    assert await ids(journal) == ["o1", "o2", "o3"]
    await append(journal, commit("r1", 1, subscriptions=(subscribed(since=positions[3]),)))
    assert await journal.prune_occurrences(3.0) == 2
    assert await ids(journal) == ["o3"]
    assert await journal.prune_occurrences(3.0) == 0
    await append(journal, commit("r1", 2, subscriptions_cleared=("r1/receive",)))
    assert await journal.prune_occurrences(99.0) == 1
    assert (await journal.put_occurrence(happened("later")))[0] > positions[3]  # a position is given out once
