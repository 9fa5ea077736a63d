"""Every thread, connection, file and lock is gone after `close`, and after an opening that failed."""

import asyncio
import gc
import os
import threading

import pytest

from perdure.errors import PerdureError
from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.commits import append, commit


def open_files(folder) -> set[str]:
    """Those in the folder of the test; another test of the same process may still have its own."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the one that listed the folder
    return {link for link in links if link.startswith(f"{os.path.realpath(folder)}/")}


_before: set[threading.Thread] = set()
"""Those of journals that other tests of the same process keep."""


@pytest.fixture(autouse=True)
def _note_threads():
    _before.clear()
    _before.update(threading.enumerate())


def journal_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("perdure-journal") and one not in _before]


async def test_close_leaves_nothing(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db", readers=3)
    await journal.hold()
    await asyncio.gather(*(append(journal, commit(f"r{number}")) for number in range(20)))
    await asyncio.gather(*(journal.list_runs() for _ in range(20)))
    assert len(journal_threads()) == 1 + 3
    assert len(open_files(tmp_path)) >= 3
    await journal.close()
    assert journal_threads() == []
    assert open_files(tmp_path) == set()
    assert sorted(os.listdir(tmp_path)) == ["perdure.db", "perdure.db.lock"]


async def test_a_failed_opening_leaves_nothing(tmp_path):
    (tmp_path / "perdure.db").write_bytes(b"no database " * 1000)
    for read_only in (False, True):
        with pytest.raises(PerdureError):
            await SqliteJournal.open(tmp_path / "perdure.db", read_only=read_only)
        gc.collect()
        assert journal_threads() == []
        assert open_files(tmp_path) == set()


@pytest.mark.slow
async def test_threads_and_files_do_not_grow_with_use(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db", readers=2)
    seen = set()
    for number in range(30):
        await append(journal, *(commit(f"r{number}-{run}") for run in range(10)))
        await asyncio.gather(*(journal.list_runs() for _ in range(10)))
        seen.add((len(journal_threads()), len(open_files(tmp_path))))
    assert max(threads for threads, _ in seen) == 3
    assert len(seen) <= 3
    await journal.close()


async def test_a_cancelled_read_gives_its_place_back(tmp_path):
    journal = await SqliteJournal.open(tmp_path / "perdure.db", readers=1)
    await append(journal, commit("r1", 0, 5))
    for _ in range(5):
        reading = asyncio.gather(journal.read_events("r1"))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert len(await journal.read_events("r1")) == 5
    await journal.close()
    assert journal_threads() == []


def test_a_loop_that_ends_without_closing_does_not_stop_the_process(tmp_path):
    async def forget() -> SqliteJournal:
        journal = await SqliteJournal.open(tmp_path / "perdure.db")
        await append(journal, commit("r1"))
        return journal

    journal = asyncio.run(forget())
    writer = journal._writer
    assert writer is not None
    writer._queue.put(None)
    writer._thread.join(60)
    assert not writer._thread.is_alive()
    journal._readers._pool.shutdown()
