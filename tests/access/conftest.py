"""An archive in a real file, and a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.archive import Archive
from perdure.journals.sqlite import SqliteJournal
from tests.doubles.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def journal(tmp_path) -> AsyncIterator[SqliteJournal]:
    journal = await SqliteJournal.open(tmp_path / "perdure.db", partitions=8)
    yield journal
    await journal.close()


@pytest.fixture
def archive(journal) -> Archive:
    return journal.archive
