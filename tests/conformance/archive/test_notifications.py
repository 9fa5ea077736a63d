"""claim_notifications, settle_notification, find_notification, keep_callback, prune_callbacks: told once by one, and answered once."""

import asyncio
from typing import Any

import msgspec
import pytest

from perdure.archive.notifications import WANTS_NOTIFICATION, Callback, Notification
from perdure.journal import ApprovalRow
from tests.conformance.journal.commits import append, commit

BODY = WANTS_NOTIFICATION + b'"url":"https://a.example/","secret":"hook"},"shown":null}'


def approval(approval_id: str = "a1", run_id: str = "r1", **fields) -> ApprovalRow:
    values: dict[str, Any] = {"node": "n", "state": "pending", "tenant": "acme", "requested_at": 10.0, "body": BODY}
    return ApprovalRow(approval_id=approval_id, run_id=run_id, **values | fields)


def waiting(approval_id: str = "a1", **fields) -> Notification:
    values: dict[str, Any] = {"tenant": "acme", "created_at": 10.0, "next_at": 10.0}
    return Notification(approval_id=approval_id, **values | fields)


def callback(**fields) -> Callback:
    values: dict[str, Any] = {"callback_hash": bytes(32), "tenant": "acme", "digest": b"d" * 32, "received_at": 5.0}
    return Callback(**values | fields)


async def ask(journal, *rows: ApprovalRow) -> None:
    for row in rows:
        await append(journal, commit(row.run_id, tenant=row.tenant, approvals=(row,)))


async def test_an_approval_that_wants_one_has_a_notification_as_soon_as_it_is_there(office):
    archive, journal, _ = office
    await ask(journal, approval())
    assert await archive.find_notification("acme", "a1") == waiting()
    assert await archive.find_notification("other", "a1") is None
    assert await archive.find_notification("acme", "a2") is None


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"no JSON at all",
        b'{"notify":null}',
        b'{"shown":{"notify":{"url":"https://evil.example"}}}',
        b'{"shown":"\\u0000","x":{"notify":{',
    ],
)
async def test_what_does_not_ask_for_one_has_none(office, body):
    archive, journal, _ = office
    await ask(journal, approval(body=body))
    assert await archive.find_notification("acme", "a1") is None
    assert await archive.claim_notifications(1e9, 2e9) == []


async def test_one_that_was_decided_when_it_was_written_has_none(office):
    archive, journal, _ = office
    await ask(journal, approval(state="decided", decided_at=11.0))
    assert await archive.find_notification("acme", "a1") is None


async def test_votes_and_decisions_change_nothing_about_it(office):
    archive, journal, _ = office
    await ask(journal, approval())
    decided = approval(state="decided", decided_at=12.0)
    await append(journal, commit("r1", 1, tenant="acme", approvals=(decided,)))
    assert await archive.find_notification("acme", "a1") == waiting()


async def test_what_is_due_is_claimed_by_one_and_by_others_when_its_time_has_passed(office):
    archive, journal, open_again = office
    other = (await open_again()).archive
    await ask(journal, approval(), approval("a2", "r2", requested_at=99.0))
    assert await archive.claim_notifications(9.0, 20.0) == []
    claimed = waiting(attempts=1, next_at=20.0)
    assert await archive.claim_notifications(10.0, 20.0) == [claimed]
    assert await other.claim_notifications(10.0, 20.0) == []
    assert await archive.find_notification("acme", "a1") == claimed
    assert await other.claim_notifications(20.0, 30.0) == [waiting(attempts=2, next_at=30.0)]


async def test_of_many_that_claim_at_once_each_notification_goes_to_one(office):
    archive, journal, open_again = office
    archives = [archive, (await open_again()).archive]
    rows = [approval(f"a{number:02}", f"r{number}", requested_at=number) for number in range(60)]
    await append(journal, *(commit(row.run_id, tenant="acme", approvals=(row,)) for row in rows))
    found = await asyncio.gather(*(archives[n % 2].claim_notifications(100.0, 200.0, limit=7) for n in range(40)))
    claimed = [one.approval_id for some in found for one in some]
    assert len(claimed) == len(set(claimed))
    rest = [one.approval_id for one in await archive.claim_notifications(100.0, 200.0)]
    assert sorted(claimed + rest) == [row.approval_id for row in rows]
    assert max(len(some) for some in found) <= 7


@pytest.mark.parametrize(
    "came",
    [
        {"state": "delivered", "delivered_at": 12.0},
        {"state": "failed", "last_error": "answered 500 \x00 \ud800 é"},
        {"state": "stopped"},
        {"state": "waiting", "next_at": 50.0, "last_error": "no connection"},
    ],
)
async def test_what_came_of_an_attempt_is_written_down_and_only_what_waits_is_tried_again(office, came):
    archive, journal, _ = office
    await ask(journal, approval())
    (claimed,) = await archive.claim_notifications(10.0, 20.0)
    settled = msgspec.structs.replace(claimed, **came)
    assert await archive.settle_notification(settled)
    assert await archive.find_notification("acme", "a1") == settled
    again = await archive.claim_notifications(60.0, 70.0)
    assert [one.attempts for one in again] == ([2] if came["state"] == "waiting" else [])


async def test_an_attempt_that_took_too_long_settles_nothing(office):
    archive, journal, _ = office
    await ask(journal, approval())
    (late,) = await archive.claim_notifications(10.0, 20.0)
    (now,) = await archive.claim_notifications(20.0, 30.0)
    assert not await archive.settle_notification(msgspec.structs.replace(late, state="failed"))
    assert await archive.settle_notification(msgspec.structs.replace(now, state="delivered", delivered_at=21.0))
    assert not await archive.settle_notification(msgspec.structs.replace(now, state="failed"))
    assert (await archive.find_notification("acme", "a1")).state == "delivered"


async def test_a_notification_goes_with_its_run(office):
    archive, journal, _ = office
    row = approval()
    await append(journal, commit("r1", tenant="acme", approvals=(row,), ended_at=50.0))
    assert await archive.find_notification("acme", "a1") is not None
    assert await archive.prune_runs(100.0) == 1
    assert await archive.find_notification("acme", "a1") is None


async def test_the_first_callback_of_a_hash_is_kept(office):
    archive, _, open_again = office
    other = (await open_again()).archive
    assert await archive.keep_callback(callback()) is None
    assert await other.keep_callback(callback(digest=b"e" * 32, received_at=6.0)) == callback()
    assert await archive.keep_callback(callback(callback_hash=b"x" * 32)) is None


async def test_of_a_hundred_callbacks_at_once_one_is_new(office):
    archive, _, open_again = office
    archives = [archive, (await open_again()).archive]
    found = await asyncio.gather(*(archives[n % 2].keep_callback(callback(received_at=n)) for n in range(100)))
    assert found.count(None) == 1
    assert len({one for one in found if one is not None}) == 1


async def test_old_callbacks_are_forgotten(archive):
    for number in range(1, 6):
        await archive.keep_callback(callback(callback_hash=bytes([number]) * 32, received_at=100.0 + number))
    assert await archive.prune_callbacks(103.0) == 2
    assert await archive.prune_callbacks(103.0) == 0
    assert await archive.keep_callback(callback(callback_hash=bytes([1]) * 32)) is None
    assert await archive.keep_callback(callback(callback_hash=bytes([3]) * 32)) is not None
