"""Attacks on agents, models, events, webhooks, sessions and ranges, as what is sent. Pure, as `corpus` is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.attack.corpus import API, JSON, Headers, Request, write
from tests.attack.live import CANARY, HOOKS, MODEL_KEY

Node = dict[str, Any]
FUNCTIONS = [
    "os:system",
    "subprocess:getoutput",
    "builtins:eval",
    "perdure.settings:Settings",
    "perdure:run",
    "json:loads",
]
MODELS = ["theirs", "house/house-2", "house/house-3", "house/../x", "http://127.0.0.1:1/v1", "fast\r\nX: y", CANARY]
RANGES = [
    "bytes=0-4", "bytes=-5", "bytes=5-2", "bytes=-0", "bytes=--5", "bytes=0-0,2-3,4-5", "bytes=" + "0-1," * 900, "items=0-1", "bytes=",
    "bytes=99999999999999999999-", "bytes=0-" + "9" * 400, "bytes=0x1-", "bytes=1e3-", "bytes=-", "=", "\xb2-",
]  # fmt: skip


def _node(kind: str, **config: Any) -> Node:
    return {"id": "a", "type": kind, "config": config, "retry": {"max_attempts": 1}}


def definitions() -> Iterator[tuple[str, Node, str]]:
    """What a tenant may not have, as a node; and what its refusal says."""
    for name in FUNCTIONS:
        tool = {"function": name, "effect": "read", "name": "tool"}
        yield f"tool {name}", _node("agent", model="fast", prompt="x", tools=[tool]), "not among those that definitions"
        yield f"task {name}", _node("task", function=name), "not among those that definitions"
    for name in MODELS:
        for kind, more in (("llm", {}), ("agent", {}), ("classifier", {"labels": ["a", "b"], "input": "x"})):
            asked = {"prompt": "x"} if kind != "classifier" else {}
            yield f"{kind} {name!r}", _node(kind, model=name, **asked, **more), "there is no model"
        yield f"fallback {name!r}", _node("llm", model="fast", fallback=[name], prompt="x"), "there is no model"
    secret = "{{ secrets.MODEL_KEY }}"
    yield "a key in a prompt", _node("llm", model="fast", prompt=secret), "a secret is shown to no model"
    yield "a key in a prompt of an agent", _node("agent", model="fast", prompt=secret), "a secret is shown to no model"
    call = {"url": "https://example.com/", "headers": {"x": secret}}
    yield "a key in a header", _node("http", **call), "goes to them alone"
    yield "a workflow of others", _node("workflow", workflow=CANARY), "no workflow"
    yield "a template as a tool", _node("agent", model="fast", prompt="x", tools="{{ inputs.n }}"), "tools"


def events(theirs: Headers) -> Iterator[Request]:
    """Events of another tenant, in every name that could be taken for ours."""
    for name in (
        "order.paid",
        "acme.order.paid",
        "acme/order.paid",
        "acme\\u0000order.paid",
        "event:order.paid",
        "*",
        "%",
    ):
        for key in (CANARY, "*", "%"):
            body = f'{{"name": "{name}", "key": "{key}", "payload": {{"ok": true}}, "id": "{CANARY}"}}'.encode()
            yield f"event {name} {key}", write("POST", f"{API}/events", {**theirs, **JSON}, body)
    for more in (b'"tenant": "acme"', b'"topic": "order.paid"', b'"position": 1'):
        body = b'{"name": "order.paid", "key": "' + CANARY.encode() + b'", ' + more + b"}"
        yield repr(more), write("POST", f"{API}/events", {**theirs, **JSON}, body)


def deliveries(hook: str) -> Iterator[Request]:
    """What proves nothing to the webhook of a trigger that asks for a bearer."""
    given = ["", "Bearer", "Bearer x", f"Bearer {HOOKS['other']}", f"Bearer {MODEL_KEY}", f"Basic {HOOKS['acme']}", f"Bearer {HOOKS['acme'][:-1]}"]  # fmt: skip
    for one in given:
        yield f"authorization {one}", write("POST", hook, {**JSON, "Authorization": one}, b"{}")
    for more in ({}, {"Cookie": f"authorization={HOOKS['acme']}"}, {"X-Authorization": f"Bearer {HOOKS['acme']}"}):
        yield f"headers {more}", write("POST", f"{hook}?token={HOOKS['acme']}", {**JSON, **more}, b"{}")
    for place in (
        f"{hook}/",
        f"{hook}x",
        hook.lower(),
        f"{hook}%00",
        f"{API}/hooks/{CANARY}",
        f"{API}/hooks/acme%2f{CANARY}",
    ):
        yield place, write("POST", place, {**JSON, "Authorization": f"Bearer {HOOKS['other']}"}, b"{}")


def sessions(cookie: str, origin: str) -> Iterator[Request]:
    """What a session is no leave for: changes without a sign of the server's own page, and other ways to show it."""
    value = cookie.partition("=")[2]
    own = {"X-Perdure-Request": "1", "Origin": origin}
    body, change = b'{"name": "x"}', f"{API}/workflows/validate"
    for headers in (
        {},
        {"Origin": origin},
        {**own, "Origin": "https://evil.example"},
        {**own, "X-Perdure-Request": "0"},
        {**own, "Origin": "null"},
    ):
        yield f"a change with {headers}", write("POST", change, {**JSON, "Cookie": cookie, **headers}, body)
    for shown in (
        f"perdure={value}",
        f"__host-perdure={value}",
        f"{cookie}; {cookie}x",
        f"__Host-perdure={value[:-1]}",
        f'__Host-perdure="{value}',
    ):
        yield f"a cookie {shown[:20]}", write("GET", f"{API}/me", {"Cookie": shown})
    for headers in ({"Authorization": f"Bearer {value}"}, {"X-Api-Key": value}, {"Authorization": cookie}):
        yield f"shown as {[*headers]}", write("GET", f"{API}/me", headers)
    login = f'{{"credential": "{value}"}}'.encode()
    yield "a session by a session", write("POST", f"{API}/session", {**JSON, **own}, login)
    yield (
        "a role above its key's",
        write("POST", f"{API}/keys", {**JSON, **own, "Cookie": cookie}, b'{"name": "x", "roles": ["admin"]}'),
    )


