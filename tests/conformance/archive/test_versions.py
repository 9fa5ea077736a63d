"""note_version, find_notes, count_users, list_users, delete_workflow: what is known of versions, who needs them, their end."""

from typing import Any

import pytest

from perdure.archive.aliases import Alias, Share, VersionNote
from perdure.errors import NotFound, Refused
from tests.conformance.journal.commits import append, commit


def note(version: int, **fields) -> VersionNote:
    values: dict[str, Any] = {
        "tenant": "acme",
        "workflow": "orders",
        "version": version,
        "by": "ada",
        "at": 5.0,
        "reason": "first",
    }
    return VersionNote(**values | fields)


async def register(journal, count: int = 3, *, name: str = "orders", tenant: str = "acme") -> None:
    for number in range(1, count + 1):
        assert await journal.register_workflow(name, f"hash{number}", ir_hash=f"ir{number}", tenant=tenant) == number


def run(run_id: str, version: int = 1, seq: int = 0, **fields):
    values: dict[str, Any] = {"workflow": "orders", "workflow_version": version, "tenant": "acme"}
    return commit(run_id, seq, **values | fields)


async def test_notes_come_back_by_version(archive):
    first, second = note(1), note(2, by="bob", at=6.5, reason="faster\0 and \ud800 odd")
    await archive.note_version(first)
    await archive.note_version(second)
    assert await archive.find_notes("acme", "orders", [1, 2, 3]) == {1: first, 2: second}
    assert await archive.find_notes("acme", "orders", []) == {}


async def test_the_first_note_of_a_version_stands(archive):
    await archive.note_version(note(1))
    await archive.note_version(note(1, by="mallory", reason="mine"))
    assert (await archive.find_notes("acme", "orders", [1]))[1].by == "ada"


async def test_notes_are_the_tenants_own(archive):
    await archive.note_version(note(1))
    assert await archive.find_notes("globex", "orders", [1]) == {}
    await archive.note_version(note(1, tenant="globex", by="eve"))
    assert (await archive.find_notes("acme", "orders", [1]))[1].by == "ada"


async def test_runs_that_have_not_ended_use_their_version(office):
    archive, journal, _ = office
    await append(
        journal,
        run("r1", 1),
        run("r2", 2),
        run("r3", 2),
        run("ended", 2, ended_at=9.0),
        run("other", 2, tenant="globex"),
        run("else", 2, workflow="bills"),
    )
    await journal.mark_quarantined("r3", "odd")
    assert await archive.count_users("acme", "orders") == 3
    assert await archive.count_users("acme", "orders", 2) == 2
    assert await archive.count_users("acme", "orders", 3) == 0
    page = await archive.list_users("acme", "orders")
    assert [one.run_id for one in page.items] == ["r1", "r2", "r3"]
    assert page.items[2] == await journal.get_run("r3")
    assert [one.run_id for one in (await archive.list_users("acme", "orders", 2)).items] == ["r2", "r3"]


