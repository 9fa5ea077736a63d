"""append: what an accepted commit leaves behind."""

from typing import Any

import msgspec
import pytest

from perdure.errors import NotFound
from perdure.journal import Accepted, DeadLetterRow, InvalidCommit, LastCommit, Outline, RunRow
from tests.conformance.journal.commits import append, commit, event


async def test_a_commit_at_sequence_zero_creates_the_run(journal):
    assert await append(journal, commit("r1", 0, 2)) == Accepted(2)
    run = await journal.get_run("r1")
    assert (run.run_id, run.seq, run.commit_id, run.quarantined) == ("r1", 2, "r1@0", None)


async def test_every_field_of_the_row_is_kept(journal):
    row = RunRow(
        state="failed",
        workflow="orders",
        workflow_version=3,
        ir="sha256:ab",
        partition=5,
        tenant="acme",
        tags=b'{"team":"billing","note":"\xc3\xa4"}',
        generation=2,
        counter=7,
        busy=True,
        created_at=1.25,
        started_at=2.5,
        ended_at=3.75,
        error=b'{"code":"x"}',
        parent="p1",
    )
    names = row.__struct_fields__
    assert await append(journal, commit("r1", **{name: getattr(row, name) for name in names})) == Accepted(1)
    assert (await journal.get_run("r1")).row == row


async def test_what_may_change_changes_and_the_rest_stays(journal):
    await append(journal, commit("r1", 0, workflow="orders", tenant="acme", tags=b'{"a":"b"}', parent="p"))
    later = commit(
        "r1",
        1,
        state="completed",
        ir="sha256:cd",
        generation=2,
        counter=9,
        busy=True,
        started_at=5.0,
        ended_at=6.0,
        error=b"e",
        workflow="other",
        workflow_version=9,
        tenant="evil",
        tags=b"{}",
        created_at=1.0,
        parent=None,
    )
    assert await append(journal, later) == Accepted(2)
    row = (await journal.get_run("r1")).row
    assert (row.state, row.ir, row.generation, row.counter) == ("completed", "sha256:cd", 2, 9)
    assert (row.busy, row.started_at, row.ended_at, row.error) == (True, 5.0, 6.0, b"e")
    assert (row.workflow, row.workflow_version, row.tenant, row.tags) == ("orders", 0, "acme", b'{"a":"b"}')
    assert (row.created_at, row.parent) == (100.0, "p")


async def test_a_field_goes_back_to_nothing(journal):
    await append(journal, commit("r1", 0, ended_at=6.0, error=b"e", state="failed"))
    await append(journal, commit("r1", 1, ended_at=None, error=None, state="running", generation=2))
    row = (await journal.get_run("r1")).row
    assert (row.ended_at, row.error, row.state) == (None, None, "running")


async def test_sequence_numbers_follow_without_gap(journal):
    for seq, count in [(0, 1), (1, 3), (4, 2)]:
        assert await append(journal, commit("r1", seq, count)) == Accepted(seq + count)
    assert [stored.seq for stored in await journal.read_events("r1")] == [1, 2, 3, 4, 5, 6]


async def test_events_come_back_byte_for_byte(journal):
    bodies = [b"", b"\x00\xff\x80", b"x" * 100_000, '{"text":"ä😀"}'.encode()]
    events = tuple(event(seq, body or None) for seq, body in enumerate(bodies, 1))
    await append(journal, commit("r1", events=events))
    assert tuple(await journal.read_events("r1")) == events


async def test_an_event_once_read_never_changes(journal):
    await append(journal, commit("r1", 0, 2))
    before = await journal.read_events("r1")
    await append(journal, commit("r1", 2, 1))
    await append(journal, commit("r1", 1, 1, commit_id="late", events=(event(2, b"forged"),)))
    assert (await journal.read_events("r1"))[:2] == before


async def test_many_runs_go_in_one_append(journal):
    answers = await journal.append([commit(f"r{number:04}", 0, 3) for number in range(1000)])
    assert answers == [Accepted(3)] * 1000
    assert len(await journal.read_events("r0999")) == 3