def ranges(ours: Headers, blob: str) -> Iterator[Request]:
    for one in RANGES:
        for path in (f"{API}/blobs/{blob}", f"{API}/blobs/{blob}/stat"):
            yield f"range {one[:30]!r}", write("GET", path, {**ours, "Range": one})


# -- MCP ---------------------------------------------------------------------------------------------------------------

BEGUN, SINGLE = "2025-11-25", "2026-07-28"
_META = "io.modelcontextprotocol/"
_NAMED = {"tools/call": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}  # fmt: skip
ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x" * 300, [], {}, [[]], {"a": {}}, "perdure://runs/", "\u202e", "../../etc/passwd", "%", "' OR 1=1 --"]  # fmt: skip


def _message(who: Headers, method: str, params: Node, version: str) -> bytes:
    headers = {**who, **JSON, "MCP-Protocol-Version": version}
    if version == SINGLE:
        meta = {f"{_META}protocolVersion": version, f"{_META}clientCapabilities": {"extensions": {f"{_META}tasks": {}}}}
        params = {**params, "_meta": meta}
        headers |= {"Mcp-Method": method, "Mcp-Name": str(params.get(_NAMED.get(method, ""), ""))}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return write("POST", "/mcp", headers, json.dumps(body).encode())


def mcp_of_another_tenant(theirs: Headers, ids: dict[str, str]) -> Iterator[Request]:
    """Whatever a tenant has, named by a client of another one."""
    run, approval = ids["run_id"], ids["approval_id"]
    tools: list[tuple[str, Node]] = [(CANARY, {}), ("get_run", {"run_id": run}), ("list_approvals", {})]
    tools += [("get_approval", {"approval_id": approval})]
    tools += [
        ("decide_approval", {"approval_id": approval, "decision": one, "comments": "x"})
        for one in ("approve", "reject")
    ]
    for version in (BEGUN, SINGLE):
        for name, arguments in tools:
            yield (
                f"{version} {name}",
                _message(theirs, "tools/call", {"name": name, "arguments": arguments}, version),
            )
        for method in ("tools/list", "resources/list", "server/discover", "resources/templates/list"):
            yield f"{version} {method}", _message(theirs, method, {}, version)
        for uri in (f"perdure://runs/{run}", f"perdure://runs/{run}?tenant=acme", f"perdure://runs/acme/{run}"):
            yield f"{version} {uri}", _message(theirs, "resources/read", {"uri": uri}, version)
            listened = {"notifications": {"resourceSubscriptions": [uri]}}
            yield f"{version} listen {uri}", _message(theirs, "subscriptions/listen", listened, version)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            yield f"{version} {method}", _message(theirs, method, {"taskId": run}, version)


def mcp_messages(who: Headers) -> Iterator[Request]:
    """Messages that are none, and arguments that nobody asked for."""
    whole: Node = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for key in whole:
        for odd in ODD:
            body = json.dumps({**whole, key: odd}).encode()
            yield f"{key} {odd!r}", write("POST", "/mcp", {**who, **JSON, "MCP-Protocol-Version": BEGUN}, body)
    for body in (
        b"",
        b"[]",
        b"null",
        b"[" + json.dumps(whole).encode() + b"]",
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b"}",
    ):
        yield repr(body[:40]), write("POST", "/mcp", {**who, **JSON}, body)
    for odd in ODD:
        for method, name in _NAMED.items():
            for version in (BEGUN, SINGLE):
                yield f"{version} {method} {odd!r}", _message(who, method, {name: odd}, version)
        for tool, name in (("get_run", "run_id"), ("get_approval", "approval_id"), ("decide_approval", "decision")):
            given = {"name": tool, "arguments": {name: odd}}
            yield f"{tool} {odd!r}", _message(who, "tools/call", given, BEGUN)
        yield f"listen {odd!r}", _message(who, "subscriptions/listen", {"notifications": odd}, SINGLE)
        yield f"version {odd!r}", _message(who, "initialize", {"protocolVersion": odd}, BEGUN)
    for version in ("", "x" * 4_000, "9999-99-99", "\t"):
        yield f"version {version[:9]!r}", write("POST", "/mcp", {**who, **JSON, "MCP-Protocol-Version": version}, b"{}")
    for method in ("GET", "DELETE", "PUT"):
        yield method, write(method, "/mcp", {**who, "Accept": "text/event-stream", "Mcp-Session-Id": "1"})
