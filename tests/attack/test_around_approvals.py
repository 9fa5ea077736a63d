"""What an approval guards is executed only when it is given: repair and patches lead around none."""

import pytest

from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack

CARL = bearer("carl", "approver", "operator")
OLGA = bearer("olga", "operator")
MONEY = {"id": "money", "type": "transform", "dependencies": ["ask"], "config": {"value": "paid"}}
PARKS = {
    "name": "w",
    "nodes": [
        {"id": "ask", "type": "human", "on_failure": "park", "config": {"approvers": ["carl"]}},
        MONEY,
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


BROKEN = {"type": "objct", "required": ["x"], "properties": {"x": {"type": "string"}}}


def asking(**config):
    """A workflow that asks so, and then does something."""
    ask = {"id": "ask", "type": "human", "config": config}
    return {"name": "w", "nodes": [ask, MONEY]}


@attack("X17", "approvers that are computed, and come to nobody: everybody could approve")
@pytest.mark.parametrize("key", ["approvers", "escalate_to"])
@pytest.mark.parametrize("people", [[], "", None, [""], "  "])
async def test_people_who_come_to_nobody_are_not_everybody(tmp_path, key, people):
    async with serving(tmp_path, tokens=True) as server:
        config = {"approvers": ["carl"], key: "{{ inputs.people }}"}
        run = await server.start(asking(**config), {"people": people}, headers=bearer("root"))
        assert (run["state"], run["error"]["code"]) == ("failed", "bad_config")
        assert (await server.ok("/approvals", headers=bearer("root")))["items"] == []
        if isinstance(people, list):
            written = asking(**{"approvers": ["carl"], key: people})
            assert (await server.post("/workflows", written, headers=bearer("root"))).status_code == 422


@attack("S25", "a form that is no schema: nothing was checked")
async def test_a_form_that_is_no_schema_is_refused_where_it_is_written(tmp_path):
    each = {"over": [1], "node": {"type": "human", "config": {"form": BROKEN}}}
    mapped = {"name": "w", "nodes": [{"id": "each", "type": "map", "config": each}]}
    async with serving(tmp_path, tokens=True) as server:
        for flow, path in (
            (asking(form=BROKEN), "nodes[0].config.form.type"),
            (mapped, "nodes[0].config.node.config.form.type"),
        ):
            refused = await server.post("/workflows", flow, headers=bearer("root"))
            assert refused.status_code == 422
            assert [(one["code"], one["path"]) for one in refused.json()["problems"]] == [("invalid_schema", path)]


@attack("S25", "a form that is computed, and no schema")
@pytest.mark.parametrize("large", [False, True])
async def test_a_form_that_is_computed_and_no_schema_lets_nobody_approve(tmp_path, large):
    async with serving(tmp_path, tokens=True) as server:
        form = {**BROKEN, "description": "x" * 100_000} if large else BROKEN
        made = {"id": "made", "type": "transform", "config": {"value": "{{ inputs.form }}"}}
        flow = asking(approvers=["carl"], form="{{ made }}")
        flow["nodes"] = [made, {**flow["nodes"][0], "dependencies": ["made"]}, flow["nodes"][1]]
        run = await server.start(flow, {"form": form}, wait=0, headers=bearer("root"))
        if not large:
            failed = await until_state(server, run["run_id"], "failed", bearer("root"))
            assert failed["error"]["code"] == "invalid_schema"
            return
        found = await until_some(server, f"/approvals?run_id={run['run_id']}", CARL)  # kept elsewhere: not looked into
        path = f"/approvals/{found['approval_id']}/decide"
        refused = await server.post(path, {"decision": "approve", "data": {"x": 5}}, headers=CARL)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_inputs")
        await server.ok(path, {"decision": "reject"}, headers=CARL)
