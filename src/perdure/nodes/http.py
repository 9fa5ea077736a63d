"""`http`: calls a service, and gives `{status, headers, body}`.

It owns what a config means, what an answer becomes and which failures are worth another attempt. Where a call may go,
and how much of an answer is read, is decided in `perdure.egress`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

import msgspec

from perdure import egress, weight
from perdure.clock import system
from perdure.egress.errors import EgressError, EgressRefused
from perdure.egress.retry_after import read_retry_after
from perdure.egress.urls import parse
from perdure.expressions.leaves import has_leaf
from perdure.expressions.templates import has_literal_host
from perdure.model.extremes import WHY, has_many
from perdure.nodes.registry import NodeType, Path, has_template
from perdure.outcomes import Failure
from perdure.plain_text import LOOKED_AT, cut
from perdure.spelling import list_known

if TYPE_CHECKING:
    from perdure.egress.client import Answer, Request

DEFAULT_SECONDS = 60.0
MAX_BYTES = 10 * 1024 * 1024
MOST_BYTES = 40 * 1024 * 1024
BYTES = "$bytes"
KEY_HEADER = "idempotency-key"

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_USUAL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Methods of WebDAV and of caches: a service may have any.
_OTHER_METHODS = frozenset(
    "TRACE QUERY PURGE LINK UNLINK PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH".split()
)
_RETRYABLE = frozenset({408, 429})
_SHOWN = 1_000
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_STATUS = re.compile(r"[1-5](?:xx|[0-9]{2})")
_BODIES = ("json", "body", "form")
_SECRET = re.compile(r"\{\{-?\s*+secrets\b")
# Headers that a config may not set: they would break the message or leave the checked host.
_OWN_HEADERS = frozenset(
    "host content-length transfer-encoding connection keep-alive upgrade te trailer expect "
    "proxy-authorization proxy-connection accept-encoding".split()
)
_AUTH_KEYS = {"bearer": ("token",), "basic": ("username", "password"), "header": ("name", "value")}


async def handle(config: Any, ctx: Any) -> Any:
    node_seconds = getattr(ctx, "timeout_seconds", None)  # then the worker ends it
    return await call(config, ctx.idempotency_key, None if node_seconds is not None else DEFAULT_SECONDS)


async def call(config: dict[str, Any], key: str, seconds: float | None = DEFAULT_SECONDS) -> dict[str, Any]:
    """The output of a call; raises `Failure`. `seconds` is how long it may take if the config does not say."""
    try:
        request = make_request(config, key, seconds)
        answer = await egress.shared().send(request)
    except EgressRefused as error:
        raise Failure(error.code, error.message, retryable=False, not_done=not error.sent) from None
    except EgressError as error:
        again = error.code in ("network", "timeout")
        raise Failure(error.code, error.message, retryable=again, not_done=not error.sent) from None
    expected = config.get("expect_status", "2xx" if config.get("follow_redirects", True) else ["2xx", "3xx"])
    if not is_expected(answer.status, expected):
        raise _failure(answer, request.method)
    return {
        "status": answer.status,
        "headers": _headers(answer),
        "body": read_body(answer, config.get("response", "auto")),
    }


# -- the request -------------------------------------------------------------------------------------------------------


def make_request(config: dict[str, Any], key: str, seconds: float | None = DEFAULT_SECONDS) -> Request:
    from perdure.egress.client import MAX_REDIRECTS, Request

    method = str(config.get("method", "GET")).upper()
    headers = {name.lower(): str(value) for name, value in (config.get("headers") or {}).items()}
    body, kind = _body(config)
    if kind:
        headers.setdefault("content-type", kind)
    headers |= _auth(config.get("auth"))
    if method not in _SAFE_METHODS:
        headers.setdefault(KEY_HEADER, key)
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Failure(
                "bad_config", f"header {cut(name, 80)!r} has characters that headers cannot have", retryable=False
            )
    return Request(
        url=parse(config["url"]).add_query(list(_pairs(config.get("query")))),
        method=method,
        headers=headers,
        body=body,
        redirects=MAX_REDIRECTS if config.get("follow_redirects", True) else 0,
        seconds=config.get("timeout", seconds),
        max_bytes=config.get("max_bytes", MAX_BYTES),
    )


def _body(config: dict[str, Any]) -> tuple[bytes, str]:
    """The bytes to send and their content type."""
    if "json" in config:
        return msgspec.json.encode(config["json"]), "application/json"
    if config.get("form") is not None:
        return urlencode(
            list(_pairs(config["form"])), quote_via=quote_plus
        ).encode(), "application/x-www-form-urlencoded"
    body = config.get("body")
    if body is None:
        return b"", ""
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    try:
        return base64.b64decode(body[BYTES], validate=True), "application/octet-stream"
    except binascii.Error:
        raise Failure("bad_config", f"body.{BYTES} is not base64", retryable=False) from None


def _pairs(query: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Name and value of every query parameter. A list repeats its name; null leaves it out."""
    for name, value in (query or {}).items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                yield name, one if isinstance(one, str) else msgspec.json.encode(one).decode()


