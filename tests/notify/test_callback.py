"""The decision that another system sends back: of who signed it, once, and of nobody else (X17, X22, X30)."""

import asyncio
import json
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from perdure.clock import system
from perdure.kernel import commands as c
from perdure.kernel import waits
from perdure.kernel.decide import _HANDLERS
from perdure.runtime.notifier import _settle
from perdure.secrets.providers import Secrets, SecretsFile
from perdure.secrets.signatures import read_keys, sign
from perdure.secrets.vault import Vault
from tests.api.helpers import API, bearer, mounted, with_tokens
from tests.api.test_people import place, until_state_of
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE, opened, until_true
from tests.notify.helpers import KEYS, SECRET, asking

WHO = "webhook:hooks.example"
NOTIFY = {"url": "https://hooks.example/approvals", "secret": "hook"}
OTHERS = read_keys("another-tenant-has-this-secret")


def vault(tmp_path):
    """Tenants have secrets of their own under the same name."""
    file = tmp_path / "secrets.toml"
    file.write_text(
        f'[[scope]]\ntenant = "acme"\nqueue = "webhooks"\nsecrets = {{ hook = "{SECRET}" }}\n'
        '[[scope]]\ntenant = "other"\nsecrets = { hook = "another-tenant-has-this-secret" }\n'
        '[[scope]]\ntenant = "turning"\n'
        f'secrets = {{ hook = "the-newest-secret-of-this-tenant {SECRET}" }}\n'
    )
    file.chmod(0o600)
    return Vault(Secrets([("file", SecretsFile(file))]))


@pytest.fixture
async def server(tmp_path):
    """Nobody is called: there is no notifier."""
    engine = await opened(tmp_path, vault=vault(tmp_path))
    try:
        await engine.hold(work=False)
        async with mounted(engine, authenticator=with_tokens(engine)) as made:
            yield made
    finally:
        await engine.close(0.5)


async def ask(server, tenant="acme", notify=NOTIFY, **config):
    definition = asking(0, notify=notify, **config)
    run = await server.start(definition, wait=0, headers=bearer("starter", tenant=tenant))

    async def look():
        found = await server.ok(f"/approvals?run_id={run['run_id']}", headers=bearer(tenant=tenant))
        return found["items"]

    (found,) = await until_true(look, "somebody is asked")
    return found


async def send(server, approval, body=None, *, keys=KEYS, message_id="m1", late=0.0, headers=None, method="POST"):
    about = {"decision": "approve", "approval_id": approval["approval_id"]}
    raw = body if isinstance(body, bytes) else json.dumps({**about, **(body or {})}).encode()
    signed = sign(keys, message_id, int(system.now() - late), raw)
    target = f"{API}/hooks/approvals/{quote(approval['approval_id'], safe='')}"
    every = {"Content-Type": "application/json", **signed, **(headers or {})}
    return await server.client.request(method, target, content=raw, headers=every)


async def details(server, approval, tenant="acme"):
    return await server.ok(place(approval), headers=bearer(tenant=tenant))


async def audit(server, tenant="acme"):
    entries = (await server.engine.journal.archive.list_audit(tenant)).items
    return [(one.entry.principal, one.entry.object) for one in entries if one.entry.action == "hooks.decide"]


async def test_a_signed_callback_decides_as_the_system_it_comes_from(server):
    approval = await ask(server, approvers=["ann", WHO])
    assert approval["notify"] == NOTIFY
    body = {"decision": "approve", "comments": "from the queue", "data": {"ticket": 7}}
    response = await send(server, approval, body)
    assert (response.status_code, response.json()["votes"]) == (200, {WHO: "approve"})
    await until_state_of(server, approval["run_id"], "completed")
    run = await server.ok(f"/runs/{approval['run_id']}", headers=bearer())
    assert run["outputs"] == {"said": f"approve by {WHO}"}
    found = await details(server, approval)
    assert (found["decided_by"], found["comments"], found["data"]) == (WHO, "from the queue", {"ticket": 7})
    assert await audit(server) == [(WHO, approval["approval_id"])]


async def test_the_details_say_whether_the_other_system_was_told(server):
    approval = await ask(server)
    found = (await details(server, approval))["notification"]
    assert (found["state"], found["attempts"], found["delivered_at"], found["last_error"]) == ("waiting", 0, None, None)
    archive = server.engine.archive
    (claimed,) = await archive.claim_notifications(system.now() + 1, system.now() + 60)
    await archive.settle_notification(_settle(claimed, "failed", last_error="hooks.example answered 500"))
    found = (await details(server, approval))["notification"]
    assert found == {
        "state": "failed",
        "attempts": 1,
        "delivered_at": None,
        "next_at": None,
        "last_error": "hooks.example answered 500",
    }


