"""Many waiting runs cost disk, not memory: whoever takes them over reads them page by page."""

import tracemalloc

import pytest

RUNS = EVENTS = 20_000
PEAK = 4e6
"""Bytes: all of the runs, or of the events, would take two or three times as much."""
FILL = f"""
INSERT INTO perdure.runs
SELECT format('run%s', lpad(n::text, 8, '0')), 3, 'c' || n, 'running', 'flow', 1, 'sha256:x', n % 8, 'default', '{{}}', 1, 1,
       n % 100 = 0, n, n, NULL, NULL, NULL, NULL
FROM generate_series(1, {RUNS}) n;
INSERT INTO perdure.timers SELECT run_id, 'timer', 1e9 + created_at, partition FROM perdure.runs;
ANALYZE perdure.runs, perdure.timers;
"""


async def read_all(read_page, place_of) -> int:
    count, after = 0, None
    while page := await read_page(after):
        count += len(page)
        after = place_of(page[-1])
    return count


@pytest.mark.slow
async def test_twenty_thousand_waiting_runs_are_taken_over_in_a_few_megabytes(journal, admin):
    await admin.execute(FILL)
    tracemalloc.start()
    try:
        active = await read_all(lambda after: journal.list_active_runs(after=after or ""), lambda run: run.run_id)
        mine = await read_all(lambda after: journal.list_active_runs([1, 2], after=after or ""), lambda run: run.run_id)
        busy = await read_all(
            lambda after: journal.list_active_runs(after=after or "", busy=True), lambda run: run.run_id
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (active, mine, busy) == (RUNS, RUNS // 4, RUNS // 100)
    assert peak < PEAK
    assert await journal.next_timer() == 1e9 + 1
    assert await journal.list_due_timers(1e9) == []


@pytest.mark.slow
async def test_a_long_run_is_read_page_by_page(journal, admin):
    await admin.execute(
        "INSERT INTO perdure.events SELECT 'long', n, 'node.completed', 1, NULL, repeat('x', 200)::bytea "
        f"FROM generate_series(1, {EVENTS}) n"
    )
    tracemalloc.start()
    try:
        count = await read_all(lambda after: journal.read_events("long", after or 0), lambda event: event.seq)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == EVENTS
    assert peak < PEAK
