"""find_snapshot: the last one of a run, written with its commit."""

from perdure.journal import Snapshot
from tests.conformance.journal.commits import append, commit


async def test_a_run_has_none_until_a_commit_brings_one(journal):
    assert await journal.find_snapshot("r1") is None
    await append(journal, commit("r1", 0, 2))
    assert await journal.find_snapshot("r1") is None


async def test_the_last_snapshot_is_found(journal):
    await append(journal, commit("r1", 0, 2, snapshot=Snapshot(2, 1, b"old")))
    await append(journal, commit("r1", 2, 2, snapshot=Snapshot(4, 7, b"\x00new")))
    await append(journal, commit("r1", 4, 1))
    assert await journal.find_snapshot("r1") == Snapshot(4, 7, b"\x00new")
