"""API keys: made once, kept as a hash, checked without a hint at what was wrong."""

import asyncio
import re
import sqlite3
from typing import Any

import pytest

from perdure.access import InvalidKey, InvalidRole, Links, issue_key
from perdure.access.keys import PresentedKey, is_valid, nobody, read_key
from perdure.journals.postgres import open_postgres


async def issue(archive, clock, **fields):
    values: dict[str, Any] = {"tenant": "acme", "name": "ci", "roles": ("operator",), "by": "ada"}
    return await issue_key(archive, clock, **values | fields)


async def test_a_key_is_an_id_and_256_random_bits(archive, clock):
    issued = [await issue(archive, clock) for _ in range(50)]
    for one in issued:
        assert re.fullmatch(r"perdure_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", one.text)
        assert one.text.startswith(one.key.prefix + "_")
    assert len({one.text for one in issued}) == len({one.key.key_id for one in issued}) == 50
    assert len({one.text[-43:-20] for one in issued}) == 50


async def test_the_key_is_nowhere_but_in_the_answer(archive, clock, journal, tmp_path):
    issued = [await issue(archive, clock, name=f"key {number}") for number in range(20)]
    assert all(one.text[-43:] not in repr(one) for one in issued)
    await journal.close()
    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert issued[0].key.key_id.encode() in found  # it is the right file
    for one in issued:
        secret = one.text[-43:]
        assert secret.encode() not in found
        assert secret[:12].encode() not in found
        assert one.key.secret_hash in found


async def test_a_dump_of_the_database_has_no_key(archive, clock, journal, tmp_path):
    issued = await issue(archive, clock)
    await journal.close()
    connection = sqlite3.connect(tmp_path / "perdure.db")
    dump = "\n".join(connection.iterdump())
    connection.close()
    assert issued.key.key_id in dump
    assert issued.text[-43:] not in dump


async def test_a_dump_of_postgres_has_neither_key_nor_token(postgres_servers, clock):
    server = postgres_servers.get()
    async with server.database(8) as name:
        journal = await open_postgres(server.url(name), require_durable=False)
        issued = [await issue(journal.archive, clock) for _ in range(5)]
        link: dict[str, Any] = {
            "approval_id": "a1",
            "run_id": "r1",
            "decision": "approve",
            "approver": "ada",
            "expires_at": 1e12,
        }
        tokens = [await Links(journal.archive, clock).make(tenant="acme", **link) for _ in range(5)]
        dump = await asyncio.to_thread(server.run, "pg_dump", "-d", server.url(name))
        await journal.close()
    assert all(one.key.key_id in dump and one.key.secret_hash.hex() in dump for one in issued)
    assert [text for text in (*(one.text[-43:] for one in issued), *tokens) if text in dump or text[:12] in dump] == []


async def test_what_is_stored_is_what_was_asked_for(archive, clock):
    issued = await issue(
        archive, clock, roles=("viewer", "approver"), scopes=("runs:read",), expires_at=clock.now() + 9
    )
    kept = await archive.find_key(issued.key.key_id)
    assert kept == issued.key
    assert (kept.roles, kept.scopes, kept.created_at) == (("viewer", "approver"), ("runs:read",), clock.now())
    assert (kept.expires_at, kept.created_by) == (clock.now() + 9, "ada")


@pytest.mark.parametrize("name", ["", " x", "a\nb", "a\0b", "x" * 201, "\ud800", "a\u2028b"])
async def test_a_name_is_one_line_that_can_be_shown(archive, clock, name):
    with pytest.raises(InvalidKey, match="name"):
        await issue(archive, clock, name=name)
    assert (await archive.list_keys("acme")).items == ()


@pytest.mark.parametrize("tenant", ["", "a b", "../x", "-x", "x" * 65, "ä", "a\n"])
async def test_a_tenant_is_a_plain_word(archive, clock, tenant):
    with pytest.raises(InvalidKey, match="tenant"):
        await issue(archive, clock, tenant=tenant)


async def test_everything_that_is_wrong_is_said_at_once(archive, clock):
    with pytest.raises(InvalidKey) as error:
        await issue(archive, clock, tenant="", name="", expires_at=clock.now())
    assert error.value.message.count(";") == 2
    with pytest.raises(InvalidRole):
        await issue(archive, clock, roles=("god",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "perdure_",
        "perdure__",
        "perdure_abc_def",
        "x" * 70,
        "perdure_" + "0" * 16 + "_" + "a" * 42,
        "perdure_" + "0" * 16 + "_" + "a" * 44,
        "perdure_" + "0" * 16 + "_" + "ä" * 43,
        "perdure_" + "G" * 16 + "_" + "a" * 43,
        "perdure_" + "0" * 16 + "_" + "a" * 43 + "\n",
    ],
)
def test_what_has_not_the_form_of_a_key_is_none(text):
    assert read_key(text) is None


def present(text: str) -> PresentedKey:
    presented = read_key(text)
    assert presented is not None
    return presented


async def test_only_the_whole_secret_of_a_living_key_is_valid(archive, clock):
    issued = await issue(archive, clock, expires_at=clock.now() + 10)
    key, now = issued.key, clock.now()
    presented = present(issued.text)
    assert is_valid(key, presented, now)
    assert is_valid(key, presented, now + 9.9)
    assert not is_valid(key, presented, now + 10)
    for place in range(issued.text.rindex("_") + 1, len(issued.text)):
        other = issued.text[:place] + ("a" if issued.text[place] != "a" else "b") + issued.text[place + 1 :]
        assert not is_valid(key, present(other), now)
    revoked = await archive.revoke_key("acme", key.key_id, now)
    assert not is_valid(revoked, presented, now)
    assert not is_valid(nobody(key.key_id), presented, now)
