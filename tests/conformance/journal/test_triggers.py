"""find_trigger, find_hook, list_triggers, count_triggers: rows that commits keep in step."""

from typing import Any

import pytest

from perdure.journal import InvalidCommit, InvalidCursor, RunFilter, TriggerRow
from tests.conformance.journal.commits import append, commit


def trigger(name="nightly", head="r1", **fields):
    defaults: dict[str, Any] = {"trigger_id": head, "kind": "schedule", "state": "active", "workflow": "report"}
    return TriggerRow(name=name, head=head, **(defaults | fields))


WHOLE = trigger(
    tenant="acme",
    life=2,
    revision=7,
    hook="a" * 22,
    cursor=b'"caf\xc3\xa9\\u0000"',
    next_at=20.5,
    last_at=15.25,
    waiting=3,
    open=4,
    parked=5,
    error=b'{"code":"failures"}',
    body=b'{"spec":{}}',
)


async def test_every_field_is_kept(journal):
    await append(journal, commit("r1", triggers=(WHOLE,)))
    assert await journal.find_trigger("acme", "nightly") == WHOLE
    assert await journal.find_hook("a" * 22) == WHOLE


async def test_a_later_commit_replaces_it(journal):
    await append(journal, commit("r1", triggers=(WHOLE,)))
    changed = trigger(tenant="acme", life=2, head="r1", state="paused", revision=8)
    await append(journal, commit("r1", 1, triggers=(changed,)))
    assert await journal.find_trigger("acme", "nightly") == changed
    assert await journal.find_hook("a" * 22) is None


async def test_a_conflict_changes_nothing(journal):
    await append(journal, commit("r1", triggers=(trigger(),)))
    await append(journal, commit("r1", 0, commit_id="late", triggers=(trigger(state="paused"),)))
    assert (await journal.find_trigger("default", "nightly")).state == "active"


async def test_the_run_that_continues_another_has_its_row(journal):
    await append(journal, commit("r1", triggers=(trigger(),)), commit("r2", triggers=(trigger(head="r2", waiting=1),)))
    assert (await journal.find_trigger("default", "nightly")).head == "r2"


async def test_an_earlier_life_never_takes_the_row_back(journal):
    await append(journal, commit("r1", triggers=(trigger(),)))
    await append(journal, commit("r2", triggers=(trigger(head="r2", life=1),)))
    await append(journal, commit("r1", 1, triggers=(trigger(state="deleted"),)))
    assert await journal.find_trigger("default", "nightly") == trigger(head="r2", life=1)


async def test_two_of_one_name_and_one_of_one_address_in_an_append_raise_nothing(journal):
    answers = await append(
        journal,
        commit("r1", triggers=(trigger(hook="same"),)),
        commit("r2", triggers=(trigger(head="r2", life=1),)),
        commit("r3", triggers=(trigger("other", "r3", hook="same"),)),
    )
    assert [type(answer).__name__ for answer in answers] == ["Accepted"] * 3
    assert (await journal.find_trigger("default", "nightly")).head == "r2"
    assert (await journal.find_hook("same")).name == "other"


async def test_filters_and_order(journal):
    await append(
        journal,
        commit("r1", triggers=(trigger("b"),)),
        commit("r2", triggers=(trigger("a", "r2", kind="webhook", state="paused"),)),
        commit("r3", triggers=(trigger("c", "r3", tenant="acme"),)),
        commit("r4", triggers=(trigger("d", "r4", state="deleted"),)),
    )

    async def names(**filters):
        return [row.name for row in (await journal.list_triggers(**filters)).items]

    assert await names() == ["c", "a", "b"]
    assert await names(tenant="default") == ["a", "b"]
    assert await names(tenant="default", kind="webhook") == ["a"]
    assert await names(tenant="default", state="active") == ["b"]
    assert await names(state="deleted") == ["d"]
    assert await names(tenant="acme", kind="webhook") == []
    assert [await journal.count_triggers(tenant) for tenant in ("default", "acme", "nobody")] == [2, 1, 0]


async def test_pages_join_to_the_whole(journal):
    for number in range(5):
        name = f"t{number}"
        await append(journal, commit(f"r{number}", triggers=(trigger(name, f"r{number}"),)))
    found, cursor = [], None
    while True:
        page = await journal.list_triggers(tenant="default", limit=2, cursor=cursor)
        found += [row.name for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == ["t0", "t1", "t2", "t3", "t4"]
    with pytest.raises(InvalidCursor):
        await journal.list_triggers(cursor="nonsense")


async def test_what_does_not_exist_is_not_found(journal):
    await append(journal, commit("r1", triggers=(trigger(state="deleted", hook="gone"),)))
    assert await journal.find_trigger("acme", "nightly") is None
    assert await journal.find_hook("gone") is None
    assert (await journal.find_trigger("default", "nightly")).state == "deleted"


async def test_a_commit_carries_only_the_row_of_its_own_trigger(journal):
    with pytest.raises(InvalidCommit, match="another trigger"):
        await journal.append([commit("r1", triggers=(trigger(head="r2"),))])


@pytest.mark.parametrize("by_end", [False, True])
async def test_lists_leave_the_runs_of_triggers_out_when_they_are_told_to(journal, by_end):
    await append(
        journal,
        commit("r1", workflow="perdure:trigger", ended_at=200.0, tags=b'{"a":"1"}'),
        commit("r2", ended_at=200.0, tags=b'{"a":"1"}'),
    )

    async def ids(**filters):
        where = RunFilter(by_end=by_end, **filters)
        counted = await journal.count_runs(where)
        listed = [run.run_id for run in (await journal.list_runs(where)).items]
        assert counted[0].count == len(listed)
        return sorted(listed)

    assert await ids() == ["r1", "r2"]
    assert await ids(plain=True) == ["r2"]
    if not by_end:
        assert await ids(plain=True, tag=("a", "1")) == ["r2"]
