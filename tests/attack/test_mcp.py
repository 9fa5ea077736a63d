"""Tools of MCP servers give what strangers wrote, through an SDK that reads all of it on the event loop: it is measured before (S05, S13)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import egress
from perdure.agents import mcp_client
from perdure.egress.policy import Policy
from perdure.llms.mcp_rows import McpServer
from perdure.outcomes import Failure
from tests.agents import mcp_raw
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.egress.server import PLAIN, Seen, Server, reply
from tests.waiting import until_true

pytestmark = pytest.mark.slow  # the SDK takes seconds to be imported
RAW = str(Path(mcp_raw.__file__))


class Context:
    tenant = "acme"

    def reveal_secret(self, name: str) -> str:
        return name


@pytest.fixture(autouse=True)
async def _own_client() -> AsyncIterator[None]:

    egress.configure(Policy(), ssl_context=PLAIN)
    yield
    await egress.close()
    egress.configure(None)


@asynccontextmanager
async def serving(how: str, kind: str, size: int) -> AsyncIterator[McpServer]:
    if how == "program":
        yield McpServer(command=(sys.executable, RAW, kind, str(size)))
        return

    def respond(seen: Seen) -> bytes:
        if seen.method != "POST":
            return reply(405)
        found = mcp_raw.answer(json.loads(seen.body), kind, size)
        if found is None:
            return reply(202)
        body = json.dumps(found, separators=(",", ":")).encode()
        if how == "events":
            return reply(200, b"event: message\ndata: " + body + b"\n\n", content_type="text/event-stream")
        return reply(200, body, content_type="application/json")

    server = Server(respond)
    await server.start()
    try:
        yield McpServer(url=f"http://127.0.0.1:{server.port}/mcp")
    finally:
        await server.close()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    async def calls(server: McpServer) -> Any:
        monkeypatch.setattr(mcp_client, "_get_server", lambda name, ctx: server)
        return await mcp_client.call_tool("raw", "t", {}, Context())

    return calls


WAYS = ["program", "json", "events"]
WHY = {"program": "too many", "json": "too many", "events": "raw: MCPError"}
"""The SDK tells nothing of why it has no more events."""


@attack("S05", "a tool of an MCP server that gives millions of parts")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("kind", "size"), [("lists", 1_000_000), ("parts", 200_000)])
async def test_an_answer_of_too_many_parts_is_refused_unread(call, how, kind, size):
    """It held the loop of the worker for 0.8 and 1.9 s."""
    async with serving(how, kind, size) as server:
        with pytest.raises(Failure, match=WHY[how]), watching():
            await call(server)


@attack("S05", "a tool of an MCP server that gives as many parts as it may")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(("kind", "size"), [("lists", 7_000), ("parts", 6_000), ("text", 6_000_000)])
async def test_the_largest_answer_that_is_read_holds_up_nobody(call, how, kind, size):
    size = min(size, 1_000_000) if how == "events" else size  # the SDK reads no more of an event
    async with serving(how, kind, size) as server:
        with watching():
            found = await call(server)
        assert len(found) == {"lists": size, "parts": size - 1, "text": size}[kind]


@attack("S13", "a tool of an MCP server that gives megabytes in one line")
@pytest.mark.parametrize("how", WAYS)
async def test_a_long_answer_is_not_read_to_its_end(call, how):
    """A program held the loop of the worker for two minutes with it, a piece at a time."""
    async with serving(how, "text", 20_000_000) as server:
        with pytest.raises(Failure), watching():
            async with asyncio.timeout(60):
                await call(server)


@attack("S05", "an MCP server whose tools have endless schemas")
@pytest.mark.parametrize("how", WAYS)
async def test_the_schemas_of_all_tools_have_a_sum(how):
    async with serving(how, "schemas", 500) as server:
        with pytest.raises(Failure, match=WHY[how]), watching():
            await mcp_client.list_offers("raw", server, Context())


@attack("S05", "an MCP server that starts programs of its own and does not end")
async def test_a_program_ends_with_its_conversation_and_so_does_what_it_started(call, tmp_path):
    """It ignores that nobody asks any more, and the signal to end."""
    program = tmp_path / "stubborn.py"
    program.write_text(
        "import os, signal, subprocess, sys, threading\n"
        f"sys.path.insert(0, {str(Path(RAW).parents[2])!r})\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'], stdin=subprocess.DEVNULL)\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "sys.argv = ['raw', 'text', '8']\n"
        "import runpy\n"
        f"runpy.run_path({RAW!r}, run_name='__main__')\n"
        "threading.Event().wait()\n"
    )
    assert await call(McpServer(command=(sys.executable, str(program)))) == "a,[{" * 2
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    await until_true(lambda: not any(_is_alive(pid) for pid in pids), "both are gone")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
