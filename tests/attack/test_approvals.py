"""Approvals are facts: nothing but the approver's act makes a decision."""

import asyncio
from typing import Any

import pytest

from perdure.clock import system
from perdure.kernel import continuations
from perdure.service import decisions
from perdure.service.tenancy import Tenancy, archive_of
from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE

PAID: dict[str, Any] = {
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


# -- decisions that stand somewhere else -------------------------------------------------------------------------------

OLGA = bearer("olga", "operator")
ASKER: dict[str, Any] = {"name": "asker", "nodes": [{"id": "ask", "type": "human", "config": {"approvers": ["carl"]}}]}
MIDDLE = {"name": "middle", "nodes": [{"id": "below", "type": "workflow", "config": {"workflow": "asker"}}]}
MONEY = {"id": "money", "type": "transform", "dependencies": ["call"], "config": {"value": "paid"}}
CALLS: dict[str, dict[str, Any]] = {
    "a child": {"type": "workflow", "config": {"workflow": "asker"}},
    "a child of a child": {"type": "workflow", "config": {"workflow": "middle"}},
    "children of a map": {"type": "map", "config": {"over": [1], "workflow": "asker"}},
    "items of a map": {"type": "map", "config": {"over": [1], "node": ASKER["nodes"][0] | {"id": "one"}}},
}


async def decided(server, definition, who=None, decision="approve"):
    """A run that carl was asked about once, which has ended."""
    run = await server.start(definition, wait=0, headers=who or bearer("ann", "author"))
    found = await until_some(server, "/approvals?state=pending", CARL)
    await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": decision}, headers=CARL)
    await until_state(server, run["run_id"], "completed", CARL)
    return run["run_id"]


@attack("S11", "a rerun from behind a child that asked, where the run itself has no approval")
@pytest.mark.parametrize("how", CALLS)
async def test_what_a_child_was_approved_is_not_done_again_by_who_could_not_approve_it(tmp_path, how):
    async with serving(tmp_path, tokens=True) as server:
        for one in (ASKER, MIDDLE):
            await server.ok("/workflows", one, headers=bearer("ann", "author"))
        call = {"id": "call", **CALLS[how]}
        run_id = await decided(server, {"name": "w", "nodes": [call, MONEY]})
        for who in (OLGA, bearer("ann", "admin"), bearer("dora", "approver", "operator")):
            refused = await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=who)
            assert refused.status_code == 403, refused.text
        again = await server.post(f"/runs/{run_id}/rerun", {"from_node": "call"}, headers=OLGA)
        assert again.status_code == 201, again.text
        assert (await until_some(server, "/approvals?state=pending", CARL))["run_id"].startswith(again.json()["run_id"])
        by_who_may = await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=CARL)
        assert by_who_may.status_code == 201, by_who_may.text


@attack("S11", "a rerun of a rerun, which has the decision as an outcome only")
@pytest.mark.parametrize("how", ["itself", *CALLS])
async def test_a_rerun_of_a_rerun_rests_on_the_decision_of_the_first_run(tmp_path, how):
    async with serving(tmp_path, tokens=True) as server:
        for one in (ASKER, MIDDLE):
            await server.ok("/workflows", one, headers=bearer("ann", "author"))
        call = {"id": "call", **(ASKER["nodes"][0] | {"id": "call"} if how == "itself" else CALLS[how])}
        run_id = await decided(server, {"name": "w", "nodes": [call, MONEY]})
        for _ in range(2):
            again = await server.ok(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=CARL)
            run_id = again["run_id"]
            await until_state(server, run_id, "completed", CARL)
            refused = await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=OLGA)
            assert refused.status_code == 403, refused.text


