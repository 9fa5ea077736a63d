"""append_logs, read_logs: what handlers said, by run, bounded."""

import asyncio
from typing import Any

import pytest

from perdure.archive.stored_lines import LOG_LINE_BYTES, LOG_LINES, LogLine
from tests.conformance.journal.commits import append, commit


def line(message: str, **fields) -> LogLine:
    values: dict[str, Any] = {
        "tenant": "acme",
        "run_id": "r1",
        "node": "a",
        "visit": 2,
        "attempt": 3,
        "at": 5.5,
        "level": "warning",
    }
    return LogLine(message=message, **values | fields)


@pytest.fixture
async def runs(office):
    await append(office.journal, *(commit(name, tenant="acme") for name in ("r1", "r2")))


async def messages(archive, **where) -> list[str]:
    return [stored.line.message for stored in await archive.read_logs("acme", where.pop("run_id", "r1"), **where)]


async def test_lines_come_back_in_order_after_a_position(archive, runs):
    lines = [line(f"line {number} \0 ö") for number in range(5)]
    await archive.append_logs(lines[:2])
    await archive.append_logs(lines[2:])
    found = await archive.read_logs("acme", "r1")
    assert [stored.line for stored in found] == lines
    assert [stored.position for stored in found] == [1, 2, 3, 4, 5]
    assert [stored.position for stored in await archive.read_logs("acme", "r1", after=2, limit=2)] == [3, 4]


async def test_lines_of_one_node_are_read_alone(archive, runs):
    await archive.append_logs([line(f"{node}{number}", node=node) for number in range(3) for node in "ab"])
    assert await messages(archive, node="b") == ["b0", "b1", "b2"]
    assert await messages(archive, node="b", after=4) == ["b2"]
    assert await messages(archive, node="c") == []


async def test_a_batch_may_hold_lines_of_many_runs(archive, runs):
    await archive.append_logs([line(f"{run} {number}", run_id=run) for number in range(3) for run in ("r2", "r1")])
    assert await messages(archive) == ["r1 0", "r1 1", "r1 2"]
    assert await messages(archive, run_id="r2") == ["r2 0", "r2 1", "r2 2"]
    await archive.append_logs([])


async def test_nobody_writes_or_reads_the_log_of_another_tenants_run(archive, runs):
    await archive.append_logs([line("theirs", tenant="globex"), line("mine"), line("nowhere", run_id="r9")])
    assert await messages(archive) == ["mine"]
    assert await archive.read_logs("globex", "r1") == []
    assert await archive.read_logs("acme", "r9") == []


async def test_processes_that_write_at_once_share_the_positions(office, runs):
    archive, _, open_again = office
    archives = [archive, (await open_again()).archive]
    await asyncio.gather(
        *(
            archives[number % 2].append_logs(
                [line(f"{number} {run} {part}", run_id=run) for part in range(3) for run in order]
            )
            for number in range(20)
            for order in [("r1", "r2") if number % 2 else ("r2", "r1")]
        )
    )
    for run in ("r1", "r2"):
        found = await archive.read_logs("acme", run)
        assert [stored.position for stored in found] == list(range(1, 61))
        for number in range(20):
            mine = [stored.line.message for stored in found if stored.line.message.startswith(f"{number} ")]
            assert mine == [f"{number} {run} {part}" for part in range(3)]


async def test_a_run_keeps_its_newest_lines_alone(archive, runs):
    await archive.append_logs([line(str(number)) for number in range(LOG_LINES + 10)])
    await archive.append_logs([line("last")])
    found = await archive.read_logs("acme", "r1", limit=LOG_LINES + 100)
    assert (len(found), found[0].line.message, found[-1].line.message) == (LOG_LINES, "11", "last")


async def test_a_long_line_is_cut_between_characters(archive, runs):
    await archive.append_logs([line("ö" * LOG_LINE_BYTES), line("x" * LOG_LINE_BYTES), line("half \ud800")])
    cut, whole, half = await messages(archive)
    assert cut.endswith("ö …")
    assert LOG_LINE_BYTES - 2 <= len(cut.encode()) <= LOG_LINE_BYTES
    assert whole == "x" * LOG_LINE_BYTES
    assert half == "half ?"
