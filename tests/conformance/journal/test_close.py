"""close: what was accepted is kept, what comes after is refused."""

import asyncio

import pytest

from perdure.journal import Accepted, JournalClosed
from tests.conformance.journal.commits import append, commit


async def test_closing_again_is_no_mistake(journal):
    await journal.close()
    await journal.close()


async def test_a_closed_journal_refuses_reads_and_writes(journal):
    await append(journal, commit("r1"))
    await journal.close()
    with pytest.raises(JournalClosed):
        await journal.append([commit("r2")])
    with pytest.raises(JournalClosed):
        await journal.get_run("r1")
    with pytest.raises(JournalClosed):
        await journal.put_command("r1", b"")
    with pytest.raises(JournalClosed):
        await journal.hold()


async def test_everything_answered_before_is_there_for_the_next(handles, journal):
    await append(journal, commit("r1", 0, 3))
    await journal.close()
    assert (await (await handles.open()).get_run("r1")).seq == 3


async def test_every_append_that_raced_with_closing_was_either_kept_or_refused(handles, journal):
    async def try_append(number):
        try:
            return await append(journal, commit(f"r{number:02}"))
        except JournalClosed:
            return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(try_append(number)) for number in range(50)]
        group.create_task(journal.close())
    kept = {run.run_id for run in await (await handles.open()).list_active_runs()}
    assert kept == {f"r{number:02}" for number, task in enumerate(tasks) if task.result() == Accepted(1)}
