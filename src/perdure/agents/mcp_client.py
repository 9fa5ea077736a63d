"""Tools of MCP servers: what they offer is asked when an agent begins, and calls go to them, through the SDK of the protocol (`perdure[mcp]`).

Servers are named in the operator's file alone. Those with a `url` are reached through `perdure.egress`, under the same rules as a model's
provider; those with a `command` are programs of this machine, started for each conversation. A conversation is one listing or one call:
nothing of a server has to survive a crash. The SDK is imported when the first agent with such tools begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from perdure import egress, llms
from perdure.agents.mcp_tools import Offer, Offers
from perdure.llms.mcp_rows import McpServer, read_pins
from perdure.outcomes import Failure
from perdure.plain_text import clean_line, clean_text, cut, hide
from perdure.weight import is_heavy, weigh

LIST_SECONDS, CALL_SECONDS = 30.0, 120.0
MOST_LISTED = 1_000
LONGEST_DESCRIPTION = 1_000
LARGEST_SCHEMA = 64 * 1024
LARGEST_ANSWER = 8 * 1024 * 1024
HEAVIEST_ANSWER = 50_000
"""The most that one message may weigh (`perdure.weight`), some 5,000 rows: the SDK reads it on the event loop, and takes ten times
as long as we do."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def open_offers(name: str, ctx: Any) -> Offers:
    """The tools of a server that agents may call. Raises Failure."""
    server = _get_server(name, ctx)
    offers = await list_offers(name, server, ctx)
    if not server.pins:
        return Offers(name, offers, is_pinned=False)
    pins = read_pins(server.pins)
    changed = [one.name for one in offers if pins.get(one.name, one.hash) != one.hash]
    if changed:
        message = (
            f"tools of MCP server {name} are not what was pinned: {', '.join(changed[:10])}. Look at them (perdure tools list {name}), "
            f"and pin them again if they are good: perdure tools pin {name}"
        )
        raise Failure("mcp_changed", message, retryable=False)
    return Offers(name, tuple(one for one in offers if one.name in pins), is_pinned=True)


async def list_offers(name: str, server: McpServer, ctx: Any) -> tuple[Offer, ...]:
    """All tools of a server that the operator's file lets through. Raises Failure."""
    found: list[Offer] = []
    weight = 0
    async with _talk(name, server, ctx, LIST_SECONDS) as client:
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            known = len(found)
            found += [one for tool in page.tools if (one := _read(tool)) is not None and _fits(one.name, server.tools)]
            cursor = page.next_cursor
            if len(found) > MOST_LISTED:
                raise Failure("mcp_failed", f"MCP server {name} lists more than {MOST_LISTED:,} tools", retryable=False)
            weight += sum(weigh(msgspec.json.encode(one.schema)) for one in found[known:])
            if weight > HEAVIEST_ANSWER:
                message = f"the tools of MCP server {name} have schemas of too many parts; name fewer in `tools` of the operator's file"
                raise Failure("mcp_failed", message, retryable=False)
            if not cursor:
                return tuple(sorted(found, key=lambda one: one.name))


def _read(tool: Any) -> Offer | None:
    """A tool as it is listed; None: it has a name that models do not know, or takes more than can be said."""
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    if not _NAME.fullmatch(tool.name) or len(msgspec.json.encode(schema)) > LARGEST_SCHEMA:
        return None
    described = cut(clean_line(hide(tool.description or tool.title or "")), LONGEST_DESCRIPTION)
    return Offer(tool.name, described or f"Calls {tool.name}.", schema)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


async def call_tool(name: str, tool: str, arguments: dict[str, Any], ctx: Any) -> Any:
    """What a tool gives. Raises Failure, also where the server says that the call failed."""
    server = _get_server(name, ctx)
    async with _talk(name, server, ctx, CALL_SECONDS) as client:
        result = await client.call_tool(tool, arguments)
    value = _value_of(result)
    if result.is_error:
        said = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        raise Failure("mcp_tool_error", cut(clean_text(said), 1_000) or f"{tool} failed", retryable=False)
    return value


