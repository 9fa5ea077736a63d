"""get_approval, list_approvals: rows that commits keep in step."""

from typing import Any

import pytest

from perdure.errors import NotFound
from perdure.journal import ApprovalRow, InvalidCommit, InvalidCursor
from tests.conformance.journal.commits import append, commit


def approval(approval_id, run_id="r1", **fields):
    defaults: dict[str, Any] = {"node": "sign", "state": "pending", "requested_at": 10.0}
    return ApprovalRow(approval_id=approval_id, run_id=run_id, **(defaults | fields))


async def test_every_field_is_kept(journal):
    row = approval("a1", tenant="acme", expires_at=20.0, decided_at=15.0, body=b"\x00body")
    await append(journal, commit("r1", approvals=(row,)))
    assert await journal.get_approval("a1") == row


async def test_a_later_commit_updates_it(journal):
    await append(journal, commit("r1", approvals=(approval("a1"),)))
    decided = approval("a1", state="approved", decided_at=15.0, body=b"by me")
    await append(journal, commit("r1", 1, approvals=(decided,)))
    assert await journal.get_approval("a1") == decided


async def test_a_conflict_decides_nothing(journal):
    await append(journal, commit("r1", approvals=(approval("a1"),)))
    await append(journal, commit("r1", 0, commit_id="late", approvals=(approval("a1", state="approved"),)))
    assert (await journal.get_approval("a1")).state == "pending"


async def test_filters_and_order(journal):
    await append(
        journal,
        commit("r1", approvals=(approval("b", requested_at=2.0), approval("a", requested_at=3.0, state="approved"))),
        commit("r2", approvals=(approval("c", "r2", requested_at=1.0, tenant="acme"),)),
    )

    async def ids(**filters):
        return [row.approval_id for row in (await journal.list_approvals(**filters)).items]

    assert await ids() == ["c", "b", "a"]
    assert await ids(state="pending") == ["c", "b"]
    assert await ids(run_id="r1") == ["b", "a"]
    assert await ids(tenant="acme", state="pending") == ["c"]
    assert await ids(state="pending", tenant="default", run_id="r1") == ["b"]


async def test_pages_join_to_the_whole(journal):
    rows = tuple(approval(f"a{number}", requested_at=float(number // 2)) for number in range(5))
    await append(journal, commit("r1", approvals=rows))
    found, cursor = [], None
    while True:
        page = await journal.list_approvals(state="pending", limit=2, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert tuple(found) == rows
    with pytest.raises(InvalidCursor):
        await journal.list_approvals(cursor="nonsense")


async def test_one_that_does_not_exist_is_not_found(journal):
    with pytest.raises(NotFound, match="approval nobody"):
        await journal.get_approval("nobody")


async def test_a_commit_carries_only_its_own_approvals(journal):
    with pytest.raises(InvalidCommit):
        await journal.append([commit("r1", approvals=(approval("a1", "r2"),))])
