"""The wire format of OpenAI's chat completions, which most gateways and local servers speak too."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.llms.answers import ErrorBody, Pieces, counted, reported
from perdure.llms.port import (
    Call,
    Finish,
    Image,
    LlmError,
    Message,
    OnDelta,
    Request,
    Response,
    Result,
    Text,
    Usage,
    is_strict,
    prefix_hash,
    sorted_tools,
)

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "filtered",
}


class OpenAIChat:
    path = "/chat/completions"

    def __init__(self, limit_field: str = "max_completion_tokens", cache_key: bool = False) -> None:
        """`limit_field` is what a server calls the most tokens of an answer; `cache_key` says whether it knows
        `prompt_cache_key`."""
        self._limit_field = limit_field
        self._cache_key = cache_key

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, *, stream: bool, native_schema: bool, limit: int) -> dict[str, Any]:
        params = request.params
        found: dict[str, Any] = {"model": request.model, "messages": _messages(request)}
        if request.prefix.tools:
            found["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
                }
                for tool in sorted_tools(request.prefix.tools)
            ]
            found["tool_choice"] = request.tool_choice
        if request.schema is not None and native_schema:
            found["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)},
            }
        found[self._limit_field] = params.max_output_tokens or limit
        given = {"temperature": params.temperature, "top_p": params.top_p, "seed": params.seed}
        found |= {name: value for name, value in given.items() if value is not None}
        if params.reasoning is not None:
            found["reasoning_effort"] = params.reasoning
        if params.stop:
            found["stop"] = list(params.stop)
        if self._cache_key:
            found["prompt_cache_key"] = prefix_hash(request.prefix)[:32]
        if stream:
            found |= {"stream": True, "stream_options": {"include_usage": True}}
        return found

    def reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(on_delta)


def _messages(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if request.prefix.system:
        found.append({"role": "system", "content": request.prefix.system})
    for message in (*request.prefix.examples, *request.messages):
        found += _message(message)
    return found


def _message(message: Message) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": part.wire_id or part.id, "content": part.text}
        for part in message.parts
        if isinstance(part, Result)
    ]
    content = [_content(part) for part in message.parts if isinstance(part, Text | Image)]
    calls = [
        {
            "id": part.wire_id or part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": _arguments(part.arguments)},
        }
        for part in message.parts
        if isinstance(part, Call)
    ]
    if content or calls or not found:
        said: dict[str, Any] = {"role": message.role}
        plain = all(isinstance(part, Text) for part in message.parts if isinstance(part, Text | Image))
        said["content"] = (message.text or (None if calls else "")) if plain else content
        if calls:
            said["tool_calls"] = calls
        found.append(said)
    return found


def _content(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media};base64,{part.data}"}}


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


# -- answers -----------------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Chunk(ErrorBody):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Chunk)


class Reader:
    def __init__(self, on_delta: OnDelta | None) -> None:
        self._pieces = Pieces(on_delta)
        self._refused = False

    def feed(self, event: str, data: bytes) -> bool:
        if data.strip() == b"[DONE]":
            return True
        self._read_one(_decoder.decode(data))
        return False

    def whole(self, data: bytes) -> None:
        self._read_one(_decoder.decode(data))

    def finish(self) -> Response:
        return self._pieces.response()

    def _read_one(self, chunk: _Chunk) -> None:
        pieces = self._pieces
        if chunk.error is not None:
            raise reported(chunk.said)
        pieces.model = chunk.model or pieces.model
        pieces.id = chunk.id or pieces.id
        if chunk.usage is not None:
            pieces.usage, pieces.counted = _usage(chunk.usage), True
        for choice in chunk.choices or ():
            if choice.index != 0:  # one answer was asked for
                continue
            for said in (choice.delta, choice.message):
                if said is not None:
                    self._hear(said)
            if choice.finish_reason:
                pieces.finish = "refused" if self._refused else _FINISHES.get(choice.finish_reason, "stop")

    def _hear(self, said: _Said) -> None:
        if said.refusal:
            self._refused = True
            self._pieces.add_text("text", said.refusal)
        if said.content:
            self._pieces.add_text("text", said.content)
        if said.reasoning_content:
            self._pieces.show_thinking(said.reasoning_content)
        for number, one in enumerate(said.tool_calls or ()):
            if one.index is not None and not 0 <= one.index < 100_000:
                raise LlmError("llm:bad_output", f"the model numbers a call {one.index}")
            call = self._pieces.call(number if one.index is None else one.index)
            call.wire_id = one.id or call.wire_id
            if one.function is not None:
                call.name = one.function.name or call.name
                call.pieces.append(one.function.arguments or "")


def _usage(found: _Usage) -> Usage:
    read, spent = found.prompt_tokens_details or _Details(), found.completion_tokens_details or _Details()
    return Usage(
        input=counted(found.prompt_tokens),
        cached=counted(read.cached_tokens),
        written=counted(read.cache_write_tokens),
        output=counted(found.completion_tokens),
        reasoning=counted(spent.reasoning_tokens),
        calls=1,
    )
