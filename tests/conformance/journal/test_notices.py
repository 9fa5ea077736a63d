"""read_notices, delete_notices: what a child's end tells its parent, exactly once (R6)."""

from perdure.journal import Conflict, partition_of
from tests.conformance.journal.adapters import PARTITIONS
from tests.conformance.journal.commits import append, commit


async def bodies(journal, *arguments, **named):
    return [notice.body for notice in await journal.read_notices(*arguments, **named)]


async def test_a_notice_is_written_with_the_commit_and_read_in_order(journal):
    await append(journal, commit("child1", notices=(("parent", b"1"), ("other", b"2"))))
    await append(journal, commit("child2", notices=(("parent", b"3"),)))
    notices = await journal.read_notices()
    assert [(notice.run_id, notice.from_run_id, notice.body) for notice in notices] == [
        ("parent", "child1", b"1"),
        ("other", "child1", b"2"),
        ("parent", "child2", b"3"),
    ]
    assert await bodies(journal, limit=1) == [b"1"]
    assert await bodies(journal, after=notices[0].notice_id) == [b"2", b"3"]


async def test_the_commit_that_takes_it_in_deletes_it(journal):
    await append(journal, commit("parent"), commit("child", notices=(("parent", b"1"), ("parent", b"2"))))
    first, _second = await journal.read_notices()
    await append(journal, commit("parent", 1, notices_consumed=(first.notice_id,)))
    assert await bodies(journal) == [b"2"]


async def test_a_commit_in_conflict_leaves_it(journal):
    await append(journal, commit("parent", 0, 2), commit("child", notices=(("parent", b"1"),)))
    (notice,) = await journal.read_notices()
    stale = commit("parent", 1, commit_id="stale", notices_consumed=(notice.notice_id,))
    assert isinstance(await append(journal, stale), Conflict)
    assert await bodies(journal) == [b"1"]


async def test_nobody_consumes_the_notice_of_another_run(journal):
    await append(journal, commit("thief"), commit("child", notices=(("parent", b"1"),)))
    (notice,) = await journal.read_notices()
    await append(journal, commit("thief", 1, notices_consumed=(notice.notice_id, 999)))
    assert await bodies(journal) == [b"1"]


async def test_only_the_partitions_asked_for(journal):
    await append(journal, commit("child", notices=(("p1", b"1"), ("p2", b"2"))))
    mine = partition_of("p1", PARTITIONS)
    assert partition_of("p2", PARTITIONS) != mine
    assert await bodies(journal, [mine]) == [b"1"]
    assert await bodies(journal, []) == []


async def test_delete_notices_and_ids_are_never_used_again(journal):
    await append(journal, commit("child", notices=(("gone", b"1"),)))
    (notice,) = await journal.read_notices()
    await journal.delete_notices([notice.notice_id, 999])
    await journal.delete_notices([])
    assert await journal.read_notices() == []
    await append(journal, commit("child", 1, notices=(("gone", b"2"),)))
    assert (await journal.read_notices())[0].notice_id > notice.notice_id
