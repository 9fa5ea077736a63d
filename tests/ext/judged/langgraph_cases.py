"""What `test_langgraph.py` runs where LangGraph is: LangGraph's own conformance kit, and graphs that die and go on."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from perdure.asks import Approval, Suspended
from perdure.ext.langgraph import PerdureSaver
from perdure.outcomes import Failure
from perdure.transport import Task
from tests.agents.desk import DeskContext, Dies, Journal

did: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def context(journal: Journal) -> DeskContext:
    kept = {"data": None, "steps": dict(journal.steps)} if journal.steps else None
    task = Task(run_id="r1", node="a", type="task", idempotency_key="k", checkpoint=kept, asked=dict(journal.asked))
    return DeskContext(task, journal)


class Reopened(PerdureSaver):
    """A saver that reads everything anew from its steps before it answers: what was only in memory is lost."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(context(journal))
        self.journal = journal

    def get_tuple(self, config: Any) -> Any:
        return PerdureSaver(context(self.journal)).get_tuple(config)

    def list(self, config: Any, **terms: Any) -> Any:
        return PerdureSaver(context(self.journal)).list(config, **terms)


class ReopenedKit(Reopened):
    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)


@pytest.mark.parametrize("kind", ["kept in memory", "read from its steps"])
async def test_langgraphs_own_kit_finds_nothing(kind):
    @checkpointer_test(name="PerdureSaver")
    async def registered():
        journal = Journal()
        yield PerdureSaver(context(journal)) if kind == "kept in memory" else ReopenedKit(journal)

    report = await validate(registered)
    assert report.passed_all(), report.to_dict()
    found = report.to_dict()
    print(kind, found["conformance_level"], {name: one["tests_passed"] for name, one in found["results"].items()})
    assert all(one["tests_failed"] == 0 and one["tests_passed"] > 0 for one in found["results"].values()), found


class Said(TypedDict):
    out: Annotated[list[str], operator.add]


def count(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        did[name] += 1
        return {"out": [name]}

    return node


def fan(state: Any) -> list[Send]:
    return [Send("each", {"n": number}) for number in range(3)]


def each(state: Any) -> dict[str, Any]:
    did[f"each {state['n']}"] += 1
    return {"out": [f"each {state['n']}"]}


def inner() -> Any:
    graph = StateGraph(Said)
    graph.add_node("deep", count("deep"))
    graph.add_node("deeper", count("deeper"))
    graph.add_edge(START, "deep")
    graph.add_edge("deep", "deeper")
    return graph.compile()


def whole() -> StateGraph:
    """Nodes one after the other, three side by side, and a graph in a graph."""
    graph = StateGraph(Said)
    graph.add_node("first", count("first"))
    graph.add_node("each", each)
    graph.add_node("inner", inner())
    graph.add_node("last", count("last"))
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", fan, ["each"])
    graph.add_edge("each", "inner")
    graph.add_edge("inner", "last")
    graph.add_edge("last", END)
    return graph


async def enter(journal: Journal, graph: StateGraph, **more: Any) -> Any:
    ctx = context(journal)
    saver = PerdureSaver(ctx)
    try:
        return await saver.run(graph.compile(checkpointer=saver), {"out": []}, **more)
    except Suspended:
        journal.asks += ctx.asks or []
        raise


async def test_a_crash_at_any_moment_repeats_no_node_that_was_kept():
    journal = Journal()
    said = await enter(journal, whole())
    assert set(said["out"]) == {"first", "each 0", "each 1", "each 2", "deep", "deeper", "last"}
    assert all(times == 1 for times in did.values())
    before = dict(did)
    assert await enter(journal, whole()) == said  # it had ended: nothing runs again
    assert dict(did) == before
    points = journal.points
    assert points > 20
    for point in range(1, points + 1):
        did.clear()
        journal = Journal(point)
        with pytest.raises(Dies):
            await enter(journal, whole())
        again = await enter(journal, whole())
        assert sorted(again["out"]) == sorted(said["out"]), point
        assert sum(did.values()) <= 7 + 3, (point, did)  # at most what was under way
        assert max(did.values()) <= 2, (point, did)


def asking() -> StateGraph:
    def ask(state: Any) -> dict[str, Any]:
        did["ask"] += 1
        one = interrupt({"question": "one"})
        two = interrupt({"question": "two"})
        return {"out": [f"{one['data']} {two['data']}"]}

    def deep(state: Any) -> dict[str, Any]:
        return {"out": [interrupt("deep")["data"]]}

    under = StateGraph(Said)
    under.add_node("deep", deep)
    under.add_edge(START, "deep")
    graph = StateGraph(Said)
    graph.add_node("ask", ask)
    graph.add_node("under", under.compile())
    graph.add_edge(START, "ask")
    graph.add_edge(START, "under")
    return graph


async def until_it_ends(journal: Journal, points: int = 0) -> Any:
    """Enter until there is an answer: each question is answered by what it shows."""
    for _ in range(20):
        before = len(journal.asks)
        try:
            return await enter(journal, asking())
        except Dies:
            continue
        except Suspended:
            for one in journal.asks[before:]:
                journal.asked[one["name"]] = one["content"]
                shown = one["shown"]
                answer = shown if isinstance(shown, str) else shown["question"]
                journal.steps[one["name"]] = {"decision": "approve", "data": f"about {answer}"}
    raise AssertionError("it does not end")


async def test_what_a_graph_interrupts_for_is_asked_of_people_once():
    journal = Journal()
    said = await until_it_ends(journal)
    assert sorted(said["out"]) == ["about deep", "about one about two"]
    assert sorted(str(one["shown"]) for one in journal.asks) == ["deep", "{'question': 'one'}", "{'question': 'two'}"]
    for point in range(1, journal.points + 1):
        crashed = Journal(point)
        assert await until_it_ends(crashed) == said, point
        shown = Counter(str(one["shown"]) for one in crashed.asks)
        assert set(shown.values()) == {1}, (point, shown)  # nobody is asked twice


async def test_what_is_asked_for_can_be_said():
    journal = Journal()
    with pytest.raises(Suspended):
        await enter(journal, asking(), ask=lambda shown: Approval(show="sealed", approvers=["ann"]))
    assert [(one["shown"], one["approvers"]) for one in journal.asks] == [("sealed", ["ann"])] * 2


async def test_an_async_handler_that_does_not_await_its_graph_is_told():
    saver = PerdureSaver(context(Journal()))
    with pytest.raises(Failure, match="ainvoke"):
        saver.delete_thread("t")


async def test_two_savers_of_one_handler_keep_apart():
    journal = Journal()
    for name in ("one", "two"):
        ctx = context(journal)
        saver = PerdureSaver(ctx, name=name)
        await saver.run(whole().compile(checkpointer=saver), {"out": []})
    assert did["first"] == 2
    assert {step.split("/")[0] for step in journal.steps} == {"one", "two"}
