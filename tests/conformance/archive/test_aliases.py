"""put_alias, find_alias, list_aliases, list_alias_moves, delete_alias: names that point to versions, and where they pointed."""

import asyncio
from typing import Any

import pytest

from perdure.archive.aliases import Alias, InvalidAlias, Share
from perdure.errors import NotFound, Refused


def alias(*versions: int, name: str = "live", **fields) -> Alias:
    shares = tuple(Share(version, 100 / len(versions)) for version in versions)
    values: dict[str, Any] = {
        "tenant": "acme",
        "workflow": "orders",
        "alias": name,
        "shares": shares,
        "by": "ada",
        "at": 5.0,
    }
    return Alias(**values | fields)


@pytest.fixture
async def versions(office):
    for number in range(1, 4):
        await office.journal.register_workflow("orders", f"hash{number}", ir_hash="ir", tenant="acme")


async def test_an_alias_is_made_found_and_moved(archive, versions):
    first = await archive.put_alias(alias(1, reason="begin \0"))
    assert first == alias(1, reason="begin \0", revision=1)
    assert await archive.find_alias("acme", "orders", "live") == first
    second = await archive.put_alias(alias(2, 1, by="bob", at=6.0))
    assert second.revision == 2
    assert await archive.find_alias("acme", "orders", "live") == second


async def test_where_it_pointed_is_kept(archive, versions):
    moves = [await archive.put_alias(alias(number, by=f"user{number}")) for number in (1, 2, 3, 1)]
    page = await archive.list_alias_moves("acme", "orders", "live", limit=3)
    assert list(page.items) == moves[:0:-1]
    last = await archive.list_alias_moves("acme", "orders", "live", limit=3, cursor=page.next_cursor)
    assert (list(last.items), last.next_cursor) == (moves[:1], None)


async def test_a_version_that_does_not_exist_is_refused(archive, versions):
    with pytest.raises(NotFound, match="orders has no version 7"):
        await archive.put_alias(alias(1, 7))
    with pytest.raises(NotFound):
        await archive.put_alias(alias(1, tenant="globex"))
    assert await archive.find_alias("acme", "orders", "live") is None


async def test_what_cannot_be_an_alias_is_refused_before_anything_is_written(archive, versions):
    for wrong in (alias(1, name="latest"), alias(1, name="7"), alias(), alias(1, 1)):
        with pytest.raises(InvalidAlias):
            await archive.put_alias(wrong)
    assert (await archive.list_aliases("acme", "orders")).items == ()


async def test_who_expects_another_revision_is_refused(archive, versions):
    with pytest.raises(Refused, match="is at revision 0, not 1") as refused:
        await archive.put_alias(alias(1), expected_revision=1)
    assert refused.value.code == "alias_moved"
    assert (await archive.put_alias(alias(1), expected_revision=0)).revision == 1
    with pytest.raises(Refused, match="is at revision 1, not 0"):
        await archive.put_alias(alias(2), expected_revision=0)
    assert (await archive.put_alias(alias(2), expected_revision=1)).revision == 2
    assert (await archive.find_alias("acme", "orders", "live")).shares[0].version == 2


async def test_of_many_that_expect_the_same_revision_one_moves_it(office, versions):
    archive, _, open_again = office
    other = (await open_again()).archive
    await archive.put_alias(alias(1))

    async def move(number: int) -> bool:
        try:
            await (archive, other)[number % 2].put_alias(alias(1 + number % 3, by=str(number)), expected_revision=1)
        except Refused:
            return False
        return True

    assert sum(await asyncio.gather(*(move(number) for number in range(20)))) == 1
    assert len((await archive.list_alias_moves("acme", "orders", "live")).items) == 2


async def test_moves_without_an_expectation_all_happen_one_after_the_other(office, versions):
    archive, _, open_again = office
    other = (await open_again()).archive
    moved = await asyncio.gather(*((archive, other)[number % 2].put_alias(alias(1)) for number in range(20)))
    assert sorted(one.revision for one in moved) == list(range(1, 21))


async def test_aliases_are_listed_by_name_in_pages(archive, versions):
    for name in ("c", "a", "b"):
        await archive.put_alias(alias(1, name=name))
    page = await archive.list_aliases("acme", "orders", limit=2)
    assert [one.alias for one in page.items] == ["a", "b"]
    page = await archive.list_aliases("acme", "orders", limit=2, cursor=page.next_cursor)
    assert ([one.alias for one in page.items], page.next_cursor) == (["c"], None)


async def test_a_deleted_alias_is_gone_and_goes_on_counting_when_made_again(archive, versions):
    await archive.put_alias(alias(1))
    await archive.delete_alias("acme", "orders", "live")
    assert await archive.find_alias("acme", "orders", "live") is None
    assert (await archive.list_aliases("acme", "orders")).items == ()
    with pytest.raises(NotFound, match="has no alias live"):
        await archive.delete_alias("acme", "orders", "live")
    assert (await archive.put_alias(alias(2), expected_revision=0)).revision == 2
    assert len((await archive.list_alias_moves("acme", "orders", "live")).items) == 2


async def test_aliases_are_the_tenants_own(archive, versions):
    await archive.put_alias(alias(1))
    assert await archive.find_alias("globex", "orders", "live") is None
    assert (await archive.list_aliases("globex", "orders")).items == ()
    assert (await archive.list_alias_moves("globex", "orders", "live")).items == ()
    with pytest.raises(NotFound):
        await archive.delete_alias("globex", "orders", "live")
    assert await archive.find_alias("acme", "orders", "live") is not None


async def test_an_alias_never_points_to_a_version_that_is_being_deleted(office):
    archive, journal, open_again = office
    other = (await open_again()).archive
    for number in range(1, 16):
        assert await journal.register_workflow("orders", f"hash{number}", ir_hash="ir", tenant="acme") == number

    async def point(version: int) -> bool:
        try:
            await archive.put_alias(alias(version, name=f"a{version}"))
        except NotFound:
            return False
        return True

    async def delete(version: int) -> bool:
        try:
            await other.delete_workflow("acme", "orders", version)
        except Refused:
            return False
        return True

    work = [task(version) for version in range(1, 16) for task in ((point, delete) if version % 2 else (delete, point))]
    await asyncio.gather(*work)
    left = {one.version for one in (await journal.list_workflow_versions("orders", tenant="acme")).items}
    aliases = (await archive.list_aliases("acme", "orders")).items
    assert {one.shares[0].version for one in aliases} == left
