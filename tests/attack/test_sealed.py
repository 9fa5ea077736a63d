"""Sealed fields go where their run goes: into what is rerun from it or continues it, and nowhere else (S28)."""

import json

import pytest

from perdure.kernel import continuations
from perdure.kernel.segments import SEALED
from perdure.runtime.coordinator.requests import Request
from tests.api.helpers import bearer, serving
from tests.attack.helpers import until_some, until_state
from tests.attack.marks import attack
from tests.engine.helpers import ask, running, start, until
from tests.secrets.test_sensitive import CARD, PERSON, SSN, call, files_with, flow

AUTHOR, OPERATOR = bearer("ann", "author"), bearer("olga", "operator")
READ = call(
    "read", "look", "person", args={"value": "{{ person.ssn }}"}, when="ctx.person.output.ssn.startsWith('078')"
)
PEOPLE = flow(READ)


async def ended(server, answer, headers=AUTHOR):
    assert answer.is_success, answer.text
    return await until_state(server, answer.json()["run_id"], "completed", headers)


async def sealed_in(server, run_id):
    output = (await server.engine.runs.state(run_id)).find("person", ()).output
    assert list(output["ssn"]) == [SEALED]
    return output["ssn"]


@attack("S28", "a rerun of sealed fields, which could not be opened")
@pytest.mark.parametrize("large", [False, True])
async def test_a_rerun_opens_what_its_run_sealed_and_so_does_a_rerun_of_that(tmp_path, large):
    person = {**PERSON, "config": {"function": "tests.secrets.leaky:large_person", "args": {}}} if large else PERSON
    people = {"name": "people", "nodes": [person, READ]}
    async with serving(tmp_path, tokens=True) as server:
        first = (await server.start(people, headers=AUTHOR))["run_id"]
        run_id = first
        for _ in range(2):
            again = await server.post(f"/runs/{run_id}/rerun", {"from_node": "read"}, headers=OPERATOR)
            shown = await ended(server, again)
            assert shown["nodes"]["read"]["output"] == {"type": "str", "text": SSN[-4:]}
            assert shown["nodes"]["read"]["visit"] == 1
            assert SSN not in json.dumps(shown)
            run_id = shown["run_id"]
        whole = await ended(server, await server.post(f"/runs/{run_id}/rerun", {}, headers=OPERATOR))
        assert whole["nodes"]["read"]["output"]["text"] == SSN[-4:]
        body = {"from_node": "read", "definition": {**people, "nodes": [person, {**READ, "when": "true"}]}}
        mended = await ended(server, await server.post(f"/runs/{first}/rerun", body, headers=AUTHOR))
        assert mended["nodes"]["read"]["output"]["text"] == SSN[-4:]
    assert files_with(tmp_path, SSN, CARD) == []


async def test_a_retry_with_another_definition_and_a_rerun_of_a_child_open_them(tmp_path):
    child = {
        "name": "child",
        "nodes": [
            {"id": "in", "type": "input"},
            call("read", "look", "in", args={"value": "{{ inputs.ssn }}"}),
            call("after", "look", "read", args={"value": "{{ inputs.ssn }}"}),
        ],
    }
    config = {"workflow": "child", "inputs": {"ssn": "{{ person.ssn }}"}}
    calls = {"id": "call", "type": "workflow", "dependencies": ["person"], "config": config}
    fails = call("fails", "fail", "call", args={"token": "{{ person.ssn }}"}, retry={"max_attempts": 1})
    async with serving(tmp_path, tokens=True) as server:
        await server.ok("/workflows", child, headers=AUTHOR)
        run_id = (await server.start(flow(calls, fails), headers=AUTHOR))["run_id"]
        await until_state(server, run_id, "failed", AUTHOR)
        mended = call("fails", "look", "call", args={"value": "{{ person.ssn }}"})
        body = {"definition": flow(calls, mended)}
        await server.ok(f"/runs/{run_id}/retry", body, headers=AUTHOR)
        shown = await until_state(server, run_id, "completed", AUTHOR)
        assert shown["nodes"]["fails"]["output"]["text"] == SSN[-4:]
        # A child of a rerun, and a rerun of a child.
        again = await ended(server, await server.post(f"/runs/{run_id}/rerun", {"from_node": "call"}, headers=OPERATOR))
        body = {"from_node": "after"}
        path = f"/runs/{again['run_id']}:call/rerun"
        below = await ended(server, await server.post(path, body, headers=OPERATOR))
        assert below["nodes"]["after"]["output"]["text"] == SSN[-4:]
        below = await ended(server, await server.post(path, {"inputs": {"more": 1}}, headers=OPERATOR))
        assert below["nodes"]["read"]["output"]["text"] == SSN[-4:]


