"""`python -m bench.postgres [URL]`: appends to PostgreSQL beside what the server takes without a journal.

Without a URL it starts the server of the wheel, with fsync on, on the disk of the temporary folder. A database that is named
must be a new one; it is migrated and filled.
"""

from __future__ import annotations

import asyncio
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from perdure.journal import Accepted, Commit, Epoch, RunRow, StoredEvent, partition_of
from perdure.journals.postgres import migrate_postgres, open_postgres
from tests.servers.postgres import PostgresServer

EVENTS = 3
BODY = b'{"output":"' + b"x" * 240 + b'"}'
SECONDS = 3.0
"""How long each line is measured."""
RAW = """
INSERT INTO raw (run_id, seq, type, at, commit_id, body)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::double precision[], $5::text[], $6::bytea[])
"""
TABLE = """
CREATE TABLE raw (
    run_id text COLLATE "C", seq bigint, type text, at double precision, commit_id text, body bytea, PRIMARY KEY (run_id, seq)
)
"""


def commit(run_id: str, seq: int) -> Commit:
    """As a coordinator's: three events, fenced by epoch and incarnation."""
    partition = partition_of(run_id, 256)
    return Commit(
        run_id=run_id,
        expected_seq=seq,
        commit_id=f"{run_id}-{seq}",
        row=RunRow(
            state="running", workflow="flow", ir="sha256:" + "a" * 64, partition=partition, created_at=1e9, busy=True
        ),
        events=tuple(StoredEvent(seq + number, "node.completed", 1e9, BODY) for number in range(1, EVENTS + 1)),
        epoch=Epoch(partition, 0),
        incarnation=1,
    )


async def measure(work: Callable[[int], Awaitable[None]]) -> list[float]:
    """The seconds of each call, after a few that do not count."""
    for number in range(3):
        await work(-1 - number)
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        await work(len(times))
        times.append(time.perf_counter() - start)
    return times


def show(name: str, times: list[float], events: int) -> None:
    median, worst = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
    rate = events * len(times) / sum(times)
    print(f"  {name:44} {rate:9,.0f} events/s   median {median * 1e3:7.2f} ms   99 % {worst * 1e3:7.2f} ms", flush=True)


async def raw(connection: Any, size: int) -> list[float]:
    async def work(turn: int) -> None:
        rows = [
            (f"raw{size}-{turn}-{n}", seq, "node.completed", 1e9, None, BODY)
            for n in range(size)
            for seq in range(EVENTS)
        ]
        await connection.execute(RAW, *map(list, zip(*rows, strict=True)))

    return await measure(work)


async def starts(journal: Any, size: int) -> list[float]:
    async def work(turn: int) -> None:
        answers = await journal.append([commit(f"{size:04}-{turn:08}-{number:019}", 0) for number in range(size)])
        assert answers == [Accepted(EVENTS)] * size

    return await measure(work)


async def moves(journal: Any, size: int, among: int = 5000) -> list[float]:
    """Runs that exist grow by turns."""
    runs = [f"move{size:04}-{number:023}" for number in range(max(among, size))]
    seqs = dict.fromkeys(runs, 0)
    for first in range(0, len(runs), 1000):
        await journal.append([commit(run_id, 0) for run_id in runs[first : first + 1000]])
    seqs = dict.fromkeys(runs, EVENTS)

    async def work(turn: int) -> None:
        first = turn * size % len(runs)
        chosen = (runs[first:] + runs[:first])[:size]
        answers = await journal.append([commit(run_id, seqs[run_id]) for run_id in chosen])
        for run_id, answer in zip(chosen, answers, strict=True):
            assert isinstance(answer, Accepted), answer
            seqs[run_id] = answer.seq

    return await measure(work)


async def many_callers(journal: Any, callers: int) -> tuple[list[float], float]:
    """Each appends one commit at a time; those that wait share a statement. (Seconds of each, seconds in all.)"""
    times: list[float] = []

    async def call(number: int) -> None:
        run_id, seq = f"caller{callers:04}-{number:020}", 0
        while time.perf_counter() < end:
            start = time.perf_counter()
            (answer,) = await journal.append([commit(run_id, seq)])
            times.append(time.perf_counter() - start)
            seq = answer.seq

    begin = time.perf_counter()
    end = begin + SECONDS
    await asyncio.gather(*(call(number) for number in range(callers)))
    return times, time.perf_counter() - begin


async def run(url: str) -> None:
    connection = await asyncpg.connect(url)
    version = await connection.fetchval("SHOW server_version")
    settings = [
        f"{name}={await connection.fetchval(f'SHOW {name}')}"
        for name in ("fsync", "synchronous_commit", "shared_buffers")
    ]
    print(f"{platform.machine()}, Python {platform.python_version()}, PostgreSQL {version}, {', '.join(settings)}\n")
    await connection.execute(TABLE)
    await migrate_postgres(url)
    journal = await open_postgres(url, require_durable=False)
    for size in (1, 10, 100, 1000):
        for name, times in (
            (f"raw: INSERT of {size} × {EVENTS} rows", await raw(connection, size)),
            (f"append: {size} runs begin", await starts(journal, size)),
            (f"append: {size} runs move on", await moves(journal, size)),
        ):
            show(name, times, size * EVENTS)
        print()
    for callers in (10, 100, 1000):
        times, seconds = await many_callers(journal, callers)
        median = statistics.median(times)
        rate = len(times) * EVENTS / seconds
        print(
            f"  {callers:5} callers, one commit each at a time         {rate:9,.0f} events/s   median {median * 1e3:7.2f} ms"
        )
    await journal.close()
    await connection.close()


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(run(sys.argv[1]))
        return
    server = PostgresServer(shared_buffers="256MB")
    try:
        server.start()
        asyncio.run(run(server.url()))
    finally:
        server.remove()


if __name__ == "__main__":
    main()
