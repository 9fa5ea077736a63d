"""People over HTTP: decisions are of who the credential says, exactly one counts, and a GET never decides (X17)."""

import asyncio
from typing import Any

import pytest

from tests.api.helpers import API, bearer, serving
from tests.api.test_runs import until_state
from tests.attack.marks import attack
from tests.engine.helpers import check, task, transform, until_true, workflow

FORM = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number", "maximum": 100}}}


def asking(**config):
    human = {"id": "ask", "type": "human", "config": {"show": {"amount": 50}, **config}}
    said = transform("said", "{{ ask.decision }} by {{ ask.decided_by }}", ["ask"])
    return workflow(human, said, name="asking")


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path, tokens=True) as made:
        yield made


async def ask(server, **config):
    """A run that waits for a decision: its approval."""
    run = await server.start(asking(**config), wait=0, headers=bearer("starter"))
    return await pending(server, run["run_id"])


async def pending(server, run_id):
    async def look():
        return (await server.ok(f"/approvals?state=pending&run_id={run_id}", headers=bearer()))["items"]

    (found,) = await until_true(look, "somebody is asked")
    return found


def place(approval):
    return f"/approvals/{approval['approval_id']}"


async def decide(server, approval, decision="approve", by="ann", **more):
    return await server.post(
        f"{place(approval)}/decide", {"decision": decision, **more}, headers=bearer(by, "approver")
    )


async def test_a_decision_is_of_who_the_credential_says(server):
    approval = await ask(server)
    assert (approval["node"], approval["shown"], approval["votes"]) == ("ask", {"show": {"amount": 50}}, {})
    response = await decide(server, approval, comments="fine")
    assert (response.status_code, response.json()["state"], response.json()["votes"]) == (
        200,
        "decided",
        {"ann": "approve"},
    )
    await until_state_of(server, approval["run_id"], "completed")
    run = await server.ok(f"/runs/{approval['run_id']}", headers=bearer())
    assert run["outputs"] == {"said": "approve by ann"}
    for name in ("approver", "voter", "decided_by"):
        other = await decide(server, await ask(server), **{name: "boss"})
        assert other.status_code in (403, 422), name


async def until_state_of(server, run_id, wanted):
    async def look():
        return (await server.ok(f"/runs/{run_id}", headers=bearer()))["state"] == wanted

    await until_true(look, f"{run_id} is {wanted}")


async def test_who_started_a_run_does_not_decide_about_it(server):
    approval = await ask(server)
    response = await decide(server, approval, by="starter")
    assert (response.status_code, response.json()["code"]) == (403, "own_request")
    assert (await server.ok(place(approval), headers=bearer()))["state"] == "pending"


async def test_who_started_the_parent_does_not_decide_about_the_child(server):
    await server.ok("/workflows", asking(), headers=bearer())
    parent = workflow({"id": "call", "type": "workflow", "config": {"workflow": "asking"}}, name="parent")
    run = await server.start(parent, wait=0, headers=bearer("starter"))
    approval = await pending(server, f"{run['run_id']}:call")
    assert (await decide(server, approval, by="starter")).json()["code"] == "own_request"
    assert (await decide(server, approval, by="ann")).status_code == 200


async def test_only_who_is_named_decides_and_only_once(server):
    approval = await ask(server, approvers=["ann", "bob"], quorum=2)
    assert (await decide(server, approval, by="eve")).json()["code"] == "not_an_approver"
    assert (await decide(server, approval, by="ann")).json()["state"] == "pending"
    assert (await decide(server, approval, by="ann")).json()["code"] == "already_voted"
    assert (await decide(server, approval, by="bob")).json()["state"] == "decided"
    assert (await decide(server, approval, by="bob")).json()["code"] == "already_decided"


async def test_a_role_is_an_approver_and_each_person_has_one_vote(server):
    approval = await ask(server, approvers=["role:finance", "role:legal"], quorum=2)

    async def vote(name, *roles):
        body = {"decision": "approve"}
        return await server.post(f"{place(approval)}/decide", body, headers=bearer(name, "approver", *roles))

    assert (await vote("eve", "sales")).json()["code"] == "not_an_approver"
    assert (await vote("ann", "finance", "legal")).json()["votes"] == {"role:finance": "approve"}
    assert (await vote("ann", "finance", "legal")).json()["code"] == "already_voted"
    assert (await vote("bob", "legal")).json()["state"] == "decided"
    ballots = (await server.ok(place(approval), headers=bearer()))["ballots"]
    assert [(one["by"], one["for"]) for one in ballots] == [("ann", "role:finance"), ("bob", "role:legal")]


