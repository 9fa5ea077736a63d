"""A program with an agent of a library in a task, which kills itself in the middle of a tool: `python dying.py LIBRARY`, for tests."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure


def note(what: str) -> str:
    with Path("notes").open("a") as notes:
        notes.write(f"{what}\n")
    return what


def dies_once(what: str) -> str:
    """Does its work, and ends the process the first time, before anybody knows."""
    note(what)
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return what


@perdure.task
async def langgraph(ctx: perdure.Context) -> Any:
    from typing import TypedDict

    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    from perdure.ext.langgraph import PerdureSaver

    class Said(TypedDict, total=False):
        text: str

    graph = StateGraph(Said)
    graph.add_node("first", lambda state: {"text": note("first")})
    graph.add_node("deadly", lambda state: {"text": dies_once("deadly")})
    graph.add_node("ask", lambda state: {"text": interrupt({"may": "I?"})["decision"]})
    graph.add_edge(START, "first")
    graph.add_edge("first", "deadly")
    graph.add_edge("deadly", "ask")
    saver = PerdureSaver(ctx)
    return (await saver.run(graph.compile(checkpointer=saver), {}))["text"]


@perdure.task
async def pydantic_ai(ctx: perdure.Context) -> Any:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from perdure.ext.pydantic_ai import Durable

    def answers(messages: list[Any], info: Any) -> ModelResponse:
        turn = note(f"turn {sum(isinstance(message, ModelResponse) for message in messages) + 1}")
        if turn == "turn 1":
            return ModelResponse(parts=[ToolCallPart("note", {"what": "first"})])
        if turn == "turn 2":
            return ModelResponse(parts=[ToolCallPart("dies_once", {"what": "deadly"})])
        if turn == "turn 3":
            return ModelResponse(parts=[ToolCallPart("pay", {"cents": 7})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    def pay(cents: int) -> str:
        note("pay")
        return "approve"

    tools: list[Any] = [note, dies_once, Tool(pay, requires_approval=True)]
    return (await Agent(FunctionModel(answers), tools=tools, capabilities=[Durable(ctx)]).run("Do it.")).output


if __name__ == "__main__":
    __import__({"langgraph": "perdure.ext.langgraph", "pydantic_ai": "pydantic_ai.models.function"}[sys.argv[1]])
    run = perdure.run({"langgraph": langgraph, "pydantic_ai": pydantic_ai}[sys.argv[1]], run_id="r1")
    print(run.state, run.outputs)
