"""What MCP clients and lists of tools are given, what they may say, and what a what-if may be made of (X08, X23, S13)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import msgspec
import pytest

from perdure import llms
from perdure.agents.what_if.recordings import Asked, Recording
from perdure.api import Options
from perdure.api.routes.mcp import MOST_FOLLOWED
from perdure.llms.port import Message, Prefix, Request, Text
from perdure.llms.scripted.scripted_server import serving as serving_models
from perdure.model.definition import HEAVIEST_TOOL, LARGEST_TOOL
from perdure.service.approvals import LONGEST_COMMENTS
from tests.api.helpers import API, bearer, serving
from tests.attack.helpers import until_some
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import DEADLINE, events, finish, running, task, transform, workflow
from tests.llms.helpers import models_at
from tests.waiting import until_true

pytestmark = pytest.mark.slow
ASK = {"name": "asks", "nodes": [{"id": "ask", "type": "human", "config": {"title": "Shall it?"}}]}
EXPOSED = {"expose": {"tool": True, "mcp": True}, "nodes": [transform("a", 1)]}
BOB = bearer("bob", "approver")
NOW = "2026-07-28"


async def call(server: Any, method: str, params: dict[str, Any], headers: dict[str, str]) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await server.client.post("/mcp", json=message, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


@attack("S13", "comments of a megabyte, from an MCP client, a form and a request")
async def test_comments_are_short_whoever_sends_them(tmp_path):
    long = "x" * (LONGEST_COMMENTS + 1)
    async with serving(tmp_path, options=Options(mcp=True, mcp_approvals=True), tokens=True, real=True) as server:
        run = await server.ok("/runs", {"definition": ASK}, headers=bearer("ann"))
        asked = await until_some(server, f"/approvals?run_id={run['run_id']}", BOB)
        about = {"approval_id": asked["approval_id"], "decision": "approve"}
        given = await call(
            server, "tools/call", {"name": "decide_approval", "arguments": {**about, "comments": long}}, BOB
        )
        assert (given["isError"], "at most 10,000 characters" in given["content"][0]["text"]) == (True, True)
        path = f"/approvals/{asked['approval_id']}"
        links = await server.ok(f"{path}/links", {"approver": "carl"}, headers=bearer("ann"))
        token = links["approve"].rpartition("/")[2]
        page = await server.client.post(f"/links/{token}", data={"comments": long})
        assert (page.status_code, "comments is too long" in page.text) == (400, True)
        refused = await server.post(f"{path}/decide", {"decision": "approve", "comments": long}, headers=BOB)
        assert refused.status_code == 422
        page = await server.client.post(f"/links/{token}", data={"comments": long[1:]})  # the link is not used up
        assert page.status_code == 200, page.text
        decided = await server.ok(path, headers=BOB)
        assert (decided["decision"], len(decided["comments"])) == ("approve", LONGEST_COMMENTS)


@attack("S13", "five hundred tools that are told of with a megabyte each")
async def test_a_list_of_tools_is_small_and_holds_up_nobody(tmp_path):
    fields = {f"field{number}": {"type": "string", "description": "d" * 40} for number in range(380)}
    headers = bearer("ann")
    async with serving(tmp_path, options=Options(mcp=True), tokens=True, real=True) as server:
        for more in (
            {"description": "d" * LARGEST_TOOL},
            {"inputs": {"type": "object", "properties": {f"f{n}": {} for n in range(HEAVIEST_TOOL)}}},
        ):
            refused = await server.post("/workflows", {"name": "large", **EXPOSED, **more}, headers=headers)
            assert (refused.status_code, "is told of with its description" in refused.text) == (422, True)
            hidden = {key: value for key, value in EXPOSED.items() if key != "expose"}
            kept = await server.post("/workflows", {"name": "large", **hidden, **more}, headers=headers)
            assert kept.status_code == 201, kept.text
        for number in range(60):
            inputs = {"type": "object", "properties": fields}
            one = {"name": f"w{number}", **EXPOSED, "inputs": inputs}
            made = await server.post("/workflows", one, headers=headers)
            assert made.status_code == 201, made.text
        for path, method in (("/tools", ""), ("/tools?q=w5", ""), ("", "tools/list")):
            with watching():
                if path:
                    answer = await server.get(path, headers=headers)
                else:
                    message = {"jsonrpc": "2.0", "id": 1, "method": method}
                    answer = await server.client.post("/mcp", json=message, headers=headers)
            assert answer.status_code == 200
            assert len(answer.content) <= 64 * (LARGEST_TOOL + 1024)


@attack("S14", "streams that each follow as many runs as one may")
async def test_runs_that_mcp_clients_follow_are_asked_about_together(tmp_path, monkeypatch):
    """Each run of each stream was a question of its own, twice a second: a viewer had a server do thousands of them."""
    waits = {**ASK, "expose": {"mcp": True}}
    ann = bearer("ann")
    async with serving(tmp_path, options=Options(mcp=True), tokens=True, real=True) as server:
        await server.ok("/workflows", waits, headers=ann)
        runs = [(await server.ok("/runs", {"workflow": "asks"}, headers=ann))["run_id"] for _ in range(MOST_FOLLOWED)]
        for _ in runs:
            await until_some(server, f"/approvals?run_id={runs[-1]}", ann)
        journal, asked = server.engine.journal, Counter[str]()

        def counted(name: str) -> None:
            real = getattr(type(journal), name)

            async def count(self: Any, *given: Any, **more: Any) -> Any:
                asked[name] += 1
                return await real(self, *given, **more)

            monkeypatch.setattr(type(journal), name, count)

        params = {
            "notifications": {"resourceSubscriptions": [f"perdure://runs/{run}" for run in runs]},
            "_meta": {"io.modelcontextprotocol/protocolVersion": NOW, "io.modelcontextprotocol/clientCapabilities": {}},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {**bearer("vic", "viewer"), "MCP-Protocol-Version": NOW, "Mcp-Method": "subscriptions/listen"}
        asking = server.client.stream("POST", "/mcp", json=message, headers=headers)
        async with asking as stream, aclosing(cast("AsyncGenerator[str, None]", stream.aiter_lines())) as lines:
            assert "event: message" in await anext(lines)
            counted("find_run")
            counted("find_seqs")
            await until_true(lambda: asyncio.sleep(0, asked["find_seqs"] >= 10), "it looks again and again")
            quiet = asked["find_run"]
            assert quiet <= MOST_FOLLOWED  # each once, at the beginning
            await server.ok(f"/runs/{runs[3]}/cancel", {}, headers=ann)
            async with asyncio.timeout(DEADLINE):
                async for line in lines:
                    if runs[3] in line and "updated" in line:
                        break


def forged(prompt: str) -> Any:
    """What a what-if is asked, made up by the author of a workflow."""
    request = Request(model="chat", prefix=Prefix((), "", ()), messages=(Message("user", (Text(prompt),)),))
    recording = Recording("r", "ask", 1, None, "llm", {"request": msgspec.to_builtins(request)})
    return msgspec.to_builtins(Asked(recording))


@attack("X23", "a sensitive field in a recording that is made up")
async def test_no_what_if_that_is_made_up_shows_a_sensitive_field(tmp_path):
    first = task("who", args={"value": "078-05-1120"}, sensitive=["value"])
    asks = {"id": "ask", "type": "what_if", "config": {"asked": forged("{{ who.value }}")}, "dependencies": ["who"]}
    async with serving_models() as server:
        llms.configure(models_at(server.port))
        try:
            async with running(tmp_path) as engine:
                state = await finish(engine, workflow(first, {**asks, "retry": {"max_attempts": 1}}))
                kept = msgspec.json.encode(await events(engine.journal)).decode()
        finally:
            llms.configure(None)
    assert "078-05-1120" not in kept
    assert state.error is not None
    assert (state.error.code, server.seen) == ("sensitive_in_prompt", [])


@attack("X08", "a secret in a recording that is made up")
async def test_no_what_if_that_is_made_up_shows_a_secret(tmp_path):
    async with serving(tmp_path, tokens=True) as server:
        node = {"id": "ask", "type": "what_if", "config": {"asked": forged("say {{ secrets.KEY }}")}}
        refused = await server.client.post(
            f"{API}/runs", json={"definition": {"name": "w", "nodes": [node]}}, headers=bearer("ann")
        )
        assert (refused.status_code, "a secret is shown to no model" in json.dumps(refused.json())) == (422, True)
