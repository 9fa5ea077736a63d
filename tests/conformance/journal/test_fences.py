"""Epochs and incarnations: a writer that lost its right changes nothing."""

from perdure.journal import Accepted, Epoch, Fenced, partition_of
from tests.conformance.journal.adapters import PARTITIONS
from tests.conformance.journal.commits import append, commit


async def test_the_current_epoch_may_write(journal):
    epochs = await journal.raise_epochs([3])
    assert epochs == {3: 1}
    assert await append(journal, commit("r1", epoch=Epoch(3, 1))) == Accepted(1)


async def test_an_old_epoch_is_fenced(journal):
    await journal.raise_epochs([3])
    await journal.raise_epochs([3])
    assert await append(journal, commit("r1", epoch=Epoch(3, 1))) == Fenced(2, 1)
    assert await journal.find_run("r1") is None


async def test_only_the_fenced_commits_of_an_append_are_left_out(journal):
    await journal.raise_epochs([3, 4])
    await journal.raise_epochs([4])
    answers = await append(journal, commit("r1", epoch=Epoch(3, 1)), commit("r2", epoch=Epoch(4, 1)), commit("r3"))
    assert answers == [Accepted(1), Fenced(2, 1), Accepted(1)]


async def test_epochs_of_partitions_are_independent(journal):
    assert await journal.raise_epochs(range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 1)
    assert await journal.raise_epochs([1, 2]) == {1: 2, 2: 2}
    assert await journal.raise_epochs([]) == {}


async def test_the_incarnation_begins_at_one_and_only_grows(handles, journal):
    assert await journal.incarnation() == 1
    assert await journal.raise_incarnation() == 2
    assert await (await handles.open()).incarnation() == 2


async def test_an_old_incarnation_is_fenced(journal):
    assert await append(journal, commit("r1", incarnation=1)) == Accepted(1)
    await journal.raise_incarnation()
    assert await append(journal, commit("r1", 1, incarnation=1)) == Fenced(0, 2)
    assert await append(journal, commit("r1", 1, incarnation=2)) == Accepted(2)


async def test_a_commit_that_was_accepted_stays_so_after_its_writer_was_fenced(journal):
    await journal.raise_epochs([3])
    mine = commit("r1", epoch=Epoch(3, 1))
    await append(journal, mine)
    await journal.raise_epochs([3])
    assert await append(journal, mine) == Accepted(1)


async def test_the_number_of_partitions_is_fixed(handles, journal):
    assert journal.partition_count == PARTITIONS
    assert (await handles.open()).partition_count == PARTITIONS


def test_a_run_has_one_partition_for_ever(journal):
    assert [partition_of(f"run {number}", 256) for number in range(5)] == [56, 174, 20, 130, 33]


async def test_what_is_written_to_find_out_whether_it_can_be_changes_nothing(journal):
    before = await journal.incarnation()
    for _ in range(3):
        await journal.check_writable()
    assert await journal.incarnation() == before
    assert await journal.raise_epochs([5]) == {5: 1}
