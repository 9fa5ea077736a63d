"""LangGraph with its SQLite checkpointer, in one process.

Written as its documentation does: "Graph API" (nodes, edges, `Send` for map-reduce) and "Persistence"
(`SqliteSaver`, a thread for each run), docs.langchain.com/oss/python/langgraph/use-graph-api and …/durable-execution. `durability="sync"` saves each
step before the next begins; SQLite's default is `synchronous=FULL`. After a crash the application invokes each thread again with `None`.

The saver that is not asynchronous is used, in the application's own thread: it was the faster of the two.
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from bench.peers.program import Shape, main
from bench.peers.work import step


class State(TypedDict):
    run: str
    done: Annotated[list[int], operator.add]


class Item(TypedDict):
    run: str
    number: int


def _node(name: str) -> Any:
    def node(state: State) -> dict[str, list[int]]:
        return {"done": [step(state["run"], name)]}

    return node


def _item(item: Item) -> dict[str, list[int]]:
    return {"done": [step(item["run"], f"m{item['number']}")]}


def build(shape: Shape) -> StateGraph[Any]:
    graph: StateGraph[Any] = StateGraph(State)
    if shape.kind == "chain":
        before = START
        for number in range(shape.size):
            name = f"n{number}"
            graph.add_node(name, _node(name))
            graph.add_edge(before, name)
            before = name
        graph.add_edge(before, END)
    elif shape.kind == "diamond":
        for name in "abcd":
            graph.add_node(name, _node(name))
        graph.add_edge(START, "a")
        graph.add_edge("a", "b")
        graph.add_edge("a", "c")
        graph.add_edge(["b", "c"], "d")
        graph.add_edge("d", END)
    else:

        def spread(state: State) -> list[Send]:
            return [Send("item", {"run": state["run"], "number": number}) for number in range(shape.size)]

        graph.add_node("first", _node("first"))
        graph.add_node("item", _item)
        graph.add_node("last", _node("last"))
        graph.add_edge(START, "first")
        graph.add_conditional_edges("first", spread, ["item"])
        graph.add_edge("item", "last")
        graph.add_edge("last", END)
    return graph


class LangGraph:
    at_once = 1  # one connection writes, and one thread runs the steps

    async def open(self, folder: Path) -> None:
        self._context = SqliteSaver.from_conn_string(str(folder / "checkpoints.db"))
        self._saver = self._context.__enter__()
        self._graphs: dict[Shape, Any] = {}

    async def prepare(self, shape: Shape) -> None:
        if shape not in self._graphs:
            self._graphs[shape] = build(shape).compile(checkpointer=self._saver)

    async def run(self, shape: Shape, run: str) -> None:
        self._invoke(shape, run, {"run": run, "done": []})

    async def resume(self, shape: Shape, runs: list[str]) -> None:
        for run in runs:
            self._invoke(shape, run, None)

    def _invoke(self, shape: Shape, run: str, given: Any) -> None:
        config = {"configurable": {"thread_id": run}, "recursion_limit": 1000}
        self._graphs[shape].invoke(given, config, durability="sync")

    async def close(self) -> None:
        self._context.__exit__(None, None, None)


if __name__ == "__main__":
    main(LangGraph())
