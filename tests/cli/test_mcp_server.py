"""`perdure mcp`, judged by the client of the official SDK: the program as an assistant starts it, and a real server behind it."""

import json
import sys
from importlib import metadata
from typing import Any

import pytest

from perdure import Client
from tests.client.helpers import SIGNALLED, TWO, Background

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    with Background(tmp_path) as server:
        with Client(server.url) as client:
            for one in (TWO, SIGNALLED):
                client.workflows.register(one)
        yield server


async def test_an_assistant_starts_workflows_and_looks_at_their_runs(server, monkeypatch):
    from mcp.client.client import Client as McpClient
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from perdure.cli import mcp_server

    code = "import perdure.cli.mcp_server as m; m.WAIT_SECONDS = 1.0; m.mcp()"  # a wait for a person is over soon
    assert mcp_server.WAIT_SECONDS == 50.0
    arguments = ["-c", code, "two", "signalled", "--server", server.url]
    async with McpClient(stdio_client(StdioServerParameters(command=sys.executable, args=arguments))) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("perdure", metadata.version("perdure"))
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert set(tools) == {"two", "signalled", "get_run"}
        assert tools["two"].input_schema == TWO["inputs"]
        done: Any = await client.call_tool("two", {"n": 7})
        assert (done.is_error, done.structured_content["state"]) == (False, "completed")
        assert json.loads(done.content[0].text) == done.structured_content
        assert done.structured_content["outputs"] == {"b": [7]}
        waits: Any = await client.call_tool("signalled", {})
        run_id = waits.structured_content["run_id"]
        assert waits.structured_content == {"run_id": run_id, "state": "running"}
        with Client(server.url) as perdure:
            perdure.runs.signal(run_id, "go", {"by": "test"})
            perdure.runs.wait(run_id)
        again: Any = await client.call_tool("get_run", {"run_id": run_id})
        assert again.structured_content["state"] == "completed"
        for name, given, said in (
            ("two", {"n": "seven"}, "n"),
            ("two", {}, "n"),
            ("get_run", {"run_id": "nothing"}, "nothing"),
            ("get_run", {}, "run_id"),
            ("approve", {}, "there is no tool approve"),
        ):
            refused: Any = await client.call_tool(name, given)
            assert refused.is_error, (name, given)
            assert said in refused.content[0].text


async def test_a_run_of_another_workflow_is_not_shown(server):
    from perdure import AsyncClient
    from perdure.cli.mcp_server import _call, describe

    async with AsyncClient(server.url) as client:
        tools = await describe(client, ["signalled"])
        started = await client.runs.start("two", {"n": 1}, wait_seconds=10)
        found, problem = await _call(client, tools, "get_run", {"run_id": started["run_id"]})
    assert (found, "is not of a workflow that is served here" in problem) == ({}, True)


async def test_without_names_those_are_served_that_offer_themselves(server):
    from click import UsageError

    from perdure import AsyncClient
    from perdure.cli.mcp_server import describe, find_exposed

    async with AsyncClient(server.url) as client:
        with pytest.raises(UsageError, match=r"expose: \{mcp: true\}"):
            await find_exposed(client)
        await client.workflows.register({**TWO, "name": "offered", "expose": {"mcp": True}})
        await client.workflows.register({**TWO, "name": "tool", "expose": {"tool": True}})
        assert set(await describe(client, await find_exposed(client))) == {"offered"}


def test_what_cannot_be_served_is_said(shell, server):
    assert "needs a server" in shell.error("mcp", "two", code=2)
    assert "none" in shell.error("mcp", "none", "--server", server.url)
    assert "two tools would be called 'two'" in shell.error("mcp", "two", "two@1", "--server", server.url, code=2)
