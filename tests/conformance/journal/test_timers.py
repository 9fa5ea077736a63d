"""list_due_timers, next_timer: the timer index is in step with the journal (W1)."""

from perdure.journal import DueTimer
from tests.conformance.journal.commits import append, commit


async def due(journal, now=1000.0, **filters):
    return [(timer.run_id, timer.timer_id) for timer in await journal.list_due_timers(now, **filters)]


async def test_a_timer_is_due_at_its_time_and_never_before(journal):
    await append(journal, commit("r1", timers_set=(("t", 50.0),)))
    assert await due(journal, 49.999) == []
    assert await journal.list_due_timers(50.0) == [DueTimer("r1", "t", 50.0)]


async def test_the_oldest_come_first_up_to_the_limit(journal):
    await append(journal, commit("r1", timers_set=(("c", 30.0), ("a", 10.0))), commit("r2", timers_set=(("b", 20.0),)))
    assert await due(journal) == [("r1", "a"), ("r2", "b"), ("r1", "c")]
    assert await due(journal, limit=2) == [("r1", "a"), ("r2", "b")]


async def test_a_timer_set_again_moves(journal):
    await append(journal, commit("r1", timers_set=(("t", 50.0),)))
    await append(journal, commit("r1", 1, timers_set=(("t", 70.0),)))
    assert await journal.list_due_timers(1000.0) == [DueTimer("r1", "t", 70.0)]


async def test_a_cleared_timer_is_gone_and_clearing_nothing_is_no_mistake(journal):
    await append(journal, commit("r1", timers_set=(("t", 50.0), ("u", 60.0))))
    await append(journal, commit("r1", 1, timers_cleared=("t", "unknown")))
    assert await due(journal) == [("r1", "u")]


async def test_clearing_comes_before_setting(journal):
    await append(journal, commit("r1", timers_set=(("t", 50.0),)))
    await append(journal, commit("r1", 1, timers_cleared=("t",), timers_set=(("t", 80.0),)))
    assert await journal.next_timer() == 80.0


async def test_commits_of_one_append_set_and_clear_in_order(journal):
    await append(
        journal,
        commit("r1", timers_set=(("t", 50.0), ("u", 60.0))),
        commit("r1", 1, timers_cleared=("t", "u")),
        commit("r1", 2, timers_set=(("u", 61.0),)),
    )
    assert await journal.list_due_timers(1000.0) == [DueTimer("r1", "u", 61.0)]


async def test_runs_do_not_share_timer_ids(journal):
    await append(journal, commit("r1", timers_set=(("t", 50.0),)), commit("r2", timers_set=(("t", 60.0),)))
    await append(journal, commit("r1", 1, timers_cleared=("t",)))
    assert await due(journal) == [("r2", "t")]


async def test_only_the_runs_asked_for(journal):
    await append(journal, *(commit(name, timers_set=(("t", 50.0),)) for name in ("r1", "r2", "r3")))
    assert await due(journal, limit=1, runs=["r3", "none"]) == [("r3", "t")]
    assert await due(journal, runs=[]) == []


async def test_only_the_partitions_asked_for(journal):
    await append(
        journal,
        commit("r1", partition=1, timers_set=(("t", 50.0),)),
        commit("r2", partition=2, timers_set=(("t", 40.0),)),
    )
    assert await due(journal, partitions=[1]) == [("r1", "t")]
    assert await due(journal, partitions={1, 2}) == [("r2", "t"), ("r1", "t")]
    assert await due(journal, partitions=[]) == []
    assert await journal.next_timer([1]) == 50.0
    assert await journal.next_timer([7]) is None


async def test_next_timer_is_the_earliest_even_if_past(journal):
    assert await journal.next_timer() is None
    await append(journal, commit("r1", timers_set=(("a", 50.0), ("b", -5.0))))
    assert await journal.next_timer() == -5.0


async def test_a_quarantined_run_is_not_woken(journal):
    await append(journal, commit("r1", timers_set=(("t", 1.0),)), commit("r2", timers_set=(("t", 2.0),)))
    await journal.mark_quarantined("r1", "corrupt")
    assert await due(journal) == [("r2", "t")]
    assert await journal.next_timer() == 2.0
    await journal.unquarantine("r1")
    assert await journal.next_timer() == 1.0
