"""Random appends, alike on SQLite and on the model in memory: the same answers and the same journals after every step."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.journals.sqlite import SqliteJournal
from tests.conformance.journal.adapters import PARTITIONS
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.journals.model import appends, do, everything, raises


@pytest.mark.slow
@given(st.lists(appends | raises, min_size=1, max_size=12))
def test_sqlite_and_the_model_agree(steps):
    async def compare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            real = await SqliteJournal.open(Path(folder) / "perdure.db", partitions=PARTITIONS, synchronous="OFF")
            model = MemoryJournal(Store(PARTITIONS))
            try:
                for step in steps:
                    assert await do(real, step) == await do(model, step)
                    assert await everything(real) == await everything(model)
            finally:
                await real.close()

    asyncio.run(compare())
