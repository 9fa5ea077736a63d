"""list_active_runs: what a coordinator rebuilds when it takes partitions over."""

from tests.conformance.journal.commits import append, commit


async def ids(journal, *arguments, **named):
    return [run.run_id for run in await journal.list_active_runs(*arguments, **named)]


async def test_ended_and_quarantined_runs_are_not_active(journal):
    await append(journal, commit("a"), commit("b", state="completed", ended_at=1.0), commit("c"), commit("d"))
    await journal.mark_quarantined("c", "corrupt")
    assert await ids(journal) == ["a", "d"]


async def test_a_run_leaves_when_it_ends_and_comes_back_with_a_new_generation(journal):
    await append(journal, commit("a"))
    await append(journal, commit("a", 1, state="failed", ended_at=5.0))
    assert await ids(journal) == []
    await append(journal, commit("a", 2, state="running", ended_at=None, generation=2))
    assert await ids(journal) == ["a"]


async def test_pages_go_by_run_id(journal):
    await journal.append([commit(f"r{number}") for number in (3, 1, 2, 5, 4)])
    assert await ids(journal, limit=2) == ["r1", "r2"]
    assert await ids(journal, after="r2", limit=2) == ["r3", "r4"]
    assert await ids(journal, None, "r4") == ["r5"]


async def test_only_the_partitions_asked_for(journal):
    await append(journal, commit("a", partition=1), commit("b", partition=2), commit("c", partition=3))
    assert await ids(journal, [1, 3]) == ["a", "c"]
    assert await ids(journal, []) == []


async def test_whole_records_come(journal):
    await append(journal, commit("a", counter=4))
    assert await journal.list_active_runs() == [await journal.get_run("a")]


async def test_only_busy_runs_on_request(journal):
    await append(journal, commit("r1", busy=True), commit("r2"), commit("r3", busy=True, ended_at=5.0))
    assert [run.run_id for run in await journal.list_active_runs(busy=True)] == ["r1"]
    await append(journal, commit("r1", 1), commit("r2", 1, busy=True))
    assert [run.run_id for run in await journal.list_active_runs(busy=True)] == ["r2"]