@attack("S11", "a rerun of a rerun whose own decision was asked for anew")
async def test_a_rerun_rests_on_no_decision_that_it_asked_for_again(tmp_path):
    """The first run asked carl, the second dora: who reruns the second needs dora's right and not carl's."""
    dora = bearer("dora", "approver", "operator")
    async with serving(tmp_path, tokens=True) as server:
        run_id = await decided(server, PAID)
        other = {**PAID, "nodes": [{**PAID["nodes"][0], "config": {"approvers": ["dora"]}}, PAID["nodes"][1]]}
        body = {"from_node": "ask", "definition": other}
        admin = bearer("carl", "admin")  # by another definition any decision may be kept
        again = await server.ok(f"/runs/{run_id}/rerun", body, headers=admin)
        found = await until_some(server, "/approvals?state=pending", dora)
        await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "approve"}, headers=dora)
        await until_state(server, again["run_id"], "completed", dora)
        path = f"/runs/{again['run_id']}/rerun"
        assert (await server.post(path, {"from_node": "money"}, headers=OLGA)).status_code == 403
        assert (await server.post(path, {"from_node": "money"}, headers=dora)).status_code == 201


@attack("S11", "a rerun of a run whose decision is no longer kept")
async def test_where_the_decision_is_forgotten_it_is_asked_again(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run_id = await decided(server, PAID)
        again = await server.ok(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=CARL)
        await until_state(server, again["run_id"], "completed", CARL)
        ends = [(await server.ok(f"/runs/{one}", headers=CARL))["ended_at"] for one in (run_id, again["run_id"])]
        assert await archive_of(server.engine).prune_runs(sum(ends) / 2) == 1
        for who in (OLGA, CARL):
            refused = await server.post(f"/runs/{again['run_id']}/rerun", {"from_node": "money"}, headers=who)
            assert refused.status_code == 403, refused.text
            assert "'ask'" in refused.text
        assert (await server.post(f"/runs/{again['run_id']}/rerun", {"from_node": "ask"}, headers=OLGA)).is_success


@attack("S11", "a decision hidden among more runs than anybody looks at")
@pytest.mark.parametrize("limit", ["MOST_RUNS", "MOST_DECISIONS", "MOST_BEFORE", "MOST_REQUESTS"])
async def test_where_there_is_too_much_to_look_at_the_answer_is_no(tmp_path, monkeypatch, limit):
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", ASKER, headers=bearer("ann", "author"))
        run_id = await decided(server, {"name": "w", "nodes": [{"id": "call", **CALLS["a child"]}, MONEY]})
        run_id = (await server.ok(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=CARL))["run_id"]
        await until_state(server, run_id, "completed", CARL)
        monkeypatch.setattr(decisions, limit, 1 if limit in ("MOST_BEFORE", "MOST_REQUESTS") else 0)
        for who in (OLGA, CARL):
            refused = await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=who)
            assert refused.status_code == 403, refused.text


@attack("S11", "a rerun that was checked before the decision and keeps it")
async def test_a_rerun_keeps_nothing_that_came_after_it_was_checked(tmp_path, monkeypatch):
    """Between the check and the rerun the approver decides: whoever wins that race has work done that nobody approved."""
    async with serving(tmp_path, tokens=True) as server:
        run = await server.start(PAID, wait=0, headers=bearer("ann", "author"))
        found = await until_some(server, f"/approvals?run_id={run['run_id']}", CARL)
        ask = Tenancy.ask

        async def slow(self, request):
            if request.kind == "rerun":
                await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "approve"}, headers=CARL)
                await until_state(server, run["run_id"], "completed", CARL)
            return await ask(self, request)

        monkeypatch.setattr(Tenancy, "ask", slow)
        late = await server.post(f"/runs/{run['run_id']}/rerun", {"from_node": "money"}, headers=OLGA)
        assert late.status_code == 409, late.text
        monkeypatch.undo()
        refused = await server.post(f"/runs/{run['run_id']}/rerun", {"from_node": "money"}, headers=OLGA)
        assert refused.status_code == 403, refused.text
        assert len((await server.ok("/runs", headers=CARL))["items"]) == 1


# -- one's own request -------------------------------------------------------------------------------------------------

