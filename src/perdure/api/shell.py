"""The shell around every request, before any route: it checks size and origin, and sets the request id and the headers
of every answer.

It is pure ASGI, so that limits hold while a body arrives and before the caller is authenticated (X12). It must not know
routes.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.access.authenticator import is_loopback
from perdure.api.own_pages import read_host
from perdure.api.problem_details import BadHeader, BadQuery, CrossOrigin, TooLarge, WrongHost, WrongType, problem
from perdure.api.site import Site
from perdure.errors import PerdureError

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_PARAMETERS = 100
_ONCE = (
    b"host",
    b"origin",
    b"authorization",
    b"content-length",
    b"content-encoding",
    b"content-type",
    b"idempotency-key",
)
_SAFE = {"GET", "HEAD", "OPTIONS"}

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class Shell:
    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site
        self._prefix = site.engine.clock.new_id()
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        asked = headers.get(b"x-request-id", "")
        request_id = asked if asked and _REQUEST_ID.fullmatch(asked) else self._new_id()
        scope["perdure.request_id"] = request_id
        send = _with_headers(send, request_id)
        try:
            _check_query(scope["query_string"])
            _check_once(scope["headers"])
            self._check(scope["method"], headers)
        except PerdureError as error:
            self._site.metrics.unrouted(scope["method"], error.status)
            await problem(error, request_id)(scope, receive, send)
            return
        await self._app(scope, _limited(receive, self._site.options.max_body_bytes), send)

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count:x}"

    def _check(self, method: str, headers: dict[bytes, str]) -> None:
        options = self._site.options
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or len(length) > 15 or int(length) > options.max_body_bytes:
            raise TooLarge(f"the body has {length[:20]} bytes; this server takes at most {options.max_body_bytes}")
        if headers.get(b"content-encoding", "identity").lower() not in ("", "identity"):
            raise WrongType("compressed bodies are not accepted; send the body without Content-Encoding")
        host = headers.get(b"host", "")
        name = read_host(host)
        if self._site.open and not is_loopback(name) and name not in options.hosts:
            raise WrongHost(
                "this server has no authentication, so it answers only where it is called by a name of this machine, such as 127.0.0.1"
            )
        origin = headers.get(b"origin")
        own = {host.lower(), _netloc(options.public_url)} - {""}
        if method not in _SAFE and origin is not None and _netloc(origin) not in own:
            raise CrossOrigin("a web page of another origin may not send this request")


def _check_once(headers: Any) -> None:
    """Refuse headers that decide what a request is if given twice: a proxy might read one and this server the other."""
    for name in _ONCE:
        if sum(found == name for found, _ in headers) > 1:
            raise BadHeader(f"the request has the header {name.decode()} more than once; send it once")


def _check_query(query: bytes) -> None:
    """Limit the parameters before the query is parsed: each costs more than its few bytes, here and in the answer."""
    count = query.count(b"&") + 1
    if count > MOST_PARAMETERS:
        raise BadQuery(f"the query has {count} parameters; the maximum is {MOST_PARAMETERS}")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _limited(receive: Receive, most: int) -> Receive:
    """Count the bytes that arrive: a body that is too large is refused also if its length is missing or false."""
    got = 0

    async def receive_counted() -> Message:
        nonlocal got
        message = await receive()
        if message["type"] == "http.request":
            got += len(message.get("body", b""))
            if got > most:
                raise TooLarge(f"the body has more than {most} bytes, the maximum of this server")
        return message

    return receive_counted


def _with_headers(send: Send, request_id: str) -> Send:
    async def give(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            there = {name.lower() for name, _ in headers}
            headers.extend(one for one in HEADERS if one[0] not in there)
            headers.append((b"x-request-id", request_id.encode()))
            message = {**message, "headers": headers}
        await send(message)

    return give
