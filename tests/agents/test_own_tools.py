"""The tools that Perdure has itself: pipelines over values by handle, and delegation."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from perdure import invariants
from perdure.agents.call_guard import Wish, decide
from perdure.agents.own_tools import bind, find_misuse, read_own
from perdure.agents.tool import Tool
from perdure.agents.tool_search import search_tools
from perdure.agents.toolbox import check_tools, find_tools, read_tools
from perdure.agents.transcript import read_turns
from perdure.agents.transcript_view import Open, guarded
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.model.labels import Label
from tests.agents.desk import Journal, tools, work
from tests.agents.test_loop import call, told_in
from tests.engine.helpers import compiled, ended, events, output_of, running, start, task, workflow

did: Counter[str] = Counter()


def orders(year: int) -> list[dict[str, Any]]:
    """Lists the orders of a year."""
    did[f"orders {year}"] += 1
    return [{"id": number, "price": (number * 37) % 101, "note": "x" * 100} for number in range(200)]


def total(rows: list[dict[str, Any]]) -> int:
    did["total"] += 1
    return sum(row["price"] for row in rows)


def post(to: str) -> str:
    """Sends letters on paper."""
    did[f"post {to}"] += 1
    return f"sent to {to}"


ORDERS, TOTAL, POST = tools(orders, total, post)
READS = ({"function": ORDERS, "effect": "read"}, {"function": TOTAL, "effect": "read"})
API = {"execute_pipeline": {"origins": ["https://api.example"]}}
SORT: list[dict[str, Any]] = [{"step": "table_sort", "field": "price", "order": "desc"}, {"step": "top_k", "k": 2}]


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def agent(*entries: Any, **more: Any) -> dict[str, Any]:
    return {"model": "scripted", "prompt": "Do it.", "tools": list(entries), **more}


def handle(name: str) -> dict[str, str]:
    return {"$handle": name}


def child_of(ask: dict[str, Any]) -> Any:
    if ask["kind"] == "approval":
        return {"decision": "approve", "decided_by": "ann", "comments": "", "data": None}
    return {"state": "completed", "output": {"by": ask["workflow"], **ask["inputs"]}, "error": None}


LONG: list[dict[str, Any]] = [
    {"when": {"turn": 1}, "calls": [call("orders", year=2026)]},
    {
        "when": {"turn": 2},
        "calls": [
            call("execute_pipeline", pipeline=SORT, input=handle("h1.0")),
            call("total", rows=handle("h1.0")),
            call("delegate_to_agent", agent="researcher", task="Look.", inputs={"n": 1}, budget={"usd": 2, "calls": 3}),
            call("read_handle", handle="h1.0", path="199", limit=1),
        ],
    },
    {"when": {"turn": 3}, "calls": [call("search_tools", query="send a letter")]},
    {"when": {"turn": 4}, "calls": [call("use_tool", name="post", arguments={"to": "ann"})]},
    {"say": "done"},
]


def long_agent() -> dict[str, Any]:
    delegate = {"delegate_to_agent": {"agents": ["researcher", "code_interpreter"], "budget": {"usd": 0.5}}}
    post = {"function": POST, "effect": "send", "idempotent": True}
    return agent(*READS, "execute_pipeline", delegate, "search_tools", post)


def spoken(journal: Journal) -> list[Any]:
    return [[one and (one.text, one.label) for one in turn.made] for turn in read_turns(journal.steps)]


async def test_a_large_value_goes_from_tool_to_tool_without_passing_through_the_model():
    with ScriptedModel(LONG) as model:
        _, journal = await work(long_agent(), child_of)
    shown = json.loads(told_in(model.seen[1])[0])
    assert (shown["handle"], shown["type"], shown["rows"], len(shown["sample"])) == ("h1.0", "table", 200, 5)
    assert [one["name"] for one in shown["columns"]] == ["id", "price", "note"]
    sorted_, summed, delegated, part = (json.loads(text) for text in told_in(model.seen[2]))
    assert [row["price"] for row in sorted_] == [100, 100]
    assert summed == sum((number * 37) % 101 for number in range(200))
    assert delegated == {"state": "completed", "output": {"by": "researcher", "n": 1, "task": "Look."}}
    assert part["id"] == 199
    ask, asked = journal.asks
    assert asked["shown"]["tool"] == "post"  # another agent wrote to it
    assert (ask["workflow"], ask["budget"]) == ("researcher", {"usd": 500_000, "calls": 3})
    assert len(journal.steps["t1.0"]["value"]) == 200
    assert [tool.name for tool in model.seen[0].prefix.tools][-2:] == ["read_handle", "use_tool"]


@pytest.mark.slow
async def test_a_crash_at_any_moment_repeats_no_call_of_these_tools_that_was_kept():
    with ScriptedModel(LONG) as model:
        _, journal = await work(long_agent(), child_of)
        whole, said = journal.points, spoken(journal)
        assert dict(did) == {"orders 2026": 1, "total": 1, "post ann": 1}
        for point in range(1, whole + 1):
            did.clear()
            model.seen.clear()
            journal = Journal(point)
            await work(long_agent(), child_of, journal)
            assert spoken(journal) == said, point
            assert len(model.seen) <= 6, point
            assert set(did.values()) <= {1, 2}, point
            assert sum(did.values()) <= 4, point
            assert len({ask["content"] for ask in journal.asks}) == 2, point


async def test_what_a_pipeline_cannot_do_is_told_before_anything_is_done():
    bad = [
        call("execute_pipeline", pipeline=[{"step": "table_srt", "field": "x"}]),
        call("execute_pipeline", pipeline=SORT, input=handle("h9.9")),
        call("execute_pipeline", pipeline=[{"step": "http_request", "url": "https://api.example.evil/x"}]),
        call("execute_pipeline", pipeline=[{"step": "http_request", "url": "https://api.example@evil.example/"}]),
        call("execute_pipeline", pipeline=[{"step": "http_request", "url": "api.example", "follow_redirects": True}]),
        call("execute_pipeline", pipeline=[{"step": "http_request", "url": "https://api.example/"}] * 11),
        call("read_handle", handle="h9.9"),
    ]
    with ScriptedModel([{"when": {"turn": 1}, "calls": bad}, {"say": "done"}]) as model:
        _, journal = await work(agent(API))
    told = told_in(model.seen[1])
    words = [
        "did you mean 'table_sort'?",
        "there is no handle 'h9.9'",
        "may go to https://api.example",
        "may go to",
        "follows no redirects",
    ]
    for text, word in zip(told, [*words, "10 requests at most", "there is no handle"], strict=True):
        assert word in text
    assert [one for one in journal.written if one.startswith("t")] == ["t1.6"]


def pipelined(*steps: dict[str, Any]) -> Any:
    [tool] = read_tools({"tools": [API]})
    arguments = {"pipeline": list(steps)}
    assert find_misuse(tool, arguments) is None
    return bind(tool, arguments)


def test_what_a_pipeline_may_do_depends_on_its_requests():
    get, post = ({"step": "http_request", "url": "api.example/x", "method": method} for method in ("GET", "post"))
    quiet, _ = pipelined(*SORT)
    assert (quiet.effect, quiet.is_once, quiet.returns) == ("read", False, Label())
    asks, given = pipelined(get, *SORT)
    assert (asks.effect, asks.is_once, asks.returns) == ("send", False, Label("untrusted"))
    assert given["pipeline"][0]["follow_redirects"] is False
    assert pipelined(get, post)[0].is_once
    assert read_tools({"tools": ["execute_pipeline"]})[0].effect == "read"


@pytest.mark.parametrize(
    ("label", "effect", "verdict"),
    [
        (Label(), "send", "allow"),
        (Label("untrusted"), "send", "ask"),
        (Label("untrusted"), "read", "allow"),
        (Label("untrusted", "private"), "send", "deny"),
        (Label("untrusted", "private"), "read", "allow"),
        (Label("user", "private"), "send", "allow"),
    ],
)
def test_an_agent_that_was_told_by_strangers_does_not_delegate_what_is_private(label, effect, verdict):
    tool = read_own("delegate_to_agent", {"agents": ["a"], "effect": effect, "approve": "tainted"})
    bound, _ = bind(tool, {"agent": "a"})
    assert decide(Wish(bound, {"agent": "a"}, label)).verdict == verdict
    if effect == "send" and verdict == "deny":
        always = read_own("delegate_to_agent", {"agents": ["a"], "approve": "always"})
        assert decide(Wish(bind(always, {"agent": "a"})[0], {"agent": "a"}, label)).verdict == "deny"


async def test_delegation_has_bounds_and_names_one_agent():
    many = [call("delegate_to_agent", agent_type="a", task=str(n)) for n in range(9)]
    wrong = [
        call("delegate_to_agent", task="x"),
        call("delegate_to_agent", agent="b"),
        call("delegate_to_agent", agent="code_interpreter", inputs={"code": "1"}),
        call("delegate_to_agent", agent="code_interpreter", inputs={"code": "def main(input): pass", "x": 1}),
    ]
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": many},
        {"when": {"turn": 2}, "calls": wrong},
        {"say": "done"},
    ]
    config = agent({"delegate_to_agent": {"agents": ["a", "code_interpreter"], "effect": "read"}})
    with ScriptedModel(rules) as model:
        _, journal = await work(config, child_of)
    assert len(journal.asks) == 8
    assert "8 times a turn are the most" in told_in(model.seen[1])[8]
    told = told_in(model.seen[2])
    for text, words in zip(told, ["one of agent and agent_type", '"b" is not one of', "main", "and no x"], strict=True):
        assert words in text


async def test_a_value_that_is_too_large_to_be_read_is_not_approved_unseen():
    """What a person is asked about is the call with all that its handles stand for."""
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": [call("orders", year=2026)]},
        {"when": {"turn": 2}, "calls": [call("total", rows=handle("h1.0"))]},
        {"say": "done"},
    ]
    strange = {"function": ORDERS, "effect": "read", "returns": "untrusted"}
    sends = {"function": TOTAL, "effect": "send"}
    with ScriptedModel(rules) as model:
        _, journal = await work(agent(strange, sends, "execute_pipeline"), child_of)
    assert "a person is shown" in told_in(model.seen[2])[0]
    assert (journal.asks, did["total"]) == ([], 0)


async def test_tools_behind_search_are_found_and_used_under_the_same_guard():
    strange = {"function": ORDERS, "effect": "read", "returns": "untrusted"}
    rules: list[dict[str, Any]] = [
        {
            "when": {"turn": 1},
            "calls": [
                call("search_tools", query="letters", limit=1),
                call("search_tools", query="?!"),
                call("use_tool", name="nothing", arguments={}),
                call("use_tool", name="use_tool", arguments={"name": "post", "arguments": {"to": "ann"}}),
                call("use_tool", name="post", arguments={"too": 1}),
                call("use_tool", name="orders", arguments={"year": 1}),
            ],
        },
        {"when": {"turn": 2}, "calls": [call("use_tool", name="post", arguments={"to": "ann"})]},
        {"say": "done"},
    ]
    config = agent("search_tools", strange, {"function": POST, "effect": "send"})
    with ScriptedModel(rules) as model:
        _, journal = await work(config, lambda ask: {"decision": "reject", "comments": "", "data": None})
    assert [tool.name for tool in model.seen[0].prefix.tools] == ["search_tools", "use_tool"]
    found, none, unknown, nested, misfit, _ = told_in(model.seen[1])
    [hit] = json.loads(found)
    assert (hit["name"], hit["effect"], list(hit["parameters"]["properties"])) == ("post", "send", ["to"])
    assert none == "[]"
    assert "There is no tool 'nothing'" in unknown
    assert "it calls another tool" in nested
    assert "'to'" in misfit or "too" in misfit
    [ask] = journal.asks
    assert (ask["shown"]["tool"], ask["shown"]["arguments"]) == ("post", {"to": "ann"})
    assert dict(did) == {"orders 1": 1}
    [turn] = [one for one in read_turns(journal.steps) if one.number == 2]
    assert [made and (made.tool, made.denied) for made in turn.made] == [("post", True)]
    assert [one["tool"] for one in guarded(journal.steps, Open())][-2:] == ["orders", "post"]


def test_an_agent_may_have_many_tools_if_it_searches():
    many = [{"function": f"crm:f{number}", "effect": "read"} for number in range(100)]
    assert any("found by search" in message for _, message in check_tools({"tools": many}))
    assert list(check_tools({"tools": ["search_tools", *many]})) == []


def test_names_weigh_more_than_descriptions_and_those_more_than_parameters():
    by_name = Tool("refund_order", "function", description="x")
    by_words = Tool("a", "function", description="Gives a refund.")
    by_parameter = Tool("b", "function", schema={"properties": {"refund": {"description": "y"}}})
    other = Tool("c", "function", description="Lists things.")
    found = search_tools([other, by_parameter, by_words, by_name], "refunds of an order")
    assert [one["name"] for one in found] == ["refund_order", "a", "b"]


def test_a_tool_of_perdure_is_named_without_more():
    config = {"available_tools": ["execute_pipeline", "ask_human"]}
    assert [tool.name for tool in find_tools(config)] == ["execute_pipeline", "ask_human", "read_handle"]


@pytest.mark.slow
async def test_an_agent_delegates_to_a_workflow_and_to_the_sandbox_in_one_run(tmp_path):
    code = "def main(input):\n    return sum(row['price'] for row in input)\n"
    rules: list[dict[str, Any]] = [
        {
            "when": {"turn": 1},
            "calls": [call("orders", year=2026), call("delegate_to_agent", agent="adder", inputs={"id": 4})],
        },
        {
            "when": {"turn": 2},
            "calls": [
                call(
                    "delegate_to_agent", agent_type="code_interpreter", inputs={"code": code, "input": handle("h1.0")}
                ),
                call(
                    "execute_pipeline", pipeline=[{"step": "jq_transform", "program": "length"}], input=handle("h1.0")
                ),
            ],
        },
        {"say": "done"},
    ]
    child = workflow(
        task("inner", "add", args={"a": "{{ inputs.id }}", "b": 1}), name="adder", outputs={"n": "{{ inner.sum }}"}
    )
    tools_ = [
        *READS,
        "execute_pipeline",
        {"delegate_to_agent": {"agents": ["adder", "code_interpreter"], "effect": "read"}},
    ]
    with ScriptedModel(rules) as model:
        async with running(tmp_path) as engine:
            await engine.workflows.register(compiled(child))
            await start(engine, workflow({"id": "agent", "type": "agent", "config": agent(*tools_)}))
            state = await ended(engine)
            assert output_of(state, "agent")["output"] == "done"
            said = await events(engine.journal)
    assert json.loads(told_in(model.seen[1])[1]) == {"state": "completed", "output": {"n": 5}}
    assert told_in(model.seen[2]) == [str(sum((number * 37) % 101 for number in range(200))), "200"]
    ir = compiled(workflow({"id": "agent", "type": "agent", "config": agent(*tools_)})).ir
    assert invariants.check(said, {ir.hash: ir}) == []