async def test_a_run_that_continues_another_opens_what_that_sealed(tmp_path, monkeypatch):
    monkeypatch.setattr(continuations, "LONG_JOURNAL", 5)
    wait = {"id": "s", "type": "wait", "config": {"signal": "go"}, "dependencies": ["person"]}
    read = call("read", "look", "s", "person", args={"value": "{{ person.ssn }}"})
    read["loop"] = {"condition": "true", "loop_back_to": "s"}
    async with running(tmp_path) as engine:
        assert not (await start(engine, flow(wait, read, endless=True))).refused
        for run_id in ("r1", "r1~2"):
            await until(engine, lambda state: bool(state.signal_waits), run_id)
            await ask(engine, "signal", run_id, name="go")
            state = await until(engine, lambda state: state.continued_as is not None, run_id)
            assert state.error is None


@attack("S28", "a sealed field that somebody copied, put where it is opened and shown")
async def test_nobody_gives_a_sealed_field_that_they_have_read_somewhere(tmp_path):
    note = call("note", "look", args={"value": "{{ inputs.note }}"}, dependencies=[])
    wait = {"id": "wait", "type": "wait", "config": {"signal": "go"}}
    asked = {"id": "ask", "type": "human", "config": {"approvers": ["olga"]}, "dependencies": ["person"]}
    async with serving(tmp_path, tokens=True) as server:
        definition = flow(READ, note, wait, asked)
        run_id = (await server.start(definition, {"note": "x"}, wait=0, headers=AUTHOR))["run_id"]
        approval = await until_some(server, f"/approvals?run_id={run_id}", AUTHOR)
        copied = {"note": {"deep": [await sealed_in(server, run_id)]}}
        decide = f"/approvals/{approval['approval_id']}/decide"
        for path, body, who in (
            ("/runs", {"definition": definition, "inputs": copied}, AUTHOR),
            (f"/runs/{run_id}/rerun", {"inputs": copied}, OPERATOR),
            (f"/runs/{run_id}/rerun", {"from_node": "read", "inputs": {"person": copied}}, AUTHOR),
            (f"/runs/{run_id}/signal", {"name": "go", "payload": copied}, OPERATOR),
            (decide, {"decision": "approve", "data": copied}, bearer("olga", "approver")),
        ):
            refused = await server.post(path, body, headers=who)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_inputs"), (path, refused.text)
            assert SEALED in refused.json()["detail"]


@attack("S28", "sealed fields of a run in a file, or of another tenant")
async def test_neither_another_tenant_nor_an_imported_run_opens_them(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        run_id = (await server.start(PEOPLE, headers=AUTHOR))["run_id"]
        mallory = bearer("mallory", "admin", tenant="other")
        body = {"from_node": "read"}
        assert (await server.post(f"/runs/{run_id}/rerun", body, headers=mallory)).status_code == 404
        file = await server.ok(f"/runs/{run_id}/export", headers=AUTHOR)
        assert SSN not in json.dumps(file)
        file["events"][0]["data"]["sealed_for"] = run_id
        engine = server.engine
        for who in (AUTHOR, mallory):
            imported = (await server.ok("/runs/import", file, headers=who))["run_id"]
            shown = (await server.get(f"/runs/{imported}", headers=who)).text
            assert SSN not in shown
            assert (await server.post(f"/runs/{imported}/rerun", body, headers=who)).status_code == 409
            await engine.journal.unquarantine(imported)
            again = Request(kind="rerun", run_id=f"again-{imported}", source=imported, node="read")
            assert (await engine.runs.request(again)).code == "imported"