ENDLESS: dict[str, Any] = {
    "name": "nightly",
    "endless": True,
    "nodes": [
        {"id": "s", "type": "wait", "config": {"signal": "go"}},
        {
            "id": "x",
            "type": "transform",
            "dependencies": ["s"],
            "config": {"value": "{{ s }}"},
            "loop": {"loop_back_to": "s", "condition": "size(run.id) < 34"},
        },
        {"id": "call", "type": "workflow", "dependencies": ["x"], "config": {"workflow": "asker"}},
        {"id": "ask", "type": "human", "dependencies": ["x"], "config": {"approvers": ["carl", "dora"]}},
    ],
}


@attack("S11", "who started a run approves it once it goes on as a new one")
async def test_who_started_a_run_decides_nothing_of_what_continues_it(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    starter = bearer("carl", "admin")
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", ASKER, headers=starter)
        run_id = (await server.start(ENDLESS, wait=0, headers=starter))["run_id"]
        last = f"{run_id}~2"
        await server.ok(f"/runs/{run_id}/signal", {"name": "go"}, headers=starter)
        await until_state(server, run_id, "completed", starter)
        async with asyncio.timeout(DEADLINE):
            while (await server.post(f"/runs/{last}/signal", {"name": "go"}, headers=starter)).status_code == 404:
                pass
        asked: dict[str, str] = {}
        async with asyncio.timeout(DEADLINE):
            while len(asked) < 2:
                found = (await server.ok("/approvals?state=pending", headers=starter))["items"]
                asked = {one["run_id"]: one["approval_id"] for one in found}
        assert asked.keys() == {last, f"{last}:call"}
        assert (await server.ok(f"/runs/{last}", headers=starter))["submitted_by"] == "carl"
        for approval in asked.values():
            body = {"decision": "approve"}
            refused = await server.post(f"/approvals/{approval}/decide", body, headers=starter)
            assert (refused.status_code, refused.json()["code"]) == (403, "own_request"), refused.text
        dora = bearer("dora", "approver")
        await server.ok(f"/approvals/{asked[last]}/decide", {"decision": "approve"}, headers=dora)


@attack("S11", "a rerun of a run that continues the one that asked")
async def test_a_run_that_continues_another_rests_on_its_decisions(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    ann = bearer("ann", "author")
    loop = {**ENDLESS["nodes"][0], "dependencies": ["call"]}
    nodes = [{**ASKER["nodes"][0], "id": "call"}, loop, ENDLESS["nodes"][1], {**MONEY, "dependencies": ["x"]}]
    async with serving(tmp_path, tokens=True) as server:
        run_id = (await server.start({**ENDLESS, "nodes": nodes}, wait=0, headers=ann))["run_id"]
        found = await until_some(server, "/approvals?state=pending", CARL)
        await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "approve"}, headers=CARL)
        last = f"{run_id}~2"
        await server.ok(f"/runs/{run_id}/signal", {"name": "go"}, headers=ann)
        async with asyncio.timeout(DEADLINE):
            while (await server.post(f"/runs/{last}/signal", {"name": "go"}, headers=ann)).status_code == 404:
                pass
        await until_state(server, last, "completed", ann)
        refused = await server.post(f"/runs/{last}/rerun", {"from_node": "money"}, headers=OLGA)
        assert refused.status_code == 403, refused.text
        assert (await server.post(f"/runs/{last}/rerun", {"from_node": "money"}, headers=CARL)).status_code == 201


@attack("S11", "who asked for something approves it in a rerun that somebody else asks for")
async def test_who_started_a_run_decides_nothing_of_its_reruns(tmp_path):
    carl = bearer("carl", "admin")
    definition = {**PAID, "nodes": [{**PAID["nodes"][0], "config": {"approvers": ["carl", "dora", "olga"]}}]}
    async with serving(tmp_path, tokens=True) as server:
        run_id = (await server.start(definition, wait=0, headers=carl))["run_id"]
        for _ in range(2):
            again = await server.ok(f"/runs/{run_id}/rerun", {"from_node": "ask"}, headers=OLGA)
            run_id = again["run_id"]
        found = await until_some(server, f"/approvals?run_id={run_id}", carl)
        path = f"/approvals/{found['approval_id']}/decide"
        for who in (carl, bearer("olga", "approver")):
            refused = await server.post(path, {"decision": "approve"}, headers=who)
            assert (refused.status_code, refused.json()["code"]) == (403, "own_request"), refused.text
        await server.ok(path, {"decision": "approve"}, headers=bearer("dora", "approver"))


