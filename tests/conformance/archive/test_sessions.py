"""create_session, find_session, touch_session, list_sessions, end_session, prune_sessions: what a browser was given."""

import hashlib
from typing import Any

import msgspec

from perdure.archive.credentials import Session


def session(number: int = 1, **fields) -> Session:
    values: dict[str, Any] = {
        "token_hash": hashlib.sha256(str(number).encode()).digest(),
        "session_id": f"s{number}",
        "tenant": "acme",
        "owner": "k1",
        "kind": "key",
        "name": "ann",
        "key_id": "k1",
        "agent": "Firefox ü \ud800",
        "created_at": 10.0 + number,
        "seen_at": 10.0 + number,
        "expires_at": 100.0,
    }
    return Session(**values | fields)


async def listed(archive, tenant="acme", owner="k1", *, now=50.0, seen_after=0.0, **more):
    page = await archive.list_sessions(tenant, owner, now=now, seen_after=seen_after, **more)
    return [one.session_id for one in page.items], page.next_cursor


async def test_a_session_is_found_as_it_was_written(archive):
    made = session(kind="jwt", owner="jwt acme ann", key_id="", roles=("viewer", "author"))
    await archive.create_session(made)
    assert await archive.find_session(made.token_hash) == made
    assert await archive.find_session(bytes(32)) is None


async def test_its_last_use_only_moves_forward(archive):
    made = session()
    await archive.create_session(made)
    await archive.touch_session(made.token_hash, 40.0)
    await archive.touch_session(made.token_hash, 30.0)
    await archive.touch_session(bytes(32), 30.0)
    assert await archive.find_session(made.token_hash) == msgspec.structs.replace(made, seen_at=40.0)


async def test_the_sessions_of_one_credential_newest_first(archive):
    for number in range(1, 6):
        await archive.create_session(session(number))
    await archive.create_session(session(6, tenant="other"))
    await archive.create_session(session(7, owner="k2"))
    first, cursor = await listed(archive, limit=3)
    assert first == ["s5", "s4", "s3"]
    assert await listed(archive, limit=3, cursor=cursor) == (["s2", "s1"], None)
    assert (await listed(archive, seen_after=13.0))[0] == ["s5", "s4"]
    assert (await listed(archive, now=100.0))[0] == []
    assert (await listed(archive, "other"))[0] == ["s6"]


async def test_a_session_is_ended_by_its_own_credential_alone_and_once(archive):
    made = session()
    await archive.create_session(made)
    assert await archive.end_session("other", "k1", "s1") is None
    assert await archive.end_session("acme", "k2", "s1") is None
    assert await archive.end_session("acme", "k1", "s1") == made
    assert await archive.end_session("acme", "k1", "s1") is None
    assert await archive.find_session(made.token_hash) is None
    await archive.touch_session(made.token_hash, 99.0)
    assert await archive.find_session(made.token_hash) is None


async def test_old_sessions_are_forgotten(archive):
    for number in range(1, 6):
        await archive.create_session(session(number, expires_at=100.0 + number))
    assert await archive.prune_sessions(103.0) == 2
    assert await archive.prune_sessions(103.0) == 0
    assert (await listed(archive))[0] == ["s5", "s4", "s3"]
