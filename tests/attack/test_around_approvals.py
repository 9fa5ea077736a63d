"""What an approval guards is executed only when it is given: repair and patches lead around none."""

import pytest

from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack

CARL = bearer("carl", "approver", "operator")
OLGA = bearer("olga", "operator")
PARKS = {
    "name": "w",
    "nodes": [
        {"id": "ask", "type": "human", "on_failure": "park", "config": {"approvers": ["carl"]}},
        {"id": "money", "type": "transform", "dependencies": ["ask"], "config": {"value": "paid"}},
    ],
}


async def rejected(server):
    """A run whose approval was rejected, and is parked: its dead letter."""
    run = await server.start(PARKS, wait=0, headers=bearer("ann", "author"))
    found = await until_some(server, f"/approvals?run_id={run['run_id']}", CARL)
    await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "reject"}, headers=CARL)
    return await until_some(server, f"/dead-letters?state=pending&run_id={run['run_id']}", OLGA)


@attack("X17", "what was rejected is discarded as continue by who operates runs, alone or among many")
@pytest.mark.parametrize("many", [False, True])
async def test_nobody_has_executed_what_was_rejected_by_discarding_it(tmp_path, many):
    async with serving(tmp_path, tokens=True) as server:
        letter = await rejected(server)
        run_id = letter["run_id"]
        for who in (OLGA, bearer("ann", "author"), bearer("root", "admin"), CARL):
            if many:
                body = {"as": "continue", "run_id": run_id, "expected": 1}
                answer = await server.ok("/dead-letters/discard", body, headers=who)
                assert (answer["done"], answer["refused"][0]["code"]) == (0, "approval_not_given")
            else:
                path = f"/dead-letters/{letter['dead_letter_id']}/discard"
                answer = await server.post(path, {"as": "continue"}, headers=who)
                assert (answer.status_code, answer.json()["code"]) == (409, "approval_not_given"), answer.text
        await server.ok(f"/dead-letters/{letter['dead_letter_id']}/discard", {"as": "skip"}, headers=OLGA)
        ended = await until_state(server, run_id, "completed", OLGA)
        assert ended["nodes"]["money"]["state"] == "skipped"


async def test_a_requeue_of_what_was_rejected_asks_again(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        letter = await rejected(server)
        await server.ok(f"/dead-letters/{letter['dead_letter_id']}/requeue", {}, headers=OLGA)
        found = await until_some(server, f"/approvals?state=pending&run_id={letter['run_id']}", CARL)
        await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "approve"}, headers=CARL)
        ended = await until_state(server, letter["run_id"], "completed", OLGA)
        assert ended["nodes"]["money"]["state"] == "completed"