async def test_a_repeat_is_answered_as_the_first_and_decides_nothing_more(server):
    approval = await ask(server, quorum=2)
    responses = await asyncio.gather(*(send(server, approval) for _ in range(20)))
    assert [(one.status_code, one.json().get("votes", one.text)) for one in responses] == [(200, {WHO: "approve"})] * 20
    assert len((await details(server, approval))["ballots"]) == 1
    assert len(await audit(server)) == 1
    # Another message of the same system is another vote, and it has one.
    assert (await send(server, approval, message_id="m2")).json()["code"] == "already_voted"
    assert (await send(server, approval)).status_code == 200


async def test_the_first_copy_of_a_message_may_be_the_last_to_vote(server, monkeypatch):
    """Nothing orders copies that arrive at once: the one that is written down first may be overtaken before it votes."""
    approval = await ask(server, quorum=2)
    archive, kept, overtaken = server.engine.archive, asyncio.Event(), asyncio.Event()
    keep = archive.keep_callback

    async def slow(callback):
        known = await keep(callback)
        if known is None:
            kept.set()
            await overtaken.wait()
        return known

    monkeypatch.setattr(archive, "keep_callback", slow)
    first = asyncio.create_task(send(server, approval))
    await asyncio.wait_for(kept.wait(), DEADLINE)
    second = await send(server, approval)
    overtaken.set()
    answers = [(one.status_code, one.json().get("votes", one.text)) for one in (second, await first)]
    assert answers == [(200, {WHO: "approve"})] * 2
    assert (len((await details(server, approval))["ballots"]), len(await audit(server))) == (1, 1)


async def test_copies_at_two_processes_are_answered_alike(server, tmp_path):
    """The second has no run: what it is asked is handed to the first."""
    approval = await ask(server, quorum=2)
    engine = await opened(tmp_path, vault=vault(tmp_path))
    try:
        async with mounted(engine, authenticator=with_tokens(engine)) as other:
            responses = await asyncio.gather(*(send(one, approval) for _ in range(8) for one in (other, server)))
    finally:
        await engine.close(0.5)
    assert [(one.status_code, one.json().get("votes", one.text)) for one in responses] == [(200, {WHO: "approve"})] * 16
    assert (len((await details(server, approval))["ballots"]), len(await audit(server))) == (1, 1)


async def test_a_refused_message_stays_refused(server):
    """Another message of the same system cast its vote, the same way; a copy of the refused one cast none."""
    approval = await ask(server, quorum=2)
    assert (await send(server, approval, message_id="m1")).status_code == 200
    for _ in range(2):
        assert (await send(server, approval, message_id="m2")).json()["code"] == "already_voted"


async def test_a_vote_of_an_older_process_names_no_message_and_answers_repeats(server, monkeypatch):
    approval = await ask(server, quorum=2)
    monkeypatch.setitem(_HANDLERS, c.Vote, lambda d, command: waits.vote(d, replace(command, message="")))
    for _ in range(2):
        assert (await send(server, approval)).status_code == 200
    assert (await send(server, approval, message_id="m2")).json()["code"] == "already_voted"


async def test_a_copy_is_answered_as_the_first_when_the_approval_is_decided(server):
    approval = await ask(server, approvers=["ann", WHO], quorum=2)
    assert (await send(server, approval)).status_code == 200
    decided = await server.post(f"{place(approval)}/decide", {"decision": "reject"}, headers=bearer("ann", "approver"))
    assert decided.status_code == 200
    assert (await send(server, approval)).json()["votes"] == {WHO: "approve", "ann": "reject"}


@attack("S23", "a signed callback that is sent for another approval")
async def test_a_signature_says_which_approval_it_is_about(server):
    """Whoever intercepts a message could send it to another approval: the path is not signed."""
    approval = await ask(server)
    response = await send(server, approval, b'{"decision": "approve"}')
    assert (response.status_code, response.json()["problems"][0]["path"]) == (422, "approval_id")
    assert (await details(server, approval))["state"] == "pending"


async def test_the_id_of_a_message_means_nothing_else(server):
    first, second = await ask(server), await ask(server)
    body = {"decision": "approve", "approval_id": first["approval_id"]}
    for other in (await send(server, second, body, message_id="m9"),):
        assert (other.status_code, other.json()["code"]) == (409, "wrong_approval")
    assert (await send(server, first)).status_code == 200
    moved = await send(server, second)
    assert (moved.status_code, moved.json()["code"]) == (409, "webhook_id_used")
    changed = await send(server, first, {"decision": "reject"})
    assert (changed.status_code, changed.json()["code"]) == (409, "webhook_id_used")
    assert (await details(server, second))["state"] == "pending"


