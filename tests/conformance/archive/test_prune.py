"""prune_runs: ended runs go with everything that is kept of them, and nothing else does. Their keys go later (PROTOCOL 11)."""

import asyncio

import pytest

from perdure.archive import PRUNE_ROWS
from perdure.errors import NotFound
from perdure.journal import (
    Accepted,
    ApprovalRow,
    Conflict,
    DeadLetterRow,
    Exists,
    IdempotencyKey,
    RunFilter,
    Snapshot,
    Subscription,
)
from tests.conformance.archive.test_links import link
from tests.conformance.archive.test_logs import line
from tests.conformance.journal.commits import append, commit


async def ids(journal) -> list[str]:
    return sorted(one.run_id for one in (await journal.list_runs(limit=1000)).items)


def full(run_id: str, **fields):
    return commit(
        run_id,
        count=5,
        tenant="acme",
        tags=b'{"team":"red"}',
        timers_set=(("t1", 10.0),),
        snapshot=Snapshot(3, 1, b"{}"),
        approvals=(ApprovalRow(approval_id=f"a-{run_id}", run_id=run_id, node="n", state="pending", requested_at=1.0),),
        dead_letters=(
            DeadLetterRow(dead_letter_id=f"d-{run_id}", run_id=run_id, node="n", state="parked", created_at=1.0),
        ),
        idempotency=IdempotencyKey("acme", f"key {run_id}", "h"),
        subscriptions=(Subscription(tenant="acme", topic="t", run_id=run_id, place=f"{run_id}/receive"),),
        **fields,
    )


async def test_everything_that_is_kept_of_a_run_goes_with_it(office):
    archive, journal, _ = office
    await append(journal, full("old", ended_at=50.0), full("new", ended_at=150.0))
    await archive.append_logs([line("x", run_id="old"), line("y", run_id="new")])
    await archive.create_link(link(run_id="old"))
    await archive.create_link(link(run_id="new", token_hash=bytes(32)))
    assert await archive.prune_runs(100.0) == 1
    assert await journal.find_run("old") is None
    assert await journal.read_events("old") == []
    assert await journal.find_snapshot("old") is None
    assert await archive.read_logs("acme", "old") == []
    assert await archive.find_link(link().token_hash) is None
    assert [one.run_id for one in (await journal.list_runs(RunFilter(tag=("team", "red")))).items] == ["new"]
    assert [one.run_id for one in (await journal.list_approvals()).items] == ["new"]
    assert [one.run_id for one in (await journal.list_dead_letters()).items] == ["new"]
    assert [one.run_id for one in await journal.list_due_timers(1000.0)] == ["new"]
    with pytest.raises(NotFound):
        await journal.get_approval("a-old")
    assert len(await journal.read_events("new")) == 5
    assert await journal.find_snapshot("new") is not None
    assert await journal.find_idempotency("acme", "key new") is not None
    assert len(await archive.read_logs("acme", "new")) == 1
    assert await archive.find_link(bytes(32)) is not None
    assert await archive.prune_runs(100.0) == 0


async def test_an_id_may_be_used_again_after_it(office):
    archive, journal, _ = office
    await append(journal, full("r1", ended_at=50.0))
    await archive.append_logs([line("before")])
    assert await archive.prune_runs(100.0) == 1
    assert await archive.prune_idempotency(100.0) == 1
    await append(journal, full("r1", commit_id="again"))
    await archive.append_logs([line("after")])
    assert [one.position for one in await archive.read_logs("acme", "r1")] == [1]
    assert [event.seq for event in await journal.read_events("r1")] == [1, 2, 3, 4, 5]


async def test_runs_that_live_or_ended_lately_or_are_quarantined_stay(office):
    archive, journal, _ = office
    await append(
        journal,
        commit("lives"),
        commit("lately", ended_at=100.0),
        commit("odd", ended_at=1.0),
        commit("old", ended_at=99.9),
    )
    await journal.mark_quarantined("odd", "look at it")
    assert await archive.prune_runs(100.0) == 1
    assert await ids(journal) == ["lately", "lives", "odd"]


async def test_a_child_stays_while_its_parent_is_there_and_follows_it(office):
    archive, journal, _ = office
    await append(
        journal,
        commit("p", ended_at=60.0),
        commit("p:c", parent="p", ended_at=50.0),
        commit("p:c:g", parent="p:c", ended_at=40.0),
        commit("q"),
        commit("q:c", parent="q", ended_at=50.0),
    )
    assert await archive.prune_runs(55.0) == 0
    assert [await archive.prune_runs(100.0) for _ in range(4)] == [1, 1, 1, 0]
    assert await ids(journal) == ["q", "q:c"]


async def test_a_parent_stays_while_a_child_has_not_ended(office):
    archive, journal, _ = office
    await append(journal, commit("p", ended_at=60.0), commit("p:c", parent="p"))
    assert await archive.prune_runs(100.0) == 0
    await append(journal, commit("p:c", 1, parent="p", ended_at=70.0))
    assert [await archive.prune_runs(100.0) for _ in range(3)] == [1, 1, 0]


async def test_the_oldest_go_first_and_no_more_than_were_asked_for(office):
    archive, journal, _ = office
    await append(journal, *(commit(f"r{number}", ended_at=10.0 + (7 * number) % 10) for number in range(10)))
    assert await archive.prune_runs(100.0, limit=4) == 4
    left = (await journal.list_runs()).items
    assert sorted(one.row.ended_at for one in left) == [14.0, 15.0, 16.0, 17.0, 18.0, 19.0]
    assert await archive.prune_runs(100.0, limit=0) == 0
    assert [await archive.prune_runs(100.0, limit=4) for _ in range(3)] == [4, 2, 0]