async def test_two_commits_of_one_run_in_one_append_are_taken_in_order(journal):
    first = commit("r1", 0, 2, state="running", counter=1)
    second = commit("r1", 2, 1, state="paused", counter=2)
    third = commit("r1", 3, 1, state="running", counter=3)
    assert await append(journal, first, second, third) == [Accepted(2), Accepted(3), Accepted(4)]
    run = await journal.get_run("r1")
    assert (run.seq, run.commit_id, run.row.state, run.row.counter) == (4, "r1@3", "running", 3)


async def test_nothing_to_append_is_no_mistake(journal):
    assert await journal.append([]) == []


async def test_a_commit_without_events_changes_the_row_but_not_the_sequence(journal):
    await append(journal, commit("r1", 0, 2))
    assert await append(journal, commit("r1", 2, 0, commit_id="quiet", state="paused")) == Accepted(2)
    run = await journal.get_run("r1")
    assert (run.seq, run.row.state) == (2, "paused")
    assert await journal.find_commit("r1") == LastCommit(2, "quiet")


async def test_find_seqs_says_how_far_those_runs_are_that_there_are(journal):
    assert await journal.find_seqs(["r1", "r2"]) == {}
    await append(journal, commit("r1", 0, 2))
    await append(journal, commit("r3"))
    assert await journal.find_seqs(["r1", "r2", "r1"]) == {"r1": 2}
    assert await journal.find_seqs([]) == {}


async def test_an_outline_has_the_first_event_the_last_moment_and_the_letters_in_that_state(journal):
    assert await journal.find_outlines(["r1"], "pending") == {}
    first = commit("r1", 0, 3)
    about: dict[str, Any] = {"run_id": "r1", "node": "n", "created_at": 1.0}
    letters = [("l1", "pending"), ("l2", "pending"), ("l3", "discarded")]
    rows = tuple(DeadLetterRow(dead_letter_id=name, state=state, **about) for name, state in letters)
    await append(journal, msgspec.structs.replace(first, dead_letters=rows))
    await append(journal, commit("r2"))
    found = await journal.find_outlines(["r1", "r2", "r3"], "pending")
    assert found["r1"] == Outline(first.events[0].body, first.events[-1].at, 2)
    assert (set(found), found["r2"].letters) == ({"r1", "r2"}, 0)


async def test_find_commit_says_how_far_a_run_is(journal):
    assert await journal.find_commit("r1") is None
    await append(journal, commit("r1", 0, 2))
    assert await journal.find_commit("r1") == LastCommit(2, "r1@0")


async def test_a_run_that_does_not_exist_is_not_found(journal):
    assert await journal.find_run("nobody") is None
    with pytest.raises(NotFound, match="run nobody does not exist"):
        await journal.get_run("nobody")


async def test_find_run_and_get_run_agree(journal):
    await append(journal, commit("r1"))
    assert await journal.find_run("r1") == await journal.get_run("r1")


@pytest.mark.parametrize(
    "wrong",
    [
        commit("r1", 0, events=(event(2),)),
        commit("r1", 0, events=(event(1), event(3))),
        commit("r1", 0, events=(event(1), event(5), event(3))),
        commit("r1", 0, events=(event(1), event(1))),
        commit("r1", 0, 0),
        commit("r1", -1, 1),
    ],
    ids=["begins late", "gap", "gap inside", "repeat", "creates nothing", "before the beginning"],
)
async def test_a_commit_that_contradicts_itself_is_refused_and_nothing_is_written(journal, wrong):
    with pytest.raises(InvalidCommit):
        await journal.append([commit("r2"), wrong])
    assert await journal.find_run("r1") is None
    assert await journal.find_run("r2") is None


async def test_another_handle_sees_what_was_answered(handles, journal):
    await append(journal, commit("r1", 0, 2))
    other = await handles.open()
    assert (await other.get_run("r1")).seq == 2
    assert await append(other, commit("r1", 2)) == Accepted(3)
    assert (await journal.get_run("r1")).seq == 3