@attack("S11", "who started a run approves a rerun of it when the first run is forgotten")
@pytest.mark.parametrize("how", ["itself", "a child"])
async def test_who_started_a_run_that_is_forgotten_decides_nothing_of_its_reruns(tmp_path, how):
    carl = bearer("carl", "admin")
    asks = {"id": "ask", "type": "human", "config": {"approvers": ["carl", "dora"]}}
    call = asks if how == "itself" else {"id": "call", "type": "workflow", "config": {"workflow": "asks"}}
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", {"name": "asks", "nodes": [asks]}, headers=carl)
        first = (await server.start({"name": "w", "nodes": [call]}, wait=0, headers=carl))["run_id"]
        await until_some(server, "/approvals?state=pending", carl)
        await server.ok(f"/runs/{first}/cancel", {}, headers=carl)
        await until_state(server, first, "cancelled", carl)
        again = (await server.ok(f"/runs/{first}/rerun", {}, headers=OLGA))["run_id"]
        found = await until_some(server, "/approvals?state=pending", carl)
        assert found["run_id"].startswith(again)
        while await archive_of(server.engine).prune_runs(system.now() + 1):
            pass
        assert await server.engine.journal.find_run(first) is None
        path = f"/approvals/{found['approval_id']}/decide"
        for who in (carl, bearer("olga", "approver")):
            refused = await server.post(path, {"decision": "approve"}, headers=who)
            assert (refused.status_code, refused.json()["code"]) == (403, "own_request"), refused.text
        await server.ok(path, {"decision": "approve"}, headers=bearer("dora", "approver"))


# -- more than one's own yes -------------------------------------------------------------------------------------------


@attack("S11", "one of two who have to approve has it done again alone")
@pytest.mark.parametrize("how", ["itself", "a child"])
async def test_who_could_not_approve_it_alone_does_not_have_it_done_again_alone(tmp_path, how):
    asks = {"id": "ask", "type": "human", "config": {"approvers": ["carl", "dora"], "quorum": 2}}
    call = {**asks, "id": "call"} if how == "itself" else {"id": "call", **CALLS["a child"]}
    dora = bearer("dora", "approver")
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", {"name": "asker", "nodes": [asks]}, headers=bearer("ann", "author"))
        run = await server.start({"name": "w", "nodes": [call, MONEY]}, wait=0, headers=bearer("ann", "author"))
        found = await until_some(server, "/approvals?state=pending", CARL)
        for who in (CARL, dora):
            await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "approve"}, headers=who)
        await until_state(server, run["run_id"], "completed", CARL)
        refused = await server.post(f"/runs/{run['run_id']}/rerun", {"from_node": "money"}, headers=CARL)
        assert refused.status_code == 403, refused.text
        assert (await server.post(f"/runs/{run['run_id']}/rerun", {"from_node": "call"}, headers=CARL)).is_success


@attack("S11", "what a child or an item was approved, made up as an input of a rerun by who may approve it")
@pytest.mark.parametrize("how", CALLS)
async def test_nobody_gives_what_rests_on_a_decision_as_an_input_of_a_rerun(tmp_path, how):
    carl = bearer("carl", "approver", "author")
    async with serving(tmp_path, tokens=True) as server:
        for one in (ASKER, MIDDLE):
            await server.ok("/workflows", one, headers=bearer("ann", "author"))
        definition = {"name": "w", "nodes": [{"id": "call", **CALLS[how]}, MONEY]}
        run_id = await decided(server, definition)
        forged = {"call": {"ask": {"decision": "approve", "by": "carl", "data": {"amount": 1_000_000}}}}
        for more in ({}, {"definition": definition}):
            body = {"from_node": "money", "inputs": forged, **more}
            refused = await server.post(f"/runs/{run_id}/rerun", body, headers=carl)
            assert refused.status_code in (403, 409), refused.text
        assert (await server.post(f"/runs/{run_id}/rerun", {"from_node": "money"}, headers=carl)).is_success