async def test_users_come_in_pages(office):
    archive, journal, _ = office
    await append(journal, *(run(f"r{number}", number % 3) for number in range(7)))
    seen, cursor = [], None
    while True:
        page = await archive.list_users("acme", "orders", limit=2, cursor=cursor)
        seen += [one.run_id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["r0", "r3", "r6", "r1", "r4", "r2", "r5"]
    page = await archive.list_users("acme", "orders", 0, limit=2)
    assert [one.run_id for one in page.items] == ["r0", "r3"]
    page = await archive.list_users("acme", "orders", 0, limit=2, cursor=page.next_cursor)
    assert ([one.run_id for one in page.items], page.next_cursor) == (["r6"], None)


async def test_a_version_nobody_needs_is_deleted_with_its_note(office):
    archive, journal, _ = office
    await register(journal)
    await archive.note_version(note(2))
    await append(journal, run("r1", 2, ended_at=9.0))
    assert await archive.delete_workflow("acme", "orders", 2) == 1
    assert await journal.find_workflow("orders", 2, tenant="acme") is None
    assert await archive.find_notes("acme", "orders", [2]) == {}
    versions = (await journal.list_workflow_versions("orders", tenant="acme")).items
    assert [one.version for one in versions] == [3, 1]


async def test_a_version_that_a_run_needs_is_not_deleted(office):
    archive, journal, _ = office
    await register(journal)
    await append(journal, run("r1", 2))
    with pytest.raises(Refused, match="orders@2 is in use by 1 run that has not ended") as refused:
        await archive.delete_workflow("acme", "orders", 2)
    assert refused.value.code == "workflow_in_use"
    with pytest.raises(Refused, match="orders is in use"):
        await archive.delete_workflow("acme", "orders")
    assert (await journal.find_workflow("orders", 2, tenant="acme")) is not None
    await append(journal, run("r1", 2, seq=1, ended_at=9.0))
    assert await archive.delete_workflow("acme", "orders", 2) == 1


async def test_a_version_that_an_alias_points_to_is_not_deleted(office):
    archive, journal, _ = office
    await register(journal)
    shares = (Share(1, 90.0), Share(2, 10.0))
    await archive.put_alias(Alias(tenant="acme", workflow="orders", alias="live", shares=shares, by="ada", at=1.0))
    with pytest.raises(Refused, match="in use by alias live") as refused:
        await archive.delete_workflow("acme", "orders", 2)
    assert refused.value.code == "workflow_in_use"
    assert await archive.delete_workflow("acme", "orders", 3) == 1
    await archive.delete_alias("acme", "orders", "live")
    assert await archive.delete_workflow("acme", "orders", 2) == 1


async def test_a_whole_workflow_goes_with_its_notes_and_aliases(office):
    archive, journal, _ = office
    await register(journal)
    await archive.note_version(note(1))
    await archive.put_alias(Alias(tenant="acme", workflow="orders", alias="live", shares=(Share(1),), by="ada", at=1.0))
    assert await archive.delete_workflow("acme", "orders") == 3
    assert await journal.find_workflow("orders", tenant="acme") is None
    assert await archive.find_notes("acme", "orders", [1]) == {}
    assert await archive.find_alias("acme", "orders", "live") is None
    assert (await archive.list_alias_moves("acme", "orders", "live")).items == ()


async def test_the_number_of_a_deleted_version_is_never_given_out_again(office):
    archive, journal, _ = office
    await register(journal)
    await archive.delete_workflow("acme", "orders", 3)
    assert await journal.register_workflow("orders", "hash3", ir_hash="ir3", tenant="acme") == 4
    await archive.delete_workflow("acme", "orders")
    assert await journal.register_workflow("orders", "hash1", ir_hash="ir1", tenant="acme") == 5


async def test_deleting_an_earlier_version_does_not_give_back_the_number_of_a_later_one(office):
    archive, journal, _ = office
    await register(journal)
    await archive.delete_workflow("acme", "orders", 3)
    await archive.delete_workflow("acme", "orders", 1)
    assert await journal.register_workflow("orders", "hash4", ir_hash="ir4", tenant="acme") == 4


async def test_deleting_what_is_not_there_is_said(office):
    archive, journal, _ = office
    await register(journal, 1)
    with pytest.raises(NotFound, match="orders has no version 2"):
        await archive.delete_workflow("acme", "orders", 2)
    with pytest.raises(NotFound, match="bills does not exist"):
        await archive.delete_workflow("acme", "bills")
    with pytest.raises(NotFound, match="orders does not exist"):
        await archive.delete_workflow("globex", "orders")
    assert await journal.find_workflow("orders", tenant="acme") is not None


async def test_the_same_workflow_of_another_tenant_stays(office):
    archive, journal, _ = office
    await register(journal, 1)
    await register(journal, 1, tenant="globex")
    await append(journal, run("r1", 1, tenant="globex"))
    assert await archive.delete_workflow("acme", "orders") == 1
    assert await journal.find_workflow("orders", tenant="globex") is not None
