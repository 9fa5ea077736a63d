"""Attacks that did not work, by class, as requests that are sent as they are. Pure: the same list whoever asks.

A request is bytes, so that nothing on the way to the server mends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fuzz import making

API = "/api/v1"
GOLDEN = Path(__file__).parents[1] / "api" / "permissions.txt"
Request = tuple[str, bytes]
"""What is tried, for whoever reads a failure; and what is sent."""
Headers = dict[str, str]

PATHS = [
    "{}", "{}/", "/{}", "//{}", "{};x=1", "{}%2f", "{}%00", "{}/.", "{}/..", "{}/../", "{}%2e%2e%2f", "{}?token=x", "{}?api_key=pk_x",
    "{}%20", "{}%09", "{}.json", "{}%23", "{}%3f", "/.{}", "/x/..{}", "/%2e%2e{}", "{}\\..\\", "{}?__proto__=1", "{}%c0%af",
]  # fmt: skip
CLAIMS = [
    {"X-Original-URL": "/healthz"},
    {"X-HTTP-Method-Override": "GET"},
    {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"},
    {"Forwarded": "for=127.0.0.1;host=localhost;proto=https"},
    {"X-Tenant": "acme", "X-Perdure-Tenant": "acme", "X-User": "ann"},
    {"Cookie": "session=admin; token=admin"},
]
AUTHORIZATIONS = [
    "", " ", "Bearer", "Bearer ", "bearer  ", "Basic eDp5", "Basic", "Digest x", "Negotiate x", "Bearer null", "Bearer undefined",
    "Bearer ../../etc/passwd", "Bearer ' OR 1=1 --", "Bearer a.b", "Bearer a.b.c", "Bearer a.b.c.d", "Bearer " + "x" * 20_000,
    "Bearer\tx", "Bearer x, Bearer y", "Bearer [object Object]", "Bearer pk_0_0", "Bearer perdure_x", "ApiKey x", "x" * 300,
]  # fmt: skip
TEXTS = [
    "' OR '1'='1", "'; DROP TABLE runs; --", "1; SELECT pg_sleep(9)", "' UNION SELECT * FROM api_keys --", "\" OR \"\"=\"", "%' --",
    "$1", "{{ 7*7 }}", "${7*7}", "{% raw %}", "../../etc/passwd", "..\\..\\windows", "%2e%2e%2f", "/etc/passwd", "file:///etc/passwd",
    "a" * 2_000, "\x00", "\x1b[31m", "\r\nSet-Cookie: x=1", "\u202e", "\ufffe", "\u200b", "é" * 200, "😀", "\\u0000", "null", "true", "-1",
    "0", "1e309", "NaN", "99999999999999999999", "[]", "{}", "[object Object]", "*", "%", "_", "?", "#", ";", "|", "`id`", "$(id)",
    "<script>alert(1)</script>", "javascript:alert(1)", "\\", "'", '"', ",",
]  # fmt: skip
BODIES = [
    b"", b"null", b"[]", b"1", b'"x"', b"{", b"}", b"{]", b'{"a":1,"a":2}', b'{"inputs":NaN}', b'{"inputs":Infinity}', b'{"inputs":-Infinity}',
    b'{"inputs":1e400}', b'{"inputs":' + b"9" * 5_000 + b"}", b'{"inputs":"\\u0000"}', b'{"inputs":"\\ud800"}', b'{"inputs":"\xff"}',
    b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b'{"inputs":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    b'{"__proto__":{"x":1}}', b'{"definition":{"$ref":"#"}}', b'{"definition":null}', b'{"workflow":{"$ne":null}}', b"\x00" * 100,
    b'{"definition":{"name":"w","nodes":[' + b"{}," * 20_000 + b"{}]}}", b'{"inputs":"' + b"x" * 900_000 + b'"}', b"a=1&b=2", b"<x/>",
]  # fmt: skip
ORIGINS = [
    "https://evil.example",
    "null",
    "http://127.0.0.1.evil.example",
    "http://localhost:1",
    "file://",
    "http://[::1]:1",
    "x",
]


def routes() -> list[tuple[str, str, str]]:
    """Method, path and permission of every route that needs one."""
    found = [line.split() for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [(method, path, permission) for method, path, permission in found if permission != "public"]


def write(method: str, target: str, headers: Headers, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method not in ("GET", "DELETE"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def fill(path: str, values: dict[str, str] | None = None) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _quoted((values or {}).get(found[1], "x")), path)


JSON = {"Content-Type": "application/json"}


def without_credentials() -> Iterator[Request]:
    for method, path, _ in routes():
        plain = fill(path)
        for trick in PATHS:
            target = trick.format(plain)
            yield f"{method} {target}", write(method, target, JSON, b"{}" if method != "GET" else b"")
        for claim in CLAIMS:
            yield f"{method} {plain} {claim}", write(method, plain, {**JSON, **claim})


def malformed_authorizations() -> Iterator[Request]:
    for value in AUTHORIZATIONS:
        yield value[:60], write("GET", f"{API}/runs", {"Authorization": value})


def by_role(headers: dict[str, Headers], allowed: dict[str, set[str]]) -> Iterator[tuple[str, bytes, bool]]:
    """Each role on each route, and whether the table lets it."""
    for role, shown in headers.items():
        for method, path, permission in routes():
            sent = write(method, fill(path), {**shown, **JSON}, b"{}" if method != "GET" else b"")
            yield f"{role}: {method} {path}", sent, permission in allowed[role]


def of_another_tenant(theirs: Headers, ids: dict[str, str]) -> Iterator[Request]:
    """Ids that belong to others, in every place of a path."""
    for method, path, _ in routes():
        names = set(re.findall(r"\{(\w+)\}", path))
        if names and names <= ids.keys():
            for body in (b"", b"{}", b'{"reason":"x"}') if method != "GET" else (b"",):
                yield f"{method} {path} {body!r}", write(method, fill(path, ids), {**theirs, **JSON}, body)


def odd_texts(theirs: Headers, parameters: dict[str, list[str]]) -> Iterator[Request]:
    """Odd texts in ids and parameters; `parameters` are those of each path that is read."""
    for method, path, _ in routes():
        if method != "GET":
            continue
        for text in TEXTS:
            if "{" in path:
                target = fill(path, dict.fromkeys(re.findall(r"\{(\w+)\}", path), text))
                yield f"{path} {text[:40]!r}", write("GET", target, theirs)
            for name in parameters.get(path, ()):
                yield f"{path}?{name}={text[:40]!r}", write("GET", f"{fill(path)}?{name}={_quoted(text)}", theirs)


GOOD = {
    "definition": {"name": "w", "nodes": [{"id": "a", "type": "transform", "config": {"value": "{{ inputs.n }}"}}]},
    "inputs": {"n": [1, 2.5, "x", None, True]},
    "tags": {"team": "a"},
}


def bodies(theirs: Headers, mutations: int) -> Iterator[Request]:
    targets = [f"{API}/runs", f"{API}/workflows/validate", f"{API}/runs/import", f"{API}/dead-letters/requeue"]
    for target in targets:
        for body in BODIES:
            yield f"{target} {body[:60]!r}", write("POST", target, {**theirs, **JSON}, body)
        yield (
            f"{target} gzip",
            write("POST", target, {**theirs, **JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b\x08\x00"),
        )
        yield f"{target} text", write("POST", target, {**theirs, "Content-Type": "text/plain"}, b"{}")
    random, text = Random(13), json.dumps(GOOD)
    for number in range(mutations):
        torn = making.tear(random, text).encode("utf-8", "surrogatepass")
        yield f"mutation {number}", write("POST", targets[number % 2], {**theirs, **JSON}, torn)


def definitions(theirs: Headers, count: int) -> Iterator[Request]:
    """Definitions made up of their parts, and torn YAML."""
    random = Random(17)
    for number in range(count):
        if number % 2:
            body, kind = json.dumps(making.definition(random)).encode("utf-8", "surrogatepass"), "application/json"
        else:
            body, kind = making.yaml_text(random).encode("utf-8", "surrogatepass"), "application/yaml"
        yield f"definition {number}", write("POST", f"{API}/workflows/validate", {**theirs, "Content-Type": kind}, body)


def of_another_origin(theirs: Headers) -> Iterator[Request]:
    for method, path, _ in routes():
        if method not in ("GET", "HEAD"):  # which change nothing
            for origin in ORIGINS:
                yield (
                    f"{method} {path} {origin}",
                    write(method, fill(path), {**theirs, **JSON, "Origin": origin}, b"{}"),
                )


def smuggled() -> Iterator[Request]:
    """A second request inside the first, and other things that are no HTTP."""
    inner = f"GET {API}/runs HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    head = f"POST {API}/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()
    for lines in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 40\r\n",
        b"Content-Length: +4\r\n",
        b"Content-Length: -4\r\n",
        b"Content-Length: 0x4\r\n",
        b"Content-Length: 4, 40\r\n",
        b"Content-Length: 99999999999999999999\r\n",
    ):
        yield repr(lines), head + lines + b"\r\n0\r\n\r\n" + inner
    for odd in (
        b"\x16\x03\x01\x02\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x00" * 64 + b"\r\n\r\n",
    ):
        yield repr(odd[:20]), odd
    for target in (
        "*",
        "http://evil.example/api/v1/runs",
        "//evil.example/",
        "/api/v1/runs HTTP/0.9",
        "/\x01",
        "/" + "a" * 70_000,
    ):
        yield target[:40], f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    yield "an end too early", head + b"X: y\nZ: w\r\r\n\r\n"


def one_in(corpus: Iterable[Any], step: int) -> list[Any]:
    """Of a long list, every so many-th."""
    return list(corpus)[::step]
