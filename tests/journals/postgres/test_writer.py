"""The writers: group commit, a bounded queue, errors that reach the right callers, rivals that never lock each other."""

import asyncio
import random

import pytest

from perdure.errors import IntegrityError
from perdure.journal import (
    Accepted,
    ApprovalRow,
    Conflict,
    IdempotencyKey,
    InvalidCommit,
    JournalBusy,
    RunFilter,
    RunRow,
)
from perdure.journals.postgres import appender, writer
from tests.conformance.journal.commits import append, commit, event
from tests.journals.postgres.helpers import locked, until_waiting

TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM perdure.runs"


@pytest.fixture
async def journal(url, open_journal):
    """With one writer, so that what waits can be counted."""
    return await open_journal(url, writers=1)


async def test_everything_that_waits_goes_into_one_transaction(journal, url, admin):
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        first = group.create_task(append(journal, commit("first")))
        await until_waiting(gate, 1)
        waiting = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(100)]
        await asyncio.sleep(0)  # each has handed its job over
    assert [task.result() for task in (first, *waiting)] == [Accepted(1)] * 101
    assert await admin.fetchval(TRANSACTIONS) == 2


async def test_a_statement_takes_a_bounded_number_of_commits(journal, url, admin, monkeypatch):
    monkeypatch.setattr(writer, "MAX_COMMITS", 10)
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        group.create_task(append(journal, commit("first")))
        await until_waiting(gate, 1)
        for number in range(35):
            group.create_task(append(journal, commit(f"r{number}")))
        await asyncio.sleep(0)
    assert await admin.fetchval(TRANSACTIONS) == 1 + 4


async def test_a_statement_takes_a_bounded_number_of_bytes(journal, url, admin, monkeypatch):
    monkeypatch.setattr(writer, "MAX_BYTES", 1000)
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        group.create_task(append(journal, commit("first")))
        await until_waiting(gate, 1)
        for number in range(6):
            group.create_task(append(journal, commit(f"r{number}", events=(event(1, b"x" * 600),))))
        await asyncio.sleep(0)
    assert await admin.fetchval(TRANSACTIONS) == 1 + 3


async def test_the_queue_is_bounded_and_callers_wait_for_a_place(url, open_journal):
    journal = await open_journal(url, writers=1, queue_limit=4)
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        tasks = [group.create_task(append(journal, commit(f"r{number}"))) for number in range(20)]
        await until_waiting(gate, 1)
        assert len(journal._writer._waiting) <= 3  # and one is at work
    assert [task.result() for task in tasks] == [Accepted(1)] * 20
    await journal.close()


async def test_a_commit_that_cannot_be_stored_fails_alone(journal, url):
    bad = [
        commit("bad", counter=2**70),
        commit("worse", tags=b"not json"),
        commit("odd", state="\ud800"),
        commit("zero\x00", commit_id="zero"),
        commit(random.Random(1).randbytes(5000).hex()),  # longer than what an index takes
    ]
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        good = [group.create_task(append(journal, commit("first")))]
        await until_waiting(gate, 1)
        good += [group.create_task(append(journal, commit(f"r{number}"))) for number in range(3)]
        failing = [asyncio.gather(journal.append([each]), return_exceptions=True) for each in bad]
        good += [group.create_task(append(journal, commit(f"s{number}"))) for number in range(3)]
        await asyncio.sleep(0)
    assert [task.result() for task in good] == [Accepted(1)] * 7
    errors = [(await each)[0] for each in failing]
    assert [type(error) for error in errors] == [InvalidCommit] * len(bad)
    assert not any(str(2**70) in str(error) for error in errors)  # no payloads in messages
    assert len(await journal.list_active_runs()) == 7


async def test_what_people_write_freely_may_hold_any_character(journal):
    odd = "a\x00b \ud800 ä😀"
    start = commit("r1", tags=b'{"k\\u0000":"v\\u0000"}', idempotency=IdempotencyKey("default", odd, "h"))
    assert await append(journal, start) == Accepted(1)
    assert await journal.find_idempotency("default", odd) == ("r1", "h")
    await journal.mark_quarantined("r1", odd)
    assert (await journal.get_run("r1")).quarantined == odd


@pytest.mark.parametrize("odd", ["a\x00b", "\ud800"])
async def test_what_cannot_be_stored_does_not_exist(journal, odd):
    assert await journal.find_run(odd) is None
    assert await journal.read_events(odd) == []
    assert await journal.find_answer(odd) is None
    assert (await journal.list_runs(RunFilter(workflow=odd))).items == ()


