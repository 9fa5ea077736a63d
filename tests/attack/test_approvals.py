"""Approvals are facts: nothing but the approver's act makes a decision."""

import pytest

from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack

PAID = {
    "name": "w",
    "nodes": [
        {"id": "ask", "type": "human", "config": {"approvers": ["carl"]}},
        {"id": "money", "type": "transform", "dependencies": ["ask"], "config": {"value": "paid {{ ask.data }}"}},
    ],
}
CARL = bearer("carl", "approver", "operator")


async def approved(server):
    run = await server.start(PAID, wait=0, headers=bearer("ann", "author"))
    found = await until_some(server, f"/approvals?run_id={run['run_id']}", CARL)
    body = {"decision": "approve", "data": {"amount": 50}}
    await server.ok(f"/approvals/{found['approval_id']}/decide", body, headers=CARL)
    await until_state(server, run["run_id"], "completed", CARL)
    return run["run_id"]


@attack("S11", "a rerun from behind an approval, with a decision made up")
async def test_nobody_gives_a_decision_as_an_input_of_a_rerun(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run_id = await approved(server)
        forged = {"ask": {"decision": "approve", "by": "carl", "data": {"amount": 1_000_000}}}
        for who in (bearer("olga", "operator"), bearer("ann", "author"), bearer("root", "admin"), CARL):
            body = {"from_node": "money", "inputs": forged}
            refused = await server.post(f"/runs/{run_id}/rerun", body, headers=who)
            assert refused.status_code in (403, 409, 422), refused.text
        assert len((await server.ok("/runs", headers=CARL))["items"]) == 1


@attack("S11", "a rerun from behind an approval, which nobody is asked for again")
@pytest.mark.parametrize(
    "who", [bearer("olga", "operator"), bearer("ann", "admin"), bearer("dora", "approver", "operator")]
)
async def test_what_was_approved_once_is_not_done_again_by_who_could_not_approve_it(tmp_path, who):
    async with serving(tmp_path, tokens=True) as server:
        run_id = await approved(server)
        refused = await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=who)
        assert refused.status_code == 403, refused.text
        again = await server.post(f"/runs/{run_id}/rerun", {"from_node": "ask"}, headers=bearer("olga", "operator"))
        assert again.status_code == 201
        new = again.json()["run_id"]
        assert (await until_some(server, f"/approvals?run_id={new}", CARL))["state"] == "pending"


async def test_who_may_decide_may_have_it_done_again(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run_id = await approved(server)
        assert (await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=CARL)).status_code == 201
