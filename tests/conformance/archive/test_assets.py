"""keep_asset, find_asset, list_assets, list_all_assets, measure_assets, delete_asset: files that outlive their run."""

import asyncio

import msgspec

from perdure.archive.kept_rows import AssetRow

REPORT = AssetRow(
    tenant="acme",
    name="report ü",
    ref="cas://sha256:" + "0" * 64,
    media_type="text/csv",
    file_name="a.csv",
    size=7,
    preview="{}",
    run_id="r",
    node="n",
    kept_by="ann",
    kept_at=10.0,
)


def with_version(row, version):
    return msgspec.structs.replace(row, version=version)


async def test_versions_count_up_and_the_newest_is_found(archive):
    assert [await archive.keep_asset(REPORT) for _ in range(3)] == [1, 2, 3]
    assert await archive.keep_asset(msgspec.structs.replace(REPORT, name="other")) == 1
    assert await archive.find_asset("acme", "report ü") == with_version(REPORT, 3)
    assert await archive.find_asset("acme", "report ü", 2) == with_version(REPORT, 2)
    for place in (("acme", "none"), ("other", "report ü"), ("acme", "report ü", 4)):
        assert await archive.find_asset(*place) is None


async def test_many_at_once_have_a_number_each(archive):
    numbers = await asyncio.gather(*(archive.keep_asset(REPORT) for _ in range(8)))
    assert sorted(numbers) == list(range(1, 9))


async def test_a_number_that_was_deleted_is_not_given_again(archive):
    await archive.keep_asset(REPORT)
    await archive.keep_asset(REPORT)
    assert await archive.delete_asset("acme", "report ü", 2, 20.0) == with_version(REPORT, 2)
    assert await archive.delete_asset("acme", "report ü", 2, 20.0) is None
    assert await archive.find_asset("acme", "report ü", 2) is None
    assert (await archive.find_asset("acme", "report ü")).version == 1
    assert await archive.keep_asset(REPORT) == 3
    assert await archive.measure_assets("acme") == 14
    assert await archive.measure_assets("other") == 0


async def test_lists_by_name_and_version_in_pages(archive):
    for name in ("b", "a", "b"):
        await archive.keep_asset(msgspec.structs.replace(REPORT, name=name))
    await archive.keep_asset(msgspec.structs.replace(REPORT, name="c", tenant="zeta"))
    found, cursor = [], None
    while True:
        page = await archive.list_assets("acme", limit=2, cursor=cursor)
        found += [(row.name, row.version) for row in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert found == [("a", 1), ("b", 1), ("b", 2)]
    assert [row.version for row in (await archive.list_assets("acme", "b")).items] == [1, 2]
    first = await archive.list_all_assets(limit=3)
    last = await archive.list_all_assets(limit=3, cursor=first.next_cursor)
    assert [(row.tenant, row.name) for row in (*first.items, *last.items)] == [
        ("acme", "a"),
        ("acme", "b"),
        ("acme", "b"),
        ("zeta", "c"),
    ]
    assert last.next_cursor is None
