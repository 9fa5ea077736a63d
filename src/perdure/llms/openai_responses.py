"""The wire format of OpenAI's responses."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.llms.answers import ErrorBody, Pieces, Said, counted, reported
from perdure.llms.port import (
    Call,
    Image,
    LlmError,
    Message,
    OnDelta,
    Request,
    Response,
    Result,
    Text,
    Thinking,
    Usage,
    is_strict,
    prefix_hash,
    sorted_tools,
)


class OpenAIResponses:
    path = "/responses"

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, *, stream: bool, native_schema: bool, limit: int) -> dict[str, Any]:
        params = request.params
        found: dict[str, Any] = {"model": request.model, "input": _input(request), "store": False}
        if request.prefix.system:
            found["instructions"] = request.prefix.system
        if request.prefix.tools:
            found["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": is_strict(tool.schema),
                }
                for tool in sorted_tools(request.prefix.tools)
            ]
            found["tool_choice"] = request.tool_choice
        if request.schema is not None and native_schema:
            strict = is_strict(request.schema)
            found["text"] = {
                "format": {"type": "json_schema", "name": "answer", "schema": request.schema, "strict": strict}
            }
        found["max_output_tokens"] = params.max_output_tokens or limit
        given = {"temperature": params.temperature, "top_p": params.top_p}  # it knows no seed and no stop
        found |= {name: value for name, value in given.items() if value is not None}
        if params.reasoning is not None:
            found["reasoning"] = {"effort": params.reasoning}
            found["include"] = ["reasoning.encrypted_content"]  # nothing is stored there, so it comes back with us
        found["prompt_cache_key"] = prefix_hash(request.prefix)[:32]
        if stream:
            found["stream"] = True
        return found

    def reader(self, on_delta: OnDelta | None) -> Reader:
        return Reader(on_delta)


def _input(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in (*request.prefix.examples, *request.messages):
        content: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Text | Image):
                content.append(_content(part))
                continue
            if content:
                found.append(_said(message, content))
                content = []
            found.append(_item(part))
        if content:
            found.append(_said(message, content))
    return found


def _said(message: Message, content: list[dict[str, Any]]) -> dict[str, Any]:
    if message.role == "assistant":  # parts of an answer need the ids they came with; as a text they need none
        return {"role": "assistant", "content": "".join(part.get("text", "") for part in content)}
    return {"role": message.role, "content": content}


def _content(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.media};base64,{part.data}"}


def _item(part: Call | Result | Thinking) -> dict[str, Any]:
    match part:
        case Call():
            arguments = part.arguments
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            return {
                "type": "function_call",
                "call_id": part.wire_id or part.id,
                "name": part.name,
                "arguments": text,
            }
        case Result():
            return {"type": "function_call_output", "call_id": part.wire_id or part.id, "output": part.text}
        case Thinking():
            opaque: dict[str, Any] = part.opaque
            return opaque


# -- answers -----------------------------------------------------------------------------------------------------------


class _Content(msgspec.Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Content] | None = None
    encrypted_content: str | None = None
    summary: list[dict[str, Any]] | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    error: Said | None = None
    incomplete_details: _Incomplete | None = None


class _Event(ErrorBody):
    type: str = ""
    code: str | None = None
    delta: str | None = None
    text: str | None = None
    output_index: int = 0
    content_index: int = 0
    arguments: str | None = None
    item: _Item | None = None
    response: _Response | None = None


_decoder = msgspec.json.Decoder(_Event)
_whole = msgspec.json.Decoder(_Response)
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class Reader:
    def __init__(self, on_delta: OnDelta | None) -> None:
        self._pieces = Pieces(on_delta)
        self._refused = False

    def feed(self, event: str, data: bytes) -> bool:
        if data.strip() == b"[DONE]":
            return True
        found = _decoder.decode(data)
        key, pieces = (found.output_index, found.content_index), self._pieces
        match found.type:
            case "response.output_text.delta":
                pieces.add_text(key, found.delta or "")
            case "response.refusal.delta":
                self._refused = True
                pieces.add_text(key, found.delta or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                pieces.show_thinking(found.delta or "")
            case "response.output_item.added" | "response.output_item.done":
                if found.item is not None:
                    self._read_one(found.output_index, found.item, is_done=found.type.endswith("done"))
            case "response.function_call_arguments.delta":
                pieces.call(found.output_index).pieces.append(found.delta or "")
            case "error":
                raise reported(Said(message=found.said.message, type=found.said.type, code=found.code))
            case kind if kind in _ENDS:
                self._end(found.response or _Response())
                return True
        return False

    def whole(self, data: bytes) -> None:
        self._end(_whole.decode(data))

    def finish(self) -> Response:
        return self._pieces.response()

    def _read_one(self, index: int, item: _Item, *, is_done: bool) -> None:
        pieces = self._pieces
        if item.type == "function_call":
            call = pieces.call(index)
            call.wire_id, call.name = item.call_id or call.wire_id, item.name or call.name
            if is_done and item.arguments is not None:
                call.pieces = [item.arguments]
        elif item.type == "reasoning" and is_done and item.encrypted_content:
            opaque = {"type": "reasoning", "id": item.id, "summary": item.summary or []}
            pieces.think(index, opaque | {"encrypted_content": item.encrypted_content})
        elif item.type == "message" and is_done:
            for number, content in enumerate(item.content or ()):
                self._refused = self._refused or content.type == "refusal"
                pieces.set_text((index, number), content.text or content.refusal or "")

    def _end(self, response: _Response) -> None:
        pieces = self._pieces
        pieces.id, pieces.model = response.id or "", response.model or ""
        if response.usage is not None:
            pieces.usage, pieces.counted = _usage(response.usage), True
        if response.error is not None:
            raise reported(response.error)
        for index, item in enumerate(response.output or ()):
            self._read_one(index, item, is_done=True)
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if response.status == "incomplete":
            pieces.finish = "filtered" if reason == "content_filter" else "length"
        elif response.status in ("completed", None):
            pieces.finish = "refused" if self._refused else "stop"
        else:
            raise LlmError("llm:overloaded", "the provider gave up in the middle of its answer", retryable=True)


def _usage(found: _Usage) -> Usage:
    read, spent = found.input_tokens_details or _Details(), found.output_tokens_details or _Details()
    return Usage(
        input=counted(found.input_tokens),
        cached=counted(read.cached_tokens),
        written=counted(read.cache_write_tokens),
        output=counted(found.output_tokens),
        reasoning=counted(spent.reasoning_tokens),
        calls=1,
    )
