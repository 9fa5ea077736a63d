"""Tools for models that have none of their own: what they may call is written into the prompt, and an answer is a JSON value that
either names a tool or is the answer (`tools = "schema"` in the operator's file).

    {"tool": "lookup", "arguments": {"id": 7}}
    {"answer": "A good lead."}

`told` turns a request into one without tools, and `read` turns what came back into what a model with tools would have said. So the
loop of an agent, its steps and its transcript are the same for both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.expressions.leaves import has_leaf
from perdure.llms.port import Call, Message, Part, Prefix, Request, Response, Result, Text, Tool, sorted_tools
from perdure.llms.structured import NotJson, read_json

UNREADABLE = "(neither)"
"""What the tool of an answer is called that is neither a call nor an answer: there is none of this name, and the model is told so."""
_HOW = (
    'Answer with one JSON object and nothing else. To call a tool: {"tool": "its name", "arguments": {…}}. '
    'When you know the answer: {"answer": …}.'
)
_ENDS = 'Answer with one JSON object and nothing else: {"answer": …}.'
_NEITHER = "That was neither a call nor an answer."
_TEXT = {"type": "string"}


def told(request: Request) -> Request:
    """The request without tools, which says in its prompt and its schema what may be called."""
    tools = sorted_tools(request.prefix.tools)
    prefix = Prefix(
        system="\n\n".join(one for one in (request.prefix.system, _list(tools)) if one),
        examples=_in_words(request.prefix.examples),
    )
    return msgspec.structs.replace(
        request,
        prefix=prefix,
        messages=_in_words(request.messages),
        schema=_schema(request, tools),
        tool_choice="auto",
    )


def _list(tools: list[Tool]) -> str:
    rows = [f"- {tool.name}: {tool.description} Arguments: {_json(tool.schema)}" for tool in tools]
    return "\n".join([_HOW, "Tools:", *rows])


def _schema(request: Request, tools: list[Tool]) -> Any:
    answer = _object({"answer": _TEXT if request.schema is None else _whole(request.schema)})
    if request.tool_choice == "none":
        return answer
    calls = [_object({"tool": {"const": tool.name}, "arguments": _whole(tool.schema)}) for tool in tools]
    return {"anyOf": calls if request.tool_choice == "required" else [*calls, answer]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _whole(schema: Any) -> Any:
    """A schema as a part of another; one that refers to its own root would mean something else there, and is checked later."""
    if not isinstance(schema, dict):
        return schema
    if has_leaf(schema, lambda leaf: isinstance(leaf, str) and leaf.startswith("#")):
        return {"type": schema["type"]} if "type" in schema else {}
    return schema


def _in_words(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages with calls and results as text."""
    found: list[Message] = []
    neither: set[str] = set()
    for message in messages:
        neither |= {part.id for part in message.parts if isinstance(part, Call) and part.name == UNREADABLE}
        found.append(Message(message.role, tuple(_part(part, neither) for part in message.parts)))
    return tuple(found)


def _part(part: Part, neither: set[str]) -> Part:
    if isinstance(part, Call):
        return Text(_said(part))
    if not isinstance(part, Result):
        return part
    if part.id in neither:
        return Text(f"{_NEITHER} {_HOW}")
    return Text(f"{'The call failed' if part.failed else 'The result'}: {part.text}\n")


def _said(call: Call) -> str:
    if call.name == UNREADABLE:
        return call.arguments if isinstance(call.arguments, str) else _json(call.arguments)
    return _json({"tool": call.name, "arguments": call.arguments})


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def read(request: Request, response: Response) -> Response:
    """The answer of a model that was `told` of the request's tools, as one that has tools would give it. It takes time."""
    if response.finish in ("refused", "filtered"):
        return response
    text = response.message.text
    kept = tuple(part for part in response.message.parts if not isinstance(part, Text))
    try:
        value, _ = read_json(text)
    except NotJson:
        value = None
    if isinstance(value, dict) and isinstance(value.get("tool"), str) and request.tool_choice != "none":
        said: Part = Call("c0", value["tool"][:200], value.get("arguments", {}))
    elif isinstance(value, dict) and "answer" in value:
        answer = value["answer"]
        plain = request.schema is None and isinstance(answer, str)
        return _with(response, (*kept, Text(answer if plain else _json(answer))), response.finish)
    elif request.tool_choice == "none":
        return response  # it cannot be asked to call anything: what it said is its answer
    else:
        said = Call("c0", UNREADABLE, text)
    return _with(response, (*kept, said), "calls")


def _with(response: Response, parts: tuple[Part, ...], finish: Any) -> Response:
    return msgspec.structs.replace(response, message=Message("assistant", parts), finish=finish)