async def test_events_that_their_run_does_not_count_are_an_integrity_error(journal, admin):
    await append(journal, commit("r1"))
    await admin.execute("INSERT INTO perdure.events VALUES ('r1', 2, 'forged', 1, NULL, '')")
    with pytest.raises(IntegrityError, match="r1, 2"):
        await journal.append([commit("r0"), commit("r1", 1)])
    assert await journal.find_run("r0") is None
    assert await append(journal, commit("r0")) == Accepted(1)


async def test_a_caller_that_is_cancelled_finds_its_commit_or_appends_it_again(journal, url):
    async with locked(url) as gate:
        task = asyncio.gather(append(journal, commit("r1")))
        await until_waiting(gate, 1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await append(journal, commit("r1")) == Accepted(1)
    assert len(await journal.read_events("r1")) == 1


async def test_a_lock_that_stays_is_busy_and_nothing_was_written(url, open_journal):
    journal = await open_journal(url, lock_seconds=0.05)
    async with locked(url):
        with pytest.raises(JournalBusy, match="try again"):
            await journal.append([commit("r1")])
        with pytest.raises(JournalBusy):
            await journal.find_run("r1")
    assert await journal.find_run("r1") is None
    assert await append(journal, commit("r1")) == Accepted(1)
    await journal.close()


async def test_a_statement_that_takes_too_long_is_cancelled_and_nothing_was_written(url, open_journal):
    journal = await open_journal(url, statement_seconds=0.2)
    async with locked(url):
        with pytest.raises(JournalBusy, match="took too long"):
            await journal.append([commit("r1")])
    assert await journal.find_run("r1") is None
    await journal.close()


async def test_closing_waits_for_what_is_queued(url, open_journal):
    journal = await open_journal(url)
    async with asyncio.TaskGroup() as group, locked(url) as gate:
        task = group.create_task(append(journal, commit("r1")))
        await until_waiting(gate, 1)
        closing = group.create_task(journal.close())
        await asyncio.sleep(0)
        assert not closing.done()
    assert task.result() == Accepted(1)


async def test_two_journals_that_append_the_same_runs_in_any_order_never_lock_each_other(url, admin, open_journal):
    journals = [await open_journal(url, writers=2) for _ in range(2)]
    runs = [f"r{number:02}" for number in range(30)]
    await journals[0].append([commit(run_id) for run_id in runs])
    chance = random.Random(7)

    async def race(racer: int) -> int:
        journal, won = journals[racer % 2], 0
        for turn in range(25):
            order = chance.sample(runs, len(runs))
            seqs = {run_id: (await journal.find_commit(run_id)).seq for run_id in order[:10]}
            batch = [commit(run_id, seq, commit_id=f"{racer} {turn} {run_id}") for run_id, seq in seqs.items()]
            won += sum(
                answer == Accepted(each.expected_seq + 1)
                for each, answer in zip(batch, await journal.append(batch), strict=True)
            )
        return won

    won = await asyncio.gather(*(race(racer) for racer in range(4)))
    grown = sum([(await journals[0].get_run(run_id)).seq - 1 for run_id in runs])
    assert grown == sum(won)
    assert await admin.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


async def test_a_later_round_locks_no_run_that_comes_before_what_is_locked(journal, url):
    await journal.append([commit("r1"), commit("r2")])
    await journal.append([commit("r1", 1)])
    stale, good = commit("r1", 1, commit_id="stale"), commit("r1", 2, commit_id="good")
    async with asyncio.TaskGroup() as group, locked(url, "r1") as gate:
        task = group.create_task(journal.append([stale, commit("r2", 1), good]))
        await until_waiting(gate, 1)
        await gate.execute("SELECT FROM perdure.runs WHERE run_id = 'r2' FOR UPDATE NOWAIT")
    assert task.result() == [Conflict(2, "r1@1"), Accepted(2), Accepted(3)]


async def test_of_many_starts_with_one_key_at_the_same_moment_one_makes_the_run(url, open_journal):
    journals = [await open_journal(url, writers=4) for _ in range(3)]
    for turn in range(10):
        starts = [
            journals[number % 3].append(
                [commit(f"r{turn}-{number}", idempotency=IdempotencyKey("default", f"k{turn}", "h"))]
            )
            for number in range(12)
        ]
        answers = [answer for (answer,) in await asyncio.gather(*starts)]
        winner, _ = await journals[0].find_idempotency("default", f"k{turn}")
        assert sum(isinstance(answer, Accepted) for answer in answers) == 1
        assert {answer.run_id for answer in answers if not isinstance(answer, Accepted)} == {winner}
    assert len(await journals[0].list_active_runs()) == 10


async def test_the_same_commit_sent_twice_at_the_same_moment_is_one_commit(url, open_journal):
    # As after an unknown outcome whose first try is still under way in the server.
    journals = [await open_journal(url) for _ in range(3)]
    for turn in range(20):
        first = commit(f"r{turn}", 0, 2, idempotency=IdempotencyKey("default", f"k{turn}", "h"))
        assert await asyncio.gather(*(each.append([first]) for each in journals)) == [[Accepted(2)]] * 3
        second = commit(f"r{turn}", 2, 1, notices=(("parent", b"%d" % turn),))
        assert await asyncio.gather(*(each.append([second]) for each in journals)) == [[Accepted(3)]] * 3
        quiet = commit(f"r{turn}", 3, 0, commit_id="quiet", notices=(("parent", b"%d" % turn),))
        assert await asyncio.gather(*(each.append([quiet]) for each in journals)) == [[Accepted(3)]] * 3
        assert len(await journals[0].read_events(f"r{turn}")) == 3
    assert len(await journals[0].read_notices()) == 40


async def test_a_repeat_is_known_though_others_went_on_while_it_waited(url, open_journal):
    """Its statement sees the run as it was when it began; the answer must not."""
    journals = [await open_journal(url) for _ in range(2)]
    original = commit("r2", 1)
    await append(journals[0], commit("r1"), commit("r2"))
    async with asyncio.TaskGroup() as group, locked(url, "r1") as gate:
        repeat = group.create_task(append(journals[1], commit("r1", 1), original))
        await until_waiting(gate, 1)
        assert await append(journals[0], original) == Accepted(2)
        assert await append(journals[0], commit("r2", 2)) == Accepted(3)
    assert repeat.result() == [Accepted(2), Accepted(2)]


async def test_a_commit_clears_a_timer_that_was_set_while_it_waited(url, open_journal):
    """A commit without events leaves the sequence as it is, so the one that waited for it passes."""
    journals = [await open_journal(url) for _ in range(2)]
    await append(journals[0], commit("r1"), commit("r2"))
    async with asyncio.TaskGroup() as group, locked(url, "r1") as gate:
        clearing = group.create_task(append(journals[1], commit("r1", 1), commit("r2", 1, timers_cleared=("t",))))
        await until_waiting(gate, 1)
        await append(journals[0], commit("r2", 1, 0, commit_id="quiet", timers_set=(("t", 5.0),)))
    assert clearing.result() == [Accepted(2), Accepted(2)]
    assert await journals[0].next_timer() is None


def test_commits_that_want_the_same_thing_are_in_different_rounds():
    approval = ApprovalRow(approval_id="a", run_id="x", node="n", state="s", requested_at=1.0)
    key = IdempotencyKey("default", "k", "h")
    commits = [
        commit("b"),
        commit("a"),
        commit("b", 1),
        commit("c", idempotency=key),
        commit("d", idempotency=key),
        commit("e", command_answers=(("c1", b""), ("c2", b""))),
        commit("f", command_answers=(("c2", b""),)),
        commit("x", approvals=(approval,)),
        commit("b", 2),
    ]
    assert appender.rounds(commits) == [[1, 0, 3, 5, 7], [2, 4, 6], [8]]
    assert appender.rounds([commit("b"), commit("c"), commit("a")]) == [[2, 0, 1]]


async def test_a_batch_of_several_rounds_is_one_transaction_and_answers_in_order(journal, admin):
    answers = await append(
        journal,
        commit("a"),
        commit("a", 1, commit_id="second"),
        commit("a", 1, commit_id="rival"),
        commit("b"),
        commit("a", 2),
    )
    assert answers == [Accepted(1), Accepted(2), Conflict(2, "second"), Accepted(1), Accepted(3)]
    assert await admin.fetchval(TRANSACTIONS) == 1


def test_every_field_of_the_row_is_written_or_fixed():
    fixed = {"workflow", "workflow_version", "partition", "tenant", "tags", "created_at", "parent"}
    assert set(RunRow.__struct_fields__) - set(appender._MOVE) == fixed
    assert set(RunRow.__struct_fields__) <= set(appender._CREATE)
