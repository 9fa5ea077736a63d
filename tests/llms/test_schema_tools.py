"""Tools for models that have none: told in words, answered in JSON, and the same loop around both."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.agents.transcript import read_turns
from perdure.llms.port import Call, Message, Prefix, Request, Response, Result, Text, Tool, Usage
from perdure.llms.schema_tools import UNREADABLE, read, told
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.llms.structured import find_problems
from tests.agents.desk import tools, work

did: Counter[str] = Counter()


def find(id: int) -> dict[str, Any]:
    """Finds a customer."""
    did[f"find {id}"] += 1
    return {"id": id, "name": f"customer {id}"}


(FIND,) = tools(find)
SCHEMA: dict[str, Any] = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
TOOL = Tool(
    "find", "Finds a customer.", {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
)


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def agent(**more: Any) -> dict[str, Any]:
    return {"model": "scripted", "prompt": "Do it.", "tools": [{"function": FIND, "effect": "read"}], **more}


def asking(**more: Any) -> Request:
    return Request(model="m", prefix=Prefix((TOOL,), "Be brief."), messages=(Message("user", (Text("Go"),)),), **more)


def said(text: str) -> Response:
    return Response(message=Message("assistant", (Text(text),)), finish="stop", usage=Usage(), model="m")


async def test_a_model_without_tools_calls_them_and_answers():
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "data": {"tool": "find", "arguments": {"id": 7}}},
        {"data": {"answer": {"n": 7}}},
    ]
    with ScriptedModel(rules, tools="schema") as model:
        output, journal = await work(agent(schema=SCHEMA))
    assert (output.output["output"], did) == ({"n": 7}, {"find 7": 1})
    assert [request.prefix.tools for request in model.seen] == [(), ()]
    assert all("- find: Finds a customer." in request.prefix.system for request in model.seen)
    assert "customer 7" in model.seen[1].messages[-1].text
    assert [turn.drift for turn in read_turns(journal.steps)] == [False, False]


async def test_what_is_neither_a_call_nor_an_answer_is_said_to_the_model():
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "say": "Let me see {"},
        {"when": {"turn": 2}, "data": {"tool": "fly", "arguments": {}}},
        {"when": {"turn": 3}, "data": {"tool": "find", "arguments": {"id": "seven"}}},
        {"data": {"answer": "nobody"}},
    ]
    with ScriptedModel(rules, tools="schema") as model:
        output, journal = await work(agent())
    assert output.output["output"] == "nobody"
    told_of = [request.messages[-1].text for request in model.seen[1:]]
    assert told_of[0].startswith("That was neither a call nor an answer.")
    assert "There is no tool" in told_of[1]
    assert "do not fit" in told_of[2]
    assert model.seen[1].messages[-2].text == "Let me see {"
    assert not did
    assert [turn.drift for turn in read_turns(journal.steps)] == [False] * 4


async def test_the_last_turn_is_asked_for_an_answer_alone():
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "data": {"tool": "find", "arguments": {"id": 1}}},
        {"data": {"answer": "done"}},
    ]
    with ScriptedModel(rules, tools="schema") as model:
        output, _ = await work(agent(max_turns=2))
    assert output.output["output"] == "done"
    assert find_problems(model.seen[-1].schema, {"tool": "find", "arguments": {"id": 1}})
    assert not find_problems(model.seen[-1].schema, {"answer": "done"})


async def test_a_native_model_that_stands_in_is_given_its_tools():
    """`fallback` may name models of both kinds; each is asked in its own way, and the transcript is one."""
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": [{"name": "find", "arguments": {"id": 3}}]},
        {"say": "done"},
    ]
    with ScriptedModel(rules) as model:
        _, journal = await work(agent())
    assert [request.prefix.tools[0].name for request in model.seen] == ["find", "find"]
    assert "tools" not in journal.steps["model/1"]["sent"]


@pytest.mark.parametrize(
    ("text", "parts", "finish"),
    [
        ('{"answer": "x"}', (Text("x"),), "stop"),
        ('{"answer": {"a": 1}}', (Text('{"a":1}'),), "stop"),
        ('{"tool": "find", "arguments": {"id": 1}}', (Call("c0", "find", {"id": 1}),), "calls"),
        ('```json\n{"tool": "find"}\n```', (Call("c0", "find", {}),), "calls"),
        ("hello", (Call("c0", UNREADABLE, "hello"),), "calls"),
        ("[1]", (Call("c0", UNREADABLE, "[1]"),), "calls"),
        ('{"tool": 7}', (Call("c0", UNREADABLE, '{"tool": 7}'),), "calls"),
    ],
)
def test_an_answer_is_read_as_a_model_with_tools_would_have_said_it(text, parts, finish):
    found = read(asking(), said(text))
    assert (found.message.parts, found.finish) == (parts, finish)


def test_a_call_in_the_last_turn_is_an_answer_and_no_call():
    text = '{"tool": "find", "arguments": {"id": 1}}'
    assert read(asking(tool_choice="none"), said(text)) == said(text)


def test_the_schema_takes_calls_that_fit_and_no_others():
    schema = told(asking()).schema
    assert not find_problems(schema, {"tool": "find", "arguments": {"id": 1}})
    assert not find_problems(schema, {"answer": "x"})
    for wrong in ({"tool": "find", "arguments": {}}, {"tool": "other", "arguments": {"id": 1}}, {"answer": 1}, {}):
        assert find_problems(schema, wrong), wrong


def test_a_schema_that_refers_to_its_own_root_is_left_to_the_check_of_the_call():
    refers = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "integer"}}}
    request = Request(model="m", prefix=Prefix((Tool("t", "T.", refers),)))
    assert not find_problems(told(request).schema, {"tool": "t", "arguments": {"x": "not looked at"}})


def test_a_result_that_speaks_of_neither_is_told_as_it_is():
    calls = Message("assistant", (Call("t1.0", "find", {"id": 1}),))
    results = Message("user", (Result("t1.0", f"a text with {UNREADABLE} in it"),))
    request = Request(model="m", prefix=Prefix((TOOL,)), messages=(calls, results))
    assert told(request).messages[1].text == f"The result: a text with {UNREADABLE} in it\n"
