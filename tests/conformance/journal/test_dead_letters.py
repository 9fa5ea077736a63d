"""get_dead_letter, list_dead_letters: rows that commits keep in step."""

from typing import Any

import pytest

from perdure.errors import NotFound
from perdure.journal import DeadLetterRow, InvalidCommit, InvalidCursor
from tests.conformance.journal.commits import append, commit


def letter(dead_letter_id, run_id="r1", **fields):
    defaults: dict[str, Any] = {"node": "send", "state": "open", "created_at": 10.0}
    return DeadLetterRow(dead_letter_id=dead_letter_id, run_id=run_id, **(defaults | fields))


async def test_every_field_is_kept(journal):
    row = letter("d1", tenant="acme", resolved_at=15.0, body=b"\x00body")
    await append(journal, commit("r1", dead_letters=(row,)))
    assert await journal.get_dead_letter("d1") == row


async def test_a_later_commit_resolves_it(journal):
    await append(journal, commit("r1", dead_letters=(letter("d1"),)))
    resolved = letter("d1", state="requeued", resolved_at=15.0, body=b"again")
    await append(journal, commit("r1", 1, dead_letters=(resolved,)))
    assert await journal.get_dead_letter("d1") == resolved


async def test_filters_and_order(journal):
    await append(
        journal,
        commit("r1", dead_letters=(letter("b", created_at=2.0), letter("a", created_at=3.0, state="discarded"))),
        commit("r2", dead_letters=(letter("c", "r2", created_at=1.0, tenant="acme"),)),
    )

    async def ids(**filters):
        return [row.dead_letter_id for row in (await journal.list_dead_letters(**filters)).items]

    assert await ids() == ["c", "b", "a"]
    assert await ids(state="open") == ["c", "b"]
    assert await ids(run_id="r1") == ["b", "a"]
    assert await ids(tenant="default", state="open") == ["b"]


async def test_pages_join_to_the_whole(journal):
    rows = tuple(letter(f"d{number}", created_at=float(number // 2)) for number in range(5))
    await append(journal, commit("r1", dead_letters=rows))
    first = await journal.list_dead_letters(limit=3)
    second = await journal.list_dead_letters(limit=3, cursor=first.next_cursor)
    assert first.items + second.items == rows
    assert second.next_cursor is None
    with pytest.raises(InvalidCursor):
        await journal.list_dead_letters(cursor="nonsense")


async def test_one_that_does_not_exist_is_not_found(journal):
    with pytest.raises(NotFound, match="dead letter nobody"):
        await journal.get_dead_letter("nobody")


async def test_a_commit_carries_only_its_own_dead_letters(journal):
    with pytest.raises(InvalidCommit):
        await journal.append([commit("r1", dead_letters=(letter("d1", "r2"),))])
