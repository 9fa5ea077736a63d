"""What the wire formats have in common: errors that providers report, and the parts of an answer that is put together
from pieces."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.llms.port import Call, Delta, Finish, LlmError, Message, OnDelta, Part, Response, Text, Thinking, Usage
from perdure.plain_text import cut

MAX_CALLS = 256
"""How many tools a model may call in one turn."""
MOST_TOKENS = 1_000_000_000
_LONGEST_NAME = 200
_SAID = 500
_TOO_LONG = re.compile(
    r"context.{0,20}length|context.{0,20}window|maximum context|prompt is too long|exceeds? the available context|too many tokens",
    re.IGNORECASE,
)
_OVERLOADED = frozenset({"overloaded_error", "server_error", "api_error", "internal_server_error", "timeout_error"})
_LIMITED = frozenset({"rate_limit_error", "rate_limit_exceeded", "tokens", "requests"})
_AUTH = frozenset({"authentication_error", "permission_error", "invalid_api_key", "billing_error"})


def counted(number: int | None) -> int:
    """A count of tokens as a provider says it, or as it leaves it out, made one that can be summed."""
    return min(max(number or 0, 0), MOST_TOKENS)


class Said(msgspec.Struct):
    """An error as providers write it."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None


class ErrorBody(msgspec.Struct):
    error: Said | str | None = None
    message: str | None = None

    @property
    def said(self) -> Said:
        if isinstance(self.error, Said):
            return self.error
        return Said(message=self.error or self.message)


def reported(said: Said, status: int = 0) -> LlmError:
    """The error that a provider reported, in a body or in the middle of a stream (`status` 0)."""
    words = {str(one) for one in (said.type, said.code) if one is not None}
    text = said.message or ""
    details: dict[str, Any] = {"status": status} if status else {}
    if words:
        details["type"] = cut(", ".join(sorted(words)), 100)
    if status in (401, 403) or words & _AUTH:  # what it says may quote the key
        return LlmError("llm:auth", "the provider refuses the key or what it asks for", details=details)
    if text:
        details["said"] = cut(text, _SAID)
    if "insufficient_quota" in words:
        return LlmError("llm:rate_limited", "the provider's account has no quota left", details=details)
    if status == 429 or words & _LIMITED:
        return LlmError("llm:rate_limited", "the provider limits how much is asked", retryable=True, details=details)
    if status == 408:
        return LlmError("llm:timeout", "the provider gave up waiting (status 408)", retryable=True, details=details)
    if status == 409 or status >= 500 or words & _OVERLOADED:
        what = f"answered {status}" if status else "reported an error in the middle of its answer"
        return LlmError("llm:overloaded", f"the provider {what}", retryable=True, details=details)
    if "context_length_exceeded" in words or status == 413 or _TOO_LONG.search(text[:10_000]):
        return LlmError("llm:context_too_long", "the prompt is longer than the model can read", details=details)
    if status == 404:
        return LlmError("llm:unknown_model", "the provider has no such model or no such address", details=details)
    if words & {"content_filter", "content_policy_violation"}:
        return LlmError("llm:filtered", "the provider's filter refuses the prompt", details=details)
    what = f"answered {status}" if status else "refused the request in the middle of its answer"
    return LlmError("llm:bad_request", f"the provider {what}", details=details)


def read_error(status: int, body: bytes) -> LlmError:
    try:
        said = msgspec.json.decode(body, type=ErrorBody).said
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = Said(message=body[:4_000].decode("utf-8", "replace"))
    return reported(said, status)


class Pieces:
    """An answer that grows: texts, thinking and calls in the order in which they began."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        self._on_delta = on_delta
        self._texts: dict[Any, list[str]] = {}
        self._calls: dict[Any, _Call] = {}
        self._thinking: dict[Any, Any] = {}
        self._order: list[tuple[str, Any]] = []
        self.finish: Finish | None = None
        self.usage = Usage(calls=1)
        self.counted = False
        """Whether the provider said what it counted."""
        self.model = ""
        self.id = ""

    def add_text(self, key: Any, text: str) -> None:
        if key not in self._texts:
            self._texts[key] = []
            self._order.append(("text", key))
        self._texts[key].append(text)
        if self._on_delta is not None and text:
            self._on_delta(Delta("text", text))

    def set_text(self, key: Any, text: str) -> None:
        """The whole text of a part, where a provider sends it again at its end."""
        if key not in self._texts:
            self.add_text(key, text)
        elif "".join(self._texts[key]) != text:
            self._texts[key] = [text]

    def think(self, key: Any, opaque: Any) -> None:
        if key not in self._thinking:
            self._order.append(("thinking", key))
        self._thinking[key] = opaque

    def show_thinking(self, text: str) -> None:
        if self._on_delta is not None and text:
            self._on_delta(Delta("thinking", text))

    def call(self, key: Any) -> _Call:
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) == MAX_CALLS:
                raise LlmError("llm:bad_output", f"the model calls more than {MAX_CALLS} tools at once")
            found = self._calls[key] = _Call()
            self._order.append(("call", key))
        return found

    def response(self) -> Response:
        parts: list[Part] = []
        for kind, key in self._order:
            if kind == "text" and (text := "".join(self._texts[key])):
                parts.append(Text(text))
            elif kind == "thinking":
                parts.append(Thinking(self._thinking[key]))
            elif kind == "call":
                parts.append(self._calls[key].made(len([one for one in parts if isinstance(one, Call)])))
        if self.finish is None:
            raise LlmError("llm:network", "the answer ended before the model was done", retryable=True)
        finish = self.finish
        if finish == "stop" and self._calls:  # some servers say so
            finish = "calls"
        message = Message("assistant", tuple(parts))
        return Response(
            message=message,
            finish=finish,
            usage=self.usage,
            model=self.model,
            id=self.id,
            counted=self.counted and self.usage.input > 0,  # no prompt has no tokens
        )


class _Call:
    def __init__(self) -> None:
        self.wire_id = ""
        self.name = ""
        self.pieces: list[str] = []

    def made(self, index: int) -> Call:
        text = "".join(self.pieces)
        arguments: Any
        try:
            arguments = msgspec.json.decode(text) if text.strip() else {}
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            arguments = text
        if not isinstance(arguments, dict):
            arguments = text
        return Call(f"c{index}", self.name[:_LONGEST_NAME], arguments, self.wire_id[:_LONGEST_NAME])
