"""The agent of `bench.agents` in LangGraph: `python agents_langgraph.py FOLDER TURNS CALLS BYTES`, in its own environment.

Written as its documentation does ("Quickstart: calculator agent" and "Persistence"): a node that asks the model, one that calls tools, messages that are
added up, and `SqliteSaver` with `durability="sync"`. Tools of one turn are called one after the other: they take no time here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def build(calls: int, said: int) -> StateGraph[Any]:
    def model(state: State) -> dict[str, list[AIMessage]]:
        turn = sum(isinstance(one, AIMessage) for one in state["messages"])
        wanted: list[Any] = []
        if turn < int(str(state["messages"][0].content)):
            wanted = [
                {"name": "look", "args": {"key": f"{turn}.{n}"}, "id": f"c{turn}_{n}", "type": "tool_call"}
                for n in range(calls)
            ]
        return {"messages": [AIMessage(f"turn {turn} ".ljust(said, "m"), tool_calls=wanted)]}

    def tools(state: State) -> dict[str, list[ToolMessage]]:
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        given = [(one["id"], f"{one['args']['key']} ".ljust(said, "r")) for one in last.tool_calls]
        return {"messages": [ToolMessage(text, tool_call_id=id) for id, text in given]}

    def after(state: State) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph: StateGraph[Any] = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", after, ["tools", END])
    graph.add_edge("tools", "model")
    return graph


def main(folder: Path, turns: int, calls: int, said: int) -> dict[str, Any]:
    took: dict[str, Any] = {}
    for name, many in (("warm", 3), ("measured", turns)):
        before = _bytes_in(folder)
        with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            graph = build(calls, said).compile(checkpointer=saver)
            began, cpu = time.perf_counter(), time.process_time()
            config: Any = {"configurable": {"thread_id": name}, "recursion_limit": 10_000}
            graph.invoke({"messages": [HumanMessage(str(many))]}, config, durability="sync")
            took = {
                "wall_ms": (time.perf_counter() - began) * 1000 / (many * calls),
                "cpu_ms": (time.process_time() - cpu) * 1000 / (many * calls),
                "said": said * many * (calls + 1),
            }
        took["bytes"] = _bytes_in(folder) - before  # without what SQLite writes ahead
    return took


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))))
