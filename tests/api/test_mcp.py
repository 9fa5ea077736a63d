"""`/mcp`, judged by the client of the official SDK over streamable HTTP, in both generations of the protocol, against a real server that asks for credentials."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from perdure.api import Options
from perdure.api.routes import mcp
from perdure.journal import AgentEntry
from perdure.service.tenancy import archive_of
from tests.api.helpers import API, bearer, serving
from tests.client.helpers import SIGNALLED, TWO
from tests.waiting import until_true

pytestmark = pytest.mark.slow  # the SDK takes seconds to be imported

SHOWN = {"expose": {"mcp": True}}
APPROVED = {
    "name": "approved",
    "nodes": [{"id": "ask", "type": "human", "config": {"title": "Shall it go on?", "show": {"what": "a refund"}}}],
}
GENERATIONS = ("legacy", "2026-07-28")
TASKS = "io.modelcontextprotocol/tasks"


@pytest.fixture(params=GENERATIONS)
def generation(request):
    return request.param


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setattr(mcp, "WAIT_SECONDS", 0.5)  # a wait for a person is over soon
    monkeypatch.setattr(mcp, "TASK_WAIT_SECONDS", 0.1)
    async with serving(tmp_path, options=Options(mcp=True, mcp_approvals=True), tokens=True, real=True) as made:
        for one in ({**TWO, **SHOWN}, {**SIGNALLED, **SHOWN}, {**TWO, "name": "hidden"}, {**APPROVED, **SHOWN}):
            await made.ok("/workflows", one, headers=bearer("ann"))
        yield made


@asynccontextmanager
async def speaking(server, generation="2026-07-28", *, headers=None, **more):
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=headers or bearer("ann"), timeout=30) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=generation, **more) as client:
            yield client


async def names(client) -> set[str]:
    return {one.name for one in (await client.list_tools()).tools}


async def test_the_sdk_finds_out_by_itself_which_version_there_is(server):
    async with speaking(server, "auto") as client:
        assert client.protocol_version == "2026-07-28"
        assert client.server_info.name == "perdure"
        assert client.server_capabilities.resources.subscribe is True
    async with speaking(server, "legacy") as client:
        assert client.protocol_version == "2025-11-25"


async def test_a_client_starts_workflows_and_looks_at_their_runs(server, generation):
    async with speaking(server, generation) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert tools.keys() >= {"two", "signalled", "approved", "get_run"}
        assert "hidden" not in tools
        assert tools["two"].input_schema == TWO["inputs"]
        done: Any = await client.call_tool("two", {"n": 7})
        assert (done.is_error, done.structured_content["state"]) == (False, "completed")
        assert done.structured_content["outputs"] == {"b": [7]}
        assert json.loads(done.content[0].text) == done.structured_content

        waits: Any = await client.call_tool("signalled", {})
        run_id = waits.structured_content["run_id"]
        assert waits.structured_content == {"run_id": run_id, "state": "running"}
        assert waits.content[1].uri == f"perdure://runs/{run_id}"
        await server.ok(f"/runs/{run_id}/signal", {"name": "go"}, headers=bearer("ann"))

        async def ended() -> bool:
            again: Any = await client.call_tool("get_run", {"run_id": run_id})
            return bool(again.structured_content["state"] == "completed")

        await until_true(ended, "the run has ended")
        run = json.loads((await client.read_resource(waits.content[1].uri)).contents[0].text)
        assert (run["run_id"], run["workflow"], run["state"]) == (run_id, "signalled", "completed")
        assert waits.content[1].uri in {one.uri for one in (await client.list_resources()).resources}
        assert [one.uri_template for one in (await client.list_resource_templates()).resource_templates]


async def test_what_is_wrong_is_told_so_that_a_model_can_mend_it(server, generation):
    from mcp.shared.exceptions import MCPError

    hidden = await server.ok("/runs", {"workflow": "hidden", "inputs": {"n": 1}}, headers=bearer("ann"))
    async with speaking(server, generation) as client:
        for name, given, said in (
            ("two", {"n": "seven"}, "n"),
            ("two", {}, "n"),
            ("get_run", {"run_id": "nothing"}, "nothing"),
            ("get_run", {"run_id": hidden["run_id"]}, "of a workflow that is offered here"),
        ):
            refused: Any = await client.call_tool(name, given)
            assert refused.is_error, (name, given)
            assert said in refused.content[0].text
        for name, said in (
            ("hidden", "there is no tool hidden"),
            ("", "there is no tool"),
            ("a\0b", "the character NUL"),
        ):
            with pytest.raises(MCPError, match=said):
                await client.call_tool(name, {"n": 1})
        for uri in (f"perdure://runs/{hidden['run_id']}", "perdure://runs/none", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)


async def test_without_a_credential_nobody_is_told_anything(server):
    for headers in ({}, {"Authorization": "Bearer x"}):
        for body in ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {}):
            response = await server.client.post("/mcp", json=body, headers=headers)
            assert response.status_code == 401
            assert "two" not in response.text


async def test_another_tenant_has_tools_and_runs_of_its_own(server, generation):
    started = await server.ok("/runs", {"workflow": "signalled"}, headers=bearer("ann"))
    async with speaking(server, generation, headers=bearer("eve", tenant="other")) as client:
        assert await names(client) == {"get_run", "list_approvals", "get_approval", "decide_approval"}
        looked: Any = await client.call_tool("get_run", {"run_id": started["run_id"]})
        assert looked.is_error
        assert (await client.list_resources()).resources == []


async def test_who_may_not_start_runs_has_no_tool_that_does(server, generation):
    from mcp.shared.exceptions import MCPError

    async with speaking(server, generation, headers=bearer("vic", "viewer")) as client:
        assert await names(client) == {"get_run"}
        with pytest.raises(MCPError, match="there is no tool two"):
            await client.call_tool("two", {"n": 1})
    assert not (await server.ok("/runs", headers=bearer("ann")))["items"]


async def test_an_assistant_does_not_approve_what_it_asked_for_itself(server, generation):
    async with speaking(server, generation) as client:
        waits: Any = await client.call_tool("approved", {})
        listed: Any = await client.call_tool("list_approvals", {})
        assert listed.structured_content == {"approvals": []}
    async with speaking(server, generation, headers=bearer("bob")) as client:
        listed = await client.call_tool("list_approvals", {})
        approval = listed.structured_content["approvals"][0]
        assert approval["run_id"] == waits.structured_content["run_id"]
        shown: Any = await client.call_tool("get_approval", {"approval_id": approval["approval_id"]})
        assert "a refund" in shown.structured_content["shown"]
        about = {"approval_id": approval["approval_id"], "decision": "approve"}
        async with speaking(server, generation) as who_asked:
            refused: Any = await who_asked.call_tool("decide_approval", about)
            assert refused.is_error
        decided: Any = await client.call_tool("decide_approval", about)
        assert decided.structured_content["state"] == "decided"
    rows = (await server.ok("/audit", headers=bearer("ann")))["items"]
    assert [one["principal"] for one in rows if one["action"] == "mcp.call" and "decide" in one["object"]] == ["bob"]


async def test_approvals_are_offered_only_where_the_operator_says_so(tmp_path):
    async with (
        serving(tmp_path, options=Options(mcp=True), tokens=True, real=True) as server,
        speaking(server) as client,
    ):
        assert await names(client) == {"get_run"}


async def test_what_was_started_is_in_the_journal_and_in_the_audit(server):
    async with speaking(server) as client:
        done: Any = await client.call_tool("two", {"n": 7})
    run_id = done.structured_content["run_id"]
    first = (await server.ok(f"/runs/{run_id}/events", headers=bearer("ann")))["items"][0]
    assert (first["type"], first["data"]["by"]) == ("run.created", "ann")
    rows = (await server.ok("/audit", headers=bearer("ann")))["items"]
    assert [one["object"] for one in rows if one["action"] == "mcp.call"] == [f"two {run_id}"]


async def test_a_workflow_that_is_not_offered_any_more_is_gone_at_once(server):
    async with speaking(server, "legacy") as client:
        await server.ok("/workflows", TWO, headers=bearer("ann"))  # the next version says nothing of it
        await server.ok("/workflows/signalled", method="DELETE", headers=bearer("ann"))
        assert not {"two", "signalled"} & await names(client)


async def test_of_two_workflows_that_would_be_one_tool_the_first_has_the_name(server):
    for name in ("a.b", "a_b", "get_run"):
        await server.ok("/workflows", {**TWO, **SHOWN, "name": name}, headers=bearer("ann"))
    async with speaking(server) as client:
        listed = [one for one in (await client.list_tools()).tools if one.name in ("a_b", "get_run")]
        assert [(one.name, "a.b" in one.description) for one in listed] == [("a_b", True), ("get_run", False)]
        assert set(listed[1].input_schema["properties"]) == {"run_id"}
        await server.ok("/workflows/a_b", method="DELETE", headers=bearer("ann"))
        assert "a_b" in await names(client)
        await server.ok("/workflows/a.b", method="DELETE", headers=bearer("ann"))
        await server.ok("/workflows", {**TWO, **SHOWN, "name": "a_b"}, headers=bearer("ann"))
        assert "a_b" in await names(client)


async def test_a_row_that_outlived_its_workflow_offers_nothing(server):
    at = server.engine.clock.now()
    entry = AgentEntry(tenant="acme", space="mcp", name="ghost", place="0", at=at, body=b'{"workflow":"hidden"}')
    await archive_of(server.engine).save_entry(entry)
    async with speaking(server) as client:
        assert "ghost" not in await names(client)


async def test_a_run_is_followed_until_it_ends(server):
    async with speaking(server) as client:
        waits: Any = await client.call_tool("signalled", {})
        uri = waits.content[1].uri
        async with client.listen(resource_subscriptions=[uri]) as news:
            await server.ok(f"/runs/{waits.structured_content['run_id']}/signal", {"name": "go"}, headers=bearer("ann"))
            async with asyncio.timeout(30):
                told = [one.uri async for one in news]  # ends by itself
        assert set(told) == {uri}
        async with client.listen(resource_subscriptions=[uri]) as news, asyncio.timeout(30):
            assert [one.uri async for one in news] == [uri]  # it had ended before


async def test_a_stream_of_a_run_that_is_not_offered_does_not_begin(server):
    from mcp.shared.exceptions import MCPError

    hidden = await server.ok("/runs", {"workflow": "hidden", "inputs": {"n": 1}}, headers=bearer("ann"))
    async with speaking(server) as client:
        for uris in ([f"perdure://runs/{hidden['run_id']}"], [f"perdure://runs/{n}" for n in range(17)]):
            with pytest.raises(MCPError):
                async with client.listen(resource_subscriptions=uris):
                    pass


# -- messages as they are ----------------------------------------------------------------------------------------------


def single(
    method: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None, *, tasks: bool = False
) -> dict[str, Any]:
    """A request of 2026-07-28, as httpx is given it."""
    capabilities: dict[str, Any] = {"extensions": {TASKS: {}}} if tasks else {}
    about = "io.modelcontextprotocol/"
    meta = {f"{about}protocolVersion": "2026-07-28", f"{about}clientCapabilities": capabilities}
    given = params or {}
    named = {"Mcp-Name": str(given[key])} if (key := {"tools/call": "name"}.get(method, "taskId")) in given else {}
    said = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named, **bearer("ann"), **(headers or {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**given, "_meta": meta}}
    return {"json": body, "headers": said}


async def test_a_client_that_knows_tasks_gets_the_run_as_its_task(server):
    async def ask(method: str, **params: Any) -> Any:
        response = await server.client.post("/mcp", **single(method, params, tasks=True))
        return response.json()["result"]

    quick = await ask("tools/call", name="two", arguments={"n": 7})
    assert quick["structuredContent"]["outputs"] == {"b": [7]}
    task = await ask("tools/call", name="signalled", arguments={})
    assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
    looked = await ask("tasks/get", taskId=task["taskId"])
    assert (looked["resultType"], looked["status"], "result" in looked) == ("complete", "working", False)
    await server.ok(f"/runs/{task['taskId']}/signal", {"name": "go"}, headers=bearer("ann"))

    async def over() -> Any:
        found = await ask("tasks/get", taskId=task["taskId"])
        return found if found["status"] != "working" else None

    done = await until_true(over, "the task is over")
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"]["state"] == "completed"

    other = await ask("tools/call", name="signalled", arguments={})
    await ask("tasks/update", taskId=other["taskId"], inputResponses={})
    assert await ask("tasks/cancel", taskId=other["taskId"]) == {"resultType": "complete"}

    async def cancelled() -> bool:
        return bool((await ask("tasks/get", taskId=other["taskId"]))["status"] == "cancelled")

    await until_true(cancelled, "the run is cancelled")
    await ask("tasks/cancel", taskId=other["taskId"])  # it has ended: a wish that changes nothing


async def test_the_sdk_takes_a_task_where_it_was_said_to(server):
    from typing import Literal

    from mcp.client.extension import ClientExtension, ResultClaim
    from mcp_types import CallToolResult, Result

    class Task(Result):
        task_id: str
        status: str
        result_type: Literal["task"] = "task"

    async def resolve(found: Task, context: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"task": found.task_id, "status": found.status})

    class Extension(ClientExtension):
        identifier = TASKS

        def claims(self) -> Any:
            return [ResultClaim(result_type="task", model=Task, resolve=resolve)]

    async with speaking(server, extensions=[Extension()]) as client:
        found: Any = await client.call_tool("signalled", {})
        assert found.structured_content["status"] == "working"
        assert (await server.ok(f"/runs/{found.structured_content['task']}", headers=bearer("ann")))[
            "state"
        ] == "running"


BAD: list[tuple[Any, int, int]] = [
    (b"{", 400, -32700),
    (b'{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "ping"}', 400, -32700),
    ([], 400, -32600),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], 400, -32600),
    ({"id": 1, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": "x" * 201, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": 7}, 200, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 200, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}, 200, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "x"}}, 200, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}, 200, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": []}}, 200, -32602),
]


async def test_messages_that_are_none_are_answered_as_the_protocol_has_it(server):
    for body, status, code in BAD:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**bearer("ann"), "Content-Type": "application/json"}
        response = await server.client.post("/mcp", content=content, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code), (body, response.text)
    asked = {"jsonrpc": "2.0", "id": "a", "method": "ping"}
    response = await server.client.post("/mcp", json=asked, headers=bearer("ann"))
    assert response.json() == {"jsonrpc": "2.0", "id": "a", "result": {}}
    for said in ({"method": "notifications/initialized"}, {"id": 1, "result": {}}):
        response = await server.client.post("/mcp", json={"jsonrpc": "2.0", **said}, headers=bearer("ann"))
        assert (response.status_code, response.content) == (202, b"")


async def test_headers_that_say_something_else_than_the_message_are_refused(server):
    call = {"name": "two", "arguments": {"n": 1}}
    for asked, status, code in (
        (single("tools/call", call, {"Mcp-Name": "other"}), 400, -32020),
        (single("tools/call", call, {"Mcp-Name": "=?base64?!?="}), 400, -32020),
        (single("tools/list", headers={"Mcp-Method": "ping"}), 400, -32020),
        (single("tools/list", headers={"MCP-Protocol-Version": "2030-01-01"}), 400, -32020),
        (single("ping"), 404, -32601),
    ):
        response = await server.client.post("/mcp", **asked)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text
    asked = single("tools/list", headers={"MCP-Protocol-Version": "2030-01-01"})
    asked["json"]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2030-01-01"
    response = await server.client.post("/mcp", **asked)
    assert response.json()["error"]["data"]["supported"][-1] == "2026-07-28"
    asked["json"]["params"] = {}
    assert (await server.client.post("/mcp", **asked)).json()["error"]["code"] == -32602
    packed = single("tools/call", call, {"Mcp-Name": "=?base64?dHdv?="})
    assert (await server.client.post("/mcp", **packed)).json()["result"]["isError"] is False


async def test_a_key_of_the_request_starts_one_run(server):
    asked = single("tools/call", {"name": "signalled", "arguments": {}}, {"Idempotency-Key": "once"})
    first, again = [(await server.client.post("/mcp", **asked)).json()["result"] for _ in range(2)]
    assert first["structuredContent"] == again["structuredContent"]


async def test_it_is_a_request_like_any_other(server):
    asked = single("tools/list")
    headers = {**asked["headers"], "Origin": "https://evil.example"}
    assert (await server.client.post("/mcp", json=asked["json"], headers=headers)).status_code == 403
    plain = {**asked["headers"], "Content-Type": "text/plain"}
    assert (await server.client.post("/mcp", content=b"{}", headers=plain)).status_code == 415
    assert (await server.client.get("/mcp", headers=bearer("ann"))).status_code == 405
    assert (await server.client.request("DELETE", "/mcp", headers=bearer("ann"))).status_code == 405


async def test_as_many_calls_wait_as_other_requests_may(tmp_path, monkeypatch):
    monkeypatch.setattr(mcp, "WAIT_SECONDS", 30.0)
    options = Options(mcp=True, streams_per_key=1)
    async with serving(tmp_path, options=options, tokens=True, real=True) as server:
        await server.ok("/workflows", {**SIGNALLED, **SHOWN}, headers=bearer("ann"))
        asked = single("tools/call", {"name": "signalled", "arguments": {}})
        first = asyncio.create_task(server.client.post("/mcp", **asked))

        async def started() -> Any:
            return (await server.ok("/runs", headers=bearer("ann")))["items"]

        runs = await until_true(started, "the first call has started its run")
        assert (await server.client.post("/mcp", **asked)).status_code == 429
        await server.ok(f"/runs/{runs[0]['run_id']}/signal", {"name": "go"}, headers=bearer("ann"))
        assert (await first).json()["result"]["structuredContent"]["state"] == "completed"
        assert len(await started()) == 1


async def test_a_server_that_was_not_told_to_speaks_no_mcp(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        response = await server.client.post("/mcp", **single("tools/list"))
        assert (response.status_code, response.json()["code"]) == (404, "no_such_route")
        assert (await server.client.get(f"{API}/workflows", headers=bearer("ann"))).status_code == 200
