"""The wire format of Anthropic's messages."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.llms.answers import Pieces, Said, counted, reported
from perdure.llms.port import (
    Call,
    Finish,
    Image,
    Message,
    OnDelta,
    Part,
    Request,
    Response,
    Result,
    Text,
    Thinking,
    Usage,
    sorted_tools,
)

VERSION = "2023-06-01"
_CACHE = {"type": "ephemeral"}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class Anthropic:
    path = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def body(self, request: Request, *, stream: bool, native_schema: bool, limit: int) -> dict[str, Any]:
        params = request.params
        messages = [_message(one) for one in (*request.prefix.examples, *request.messages)]
        found: dict[str, Any] = {
            "model": request.model,
            "max_tokens": params.max_output_tokens or limit,
            "messages": messages,
        }
        if request.prefix.system:
            found["system"] = [{"type": "text", "text": request.prefix.system, "cache_control": _CACHE}]
        if request.prefix.tools:
            found["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in sorted_tools(request.prefix.tools)
            ]
            found["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
        if request.prefix.examples:
            _mark(messages[len(request.prefix.examples) - 1])
        if any(isinstance(part, Result) for one in request.messages[-1:] for part in one.parts):
            _mark(messages[-1])  # the last result: what comes next reads all before it from the cache
        shape: dict[str, Any] = {}
        if request.schema is not None and native_schema:
            shape["format"] = {"type": "json_schema", "schema": request.schema}
        if params.reasoning is not None:
            shape["effort"] = params.reasoning
        if shape:
            found["output_config"] = shape
        if params.stop:  # it knows no seed, no temperature and no top_p any more
            found["stop_sequences"] = list(params.stop)
        if stream:
            found["stream"] = True
        return found

    def reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(on_delta)


def _mark(message: dict[str, Any]) -> None:
    message["content"][-1]["cache_control"] = _CACHE


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": [_block(part) for part in message.parts]}


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return {"type": "image", "source": {"type": "base64", "media_type": part.media, "data": part.data}}
        case Call():
            arguments = part.arguments if isinstance(part.arguments, dict) else {"text": part.arguments}
            return {"type": "tool_use", "id": part.wire_id or part.id, "name": part.name, "input": arguments}
        case Result():
            found = {"type": "tool_result", "tool_use_id": part.wire_id or part.id, "content": part.text}
            return found | ({"is_error": True} if part.failed else {})
        case Thinking():
            opaque: dict[str, Any] = part.opaque
            return opaque


# -- answers -----------------------------------------------------------------------------------------------------------


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    error: Said | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Event)
_whole = msgspec.json.Decoder(_Message)


class Reader:
    def __init__(self, on_delta: OnDelta | None) -> None:
        self._pieces = Pieces(on_delta)
        self._counts = _Usage()
        self._thoughts: dict[int, dict[str, list[str]]] = {}

    def feed(self, event: str, data: bytes) -> bool:
        found = _decoder.decode(data)
        pieces, index = self._pieces, found.index
        match found.type:
            case "message_start" if found.message is not None:
                pieces.id, pieces.model = found.message.id or "", found.message.model or ""
                self._count(found.message.usage)
            case "content_block_start" if found.content_block is not None:
                self._begin(index, found.content_block)
            case "content_block_delta" if found.delta is not None:
                self._grow(index, found.delta)
            case "content_block_stop" if index in self._thoughts:
                self._end_thought(index)
            case "message_delta":
                self._count(found.usage)
                pieces.counted = found.usage is not None
                if found.delta is not None and found.delta.stop_reason:
                    pieces.finish = _FINISHES.get(found.delta.stop_reason, "stop")
            case "error":
                raise reported(found.error or Said())
            case "message_stop":
                return True
        return False

    def whole(self, data: bytes) -> None:
        message = _whole.decode(data)
        self._pieces.id, self._pieces.model = message.id or "", message.model or ""
        self._count(message.usage)
        self._pieces.counted = message.usage is not None
        for index, block in enumerate(message.content or ()):
            self._begin(index, block)
            if index in self._thoughts:
                self._end_thought(index)
        if message.stop_reason:
            self._pieces.finish = _FINISHES.get(message.stop_reason, "stop")

    def finish(self) -> Response:
        return self._pieces.response()

    def _begin(self, index: int, block: _Block) -> None:
        match block.type:
            case "text":
                self._pieces.add_text(index, block.text or "")
            case "tool_use":
                call = self._pieces.call(index)
                call.wire_id, call.name = block.id or "", block.name or ""
                if block.input:
                    call.pieces.append(msgspec.json.encode(block.input).decode())
            case "thinking":
                self._thoughts[index] = {"thinking": [block.thinking or ""], "signature": [block.signature or ""]}
            case "redacted_thinking":
                self._pieces.think(index, {"type": "redacted_thinking", "data": block.data or ""})

    def _grow(self, index: int, delta: _Delta) -> None:
        match delta.type:
            case "text_delta":
                self._pieces.add_text(index, delta.text or "")
            case "input_json_delta":
                self._pieces.call(index).pieces.append(delta.partial_json or "")
            case "thinking_delta" if index in self._thoughts:
                self._thoughts[index]["thinking"].append(delta.thinking or "")
                self._pieces.show_thinking(delta.thinking or "")
            case "signature_delta" if index in self._thoughts:
                self._thoughts[index]["signature"].append(delta.signature or "")

    def _end_thought(self, index: int) -> None:
        thought = {name: "".join(pieces) for name, pieces in self._thoughts.pop(index).items()}
        self._pieces.think(index, {"type": "thinking", **thought})

    def _count(self, usage: _Usage | None) -> None:
        """Counts come at the beginning and at the end, and those of the end are of the whole."""
        if usage is None:
            return
        given = {name: value for name, value in msgspec.structs.asdict(usage).items() if value is not None}
        self._counts = msgspec.structs.replace(self._counts, **given)
        counts = {name: counted(value) for name, value in msgspec.structs.asdict(self._counts).items()}
        read, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
        self._pieces.usage = Usage(  # Anthropic counts what its cache gave and took apart from the input
            input=counts["input_tokens"] + read + written,
            cached=read,
            written=written,
            output=counts["output_tokens"],
            calls=1,
        )
