"""Commits that show if a half of them is missing, and the check that none is. For every journal that can be killed."""

from __future__ import annotations

from perdure.journal import Commit, Journal
from tests.conformance.journal.commits import commit

MANY = 10**6


def next_commit(run_id: str, seq: int, generation: int) -> Commit:
    """Three events, a timer and a notice that belong together, so that half a commit would show."""
    return commit(
        run_id,
        seq,
        3,
        commit_id=f"{run_id}@{seq}#{generation}",
        timers_set=(("t", float(seq + 3)),),
        notices=(("parent", b"%d" % (seq + 3)),),
    )


async def check_whole(journal: Journal) -> dict[str, int]:
    """Every run is made of whole commits without gap; timers and notices agree with the events. How far each run is."""
    runs = {run.run_id: run for run in (await journal.list_runs()).items}
    timers = {timer.run_id: timer.due_at for timer in await journal.list_due_timers(1e12)}
    notices = [(notice.from_run_id, int(notice.body)) for notice in await journal.read_notices(limit=MANY)]
    expected = []
    for run_id, run in runs.items():
        events = await journal.read_events(run_id, limit=MANY)
        assert [event.seq for event in events] == list(range(1, run.seq + 1))
        assert run.seq % 3 == 0
        assert timers[run_id] == run.seq
        expected += [(run_id, seq) for seq in range(3, run.seq + 1, 3)]
    assert sorted(notices) == sorted(expected)
    return {run_id: run.seq for run_id, run in runs.items()}
