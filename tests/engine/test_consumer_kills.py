"""`kill -9` of a process whose run consumes a table: at 100, killed, 101 to 105 come, and exactly those are taken, in order (rule 54)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.kernel import events as e
from tests.engine.helpers import check, opened
from tests.forking import Forked
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def put(folder: Path, first: int, last: int) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)")
        shop.executemany("INSERT INTO orders VALUES (?)", [(number,) for number in range(first, last + 1)])


def count(folder: Path) -> int:
    """How many rows were taken, as the database says."""
    place = folder / "perdure.db"
    if not place.exists():
        return 0
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
        try:
            query = "SELECT count(*) FROM events WHERE type = 'trigger.handed'"
            return int(connection.execute(query).fetchone()[0])
        except sqlite3.OperationalError:  # the tables are being made
            return 0


async def test_consuming_at_100_and_killed_exactly_101_to_105_come_in_order(tmp_path):
    put(tmp_path, 1, 100)
    for upto in (1, 100, 105):  # the first kill comes in the middle of the hundred, or behind it
        if upto == 105:
            put(tmp_path, 101, 105)  # while nobody is there
        with (tmp_path / "stderr").open("a") as errors:
            words = ["-m", "tests.engine.consumer", str(tmp_path)]
            process = Forked(words, cwd=ROOT, env=dict(os.environ), python=True, stderr=errors.fileno())
        try:
            wait_until(lambda upto=upto: count(tmp_path) >= upto, f"{upto} rows are taken", 120)
        finally:
            process.kill()
            process.wait()
    engine = await opened(tmp_path)
    try:
        events = await check(engine.journal)
        taken = [one.output["id"] for one in events if isinstance(one, e.NodeCompleted) and one.node == "take"]
        assert taken == list(range(1, 106))
    finally:
        await engine.close()
