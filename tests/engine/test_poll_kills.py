"""`kill -9` of the process while rows of a table are polled: each row has exactly one run (rule 51)."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from perdure.kernel.triggers.mailbox import run_of_item
from perdure.runtime.triggers import trigger_id
from tests.engine.helpers import check, opened
from tests.forking import Forked
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ROWS = 1_500
KILLS = 6
ROOT = Path(__file__).parents[2]
ID = trigger_id("default", "rows")


def count(folder: Path, state: str = "") -> int:
    """How many runs of rows there are, as the database says."""
    place = folder / "perdure.db"
    if not place.exists():
        return 0
    query = "SELECT count(*) FROM runs WHERE run_id LIKE ?" + (" AND state = ?" if state else "")
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as connection:
        try:
            found = connection.execute(query, (f"{ID}~i%", *([state] if state else []))).fetchone()
        except sqlite3.OperationalError:  # the tables are being made
            return 0
    return int(found[0])


def put(folder: Path, first: int, last: int) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"w{n}") for n in range(first, last + 1)])


async def test_each_row_has_one_run_though_the_process_is_killed_again_and_again(tmp_path):
    chance = random.Random(1)
    put(tmp_path, 1, ROWS // 2)
    for kill in range(KILLS + 1):
        with (tmp_path / "stderr").open("a") as errors:
            words = ["-m", "tests.engine.poller", str(tmp_path)]
            process = Forked(words, cwd=ROOT, env=dict(os.environ), python=True, stderr=errors.fileno())
        try:
            if kill == KILLS:
                wait_until(lambda: count(tmp_path, "completed") >= ROWS, "every row has its run", 120)
                break
            upto = min(ROWS // 2, count(tmp_path) + chance.randint(1, ROWS // (2 * KILLS)))
            wait_until(lambda upto=upto: count(tmp_path) >= upto, "some rows have their runs", 120)
        finally:
            process.kill()
            process.wait()
        if kill == KILLS // 2:
            put(tmp_path, ROWS // 2 + 1, ROWS)  # while nothing polls
    engine = await opened(tmp_path)
    try:
        events = await check(engine.journal, ID)
        started = Counter(one.run_id for event in events if event.type == "trigger.started" for one in event.starts)
        assert started == Counter({run_of_item(ID, f"[{number}]"): 1 for number in range(1, ROWS + 1)})
        assert count(tmp_path) == ROWS
    finally:
        await engine.close()
