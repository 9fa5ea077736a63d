"""What the machine gives without an engine: SQLite commits of the same size, and a bare event loop."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from pathlib import Path


def commits_per_second(folder: Path, *, rows: int = 3, size: int = 250, count: int = 1500) -> tuple[float, float]:
    """(commits a second, median seconds a commit): durable transactions of `rows` events, one after the other."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE events (run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID"
    )
    body = b"x" * size
    times = []
    for number in range(count):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", [(number, row, body) for row in range(rows)])
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return count / sum(times), statistics.median(times)


def rows_per_second(folder: Path, *, size: int = 250, count: int = 200_000, batch: int = 3000) -> float:
    """Durable events a second when a commit carries thousands of them."""
    connection = sqlite3.connect(folder / "rows.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE events (run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID"
    )
    body = b"x" * size
    start = time.perf_counter()
    for first in range(0, count, batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?)", [(n, 1, body) for n in range(first, first + batch)]
        )
        connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return count / seconds


def calls_per_second(count: int = 200_000) -> float:
    """Coroutines a bare event loop runs a second, as tasks, a hundred at a time."""

    async def nothing() -> int:
        return 1

    async def main() -> float:
        start = time.perf_counter()
        for _ in range(count // 100):
            await asyncio.gather(*(nothing() for _ in range(100)))
        return count / (time.perf_counter() - start)

    return asyncio.run(main())
