"""Scripted answers in the vendors' wire formats: as one body, and as the events of a stream."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.llms.scripted.script import Asked, Rule, ScriptedUsage

Event = tuple[str, Any]
"""The type of an event, empty where the format has none, and its data; text is sent as it is."""
_PIECE = re.compile(r"\S+\s*|\s+")
HUGE = "x" * 1_000_000


class Answer(msgspec.Struct, frozen=True):
    model: str
    text: str
    calls: tuple[tuple[str, str, str], ...]
    """Id, name, arguments as text."""
    thinking: str
    usage: ScriptedUsage | None
    finish: str


def make_answer(rule: Rule, asked: Asked) -> Answer:
    text = rule.say if rule.say is not None else ""
    if rule.data is not None:
        text = msgspec.json.encode(rule.data).decode()
    if "huge" in rule.faults:
        text += HUGE
    if "not_json" in rule.faults:
        text = "{" + text
    calls = []
    for number, call in enumerate(rule.calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        if "truncated_arguments" in rule.faults:
            arguments = arguments[:-1]
        if "invalid_arguments" in rule.faults:
            arguments = f"not {arguments}"
        id = "" if "missing_ids" in rule.faults else "call_same" if "duplicate_ids" in rule.faults else f"call_{number}"
        calls.append((id, call.name, arguments))
    usage = None if "no_usage" in rule.faults else rule.usage or ScriptedUsage()
    return Answer(asked.model, text, tuple(calls), rule.thinking, usage, rule.finish)


def _pieces(text: str) -> list[str]:
    return [text] if len(text) > 10_000 else _PIECE.findall(text)


# -- OpenAI, chat ------------------------------------------------------------------------------------------------------


def read_chat(body: dict[str, Any], text: str) -> Asked:
    said = [one for one in body.get("messages") or () if isinstance(one, dict)]
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    return _asked(body, said, schema, text)


def _chat_usage(usage: ScriptedUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.written,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _chat_finish(answer: Answer) -> str:
    if answer.calls:
        return "tool_calls"
    return {"filtered": "content_filter", "refused": "stop"}.get(answer.finish, answer.finish)


def _chat_calls(answer: Answer, *, indexed: bool) -> list[dict[str, Any]]:
    return [
        {
            **({"index": number} if indexed else {}),
            **({"id": id} if id else {}),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (id, name, arguments) in enumerate(answer.calls)
    ]


def chat_body(answer: Answer) -> dict[str, Any]:
    refused = answer.finish == "refused"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused or (answer.calls and not answer.text) else answer.text,
        "refusal": answer.text if refused else None,
    }
    if answer.calls:
        message["tool_calls"] = _chat_calls(answer, indexed=False)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_finish(answer), "logprobs": None}],
        **({"usage": _chat_usage(answer.usage)} if answer.usage else {}),
    }


def chat_events(answer: Answer) -> list[Event]:
    begin = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": answer.model,
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return "", {**begin, "choices": [choice]}

    key = "refusal" if answer.finish == "refused" else "content"
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": piece}) for piece in _pieces(answer.thinking)]
    events += [chunk({key: piece}) for piece in _pieces(answer.text)]
    for number, call in enumerate(_chat_calls(answer, indexed=True)):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        call["function"]["arguments"] = arguments[:half]
        events.append(chunk({"tool_calls": [call]}))
        events.append(chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments[half:]}}]}))
    events.append(chunk({}, _chat_finish(answer)))
    if answer.usage:
        events.append(("", {**begin, "choices": [], "usage": _chat_usage(answer.usage)}))
    return [*events, ("", "[DONE]")]


# -- OpenAI, responses -------------------------------------------------------------------------------------------------


def read_responses(body: dict[str, Any], text: str) -> Asked:
    given = body.get("input")
    said = [{"role": "user", "content": given}] if isinstance(given, str) else given or ()
    schema = ((body.get("text") or {}).get("format") or {}).get("schema")
    return _asked(body, [one for one in said if isinstance(one, dict)], schema, text)


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"type": "reasoning", "id": "rs_scripted", "summary": summary, "encrypted_content": "opaque"})
    if answer.text or not answer.calls:
        part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.finish == "refused":
            part = {"type": "refusal", "refusal": answer.text}
        items.append(
            {"type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed", "content": [part]}
        )
    for number, (id, name, arguments) in enumerate(answer.calls):
        item = {"type": "function_call", "id": f"fc_{number}", "name": name, "arguments": arguments}
        items.append({**item, "call_id": id, "status": "completed"})
    return items


def responses_body(answer: Answer, *, items: bool = True, status: str = "") -> dict[str, Any]:
    reasons = {"length": "max_output_tokens", "filtered": "content_filter"}
    reason = reasons.get(answer.finish)
    found: dict[str, Any] = {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": answer.model,
        "status": status or ("incomplete" if reason else "completed"),
        "error": None,
        "incomplete_details": {"reason": reason} if reason and not status else None,
        "instructions": None,
        "metadata": {},
        "output": _items(answer) if items else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }
    if answer.usage and items:
        usage = answer.usage
        found["usage"] = {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }
    return found


def responses_events(answer: Answer) -> list[Event]:
    found: list[Event] = []

    def add(kind: str, **more: Any) -> None:
        found.append((kind, {"type": kind, "sequence_number": len(found), **more}))

    add("response.created", response=responses_body(answer, items=False, status="in_progress"))
    for index, item in enumerate(_items(answer)):
        place = {"output_index": index, "item_id": item["id"]}
        empties: dict[str, dict[str, Any]] = {"message": {"content": []}, "function_call": {"arguments": ""}}
        empty = empties.get(item["type"], {})
        add("response.output_item.added", output_index=index, item={**item, **empty, "status": "in_progress"})
        if item["type"] == "function_call":
            for piece in (item["arguments"][:3], item["arguments"][3:]):
                add("response.function_call_arguments.delta", delta=piece, **place)
            done = {"arguments": item["arguments"], "name": item["name"]}
            add("response.function_call_arguments.done", **done, **place)
        elif item["type"] == "message":
            _add_text(add, item["content"][0], {**place, "content_index": 0})
        add("response.output_item.done", output_index=index, item=item)
    whole = responses_body(answer)
    add(f"response.{whole['status']}", response=whole)
    return found


def _add_text(add: Any, part: dict[str, Any], place: dict[str, Any]) -> None:
    kind, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    more: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    add("response.content_part.added", part={**part, key: ""}, **place)
    for piece in _pieces(part[key]):
        add(f"response.{kind}.delta", delta=piece, **more, **place)
    add(f"response.{kind}.done", **{key: part[key]}, **more, **place)
    add("response.content_part.done", part=part, **place)


# -- Anthropic ---------------------------------------------------------------------------------------------------------


def read_anthropic(body: dict[str, Any], text: str) -> Asked:
    said = [one for one in body.get("messages") or () if isinstance(one, dict)]
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    return _asked(body, said, schema, text)


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": "opaque"})
    if answer.text or not answer.calls:
        blocks.append({"type": "text", "text": answer.text})
    for id, name, arguments in answer.calls:
        try:
            given = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            given = {}
        blocks.append({"type": "tool_use", "id": id, "name": name, "input": given})
    return blocks


def _stop(answer: Answer) -> str:
    if answer.calls:
        return "tool_use"
    return {"length": "max_tokens", "filtered": "refusal", "refused": "refusal"}.get(answer.finish, "end_turn")


def _anthropic_usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage or ScriptedUsage(0, 0, 0, 0)
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.written,
        "output_tokens": usage.output,
    }


def anthropic_body(answer: Answer) -> dict[str, Any]:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _blocks(answer),
        "stop_reason": _stop(answer),
        "stop_sequence": None,
        "usage": _anthropic_usage(answer),
    }


def anthropic_events(answer: Answer) -> list[Event]:
    usage = _anthropic_usage(answer)
    begin = {**anthropic_body(answer), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    found: list[Event] = [("message_start", {"type": "message_start", "message": begin}), ("ping", {"type": "ping"})]

    def add(kind: str, index: int, **more: Any) -> None:
        found.append((kind, {"type": kind, "index": index, **more}))

    calls = iter(answer.calls)
    for index, block in enumerate(_blocks(answer)):
        match block["type"]:
            case "thinking":
                add("content_block_start", index, content_block={**block, "thinking": "", "signature": ""})
                for piece in _pieces(block["thinking"]):
                    add("content_block_delta", index, delta={"type": "thinking_delta", "thinking": piece})
                add("content_block_delta", index, delta={"type": "signature_delta", "signature": block["signature"]})
            case "text":
                add("content_block_start", index, content_block={**block, "text": ""})
                for piece in _pieces(block["text"]):
                    add("content_block_delta", index, delta={"type": "text_delta", "text": piece})
            case _:
                add("content_block_start", index, content_block={**block, "input": {}})
                arguments = next(calls)[2]
                for piece in ("", arguments[:3], arguments[3:]):
                    add("content_block_delta", index, delta={"type": "input_json_delta", "partial_json": piece})
        add("content_block_stop", index)
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    found.append(("message_delta", {"type": "message_delta", "delta": delta, "usage": usage}))
    return [*found, ("message_stop", {"type": "message_stop"})]


# -- all of them -------------------------------------------------------------------------------------------------------


def _asked(body: dict[str, Any], said: list[dict[str, Any]], schema: Any, text: str) -> Asked:
    users = [_text(one.get("content")) for one in said if one.get("role") == "user"]
    turns = [one for one in said if one.get("role") == "assistant" or one.get("type") == "function_call"]
    last = next((one for one in reversed(users) if one), "")
    return Asked(str(body.get("model", "")), last, len(turns) + 1, schema, body.get("stream") is True, text)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


FORMATS: dict[str, tuple[Any, Any, Any]] = {
    "/v1/chat/completions": (read_chat, chat_body, chat_events),
    "/v1/responses": (read_responses, responses_body, responses_events),
    "/v1/messages": (read_anthropic, anthropic_body, anthropic_events),
}
"""How a request is read, and how an answer is written, by path."""