def _auth(auth: dict[str, Any] | None) -> dict[str, str]:
    match (auth or {}).get("type"):
        case "bearer":
            return {"authorization": f"Bearer {auth['token']}"}  # type: ignore[index]
        case "basic":
            pair = f"{auth['username']}:{auth['password']}".encode()  # type: ignore[index]
            return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
        case "header":
            return {auth["name"].lower(): auth["value"]}  # type: ignore[index]
    return {}


# -- the answer --------------------------------------------------------------------------------------------------------


def is_expected(status: int, expected: Any) -> bool:
    if isinstance(expected, list):
        return any(is_expected(status, one) for one in expected)
    text = str(expected)
    return str(status)[0] == text[0] if text.endswith("xx") else str(status) == text


def _headers(answer: Answer) -> dict[str, str]:
    """Headers by lower-case name. Repeated ones are joined; cookies by line breaks, because they hold commas."""
    found: dict[str, str] = {}
    for name, value in answer.headers:
        if name in found:
            found[name] += ("\n" if name == "set-cookie" else ", ") + value
        else:
            found[name] = value
    return found


def read_body(answer: Answer, kind: str) -> Any:
    """The body of an answer: JSON as data, text as text, all else as `{"$bytes": base64}`; an empty one as null."""
    if not answer.body:
        return None
    media, charset = _media(answer.header("content-type"))
    if kind == "auto":
        kind = _kind_of(media)
    if kind == "json":
        if has_many(answer.body):
            raise Failure("bad_response", f"{answer.url.shown} answered with JSON that is not read: {WHY}")
        if weight.is_heavy(answer.body):
            raise Failure("bad_response", f"{answer.url.shown} answered with JSON that is not read: {weight.WHY}")
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise Failure(
                "bad_response", f"{answer.url.shown} answered with something that is not JSON, though it should be"
            ) from None
    if kind == "text":
        try:
            return answer.body.decode(charset)
        except (LookupError, UnicodeDecodeError):
            return answer.body.decode("utf-8", "replace")
    return {BYTES: base64.b64encode(answer.body).decode()}


def _media(content_type: str) -> tuple[str, str]:
    media, _, parameters = content_type.partition(";")
    found = re.search(r"charset=\"?([A-Za-z0-9_.:-]{1,40})", parameters, re.IGNORECASE)
    return media.strip().lower(), found[1] if found else "utf-8"


def _kind_of(media: str) -> str:
    if media == "application/json" or media.endswith("+json"):
        return "json"
    texts = ("application/xml", "application/javascript", "application/x-www-form-urlencoded", "application/yaml")
    return "text" if media.startswith("text/") or media in texts or media.endswith("+xml") else "bytes"


def _failure(answer: Answer, method: str) -> Failure:
    status = answer.status
    again = status in _RETRYABLE or status >= 500
    details: dict[str, Any] = {"status": status, "url": answer.url.shown}
    if answer.body and _kind_of(_media(answer.header("content-type"))[0]) != "bytes":
        details["body"] = cut(answer.body[: 4 * LOOKED_AT].decode("utf-8", "replace"), _SHOWN)
    return Failure(
        f"http:{status}",
        f"{method} {answer.url.shown} answered {status}",
        retryable=again,
        retry_after=_retry_after(answer) if again else None,
        details=details,
    )


def _retry_after(answer: Answer) -> float | None:
    return read_retry_after(answer.header("retry-after"), answer.header("date"), system.now())


# -- checks ------------------------------------------------------------------------------------------------------------