async def test_one_transaction_deletes_a_bounded_number_of_events(office):
    archive, journal, _ = office
    await append(journal, *(commit(f"r{number}", ended_at=10.0 + number) for number in range(3)))
    # The number on the row says how many events there are; this one claims more than it has.
    await append(journal, commit("big", ended_at=1.0))
    await append(journal, commit("bigger", ended_at=2.0))
    for name in ("big", "bigger"):
        await pretend_events(journal, name, PRUNE_ROWS - 1)
    assert [await archive.prune_runs(100.0) for _ in range(3)] == [1, 2, 2]


async def pretend_events(journal, run_id: str, count: int) -> None:
    await execute(journal, f"UPDATE {{}}runs SET seq = {count} WHERE run_id = '{run_id}'")


async def execute(journal, text: str) -> list:
    """SQL under the adapter. `{}` stands before names of tables."""
    if hasattr(journal, "_connections"):
        connection = await journal._connections._take()
        rows = await connection.fetch(text.format("perdure."))
        journal._connections._idle.append(connection)
        return list(rows)
    return await journal._writer.run(lambda connection: connection.execute(text.format("")).fetchall())


async def test_no_row_of_a_run_is_left_in_any_table(office):
    archive, journal, _ = office
    await append(journal, full("r1", ended_at=50.0))
    await archive.append_logs([line("x")])
    await archive.create_link(link())
    if hasattr(journal, "_connections"):
        columns = await execute(
            journal,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'perdure' "
            "AND column_name = 'run_id' AND table_name !~ '^events_'",
        )
    else:
        columns = await execute(
            journal,
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND c.name IN ('run_id', 'run_key')",
        )
    tables = sorted(
        {table for table, _ in columns} - {"notices", "commands", "assets", "agent_entries"}
    )  # what is promoted outlives its run
    assert {"runs", "events", "run_tags", "snapshots", "timers", "links", "logs", "log_heads", "idempotency"} <= set(
        tables
    )

    async def count() -> dict[str, int]:
        return {table: (await execute(journal, f"SELECT count(*) FROM {{}}{table}"))[0][0] for table in tables}

    assert [table for table, rows in (await count()).items() if not rows] == []
    assert await archive.prune_runs(100.0) == 1
    assert [table for table, rows in (await count()).items() if rows] == ["idempotency"]
    assert await archive.prune_idempotency(100.0) == 1
    assert [table for table, rows in (await count()).items() if rows] == []


async def test_the_key_of_a_run_that_is_there_stays_however_old_it_is(office):
    archive, journal, _ = office
    await append(journal, full("lives", created_at=1.0), full("ended", created_at=1.0, ended_at=50.0))
    assert await archive.prune_idempotency(1e9) == 0
    for run_id in ("lives", "ended"):
        key = IdempotencyKey("acme", f"key {run_id}", "h")
        assert await append(journal, commit("second", tenant="acme", idempotency=key)) == Exists(run_id, same_body=True)


async def test_a_key_stays_behind_when_its_run_goes_and_counts_its_time_from_the_end_of_the_run(office):
    archive, journal, _ = office
    await append(journal, full("short", ended_at=50.0), full("long", ended_at=90.0), full("lives"))
    assert await archive.prune_runs(100.0) == 2
    key = IdempotencyKey("acme", "key long", "h")
    assert await append(journal, commit("second", tenant="acme", idempotency=key)) == Exists("long", same_body=True)
    assert [await archive.prune_idempotency(90.0) for _ in range(2)] == [1, 0]
    assert await journal.find_idempotency("acme", "key short") is None
    assert await journal.find_idempotency("acme", "key long") == ("long", "h")
    assert await archive.prune_idempotency(90.1) == 1
    assert await append(journal, commit("second", tenant="acme", idempotency=key)) == Accepted(1)
    assert await archive.prune_idempotency(1e9) == 0


async def test_a_key_that_stayed_behind_is_not_renewed_by_another_run_with_the_id_of_its_run(office):
    archive, journal, _ = office
    await append(journal, full("r1", ended_at=50.0))
    assert await archive.prune_runs(100.0) == 1
    await append(journal, commit("r1", tenant="acme", commit_id="again", ended_at=150.0))
    assert await archive.prune_runs(200.0) == 1
    assert await archive.prune_idempotency(100.0) == 1


async def test_runs_that_stay_do_not_stand_in_the_way_of_those_that_go(office):
    archive, journal, _ = office
    await append(
        journal,
        *(commit(f"odd{number}", ended_at=1.0) for number in range(3)),
        commit("parent"),
        *(commit(f"parent:{number}", parent="parent", ended_at=2.0) for number in range(3)),
        commit("old", ended_at=50.0),
    )
    for number in range(3):
        await journal.mark_quarantined(f"odd{number}", "look at it")
    assert await archive.prune_runs(100.0, limit=1) == 1
    assert await journal.find_run("old") is None


async def test_a_run_that_was_pruned_takes_no_more_events(office):
    archive, journal, _ = office
    await append(journal, commit("r1", ended_at=1.0))
    await archive.prune_runs(100.0)
    assert await append(journal, commit("r1", 1)) == Conflict(0, "")


async def test_processes_that_prune_at_once_delete_each_run_once(office):
    archive, journal, open_again = office
    other = (await open_again()).archive
    await append(journal, *(full(f"r{number:03}", ended_at=10.0) for number in range(100)))

    async def prune(archive) -> int:
        total = 0
        while deleted := await archive.prune_runs(100.0, limit=7):
            total += deleted
        return total

    assert sum(await asyncio.gather(prune(archive), prune(other), prune(archive))) == 100
    assert await ids(journal) == []