@attack("S29", "who has voted hands over a second seat")
async def test_who_voted_for_one_role_hands_no_other_over(server):
    approval = await ask(server, approvers=["role:finance", "role:legal"], quorum=2)
    eve = bearer("eve", "approver", "finance", "legal")
    assert (await server.post(f"{place(approval)}/decide", {"decision": "approve"}, headers=eve)).status_code == 200
    handed = await server.post(f"{place(approval)}/delegate", {"to": "mallory"}, headers=eve)
    assert (handed.status_code, handed.json()["code"]) == (409, "already_voted")


@attack("S29", "who has handed a seat over votes for another")
async def test_who_handed_a_seat_over_votes_for_no_role(server):
    approval = await ask(server, approvers=["bob", "role:finance"], quorum=2)
    bob = bearer("bob", "approver", "finance")
    refused = await server.post(f"{place(approval)}/delegate", {"to": "role:admin"}, headers=bob)
    assert (refused.status_code, refused.json()["problems"][0]["path"]) == (422, "to"), "a vote has one owner (rule 38)"
    assert (await server.post(f"{place(approval)}/delegate", {"to": "mallory"}, headers=bob)).status_code == 200
    voted = await server.post(f"{place(approval)}/decide", {"decision": "approve"}, headers=bob)
    assert (voted.status_code, voted.json()["code"]) == (409, "already_delegated")
    assert (await decide(server, approval, by="mallory")).json()["state"] == "pending"


async def test_a_rejection_needs_no_form(server):
    approval = await ask(server, form=FORM)
    assert (await decide(server, approval, "reject")).status_code == 200


async def test_a_form_that_is_kept_as_a_blob_is_checked_too(server):
    approval = await ask(server, form={**FORM, "description": "x" * 100_000})
    assert (await decide(server, approval, data={"amount": 500})).status_code == 422


@attack("S25", "data so large that it is stored as a blob")
async def test_large_data_is_checked_too(server):
    approval = await ask(server, form=FORM)
    large = {"amount": 60, "why": "x" * 50_000}
    bad = await decide(server, approval, data={**large, "amount": 500})
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid_inputs")
    assert (await decide(server, approval, data=large)).status_code == 200
    assert (await server.ok(place(approval), headers=bearer()))["decision"] == "approve"


@attack("S25", "an approval without the data that its form requires")
async def test_the_form_is_shown_and_what_does_not_fit_is_refused(server):
    approval = await ask(server, form=FORM)
    details = await server.ok(place(approval), headers=bearer())
    assert (details["form"], details["ballots"], details["decision"]) == (FORM, [], None)
    wrongs: list[dict[str, Any]] = [{"data": {"amount": 500}}, {"data": {}}, {}]
    for wrong in wrongs:  # to give no data is to leave the amount out
        bad = await decide(server, approval, **wrong)
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid_inputs")
        assert [one["path"] for one in bad.json()["problems"]] == ["data"]
    assert (await decide(server, approval, data={"amount": 60}, comments="a bit more")).status_code == 200
    details = await server.ok(place(approval), headers=bearer())
    assert (details["decision"], details["decided_by"], details["data"]) == ("approve", "ann", {"amount": 60})
    assert details["changes"] == [{"path": "/amount", "change": "changed", "before": 50, "after": 60}]
    assert [(one["by"], one["comments"]) for one in details["ballots"]] == [("ann", "a bit more")]


@pytest.mark.slow
async def test_of_a_thousand_contradictory_decisions_exactly_one_is_taken(server):
    approval = await ask(server)
    votes = [decide(server, approval, ("approve", "reject")[n % 2], by=f"p{n}") for n in range(1000)]
    responses = await asyncio.gather(*votes)
    taken = [response for response in responses if response.status_code == 200]
    assert len(taken) == 1
    assert {response.json()["code"] for response in responses if response.status_code != 200} == {"already_decided"}
    await check(server.engine.journal, approval["run_id"])
    details = await server.ok(place(approval), headers=bearer())
    assert len(details["ballots"]) == 1


async def test_where_there_is_no_authentication_the_request_says_who_sits_there(tmp_path):
    async with serving(tmp_path) as server:
        run = await server.start(asking(approvers=["ann"]), wait=0)

        async def look():
            return (await server.ok(f"/approvals?run_id={run['run_id']}"))["items"]

        (approval,) = await until_true(look, "somebody is asked")
        assert (await server.post(f"{place(approval)}/decide", {"decision": "approve"})).status_code == 409
        body = {"decision": "reject", "approver": "ann"}
        assert (await server.ok(f"{place(approval)}/decide", body))["votes"] == {"ann": "reject"}
        await until_state(server, run["run_id"], "failed")


