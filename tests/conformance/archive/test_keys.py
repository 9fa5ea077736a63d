"""create_key, find_key, list_keys, revoke_key, touch_keys."""

import hashlib
from typing import Any

import msgspec
import pytest

from perdure.archive.credentials import ApiKey
from perdure.errors import NotFound
from perdure.journal import InvalidCursor


def key(number: int = 1, **fields) -> ApiKey:
    values: dict[str, Any] = {
        "key_id": f"{number:016x}",
        "tenant": "acme",
        "name": "ci",
        "secret_hash": hashlib.sha256(str(number).encode()).digest(),
        "roles": ("operator", "author"),
        "scopes": ("runs:start",),
        "created_by": "ada",
        "created_at": 100.0 + number,
        "expires_at": 900.5,
    }
    return ApiKey(**values | fields)


async def test_a_key_is_found_by_its_id_in_every_process(office):
    archive, _, open_again = office
    other = (await open_again()).archive
    await archive.create_key(key())
    assert await other.find_key(key().key_id) == key()
    assert await other.find_key("0" * 16) is None
    assert await other.find_key("\0") is None


async def test_an_id_is_given_to_one_key(archive):
    await archive.create_key(key())
    with pytest.raises(Exception, match="cannot store"):
        await archive.create_key(key(name="other"))
    assert (await archive.find_key(key().key_id)).name == "ci"


async def test_keys_are_listed_newest_first_by_tenant(archive):
    for number in range(1, 6):
        await archive.create_key(key(number))
    await archive.create_key(key(9, tenant="globex"))
    page = await archive.list_keys("acme", limit=3)
    assert [one.created_at for one in page.items] == [105.0, 104.0, 103.0]
    page = await archive.list_keys("acme", limit=3, cursor=page.next_cursor)
    assert ([one.created_at for one in page.items], page.next_cursor) == ([102.0, 101.0], None)
    assert [one.key_id for one in (await archive.list_keys("globex")).items] == [key(9).key_id]


async def test_a_cursor_of_another_list_is_refused(archive):
    with pytest.raises(InvalidCursor):
        await archive.list_keys("acme", cursor="bm9uZQ")


async def test_a_revoked_key_says_since_when(office):
    archive, _, open_again = office
    other = (await open_again()).archive
    await archive.create_key(key())
    revoked = msgspec.structs.replace(key(), revoked_at=200.0)
    assert await archive.revoke_key("acme", key().key_id, 200.0) == revoked
    assert await other.find_key(key().key_id) == revoked
    assert await other.revoke_key("acme", key().key_id, 300.0) == revoked


async def test_nobody_revokes_a_key_of_another_tenant(archive):
    await archive.create_key(key())
    for tenant, key_id in (("globex", key().key_id), ("acme", "0" * 16)):
        with pytest.raises(NotFound, match="does not exist"):
            await archive.revoke_key(tenant, key_id, 200.0)
    assert (await archive.find_key(key().key_id)).revoked_at is None


async def test_the_last_use_is_noted_and_never_goes_back(archive):
    await archive.create_key(key(1))
    await archive.create_key(key(2))
    await archive.touch_keys({key(1).key_id: 50.0, key(2).key_id: 60.0, "0" * 16: 70.0})
    await archive.touch_keys({key(1).key_id: 40.0, key(2).key_id: 61.0})
    await archive.touch_keys({})
    found = [(await archive.find_key(key(number).key_id)).last_used_at for number in (1, 2)]
    assert found == [50.0, 61.0]
