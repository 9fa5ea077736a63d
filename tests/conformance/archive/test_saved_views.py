"""save_view, find_view, list_views, delete_view: filters that people gave a name."""

import msgspec

from perdure.archive.kept_rows import SavedView

MINE = SavedView(tenant="acme", owner="k1", name="broken ü", query="state=failed", saved_by="ann", saved_at=10.0)


async def test_a_view_is_found_as_it_was_saved_and_saved_again_under_its_name(archive):
    await archive.save_view(MINE)
    assert await archive.find_view("acme", "k1", "broken ü") == MINE
    other = msgspec.structs.replace(MINE, query="state=paused", saved_by="bob", saved_at=11.0)
    await archive.save_view(other)
    assert await archive.find_view("acme", "k1", "broken ü") == other
    for place in (("other", "k1", "broken ü"), ("acme", "", "broken ü"), ("acme", "k1", "broken")):
        assert await archive.find_view(*place) is None


async def test_the_views_of_one_owner_by_name(archive):
    for name in ("c", "a", "b"):
        await archive.save_view(msgspec.structs.replace(MINE, name=name))
    await archive.save_view(msgspec.structs.replace(MINE, owner="", name="all"))
    await archive.save_view(msgspec.structs.replace(MINE, tenant="other", name="theirs"))
    assert [view.name for view in await archive.list_views("acme", "k1")] == ["a", "b", "c"]
    assert [view.name for view in await archive.list_views("acme", "k1", limit=2)] == ["a", "b"]
    assert [view.name for view in await archive.list_views("acme", "")] == ["all"]


async def test_a_view_is_deleted_once_and_that_of_another_stays(archive):
    await archive.save_view(MINE)
    assert await archive.delete_view("acme", "k2", MINE.name) is None
    assert await archive.delete_view("acme", "k1", MINE.name) == MINE
    assert await archive.delete_view("acme", "k1", MINE.name) is None
    assert await archive.list_views("acme", "k1") == []
