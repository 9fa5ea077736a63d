"""append: the sequence number is the fence, and the commit id tells a repeat from a rival (J2, J7)."""

import asyncio

from perdure.journal import Accepted, Conflict, Exists, Snapshot
from tests.conformance.journal.commits import append, commit


async def test_a_stale_sequence_is_a_conflict_that_says_where_the_run_is(journal):
    await append(journal, commit("r1", 0, 2))
    await append(journal, commit("r1", 2, 1, commit_id="winner"))
    assert await append(journal, commit("r1", 2, 1, commit_id="loser")) == Conflict(3, "winner")


async def test_a_sequence_from_the_future_is_a_conflict(journal):
    await append(journal, commit("r1", 0, 2))
    assert await append(journal, commit("r1", 5)) == Conflict(2, "r1@0")


async def test_a_run_that_does_not_exist_is_a_conflict_at_zero(journal):
    assert await append(journal, commit("r1", 3)) == Conflict(0, "")


async def test_a_run_in_conflict_is_left_out_and_the_rest_commits(journal):
    await append(journal, commit("r1", 0, 2), commit("r2", 0, 1))
    answers = await append(
        journal, commit("r0"), commit("r1", 1, 5, commit_id="rival", state="paused"), commit("r2", 1), commit("r3")
    )
    assert answers == [Accepted(1), Conflict(2, "r1@0"), Accepted(2), Accepted(1)]
    assert (await journal.get_run("r1")).row.state == "running"
    assert len(await journal.read_events("r1")) == 2


async def test_a_conflict_leaves_nothing_of_its_commit(journal):
    await append(journal, commit("r1", 0, 2, timers_set=(("kept", 5.0),)))
    command = await journal.put_command("r1", b"?")
    rival = commit(
        "r1",
        1,
        commit_id="rival",
        timers_set=(("t", 1.0),),
        timers_cleared=("kept",),
        snapshot=Snapshot(2, 1, b"s"),
        notices=(("r2", b"n"),),
        command_answers=((command, b"!"),),
    )
    assert isinstance(await append(journal, rival), Conflict)
    assert [timer.timer_id for timer in await journal.list_due_timers(10.0)] == ["kept"]
    assert await journal.find_snapshot("r1") is None
    assert await journal.read_notices() == []
    assert await journal.find_answer(command) is None


async def test_a_repeated_commit_is_one_commit(journal):
    again = commit("r1", 0, 2, notices=(("r2", b"once"),))
    assert [await append(journal, again) for _ in range(3)] == [Accepted(2)] * 3
    assert len(await journal.read_events("r1")) == 2
    assert len(await journal.read_notices()) == 1


async def test_a_repeat_is_known_however_late_it_comes(journal):
    commits = [commit("r1", 0, 2), commit("r1", 2, 1), commit("r1", 3, 3)]
    for each in commits:
        await append(journal, each)
    assert [await append(journal, each) for each in commits] == [Accepted(2), Accepted(3), Accepted(6)]
    assert len(await journal.read_events("r1")) == 6
    assert (await journal.get_run("r1")).seq == 6


async def test_a_repeat_inside_one_append_is_one_commit(journal):
    first, second = commit("r1", 0, 2), commit("r1", 2, 1)
    assert await append(journal, first, first, second, first) == [Accepted(2), Accepted(2), Accepted(3), Accepted(2)]
    assert len(await journal.read_events("r1")) == 3


async def test_a_repeat_does_not_bring_back_an_old_row(journal):
    old = commit("r1", 1, state="paused", timers_set=(("t", 1.0),))
    await append(journal, commit("r1"))
    await append(journal, old)
    await append(journal, commit("r1", 2, state="running", timers_cleared=("t",)))
    assert await append(journal, old) == Accepted(2)
    assert (await journal.get_run("r1")).row.state == "running"
    assert await journal.list_due_timers(10.0) == []


async def test_a_commit_without_events_is_known_again(journal):
    await append(journal, commit("r1", 0, 2))
    quiet = commit("r1", 2, 0, commit_id="quiet", notices=(("r2", b"once"),))
    assert [await append(journal, quiet) for _ in range(2)] == [Accepted(2)] * 2
    assert len(await journal.read_notices()) == 1
    assert await append(journal, commit("r1", 0, 2)) == Accepted(2)


async def test_a_different_commit_at_the_same_sequence_is_refused(journal):
    await append(journal, commit("r1", 0, 2))
    await append(journal, commit("r1", 2, 2, commit_id="first"))
    for count in (1, 2, 3):
        assert await append(journal, commit("r1", 2, count, commit_id="second")) == Conflict(4, "first")


async def test_a_second_creation_of_a_run_says_that_it_exists(journal):
    await append(journal, commit("r1", 0, 2))
    assert await append(journal, commit("r1", 0, 2, commit_id="other")) == Exists("r1", same_body=False)


async def test_of_many_rivals_exactly_one_wins(handles, journal):
    other = await handles.open()
    await append(journal, commit("r1"))
    rivals = [commit("r1", 1, 2, commit_id=f"rival {number}") for number in range(40)]
    answers = await asyncio.gather(
        *(append(other if number % 2 else journal, rival) for number, rival in enumerate(rivals))
    )
    winners = [rival.commit_id for rival, answer in zip(rivals, answers, strict=True) if answer == Accepted(3)]
    assert len(winners) == 1
    assert {answer for answer in answers if answer != Accepted(3)} == {Conflict(3, winners[0])}
    assert [event.seq for event in await journal.read_events("r1")] == [1, 2, 3]


async def test_concurrent_appends_of_different_runs_all_commit(journal):
    async def grow(run_id: str) -> None:
        for seq in range(20):
            assert await append(journal, commit(run_id, seq)) == Accepted(seq + 1)

    await asyncio.gather(*(grow(f"r{number}") for number in range(20)))
    for number in range(20):
        assert len(await journal.read_events(f"r{number}")) == 20
