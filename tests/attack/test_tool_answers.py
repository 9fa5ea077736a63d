"""What a tool of an agent gives is looked through for secrets, however much it is: beside the loop of its worker (S05)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import egress, llms
from perdure.agents import tool_calls
from perdure.agents.openapi_calls import call_operation
from perdure.agents.openapi_document import read_document
from perdure.agents.tool import Tool
from perdure.agents.tool_calls import Bound, ToolCalls
from perdure.egress.policy import Policy
from perdure.llms.operator_file import Models
from perdure.llms.profile_rows import Profile
from perdure.secrets.scrubber import Scrubber, install
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.egress.server import PLAIN, Server, reply

pytestmark = pytest.mark.slow
DOCUMENT = {"openapi": "3.1.0", "paths": {"/rows": {"get": {"operationId": "rows"}}}}


@pytest.fixture(autouse=True)
def _keys():
    known = Scrubber()
    for number in range(10):
        known.add(f"sk-{number}-0123456789")
    forget = install(known)
    yield
    forget()


class Context:
    tenant = "acme"

    def key(self, name: str) -> str:
        return name


@attack("S05", "an operation of an HTTP API that gives hundreds of thousands of values to an agent")
@pytest.mark.parametrize("body", [[{"a": "x"}] * 150_000, [1] * 1_000_000], ids=["objects", "numbers"])
async def test_what_an_api_gives_is_cleaned_beside_the_loop(body):
    """It held the loop of the worker for 140 to 200 ms."""
    answer = json.dumps(body, separators=(",", ":")).encode()
    server = Server(lambda seen: reply(200, answer, content_type="application/json"))
    await server.start()
    egress.configure(Policy(), ssl_context=PLAIN)
    try:
        origin = f"http://127.0.0.1:{server.port}"
        profile = Profile(origin=origin, spec=f"{origin}/openapi.json", operations={"rows": "read"})
        llms.configure(Models(providers={}, models={}, prices={}, profiles={"api": profile}))
        api = read_document("api", profile, json.dumps(DOCUMENT).encode())
        with watching():
            found = await call_operation(api, {"operation_id": "rows"}, Context(), "key")
        assert (found["status"], len(found["body"])) == (200, len(body))
    finally:
        await server.close()
        await egress.close()
        egress.configure(None)
        llms.configure(None)


@attack("S05", "a tool of an MCP server that gives megabytes of the letter that keys begin with")
async def test_what_an_mcp_server_gives_is_cleaned_beside_the_loop(monkeypatch):
    text = "s" * (8 * 1024 * 1024)

    async def call_tool(*about: Any) -> Any:
        return text

    monkeypatch.setattr(tool_calls, "call_tool", call_tool)
    plan: Any = SimpleNamespace(parallel=1, tools=())
    calls = ToolCalls(plan, Context(), lambda: ((), ()))
    tool = Tool(name="t", kind="mcp", target="raw", remote=("t",))
    with watching():
        assert await calls._make(Bound("t1.0", tool, {}, {}, ""), "key") == text
