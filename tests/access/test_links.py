"""Links: one approver, one decision, once; and everything else is refused in the same words."""

import asyncio
import re
from typing import Any

import pytest

from perdure.access import LinkInvalid, Links, Permission, link_principal


@pytest.fixture
def links(archive, clock) -> Links:
    return Links(archive, clock)


async def make(links, clock, **fields) -> str:
    values: dict[str, Any] = {
        "tenant": "acme",
        "approval_id": "a1",
        "run_id": "r1",
        "decision": "approve",
        "approver": "ada",
    }
    return await links.make(**values | {"expires_at": clock.now() + 60} | fields)


async def test_a_token_is_256_random_bits(links, clock):
    tokens = {await make(links, clock) for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)


async def test_a_link_says_what_it_would_decide_and_looking_decides_nothing(links, clock):
    token = await make(links, clock)
    link = [await links.get(token) for _ in range(5)][-1]
    assert (link.tenant, link.approval_id, link.decision, link.approver) == ("acme", "a1", "approve", "ada")
    assert (await links.consume(token, approval_id="a1", decision="approve")).consumed_at == clock.now()


async def test_a_used_link_is_not_valid_any_more(links, clock):
    token = await make(links, clock)
    await links.consume(token, approval_id="a1", decision="approve")
    with pytest.raises(LinkInvalid) as error:
        await links.consume(token, approval_id="a1", decision="approve")
    assert (error.value.code, error.value.status) == ("link_invalid", 403)
    with pytest.raises(LinkInvalid):
        await links.get(token)


@pytest.mark.parametrize(
    "wrong", [{"decision": "reject"}, {"approval_id": "a2"}, {"decision": ""}, {"approval_id": ""}]
)
async def test_a_link_is_for_its_approval_and_decision_alone(links, clock, wrong):
    token = await make(links, clock)
    right = {"approval_id": "a1", "decision": "approve"}
    with pytest.raises(LinkInvalid):
        await links.consume(token, **right | wrong)
    await links.consume(token, **right)


async def test_an_expired_link_is_not_valid(links, clock):
    token = await make(links, clock)
    await clock.advance(59.9)
    await links.get(token)
    await clock.advance(0.1)
    with pytest.raises(LinkInvalid):
        await links.get(token)
    with pytest.raises(LinkInvalid):
        await links.consume(token, approval_id="a1", decision="approve")


@pytest.mark.parametrize(
    "token", ["", "null", "None", "undefined", "0", "a" * 43, "a" * 44, "\0" * 43, "' OR 1=1 --", "é" * 43]
)
async def test_what_is_no_token_is_refused_in_the_same_words(links, clock, token):
    used = await make(links, clock)
    await links.consume(used, approval_id="a1", decision="approve")
    said = set()
    for text in (token, used):
        with pytest.raises(LinkInvalid) as error:
            await links.consume(text, approval_id="a1", decision="approve")
        said.add(error.value.message)
        with pytest.raises(LinkInvalid):
            await links.get(text)
    assert len(said) == 1


async def test_a_thousand_at_once_give_one_decision(links, clock):
    token = await make(links, clock)

    async def use() -> bool:
        try:
            await links.consume(token, approval_id="a1", decision="approve")
        except LinkInvalid:
            return False
        return True

    assert sum(await asyncio.gather(*(use() for _ in range(1000)))) == 1


async def test_a_link_is_given_back_when_certainly_nothing_was_decided(links, clock):
    token = await make(links, clock)
    await links.release(await links.consume(token, approval_id="a1", decision="approve"))
    await links.consume(token, approval_id="a1", decision="approve")


async def test_the_token_is_not_in_the_database(links, clock, journal, tmp_path):
    tokens = [await make(links, clock) for _ in range(20)]
    await journal.close()
    found = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a1" in found
    assert [token for token in tokens if token.encode() in found or token[:12].encode() in found] == []


async def test_who_decides_by_a_link_is_its_approver_and_may_do_nothing_else(links, clock):
    principal = link_principal(await links.get(await make(links, clock, tenant="globex", approver="bob")))
    assert (principal.tenant, principal.name, principal.kind) == ("globex", "bob", "link")
    assert principal.permissions == {Permission.APPROVALS_DECIDE}
