"""save_entry, list_entries, list_entry_names, list_all_entries, delete_entries, prune_entries: what agents leave, by appends and by people."""

import asyncio

import msgspec

from perdure.journal import Accepted, AgentEntry, Conflict
from tests.conformance.journal.commits import append, commit

ONE = AgentEntry(
    tenant="acme",
    space="session",
    name="support/answer/ann ü",
    place="001",
    owner="ann",
    run_id="r1",
    at=10.0,
    body=b"\0{}",
)


def entry(**fields):
    return msgspec.structs.replace(ONE, **fields)


async def places(archive, name=ONE.name, tenant="acme", space="session", **more):
    return [one.place for one in await archive.list_entries(tenant, space, name, **more)]


async def test_an_append_brings_entries_once_and_only_if_it_is_accepted(office):
    archive, journal, _ = office
    made = commit("r1", entries=(ONE, entry(place="002", body=b"later")))
    assert isinstance(await append(journal, made), Accepted)
    assert isinstance(await append(journal, made), Accepted)
    assert isinstance(await append(journal, commit("r1", seq=7, entries=(entry(place="003"),))), Conflict)
    assert await archive.list_entries("acme", "session", ONE.name) == [entry(place="002", body=b"later"), ONE]
    await append(journal, commit("r2", entries=(entry(body=b"another", run_id="r2"),)))
    assert (await archive.list_entries("acme", "session", ONE.name))[-1] == ONE


async def test_the_newest_come_first_and_nothing_of_others_comes_with_them(archive):
    for place in ("001", "003", "002"):
        await archive.save_entry(entry(place=place))
    for other in (entry(tenant="other"), entry(space="note"), entry(name="support/answer/ann")):
        await archive.save_entry(other)
    assert await places(archive) == ["003", "002", "001"]
    assert await places(archive, limit=2) == ["003", "002"]
    assert await places(archive, before="002") == ["001"]
    assert await places(archive, tenant="nobody") == []


async def test_saving_replaces_what_there_was_at_its_place(archive):
    await archive.save_entry(ONE)
    changed = entry(owner="bob", run_id="", at=12.0, body=b"new")
    await archive.save_entry(changed)
    assert await archive.list_entries("acme", "session", ONE.name) == [changed]


async def test_names_are_listed_with_what_there_is_under_them(archive):
    await archive.save_entry(entry(name="a", at=5.0))
    await archive.save_entry(entry(name="a", place="002", owner="bob", run_id="r2", at=7.0))
    await archive.save_entry(entry(name="b", run_id="r3"))
    await archive.save_entry(entry(name="c", tenant="other"))
    page = await archive.list_entry_names("acme", "session", limit=1)
    [one] = page.items
    assert (one.name, one.count, one.first_at, one.last_at) == ("a", 2, 5.0, 7.0)
    assert (one.owner, one.last_owner) == ("ann", "bob")
    page = await archive.list_entry_names("acme", "session", limit=1, cursor=page.next_cursor)
    assert [one.name for one in page.items] == ["b"]
    assert page.next_cursor is None
    assert (await archive.list_entry_names("acme", "note")).items == ()


async def test_all_of_them_page_by_page(archive):
    rows = [
        entry(name="a"),
        entry(name="b"),
        entry(name="b", place="002"),
        entry(space="tool"),
        entry(tenant="other", name="a"),
    ]
    for one in reversed(rows):
        await archive.save_entry(one)
    found, cursor = [], None
    while True:
        page = await archive.list_all_entries(limit=2, cursor=cursor)
        found += page.items
        if (cursor := page.next_cursor) is None:
            break
    assert found == rows


async def test_a_name_is_deleted_and_that_of_another_stays(archive):
    for one in (ONE, entry(place="002"), entry(tenant="other"), entry(space="note")):
        await archive.save_entry(one)
    assert await archive.delete_entries("acme", "session", ONE.name) == 2
    assert await archive.delete_entries("acme", "session", ONE.name) == 0
    assert await places(archive) == []
    assert await places(archive, tenant="other") == await places(archive, space="note") == ["001"]


async def test_old_entries_of_one_space_are_forgotten(archive):
    for one in (ONE, entry(place="002", at=20.0), entry(space="tool")):
        await archive.save_entry(one)
    assert await archive.prune_entries("session", 20.0) == 1
    assert await archive.prune_entries("session", 20.0) == 0
    assert await places(archive) == ["002"]
    assert await places(archive, space="tool") == ["001"]


async def test_many_at_once_wait_for_each_other_in_one_direction(office):
    archive, journal, open_again = office
    other = await open_again()
    rows = [entry(name=name, place=f"{number:03}") for name in "cab" for number in range(3)]
    commits = [commit(f"r{n}", entries=tuple(rows if n % 2 else reversed(rows))) for n in range(20)]
    await asyncio.gather(append(journal, *commits[:10]), append(other.journal, *commits[10:]))
    assert [one.count for one in (await archive.list_entry_names("acme", "session")).items] == [3, 3, 3]