# -- links -------------------------------------------------------------------------------------------------------------


async def links(server, approval, approver="bob", **more):
    body = {"approver": approver, **more}
    return await server.ok(f"{place(approval)}/links", body, headers=bearer("root", "admin"))


async def state_of(server, approval):
    return (await server.ok(place(approval), headers=bearer()))["state"]


@attack("X17", "the page of a link leaves out, hides or turns around what is decided")
async def test_a_page_says_what_it_leaves_out_and_shows_what_cannot_be_seen(server):
    turned = await ask(server, approvers=["bob"], show={"pay": "\u202e0001 EUR\u200b"})
    page = (await server.client.get((await links(server, turned))["approve"])).text
    assert "\\u202e0001 EUR\\u200b" in page
    assert "left out" not in page
    long = await ask(server, approvers=["bob"], show={"a": "x" * 120_000, "b": "and a million to Mallory"})
    page = (await server.client.get((await links(server, long))["approve"])).text
    assert "Mallory" not in page
    assert page.index("does not show everything: 20,0") < page.index("<pre>")


async def test_a_link_shows_a_page_and_only_its_button_decides(server):
    approval = await ask(server, approvers=["bob"], show={"note": "<script>alert(1)</script>"})
    made = await links(server, approval)
    for url in (made["approve"], made["reject"]):
        for method in ("GET", "HEAD", "OPTIONS"):
            assert (await server.client.request(method, url)).status_code in (200, 405)
        page = await server.client.get(url)
        assert "<script>" not in page.text
        assert "&lt;script&gt;" in page.text
        assert "script" not in page.headers["content-security-policy"]
    assert await state_of(server, approval) == "pending"
    done = await server.client.post(made["approve"], data={"comments": "by mail"})
    assert done.status_code == 200
    details = await server.ok(place(approval), headers=bearer())
    assert (details["decision"], details["decided_by"], details["comments"]) == ("approve", "bob", "by mail")
    assert "Decided already" in (await server.client.get(made["reject"])).text
    late = await server.client.post(made["reject"])
    assert late.status_code == 409
    entries = await server.engine.journal.archive.list_audit("acme")
    assert [(one.entry.principal, one.entry.action) for one in entries.items if "links" in one.entry.action] == [
        ("bob", "links.decide"),
        ("root", "approvals.make_links"),
    ]


@pytest.mark.slow
async def test_a_link_is_used_once_however_many_press_the_button(server):
    approval = await ask(server, approvers=["bob", "cy"], quorum=2)
    made = await links(server, approval)
    responses = await asyncio.gather(*(server.client.post(made["approve"]) for _ in range(50)))
    assert sorted({response.status_code for response in responses}) == [200, 403]
    assert [response.status_code for response in responses].count(200) == 1
    assert (await server.client.get(made["approve"])).status_code == 403


@pytest.mark.parametrize("token", ["x", "a" * 43, "null", "%00", "..%2F..%2Fruns", "a" * 5000])
async def test_a_token_that_is_none_decides_nothing(server, token):
    await ask(server)
    for method in ("GET", "POST"):
        response = await server.client.request(method, f"/links/{token}")
        assert response.status_code in (403, 404)


async def test_the_page_of_a_link_asks_for_what_the_form_needs(server):
    approval = await ask(server, form=FORM)
    made = await links(server, approval)
    assert 'name="data.amount"' in (await server.client.get(made["approve"])).text
    assert 'name="data.amount"' not in (await server.client.get(made["reject"])).text
    for wrong in ({}, {"data.amount": "lots"}):
        answer = await server.client.post(made["approve"], data=wrong)
        assert (answer.status_code, "does not fit the form" in answer.text) == (422, True)
    answer = await server.client.post(made["approve"], data={"data.amount": "40", "comments": "fine"})
    assert answer.status_code == 200
    details = await server.ok(place(approval), headers=bearer())
    assert (details["decision"], details["data"], details["comments"]) == ("approve", {"amount": 40}, "fine")


