"""Functions and calls of BFCL through the wire formats: what arrives is what was sent, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.agents import tool as agents_tool
from perdure.agents.tool_search import search_tools
from perdure.llms import schema_tools
from perdure.llms.port import Call, Prefix
from perdure.llms.scripted.script import Asked, Rule, ScriptedCall
from perdure.llms.scripted.scripted_server import ScriptedServer
from tests.bfcl.functions import Question
from tests.llms.helpers import KINDS, asking, call


class _Answers:
    """A script with the answer that comes next."""

    def __init__(self) -> None:
        self.rule = Rule()

    def answer(self, asked: Asked) -> Rule:
        return self.rule


async def through_the_wire(questions: Iterable[Question]) -> tuple[int, list[str]]:
    """How many exchanges there were, and what did not arrive as it was sent."""
    script = _Answers()
    server = ScriptedServer(script)  # type: ignore[arg-type]
    await server.start()
    wrong, count = [], 0
    try:
        for number, one in enumerate(questions):
            tools = {tool.name: (tool.description, tool.schema) for tool in one.tools}
            script.rule = Rule(calls=tuple(ScriptedCall(name, arguments) for name, arguments in one.calls))
            for kind in KINDS:
                request = asking(one.text or "?", prefix=Prefix(one.tools))
                answer = await call(server, kind, request, stream=bool((number + count) % 2))
                count += 1
                if _sent(kind, server.seen[-1].body["tools"]) != tools:
                    wrong.append(f"{one.id} {kind}: other functions arrived")
                got = [(part.name, part.arguments) for part in answer.message.parts if isinstance(part, Call)]
                if got != one.calls:
                    wrong.append(f"{one.id} {kind}: {one.calls} came as {got}")
            wrong += await _in_words(server, script, one)
            count += 1
    finally:
        await server.close()
    return count, wrong


async def _in_words(server: ScriptedServer, script: _Answers, one: Question) -> list[str]:
    """For a model without tools: what is called is written into the prompt, and an answer is JSON."""
    name, arguments = one.calls[0]
    script.rule = Rule(data={"tool": name, "arguments": arguments})
    request = asking(one.text or "?", prefix=Prefix(one.tools))
    answer = schema_tools.read(request, await call(server, "chat", schema_tools.told(request)))
    got = [(part.name, part.arguments) for part in answer.message.parts if isinstance(part, Call)]
    return [] if got == [(name, arguments)] else [f"{one.id} in words: {one.calls[0]} came as {got}"]


def _sent(kind: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    inner = [tool["function"] if kind == "chat" else tool for tool in tools]
    schema = "input_schema" if kind == "anthropic" else "parameters"
    return {tool["name"]: (tool["description"], tool[schema]) for tool in inner}


def recall(questions: list[Question]) -> tuple[float, float, int]:
    """The shares of functions that people need which a search by their own words finds among the first 5 and 10, and how many
    functions there are."""
    known = {tool.name: tool for one in questions for tool in one.tools}
    tools = [
        agents_tool.Tool(tool.name, "function", description=tool.description, schema=tool.schema, effect="read")
        for tool in known.values()
    ]
    few = many = wanted = 0
    for one in questions:
        names = [row["name"] for row in search_tools(tools, one.text)]
        needed = {name for name, _ in one.calls}
        few += len(needed & set(names[:5]))
        many += len(needed & set(names))
        wanted += len(needed)
    return few / wanted, many / wanted, len(tools)