async def test_whatever_is_wrong_with_a_signature_the_answer_is_the_same(server):
    approval, plain = await ask(server), await ask(server, notify={**NOTIFY, "secret": "missing"})
    theirs = await ask(server, tenant="other")
    wrong = [
        await send(server, approval, keys=OTHERS),
        await send(server, approval, late=301),
        await send(server, approval, late=-302),
        await send(server, approval, headers={"webhook-signature": ""}),
        await send(server, approval, headers={"webhook-id": "m2"}),
        await send(server, approval, headers={"webhook-timestamp": str(int(system.now()) + 1)}),
        await send(server, approval, headers={"webhook-signature": b"v1,\xff"}),
        await send(server, plain),
        await send(server, theirs),
        await send(server, {"approval_id": "there is none"}),
        await send(server, {"approval_id": "x" * 900}),
        await server.client.post(f"{API}/hooks/approvals/{quote(approval['approval_id'], safe='')}"),
    ]
    answers = {(one.status_code, one.json()["code"], one.json()["detail"]) for one in wrong}
    assert len(answers) == 1
    assert next(iter(answers))[:2] == (404, "invalid_signature")
    for one, tenant in ((approval, "acme"), (plain, "acme"), (theirs, "other")):
        assert (await details(server, one, tenant))["state"] == "pending"
    assert (await send(server, theirs, keys=OTHERS)).status_code == 200
    assert await audit(server) == []


async def test_an_approval_that_nobody_else_was_told_of_cannot_be_decided_so(server):
    run = await server.start(
        {"name": "plain", "nodes": [{"id": "ask", "type": "human", "config": {}}]}, wait=0, headers=bearer("starter")
    )

    async def look():
        return (await server.ok(f"/approvals?run_id={run['run_id']}", headers=bearer()))["items"]

    (approval,) = await until_true(look, "somebody is asked")
    assert "notify" not in approval
    assert (await details(server, approval))["notification"] is None
    assert (await send(server, approval)).status_code == 404


async def test_only_a_post_decides(server):
    approval = await ask(server)
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        response = await send(server, approval, method=method)
        assert response.status_code in (401, 405), method
    assert (await details(server, approval))["state"] == "pending"


async def test_the_other_system_votes_only_where_the_workflow_lets_it(server):
    approval = await ask(server, approvers=["ann", "role:approver"])
    response = await send(server, approval)
    assert (response.status_code, response.json()["code"]) == (409, "not_an_approver")
    assert (await send(server, approval)).json()["code"] == "not_an_approver"
    assert (await details(server, approval))["state"] == "pending"


async def test_both_secrets_are_good_while_one_replaces_the_other(server):
    for number, keys in enumerate((read_keys("the-newest-secret-of-this-tenant"), KEYS)):
        approval = await ask(server, tenant="turning")
        assert (await send(server, approval, keys=keys, message_id=f"m{number}")).status_code == 200
    assert (await send(server, await ask(server, tenant="turning"), keys=OTHERS)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b'{"decision":"approve","decision":"reject"}', 400),
        ({"decision": "maybe"}, 422),
        ({"decision": "approve", "approver": "ann"}, 422),
        ({"decision": "approve", "data": {"amount": 500}}, 422),
    ],
)
async def test_a_signed_body_that_is_none_says_what_is_wrong(server, body, status):
    form = {"type": "object", "properties": {"amount": {"type": "number", "maximum": 100}}}
    approval = await ask(server, form=form)
    assert (await send(server, approval, body)).status_code == status
    assert (await details(server, approval))["state"] == "pending"
    assert (
        await send(server, approval, {"decision": "approve", "data": {"amount": 5}}, message_id="m2")
    ).status_code == 200


async def test_a_callback_and_people_at_once_give_one_decision(server):
    approval = await ask(server)
    votes = [send(server, approval, {"decision": "reject"}, message_id=f"m{number}") for number in range(20)]
    people = [
        server.post(f"{place(approval)}/decide", {"decision": "approve"}, headers=bearer(f"p{number}", "approver"))
        for number in range(20)
    ]
    responses = await asyncio.gather(*votes, *people)
    assert [one.status_code for one in responses].count(200) == 1
    assert len((await details(server, approval))["ballots"]) == 1