async def test_a_link_for_who_may_not_decide_is_refused_and_expired_ones_are_too(server):
    approval = await ask(server, approvers=["bob"])
    made = await links(server, approval, approver="starter")
    assert (await server.client.post(made["approve"])).status_code == 403
    made = await links(server, approval, approver="mallory")
    assert (await server.client.post(made["approve"])).status_code == 409
    made = await links(server, approval, expires_seconds=1)
    clock = server.engine.clock
    late = clock.now() + 2
    server.app.state.site.links._clock = _Later(clock, late)
    assert (await server.client.post(made["approve"])).status_code == 403
    assert await state_of(server, approval) == "pending"


class _Later:
    def __init__(self, clock, now):
        self._clock = clock
        self.now = lambda: now

    def __getattr__(self, name):
        return getattr(self._clock, name)


async def test_only_administrators_make_links(server):
    approval = await ask(server)
    for role in ("viewer", "operator", "approver", "author"):
        response = await server.post(f"{place(approval)}/links", {"approver": "bob"}, headers=bearer("x", role))
        assert response.status_code == 403, role


# -- dead letters ------------------------------------------------------------------------------------------------------


async def parked(server, count=1, name="parking"):
    nodes = [
        task(f"n{number}", "fail", on_failure="park", retry={"max_attempts": 1}, args={}) for number in range(count)
    ]
    run_id = (await server.start(workflow(*nodes, name=name), wait=0, headers=bearer()))["run_id"]

    async def look():
        found = (await server.ok(f"/dead-letters?state=pending&run_id={run_id}", headers=bearer()))["items"]
        return found if len(found) == count else None

    return await until_true(look, "all are parked")


def letter(found):
    return f"/dead-letters/{found['dead_letter_id']}"


async def test_a_dead_letter_is_tried_again_with_another_config_or_given_up(server):
    one, two = await parked(server, 2)
    assert (await server.ok(letter(one), headers=bearer()))["error"]["code"] == "error"
    given = {"function": "tests.engine.tasks:fail", "args": {}}
    assert (await server.ok(letter(one), headers=bearer()))["config"] == given
    better = {"function": "tests.engine.tasks:echo", "args": {"value": 5}}
    done = await server.ok(f"{letter(one)}/requeue", {"input": better}, headers=bearer())
    assert (done["state"], done["by"]) == ("requeued", "ann")
    assert done["reprocessed_at"] == done["resolved_at"] is not None
    given_up = await server.ok(f"{letter(two)}/discard", {"as": "continue"}, headers=bearer())
    assert (given_up["state"], given_up["by"], given_up["reprocessed_at"]) == ("discarded", "ann", None)
    await until_state_of(server, one["run_id"], "completed")
    run = await server.ok(f"/runs/{one['run_id']}", headers=bearer())
    assert run["nodes"]["n0"]["output"]["value"] == 5
    again = await server.post(f"{letter(one)}/requeue", headers=bearer())
    assert again.status_code == 409
    both = await server.post(f"{letter(one)}/requeue", {"input": {}, "config": {}}, headers=bearer())
    assert both.status_code == 422


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"function": "tests.engine.tasks:echo", "args": {"value": "{{ inputs.x }}"}}, "is a template"),
        ({"function": "tests.engine.tasks:echo", "args": {"{{ inputs.x }}": 1}}, "is a template"),
        ({"args": {"value": 1}}, "a task needs config.function"),
        ("text", "config"),
    ],
)
async def test_a_requeue_whose_config_does_not_fit_the_node_is_refused_and_nothing_happens(server, config, expected):
    (one,) = await parked(server, 1)
    refused = await server.post(f"{letter(one)}/requeue", {"config": config}, headers=bearer())
    assert refused.status_code == 422
    assert expected in refused.text
    assert (await server.ok(letter(one), headers=bearer()))["state"] == "pending"


async def test_a_dead_letter_has_what_its_node_was_given_even_after_it_was_given_something_else(server):
    before = [transform("small", {"n": 3}), transform("large", "x" * 100_000)]
    args = {"n": "{{ small.n }}", "key": "k-{{ secrets.TOKEN }}", "whole": "{{ secrets.TOKEN }}", "text": "{{ large }}"}
    node = task("pay", "fail", ["small", "large"], args=args, on_failure="park", retry={"max_attempts": 1})
    run_id = (await server.start(workflow(*before, node), wait=0, headers=bearer()))["run_id"]

    async def look():
        return (await server.ok(f"/dead-letters?run_id={run_id}", headers=bearer()))["items"]

    (found,) = await until_true(look, "it is parked")
    shown = await server.ok(letter(found), headers=bearer())
    assert shown["config"]["args"] | {"text": None} == {"n": 3, "key": "k-***", "whole": "***", "text": None}
    assert shown["config"]["args"]["text"]["$ref"].startswith("cas://")
    assert shown["inputs"]["small"] == {"n": 3}
    assert shown["inputs"]["large"]["$ref"].startswith("cas://")
    other = {"function": "tests.engine.tasks:echo", "args": {"value": 5}}
    await server.ok(f"{letter(found)}/requeue", {"config": other}, headers=bearer())
    await until_state_of(server, run_id, "completed")
    after = await server.ok(letter(found), headers=bearer())
    assert (after["state"], after["config"], after["problem"]) == ("requeued", shown["config"], None)


