"""One database under two names: a link leads to the same lock, and a second name of the file itself is refused."""

import os

import pytest

from perdure.journal import HeldBy, JournalUnavailable
from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import append, commit


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_link_leads_to_the_same_holder(tmp_path, what):
    (tmp_path / "real").mkdir()
    path = tmp_path / "real" / "perdure.db"
    first = await SqliteJournal.open(path)
    if what == "file":
        link = tmp_path / "link.db"
        link.symlink_to(path)
    else:
        (tmp_path / "folder").symlink_to(path.parent)
        link = tmp_path / "folder" / "perdure.db"
    second = await SqliteJournal.open(link)
    try:
        assert not isinstance(await first.hold(), HeldBy)
        held = await second.hold()
        assert isinstance(held, HeldBy)
        assert held.pid == os.getpid()
        await append(first, commit("r1", 0, 3))
        assert (await second.get_run("r1")).seq == 3
    finally:
        await second.close()
        await first.close()
    assert {one.name for one in tmp_path.iterdir()} <= {"real", "link.db", "folder"}  # no lock of its own


async def test_a_file_with_two_names_is_refused_under_both(tmp_path):
    path, other = tmp_path / "perdure.db", tmp_path / "other.db"
    await (await SqliteJournal.open(path)).close()
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(JournalUnavailable, match="several names"):
            await SqliteJournal.open(name)
    other.unlink()
    await (await SqliteJournal.open(path)).close()