def _value_of(result: Any) -> Any:
    """What a result holds: data where the server gives data, else its text, else its parts."""
    if result.structured_content is not None:
        content = result.structured_content
        only = isinstance(content, dict) and content.keys() == {"result"}  # so the SDK wraps what is no object
        return content["result"] if only else content
    parts = [_part(one) for one in result.content]
    if all(isinstance(one, str) for one in parts):
        return "\n".join(parts)
    return parts


def _part(content: Any) -> Any:
    if content.type == "text":
        return content.text
    data = content.model_dump(mode="json", by_alias=True, exclude_none=True)
    if "data" in data:  # an image, or a sound: no model is shown its bytes as text
        data = {**data, "data": f"{len(data['data'])} characters of base64"}
    return data


def _get_server(name: str, ctx: Any) -> McpServer:
    server = llms.get_models().find_mcp(name, ctx.tenant)
    if server is None:
        message = (
            f"there is no MCP server {name} here; the operator names servers in the file of the setting agents_file"
        )
        raise Failure("mcp_unknown_server", message, retryable=False, not_done=True)
    return server


@contextlib.asynccontextmanager
async def _talk(name: str, server: McpServer, ctx: Any, seconds: float) -> AsyncIterator[Any]:
    """A conversation with a server. Whatever breaks in it is a Failure."""
    try:
        from mcp.client.client import Client
    except ImportError:
        message = "tools of MCP servers need the extra: pip install 'perdure[mcp]'"
        raise Failure("mcp_not_installed", message, retryable=False, not_done=True) from None
    try:
        async with asyncio.timeout(seconds), contextlib.AsyncExitStack() as stack:
            transport = await _open(name, server, ctx, stack)
            yield await stack.enter_async_context(Client(transport, read_timeout_seconds=seconds))
    except TimeoutError:
        raise Failure("mcp_timeout", f"MCP server {name} has not answered in {seconds:g} s") from None
    except Exception as error:  # noqa: BLE001  a server, its program or the SDK may break in any way
        failure = _find_failure(error)
        if failure is not None:
            raise failure from None
        raise Failure("mcp_failed", f"MCP server {name}: {_explain(error)}") from None


async def _open(name: str, server: McpServer, ctx: Any, stack: contextlib.AsyncExitStack) -> Any:
    if server.command:
        from perdure.agents.mcp_program import talk_to

        env = {variable: _reveal(name, secret, ctx) for variable, secret in server.secrets.items()}
        return talk_to(server.command, env, LARGEST_ANSWER, _check)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from perdure.egress.bounded import Bounded

    headers = {}
    if server.auth is not None:
        headers = server.auth.as_headers(_reveal(name, server.auth.secret, ctx))
    client = await stack.enter_async_context(
        httpx2.AsyncClient(
            transport=Bounded(egress.shared(server.also), LARGEST_ANSWER, check=_check),
            headers=headers,
            timeout=httpx2.Timeout(CALL_SECONDS, connect=10.0),
            trust_env=False,
        )
    )
    return streamable_http_client(server.url, http_client=client)


def _check(message: bytes) -> None:
    """Raises Failure where a message is too much to be read."""
    if is_heavy(message, HEAVIEST_ANSWER):
        text = "the MCP server answers with too many lists, objects and values; let it give less, or one text"
        raise Failure("mcp_answer_too_large", text, retryable=False)


def _reveal(name: str, secret: str, ctx: Any) -> str:
    try:
        found: str = ctx.reveal_secret(secret)
    except LookupError:
        message = f"MCP server {name} needs the secret {secret}, and this worker has none; set PERDURE_SECRET_{secret}"
        raise Failure("mcp_no_key", message, retryable=False, not_done=True) from None
    return found


def _find_failure(error: BaseException) -> Failure | None:
    if isinstance(error, Failure):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for one in inner if (found := _find_failure(one)) is not None), None)


def _explain(error: BaseException) -> str:
    """What went wrong, of a group the first that says something."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return cut(clean_line(hide(f"{type(error).__name__}: {error}")), 500)