def _check(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    url = config["url"]
    if not has_template(url):
        try:
            parse(url)
        except EgressRefused as error:
            yield ("url",), error.message
    elif (problem := _check_beginning(url)) is not None:
        yield ("url",), problem
    if _names_secret(config) and not has_literal_host(url):
        yield ("url",), "a config with a secret needs its host written out: else the data would say who gets the secret"
    given = [key for key in _BODIES if config.get(key) is not None or (key == "json" and key in config)]
    if len(given) > 1:
        yield (given[1],), f"'{given[0]}' and '{given[1]}' both are the body; keep one of them"
    method = config.get("method", "GET")
    if not has_template(method) and (not method.isascii() or not method.isalpha() or method.upper() == "CONNECT"):
        yield ("method",), "'method' must be a method such as GET or POST; CONNECT is not one"
    yield from _check_statuses(config.get("expect_status", "2xx"))
    headers = config.get("headers")
    for name in headers if isinstance(headers, dict) else ():
        if not _TOKEN.fullmatch(name):
            yield ("headers", name), "it is not the name of a header"
        elif name.lower() in _OWN_HEADERS:
            yield ("headers", name), f"the header {name!r} is set by Perdure; leave it out"
    if config.get("auth") is not None and not has_template(config["auth"]):
        yield from _check_auth(config["auth"])


def _names_secret(value: Any) -> bool:
    return has_leaf(value, lambda leaf: isinstance(leaf, str) and _SECRET.search(leaf))


def _check_beginning(url: str) -> str | None:
    """What is wrong with a URL that has templates in it, as far as can be told."""
    begin = url.partition("{{")[0].lower()
    schemes = ("http://", "https://")
    if begin and not (begin.startswith(schemes) or begin in ("h", "ht", "htt", "http", "https")):
        return "the URL must begin with http:// or https://"
    plain = re.sub(r"\{\{.*?\}\}", "", url, flags=re.DOTALL)
    host = plain.partition("://")[2]
    if "://" in begin and host and not re.search(r"[/?]", host):
        return "the host is followed by a template; write / before it, so that data cannot change the host"
    return None


def _check_statuses(expected: Any) -> Iterator[tuple[Path, str]]:
    statuses = expected if isinstance(expected, list) else [expected]
    if not statuses or not all(has_template(one) or _STATUS.fullmatch(str(one)) for one in statuses):
        yield ("expect_status",), "'expect_status' must be a status such as 200 or 2xx, or a list of them"


def _check_auth(auth: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    kind = auth["type"]
    if has_template(kind):
        return
    for key in _AUTH_KEYS[kind]:
        if key not in auth:
            yield ("auth",), f"'auth' of type {kind} has no '{key}'"
    for key in auth:
        if key != "type" and key not in _AUTH_KEYS[kind]:
            yield ("auth", key), f"'auth' of type {kind} has no use for '{key}'; it takes {', '.join(_AUTH_KEYS[kind])}"
    name = auth.get("name")
    if kind == "header" and isinstance(name, str) and not has_template(name) and not _is_usable(name):
        yield ("auth", "name"), "it is not the name of a header that can be set"


def _is_usable(name: str) -> bool:
    return bool(_TOKEN.fullmatch(name)) and name.lower() not in _OWN_HEADERS


_PAIRS = {
    "type": ["object", "null"],
    "additionalProperties": {"type": ["string", "number", "boolean", "null", "array"]},
}


def _warn(config: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    method = config.get("method", "GET")
    if not has_template(method) and method.upper() not in (*_USUAL_METHODS, *_OTHER_METHODS):
        yield ("method",), f"'{method}' is no usual method of HTTP; {list_known(_USUAL_METHODS)}"


TYPE = NodeType(
    name="http",
    description="Calls a service over HTTP and gives its status, headers and body.",
    urls=(("url",),),
    config_schema={
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": {"type": "string", "minLength": 1},
            "method": {"type": "string", "minLength": 1, "maxLength": 20, "default": "GET"},
            "headers": {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number"]}},
            "query": {**_PAIRS, "description": "added to the URL, encoded; a list repeats its name"},
            "json": {"description": "the body, as JSON"},
            "form": {**_PAIRS, "description": "the body, as a form"},
            "body": {
                "description": f"the body: text, or {{{BYTES}: base64}}",
                "type": ["string", "object", "null"],
                "required": [BYTES],
                "properties": {BYTES: {"type": "string"}},
                "additionalProperties": False,
            },
            "expect_status": {
                "description": "what counts as success: 200, 2xx, or a list of them",
                "type": ["integer", "string", "array"],
                "default": "2xx",
            },
            "auth": {
                "type": ["object", "null"],
                "required": ["type"],
                "properties": {
                    "type": {"enum": list(_AUTH_KEYS)},
                    **{key: {"type": "string"} for keys in _AUTH_KEYS.values() for key in keys},
                },
                "additionalProperties": False,
            },
            "follow_redirects": {"type": "boolean", "default": True},
            "response": {"enum": ["auto", "json", "text", "bytes"], "default": "auto"},
            "timeout": {
                "description": "seconds for the whole call; the node's timeout_seconds without it, else 60",
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 86_400,
            },
            "max_bytes": {
                "description": "of the answer's body, unpacked",
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_BYTES,
                "default": MAX_BYTES,
            },
        },
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "required": ["status", "headers", "body"],
        "properties": {
            "status": {"type": "integer"},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "body": {"description": f"JSON as data, text as text, else {{{BYTES}: base64}}; null when empty"},
        },
    },
    capabilities=frozenset({"network", "effect"}),
    aliases=("call_external_service",),
    example={
        "type": "http",
        "config": {
            "url": "https://api.example.com/v1/orders",
            "method": "POST",
            "json": {"item": "{{ inputs.item }}"},
            "auth": {"type": "bearer", "token": "{{ secrets.SHOP_TOKEN }}"},
            "expect_status": [200, 201],
        },
        "retry": {"max_attempts": 5, "retry_on": ["network", "timeout", "http:5xx", "http:429"]},
    },
    check=_check,
    warn=_warn,
    handler=handle,
    close=egress.close,
)