async def test_what_is_parked_when_its_run_is_cancelled_is_given_up(server):
    (found,) = await parked(server)
    await server.ok(f"/runs/{found['run_id']}/cancel", {}, headers=bearer("bob", "operator"))
    after = await until_resolved(server, found)
    assert (after["state"], after["by"]) == ("discarded", "bob")


async def until_resolved(server, found):
    async def look():
        seen = await server.ok(letter(found), headers=bearer())
        return seen if seen["state"] != "pending" else None

    return await until_true(look, "it is no longer parked")


async def test_many_are_counted_first_and_changed_only_if_the_count_is_right(server):
    found = await parked(server, 4)
    await parked(server, 2, name="other")
    run_id = found[0]["run_id"]
    post = server.ok
    assert (await post("/dead-letters/discard", {}, headers=bearer()))["matched"] == 6
    counted = await post("/dead-letters/discard", {"run_id": run_id, "code": "error"}, headers=bearer())
    assert counted == {"matched": 4, "done": 0, "refused": []}
    assert (await post("/dead-letters/discard", {"code": "nope"}, headers=bearer()))["matched"] == 0
    wrong = await server.post("/dead-letters/discard", {"run_id": run_id, "expected": 3}, headers=bearer())
    assert (wrong.status_code, wrong.json()["code"]) == (409, "conflict")
    done = await post("/dead-letters/discard", {"run_id": run_id, "expected": 4, "as": "skip"}, headers=bearer())
    audit = await server.ok("/audit?action=dead-letters.discard_many&limit=1", headers=bearer())
    assert [(one["object"], one["detail"]["after"]) for one in audit["items"]] == [(run_id, {"matched": 4, "done": 4})]
    assert done == {"matched": 4, "done": 4, "refused": []}
    await until_state_of(server, run_id, "completed")
    assert (await post("/dead-letters/requeue", {"node": "n1"}, headers=bearer()))["matched"] == 1


async def test_what_is_of_another_tenant_is_not_there(server):
    (found,) = await parked(server)
    approval = await ask(server)
    other = bearer("eve", tenant="other")
    for path in (letter(found), place(approval), f"/runs/{approval['run_id']}"):
        response = await server.get(path, headers=other)
        assert response.status_code == 404, path
    for path in (f"{letter(found)}/requeue", f"{letter(found)}/discard"):
        assert (await server.post(path, headers=other)).status_code == 404
    response = await server.post(f"{place(approval)}/decide", {"decision": "approve"}, headers=other)
    assert response.status_code == 404
    for path in ("/approvals", "/dead-letters", f"/approvals?run_id={approval['run_id']}"):
        assert (await server.ok(path, headers=other))["items"] == []
    assert (await server.ok("/dead-letters/discard", {"run_id": found["run_id"]}, headers=other))["matched"] == 0
    assert (await server.client.get(f"{API}/approvals")).status_code == 401


async def test_who_is_asked_may_let_somebody_else_decide(server):
    approval = await ask(server, approvers=["ann", "bob"], quorum=2)
    handed = await server.post(
        f"{place(approval)}/delegate", {"to": "cat", "comments": "on holiday"}, headers=bearer("ann", "approver")
    )
    assert handed.status_code == 200
    assert handed.json()["approvers"] == ["cat", "bob"]
    refused = await server.post(f"{place(approval)}/delegate", {"to": "eve"}, headers=bearer("ann", "approver"))
    assert (refused.status_code, refused.json()["code"]) == (409, "not_an_approver")
    for name in ("cat", "bob"):
        await server.post(f"{place(approval)}/decide", {"decision": "approve"}, headers=bearer(name, "approver"))
    details = (await server.get(place(approval), headers=bearer("ann", "viewer"))).json()
    assert details["decision"] == "approve"
    assert [(one["approver"], one["to"], one["comments"]) for one in details["delegations"]] == [
        ("ann", "cat", "on holiday")
    ]
