"""Messages of the Model Context Protocol over streamable HTTP: what a request must be, and how it is answered.

There are two generations. Until 2025-11-25 a conversation begins with `initialize`; since 2026-07-28 each request says in `_meta` and in
headers what it needs. Neither needs a session here: no request knows of another, and any process answers any of them. It must not know
what the methods do.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.plain_text import clean_line, cut

BEGUN = ("2025-03-26", "2025-06-18", "2025-11-25")
"""Versions whose conversations begin with `initialize`."""
SINGLE = ("2026-07-28",)
"""Versions whose requests stand alone."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, WRONG_VERSION = -32020, -32022
_STATUS = {NO_METHOD: 404}
"""The HTTP status of a refusal, since version 2026-07-28; all other refusals have 400."""
_META = "io.modelcontextprotocol/"
SUBSCRIPTION = f"{_META}subscriptionId"
_NAMED = {
    "tools/call": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""What a request is about stands in a header, too."""
_LISTS = frozenset({"server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read"})
_CODED = re.compile(r"=\?base64\?(.*)\?=")
_LONGEST_ID = 200

Id = str | int


class Message(msgspec.Struct, frozen=True):
    """A request that is in order."""

    id: Id
    method: str
    params: Mapping[str, Any]
    version: str
    extensions: frozenset[str] = frozenset()
    """The extensions that the client knows."""

    @property
    def is_single(self) -> bool:
        return self.version in SINGLE


class Refused(Exception):
    """A message that is answered with an error of the protocol."""

    def __init__(
        self, code: int, text: str, *, data: Any = None, id: Id | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data
        self.id = id
        self.status = _STATUS.get(code, 400) if status is None else status


def read_message(found: Any, headers: Mapping[str, str]) -> Message | None:
    """A request. None: it is a notification or an answer, which is only acknowledged. Raises Refused."""
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, "send one JSON-RPC 2.0 message; lists of messages are not taken")
    version = headers.get("mcp-protocol-version", BEGUN[0])
    if "id" not in found or "method" not in found:
        if "method" in found or "result" in found or "error" in found:
            return None
        raise Refused(INVALID_REQUEST, "the message has no method")
    id, method, params = found["id"], found["method"], found.get("params", {})
    if isinstance(id, bool) or not isinstance(id, str | int) or len(str(id)) > _LONGEST_ID:
        raise Refused(INVALID_REQUEST, "id is a text or an integer")
    if not isinstance(method, str) or not isinstance(params, dict):
        raise Refused(INVALID_REQUEST, "method is a text, and params an object", id=id)
    if version in BEGUN:
        return Message(id, method, params, version)
    return _read_single(id, method, params, version, headers)


def _read_single(id: Id, method: str, params: Mapping[str, Any], version: str, headers: Mapping[str, str]) -> Message:
    meta = params.get("_meta")
    needed = (f"{_META}protocolVersion", f"{_META}clientCapabilities")
    missing = [name for name in needed if not isinstance(meta, dict) or name not in meta]
    if missing:
        raise Refused(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", id=id)
    assert isinstance(meta, dict)
    if meta[needed[0]] != version:
        raise Refused(HEADER_MISMATCH, "the header MCP-Protocol-Version is not what params._meta says", id=id)
    if headers.get("mcp-method") != method:
        raise Refused(HEADER_MISMATCH, "the header Mcp-Method is not the method of the message", id=id)
    about = params.get(_NAMED[method]) if method in _NAMED else None
    if about is not None and _decode(headers.get("mcp-name")) != about:
        raise Refused(HEADER_MISMATCH, f"the header Mcp-Name is not {_NAMED[method]} of the message", id=id)
    if version not in SINGLE:
        data = {"supported": [*BEGUN, *SINGLE], "requested": cut(clean_line(version), 40)}
        raise Refused(WRONG_VERSION, "this server does not speak that version of the protocol", data=data, id=id)
    capabilities = meta[needed[1]]
    known = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return Message(id, method, params, version, frozenset(known if isinstance(known, dict) else ()))


def _decode(value: str | None) -> str | None:
    """What a header says, which is packed where headers could not say it."""
    match = None if value is None else _CODED.fullmatch(value)
    if match is None:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def choose_version(params: Mapping[str, Any]) -> str:
    """The version of a conversation that begins: the one that the client wants, or the newest."""
    wanted = params.get("protocolVersion")
    return wanted if wanted in BEGUN else BEGUN[-1]


def answer(message: Message, result: Mapping[str, Any]) -> dict[str, Any]:
    said = dict(result)
    if message.is_single:
        said = {"resultType": "complete", **said}
        if message.method in _LISTS:
            said |= {"ttlMs": 0, "cacheScope": "private"}
    return {"jsonrpc": "2.0", "id": message.id, "result": said}


def refusal(refused: Refused) -> dict[str, Any]:
    error: dict[str, Any] = {"code": refused.code, "message": refused.text}
    if refused.data is not None:
        error["data"] = refused.data
    return {"jsonrpc": "2.0", "id": refused.id, "error": error}


def notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def frame(message: Mapping[str, Any]) -> bytes:
    """A message of a stream."""
    return b"event: message\ndata: %s\n\n" % msgspec.json.encode(message)


def server_info(version: str) -> dict[str, Any]:
    return {f"{_META}serverInfo": {"name": "perdure", "version": version}}
