"""kill -9 while writing: every answered commit is there, whole, once, and the next process goes on (J1, J2, J7)."""

import asyncio
from pathlib import Path

import pytest

from perdure.journal import Accepted
from perdure.journals.sqlite import SqliteJournal
from tests.journals.sqlite.children import child, kill, line
from tests.journals.whole import check_whole, next_commit

pytestmark = pytest.mark.slow

KILLS = 6


def write_and_kill(path: Path, generation: int, answers: int) -> list[tuple[str, int, int]]:
    """What the child had been answered before it died."""
    with child("write", path, str(generation)) as process:
        lines = [line(process) for _ in range(answers)]
        lines += kill(process)
    words = (text.split() for text in lines)
    return [(run_id, int(expected), int(seq)) for run_id, expected, seq in words]


def test_after_any_number_of_kills_every_answered_commit_is_there_and_none_twice(tmp_path):
    path = tmp_path / "perdure.db"

    async def look(generation: int, answered: list[tuple[str, int, int]]) -> None:
        journal = await SqliteJournal.open(path)
        try:
            reached = await check_whole(journal)
            for run_id, _, seq in answered:
                assert reached[run_id] >= seq
            # The last answered commit of each run, appended again, is the same commit.
            last = {run_id: (expected, seq) for run_id, expected, seq in answered}
            for run_id, (expected, seq) in last.items():
                assert await journal.append([next_commit(run_id, expected, generation)]) == [Accepted(seq)]
            assert await check_whole(journal) == reached
        finally:
            await journal.close()

    for generation in range(KILLS):
        answered = write_and_kill(path, generation, answers=1 + 37 * generation)
        assert len(answered) >= 1 + 37 * generation
        asyncio.run(look(generation, answered))


def test_a_commit_whose_answer_was_lost_is_found_or_can_be_appended(tmp_path):
    path = tmp_path / "perdure.db"
    answered = write_and_kill(path, 0, answers=50)

    async def settle() -> None:
        journal = await SqliteJournal.open(path)
        for number in range(8):
            run_id = f"run{number}"
            seq = max((seq for run, _, seq in answered if run == run_id), default=0)
            # Perhaps durable, perhaps not: the child died before it could say. Now it is, once.
            assert await journal.append([next_commit(run_id, seq, 0)]) == [Accepted(seq + 3)]
            assert (await journal.get_run(run_id)).seq == seq + 3
        await check_whole(journal)
        await journal.close()

    asyncio.run(settle())
