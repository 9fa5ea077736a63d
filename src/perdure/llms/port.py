"""What is asked of a language model and what it answers, whatever its provider. The codecs beside this file turn it into the
wire formats of vendors.

A request has a *prefix* (tools, system, examples), which is the same over turns and runs, so that vendors can keep it in
their caches, and messages, which differ. `hash_of` names a request by its canonical bytes: what was sent can be compared
with what is rebuilt from history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

Finish = Literal["stop", "calls", "length", "filtered", "refused"]


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    text: str


class Image(msgspec.Struct, frozen=True, tag="image", tag_field="kind"):
    media: str
    """The media type, such as image/png."""
    data: str
    """The bytes, as base64."""


class Call(msgspec.Struct, frozen=True, tag="call", tag_field="kind", omit_defaults=True):
    """A call of a tool that a model wishes. `id` is Perdure's own; `wire_id` is what its provider called it."""

    id: str
    name: str
    arguments: Any
    """An object; the text of the model where that is no JSON object."""
    wire_id: str = ""


class Result(msgspec.Struct, frozen=True, tag="result", tag_field="kind", omit_defaults=True):
    """What a tool gave, for the call of this id."""

    id: str
    text: str
    failed: bool = False
    wire_id: str = ""


class Thinking(msgspec.Struct, frozen=True, tag="thinking", tag_field="kind", omit_defaults=True):
    """What a provider wants back unread with the next turn."""

    opaque: Any
    provider: str = ""
    """The provider it is of; no other gets it. Empty in an answer that has just come."""


Part = Text | Image | Call | Result | Thinking


class Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Tool(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]


class Prefix(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stays the same. Nothing that differs between runs may stand here: no time, no id."""

    tools: tuple[Tool, ...] = ()
    system: str = ""
    examples: tuple[Message, ...] = ()


class Params(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    reasoning: Literal["low", "medium", "high"] | None = None
    stop: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    """As its provider calls it."""
    prefix: Prefix = Prefix()
    messages: tuple[Message, ...] = ()
    params: Params = Params()
    schema: Any = None
    """A JSON Schema of the answer, for models that keep to one."""
    tool_choice: Literal["auto", "none", "required"] = "auto"


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, and money in millionths of a dollar, rounded up. `input` counts all input tokens; `cached` are those of
    them that were read from a cache of the provider, `written` those written to one."""

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    reasoning: int = 0
    calls: int = 0
    usd: int = 0
    priced: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.written + other.written,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.calls + other.calls,
            self.usd + other.usd,
            self.priced and other.priced,
        )


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: Message
    finish: Finish
    usage: Usage
    model: str
    """As the provider names the model that answered."""
    id: str = ""
    counted: bool = True
    """Whether the provider said what it used; `usage` knows nothing otherwise."""


class Delta(msgspec.Struct, frozen=True):
    """A piece of an answer, as it comes."""

    kind: Literal["text", "thinking", "call"]
    text: str


OnDelta = Callable[[Delta], None]


class LlmError(Exception):
    """A call that gave no answer. `sent=False`: the provider certainly has not seen it, and has charged nothing."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        sent: bool = True,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.sent = sent
        self.details = details or {}

    @property
    def is_free(self) -> bool:
        """Whether it certainly cost nothing: it was not sent, or refused before a model read it. After 408 a model may have."""
        status = self.details.get("status", 0)
        return not self.sent or (400 <= status < 500 and status != 408)


class Speaker(Protocol):
    """A model in this process, for tests: it is asked in the place of a provider."""

    async def __call__(self, request: Request) -> Response:
        """Answer. Raises LlmError."""
        ...


class Reader(Protocol):
    """Puts together one answer from the events of a stream, or from a whole body."""

    def feed(self, event: str, data: bytes) -> bool:
        """Take an event; True if it was the last. Raises LlmError, msgspec.DecodeError."""
        ...

    def whole(self, data: bytes) -> None:
        """Take an answer that came as one body. Raises as `feed`."""
        ...

    def finish(self) -> Response:
        """The answer. Raises LlmError if it is not complete."""
        ...


class Codec(Protocol):
    """One wire format."""

    path: str

    def headers(self, key: str) -> dict[str, str]: ...

    def body(self, request: Request, *, stream: bool, native_schema: bool, limit: int) -> dict[str, Any]:
        """The body of a call; `limit` is the most that the model may answer, in tokens, if the request does not say."""
        ...

    def reader(self, on_delta: OnDelta | None) -> Reader: ...


def hash_of(request: Request) -> str:
    """The name of a request: equal requests have equal names, wherever and whenever they are made."""
    return hashlib.sha256(msgspec.json.encode(request, order="sorted")).hexdigest()


def prefix_hash(prefix: Prefix) -> str:
    return hashlib.sha256(msgspec.json.encode(prefix, order="sorted")).hexdigest()


def sorted_tools(tools: tuple[Tool, ...]) -> list[Tool]:
    """Tools in one order, whatever order they were listed in: vendors compare prefixes byte by byte."""
    return sorted(tools, key=lambda tool: tool.name)


def is_strict(schema: Any) -> bool:
    """Whether vendors can promise an answer of this schema: every object names all its fields and has no others."""
    if isinstance(schema, list):
        return all(is_strict(one) for one in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if "object" in (schema.get("type"), *(schema["type"] if isinstance(schema.get("type"), list) else ())):
        if not isinstance(properties, dict) or schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    return all(is_strict(one) for key, one in schema.items() if key not in ("enum", "const", "default", "required"))
