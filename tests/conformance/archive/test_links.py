"""create_link, find_link, consume_link, release_link, prune_links: a link is used once, for what it was made for."""

import asyncio
import hashlib
from typing import Any

import msgspec
import pytest

from perdure.archive.credentials import Link

HASH = hashlib.sha256(b"token").digest()


def link(**fields) -> Link:
    values: dict[str, Any] = {
        "token_hash": HASH,
        "tenant": "acme",
        "approval_id": "a1",
        "run_id": "r1",
        "decision": "approve",
        "approver": "ada",
        "created_at": 10.0,
        "expires_at": 100.0,
    }
    return Link(**values | fields)


async def consume(archive, **fields):
    values: dict[str, Any] = {"approval_id": "a1", "decision": "approve", "now": 50.0}
    return await archive.consume_link(fields.pop("token_hash", HASH), **values | fields)


async def test_looking_at_a_link_changes_nothing(archive):
    await archive.create_link(link())
    assert [await archive.find_link(HASH) for _ in range(3)] == [link()] * 3
    assert await archive.find_link(bytes(32)) is None
    assert await consume(archive) is not None


async def test_a_link_is_consumed_once(archive):
    await archive.create_link(link())
    used = msgspec.structs.replace(link(), consumed_at=50.0)
    assert await consume(archive) == used
    assert await consume(archive) is None
    assert await archive.find_link(HASH) == used


@pytest.mark.parametrize(
    "wrong",
    [{"token_hash": bytes(32)}, {"token_hash": b""}, {"approval_id": "a2"}, {"decision": "reject"}, {"now": 100.0}],
)
async def test_a_link_for_something_else_or_too_late_is_not_consumed(archive, wrong):
    await archive.create_link(link())
    assert await consume(archive, **wrong) is None
    assert await archive.find_link(HASH) == link()


async def test_of_a_thousand_at_once_one_consumes_it(office):
    archive, _, open_again = office
    archives = [archive, (await open_again()).archive]
    await archive.create_link(link())
    found = await asyncio.gather(*(consume(archives[number % 2], now=20.0 + number / 100) for number in range(1000)))
    winners = [one for one in found if one is not None]
    assert len(winners) == 1
    assert await archive.find_link(HASH) == winners[0]


async def test_a_released_link_may_be_used_again_by_whoever_released_it_alone(archive):
    await archive.create_link(link())
    await consume(archive)
    await archive.release_link(HASH, 49.0)
    assert await consume(archive) is None
    await archive.release_link(HASH, 50.0)
    assert await consume(archive, now=60.0) is not None


async def test_old_links_are_forgotten(archive):
    hashes = [bytes([number]) * 32 for number in range(1, 6)]
    for number, token_hash in enumerate(hashes):
        await archive.create_link(link(token_hash=token_hash, expires_at=100.0 + number))
    assert await archive.prune_links(102.0) == 2
    assert await archive.prune_links(102.0) == 0
    assert [await archive.find_link(one) is None for one in hashes] == [True, True, False, False, False]
