"""Idempotency keys: same key, same run; another body is told apart (R5)."""

import pytest

from perdure.journal import Accepted, Exists, IdempotencyKey, InvalidCommit
from tests.conformance.journal.commits import append, commit


def start(run_id: str, body_hash: str = "h1", key: str = "k", tenant: str = "default", **fields):
    return commit(run_id, idempotency=IdempotencyKey(tenant, key, body_hash), **fields)


async def test_the_same_key_and_body_give_the_first_run(journal):
    assert await append(journal, start("r1")) == Accepted(1)
    assert await append(journal, start("r2")) == Exists("r1", same_body=True)
    assert await journal.find_run("r2") is None


async def test_the_same_key_with_another_body_is_told_apart(journal):
    await append(journal, start("r1"))
    assert await append(journal, start("r2", "h2")) == Exists("r1", same_body=False)


async def test_two_creations_with_one_key_in_one_append_make_one_run(journal):
    assert await append(journal, start("r1"), start("r2")) == [Accepted(1), Exists("r1", same_body=True)]


async def test_a_repeat_of_the_creating_commit_is_accepted(journal):
    assert [await append(journal, start("r1")) for _ in range(2)] == [Accepted(1)] * 2


async def test_the_same_run_id_under_the_same_key_says_same_body(journal):
    await append(journal, start("r1"))
    assert await append(journal, start("r1", commit_id="other")) == Exists("r1", same_body=True)


async def test_tenants_do_not_share_keys(journal):
    assert await append(journal, start("r1"), start("r2", tenant="acme")) == [Accepted(1), Accepted(1)]


async def test_a_refused_creation_leaves_its_key_free(journal):
    await append(journal, commit("r1"))
    assert await append(journal, start("r1", commit_id="other")) == Exists("r1", same_body=False)
    assert await journal.find_idempotency("default", "k") is None
    assert await append(journal, start("r2")) == Accepted(1)


async def test_find_idempotency_gives_run_and_hash(journal):
    assert await journal.find_idempotency("default", "k") is None
    await append(journal, start("r1"))
    assert await journal.find_idempotency("default", "k") == ("r1", "h1")


async def test_a_key_belongs_to_the_creation_only(journal):
    await append(journal, commit("r1"))
    with pytest.raises(InvalidCommit):
        await journal.append([commit("r1", 1, idempotency=IdempotencyKey("default", "k", "h"))])
