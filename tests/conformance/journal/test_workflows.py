"""register_workflow, find_workflow, list_workflows, list_workflow_versions: immutable numbered versions."""

import asyncio

import pytest

from perdure.journal import InvalidCursor


async def register(journal, name, definition, **named):
    return await journal.register_workflow(name, definition, ir_hash=f"ir of {definition}", **named)


async def test_versions_count_from_one_and_the_same_definition_is_the_same_version(journal):
    assert [await register(journal, "orders", each) for each in ("a", "b", "a", "c", "b")] == [1, 2, 1, 3, 2]


async def test_names_and_tenants_count_for_themselves(journal):
    assert await register(journal, "orders", "a") == 1
    assert await register(journal, "billing", "b") == 1
    assert await register(journal, "orders", "c", tenant="acme") == 1


async def test_a_version_is_found_by_number_or_as_the_highest(journal):
    for definition in ("a", "b"):
        await register(journal, "orders", definition)
    first = await journal.find_workflow("orders", 1)
    assert (first.name, first.version, first.definition_hash, first.ir_hash) == ("orders", 1, "a", "ir of a")
    assert (first.tenant, first.registered_at > 0) == ("default", True)
    assert (await journal.find_workflow("orders")).version == 2
    assert await journal.find_workflow("orders", 3) is None
    assert await journal.find_workflow("orders", 0) is None
    assert await journal.find_workflow("nobody") is None
    assert await journal.find_workflow("orders", tenant="acme") is None


async def test_the_first_ir_of_a_version_stays(journal):
    await journal.register_workflow("orders", "a", ir_hash="first")
    await journal.register_workflow("orders", "a", ir_hash="second")
    assert (await journal.find_workflow("orders")).ir_hash == "first"


async def test_the_list_has_the_highest_version_of_each_by_name(journal):
    for name, definition in [("b", "1"), ("a", "1"), ("b", "2"), ("c", "1")]:
        await register(journal, name, definition)
    await register(journal, "z", "1", tenant="acme")
    page = await journal.list_workflows(limit=2)
    assert [(each.name, each.version, each.definition_hash) for each in page.items] == [("a", 1, "1"), ("b", 2, "2")]
    page = await journal.list_workflows(limit=2, cursor=page.next_cursor)
    assert ([each.name for each in page.items], page.next_cursor) == (["c"], None)


async def test_the_versions_of_a_workflow_come_highest_first(journal):
    for definition in "abc":
        await register(journal, "orders", definition)
    page = await journal.list_workflow_versions("orders", limit=2)
    assert [each.version for each in page.items] == [3, 2]
    page = await journal.list_workflow_versions("orders", limit=2, cursor=page.next_cursor)
    assert ([each.version for each in page.items], page.next_cursor) == ([1], None)
    with pytest.raises(InvalidCursor):
        await journal.list_workflow_versions("orders", cursor="nonsense")
    with pytest.raises(InvalidCursor):
        await journal.list_workflows(cursor="nonsense")


async def test_registering_at_the_same_time_gives_every_definition_its_own_number(handles, journal):
    other = await handles.open()
    numbers = await asyncio.gather(
        *(register(other if number % 2 else journal, "orders", f"d{number // 2}") for number in range(20))
    )
    assert sorted(set(numbers)) == list(range(1, 11))
    assert all(numbers[2 * pair] == numbers[2 * pair + 1] for pair in range(10))