@attack("S11", "a dead letter of an approval that was not given, tried again")
@pytest.mark.parametrize("how", ["rejected", "timed out"])
async def test_an_approval_that_is_requeued_asks_again_and_the_same_people(tmp_path, how):
    config = {"approvers": ["carl"]} | ({} if how == "rejected" else {"timeout_seconds": 0.01, "on_timeout": "fail"})
    ask = {"id": "call", "type": "human", "config": config, "on_failure": "park"}
    async with serving(tmp_path, tokens=True) as server:
        run = await server.start({"name": "w", "nodes": [ask, MONEY]}, wait=0, headers=bearer("ann", "author"))
        if how == "rejected":
            found = await until_some(server, "/approvals?state=pending", CARL)
            await server.ok(f"/approvals/{found['approval_id']}/decide", {"decision": "reject"}, headers=CARL)
        letter = await until_some(server, f"/dead-letters?run_id={run['run_id']}", CARL)
        path = f"/dead-letters/{letter['dead_letter_id']}/requeue"
        for changed in ({**config, "approvers": ["olga"]}, {**config, "on_timeout": "approve"}, {}):
            refused = await server.post(path, {"config": changed}, headers=bearer("ann", "author"))
            assert refused.status_code == 409, refused.text
        asked = (await server.ok(f"/approvals?run_id={run['run_id']}", headers=CARL))["items"]
        await server.ok(path, {}, headers=OLGA)
        async with asyncio.timeout(DEADLINE):
            while (now := (await server.ok(f"/approvals?run_id={run['run_id']}", headers=CARL))["items"]) == asked:
                pass
        assert [one["approvers"] for one in now] == [["carl"]] * len(now)
        shown = await server.ok(f"/runs/{run['run_id']}", headers=CARL)
        assert shown["nodes"].get("money", {}).get("state", "pending") == "pending"


@attack("S11", "who fires a trigger, lets its item in again, or registers it, approves the run")
async def test_who_asked_a_trigger_for_a_run_decides_nothing_of_it(tmp_path):
    carl, dora, olga = bearer("carl", "admin"), bearer("dora", "admin"), bearer("olga", "approver")
    trigger = {
        "name": "yearly",
        "workflow": "asker",
        "schedule": {"cron": "0 0 1 1 *"},
        "inputs": {"amount": 1},
        "overlap": "allow",
    }
    asker = {**ASKER, "nodes": [{**ASKER["nodes"][0], "config": {"approvers": ["carl", "dora", "olga"]}}]}
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", asker, headers=carl)
        await server.ok("/triggers", trigger, headers=dora)
        fired = await server.ok("/triggers/yearly/fire", {"inputs": {"amount": 10**6}}, headers=carl)
        found = await until_some(server, f"/approvals?run_id={fired['run_id']}", carl)
        path = f"/approvals/{found['approval_id']}/decide"
        for who in (carl, dora):
            refused = await server.post(path, {"decision": "approve"}, headers=who)
            assert (refused.status_code, refused.json()["code"]) == (403, "own_request"), refused.text
        await server.ok(path, {"decision": "approve"}, headers=olga)


@attack("S11", "who may operate runs deletes a trigger by cancelling its run")
@pytest.mark.parametrize("how", ["one", "many"])
async def test_a_trigger_is_not_cancelled_as_a_run(tmp_path, how):
    admin, operator = bearer("ann", "admin"), bearer("olga", "operator")
    trigger = {"name": "yearly", "workflow": "asker", "schedule": {"cron": "0 0 1 1 *"}}
    async with serving(tmp_path, tokens=True) as server:
        made = await server.ok("/triggers", trigger, headers=admin)
        if how == "one":
            refused = await server.post(f"/runs/{made['trigger_id']}/cancel", {}, headers=operator)
            assert (refused.status_code, refused.json()["code"]) == (409, "is_trigger"), refused.text
        else:
            body = {"action": "cancel", "run_ids": [made["trigger_id"]]}
            await server.post("/runs/bulk", body, headers=admin)
        assert (await server.ok("/triggers/yearly", headers=admin))["state"] == "active"
