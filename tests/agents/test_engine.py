"""Agents in the real engine: children, people, routes and budgets, and a process that dies at every append."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import msgspec
import pytest

from perdure import invariants
from perdure.agents.toolbox import read_tools
from perdure.kernel import events as e
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.nodes import builtin
from perdure.nodes.config_checks import find_problems
from perdure.runtime.coordinator.requests import Request
from tests.agents.desk import tools
from tests.agents.test_loop import LONG, SUM, call
from tests.engine.helpers import (
    compiled,
    crash,
    ended,
    events,
    finish,
    opened,
    output_of,
    running,
    start,
    state_of,
    task,
    until,
    workflow,
)
from tests.engine.test_crash_points import dies_at

did: Counter[str] = Counter()
STEP = 1 if os.environ.get("PERDURE_TEST_LONG") else 4
"""At which appends a process dies."""


def lookup(id: int) -> dict[str, Any]:
    did[f"lookup {id}"] += 1
    return {"id": id}


async def weather(city: str) -> str:
    did[f"weather {city}"] += 1
    return f"fine in {city}"


def mail(to: str, text: str) -> str:
    did[f"mail {to}"] += 1
    return "sent"


LOOKUP, WEATHER, MAIL = tools(lookup, weather, mail)
REFUND = workflow(
    task("inner", "add", args={"a": "{{ inputs.id }}", "b": 1}), name="refund", outputs={"n": "{{ inner.sum }}"}
)


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def agent(*entries: Any, **more: Any) -> dict[str, Any]:
    outer = {key: more.pop(key) for key in {"branch", "dependencies", "retry"} & more.keys()}
    config = {"model": "scripted", "prompt": "Do it.", "tools": list(entries), **more}
    return {"id": "agent", "type": "agent", "config": config, **outer}


READ = {"function": LOOKUP, "effect": "read"}
LONG_AGENT = agent(
    READ,
    {"function": WEATHER, "effect": "read"},
    {"function": MAIL, "effect": "send", "idempotent": True, "approve": "always"},
    {"workflow": "refund", "effect": "write"},
    "ask_human",
    schema=SUM,
)


async def answer_all(engine: Any) -> Any:
    """Approve whatever is asked for, until the run ends. (Without `wait_for`, which may swallow that a test cancels it.)"""
    voted: set[str] = set()
    async for _ in engine.runs.follow("r1"):
        for approval in _pending(await engine.runs.state("r1")):
            if approval not in voted:
                voted.add(approval)
                vote = Request(kind="vote", run_id="r1", approval=approval, decision="approve", by="ann")
                await engine.runs.request(vote)
    return await engine.runs.state("r1")


def _pending(state: Any) -> list[str]:
    asks = (state.find("agent").asks or {}) if state.find("agent") is not None else {}
    return [one.approval for one in asks.values() if one.approval and one.approval in state.approvals]


async def test_an_agent_uses_functions_workflows_and_people_in_one_run(tmp_path):
    with ScriptedModel(LONG) as model:
        async with running(tmp_path) as engine:
            await engine.workflows.register(compiled(REFUND))
            await start(engine, workflow(LONG_AGENT))
            await answer_all(engine)
            state = await ended(engine)
            assert state.state == "completed", state.error
            assert output_of(state, "agent")["output"] == {"sum": 3}
            said = await events(engine.journal)
    assert dict(did) == {"lookup 1": 1, "lookup 2": 1, "weather Rome": 1, "weather Oslo": 1, "mail ann": 1}
    assert len(model.seen) == 5
    steps = {one.step: one.data for one in said if isinstance(one, e.NodeCheckpointed)}
    assert steps["t2.1"]["output"] == {"n": 8}
    [shown] = [one.shown for one in said if isinstance(one, e.ApprovalRequested) and "tool" in one.shown]
    assert (shown["tool"], shown["arguments"]) == ("mail", {"to": "ann", "text": "hi"})


def _changed(event: Any, step: str, change: Any) -> Any:
    if not isinstance(event, e.NodeCheckpointed) or event.step != step:
        return event
    data = msgspec.json.decode(msgspec.json.encode(event.data))
    change(data)
    return msgspec.structs.replace(event, data=data)


def _renamed(event: Any) -> Any:
    is_it = isinstance(event, e.NodeCheckpointed) and event.step == "t2.0"
    return msgspec.structs.replace(event, step="t2.0.again") if is_it else event


def _refused(event: Any) -> Any:
    return msgspec.structs.replace(event, decision="reject") if isinstance(event, e.ApprovalDecided) else event


BUGS: dict[str, tuple[str, Any]] = {
    "made with other arguments": ("S4", lambda one: _changed(one, "t2.0", lambda data: data.update(args="x"))),
    "made again with other arguments": (
        "S4",
        lambda one: _renamed(_changed(one, "t2.0", lambda data: data.update(args="x"))),
    ),
    "made though it was denied": (
        "S4",
        lambda one: _changed(one, "guard/2", lambda data: data["calls"][0].update(verdict="deny")),
    ),
    "started though it was denied": (
        "S4",
        lambda one: _changed(one, "guard/2", lambda data: data["calls"][1].update(verdict="deny")),
    ),
    "made though nobody was asked": (
        "S4",
        lambda one: _changed(one, "guard/1", lambda data: data["calls"][0].update(verdict="ask")),
    ),
    "made though a person said no": ("S4", _refused),
    "made though there is no such tool": (
        "AG1",
        lambda one: _changed(one, "guard/1", lambda data: data["calls"][1].update(verdict="invalid")),
    ),
}


async def test_the_checker_sees_every_planted_bug(tmp_path):
    with ScriptedModel(LONG):
        async with running(tmp_path) as engine:
            await engine.workflows.register(compiled(REFUND))
            await start(engine, workflow(LONG_AGENT))
            await answer_all(engine)
            await ended(engine)
            said = await events(engine.journal)
    ir = compiled(workflow(LONG_AGENT)).ir
    assert invariants.check(said, {ir.hash: ir}) == []
    for name, (rule, plant) in BUGS.items():
        found = {one.id for one in invariants.check([plant(one) for one in said], {ir.hash: ir})}
        assert rule in found, name


async def run_to_the_end(engine: Any, definition: dict[str, Any]) -> None:
    await engine.workflows.register(compiled(REFUND))
    if await engine.journal.find_run("r1") is None:
        await start(engine, definition)
    await answer_all(engine)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_append_repeats_nothing_that_was_kept(tmp_path, after):
    for number in range(3 + after, 60, STEP):
        folder = tmp_path / str(number)
        folder.mkdir()
        did.clear()
        with ScriptedModel(LONG) as model:
            died = await dies_at(folder, number, after, workflow(LONG_AGENT), run_to_the_end)
            if not died:
                assert number > 20
                return
            engine = await opened(folder)
            try:
                await engine.hold()
                await run_to_the_end(engine, workflow(LONG_AGENT))
                state = await ended(engine)
                assert output_of(state, "agent")["output"] == {"sum": 3}, number
            finally:
                await crash(engine)
        assert len(model.seen) <= 6, number
        assert sum(did.values()) <= 5 + 3, number


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_person_is_asked_about_a_call_that_may_have_happened_at_whatever_append_a_process_dies(tmp_path, after):
    definition = workflow(agent({"function": MAIL, "effect": "send"}))
    rules: list[dict[str, Any]] = [{"when": {"turn": 1}, "calls": [call("mail", to="ann", text="hi")]}, {"say": "done"}]
    asked = 0
    for number in range(3, 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        did.clear()
        with ScriptedModel(rules):
            died = await dies_at(folder, number, after, definition, reject_all)
            if not died:
                break
            engine = await opened(folder)
            try:
                await engine.hold()
                await reject_all(engine, definition)
                state = await ended(engine)
                assert (state.state, output_of(state, "agent")["output"]) == ("completed", "done"), number
                said = await events(engine.journal)
                asked += any(isinstance(one, e.ApprovalRequested) for one in said)
                assert did["mail ann"] <= 1, number
            finally:
                await crash(engine)
    assert asked >= 1


async def reject_all(engine: Any, definition: dict[str, Any]) -> None:
    if await engine.journal.find_run("r1") is None:
        await start(engine, definition)
    voted: set[str] = set()
    async for _ in engine.runs.follow("r1"):
        for approval in _pending(await engine.runs.state("r1")):
            if approval not in voted:
                voted.add(approval)
                vote = Request(kind="vote", run_id="r1", approval=approval, decision="reject", by="ann")
                await engine.runs.request(vote)


async def test_an_agent_as_the_reference_documents_write_it(tmp_path):
    """`goal`, `temperature` and `available_tools`: a name alone is a function that may send, so it is asked about when it matters."""
    node = agent(branch={"type": "agent_driven", "available_next_nodes": ["big"], "default": ["big"]})
    node |= {"agent_config": {"model": "gpt-4", "temperature": 0.3, "available_tools": [LOOKUP, "ask_human"]}}
    node["config"] = {"goal": "Qualify."}
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": [call("lookup", id=7)]},
        {"data": {"output": "x", "next_nodes": ["big"], "reasoning": "so"}},
    ]
    with ScriptedModel(rules, names=["gpt-4"]) as model:
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(node, task("big", "echo", ["agent"])))
    assert (state_of(state, "big"), did["lookup 7"]) == ("completed", 1)
    asked = model.seen[0]
    assert (asked.params.temperature, asked.messages[0].text) == (0.3, "Qualify.")
    assert [tool.name for tool in asked.prefix.tools] == ["lookup", "ask_human"]
    assert {tool.name: tool.effect for tool in read_tools({"available_tools": [LOOKUP]})} == {"lookup": "send"}


def test_another_word_is_not_given_beside_the_first():
    assert any("once: 'goal' is another word for it" in one for one in problems(goal="again"))
    assert any("keep that of params" in one for one in problems(temperature=1, params={"temperature": 0}))
    assert any("two tools are called 'lookup'" in one for one in problems(READ, available_tools=[LOOKUP]))


async def test_the_route_that_an_agent_chose_is_taken(tmp_path):
    nodes = [
        agent(branch={"type": "agent_driven", "available_next_nodes": ["big", "small"], "default": ["small"]}),
        task("big", "echo", ["agent"]),
        task("small", "echo", ["agent"]),
    ]
    with ScriptedModel([{"data": {"output": "x", "next_nodes": ["big"], "reasoning": "so"}}]):
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(*nodes))
    assert (state_of(state, "big"), state_of(state, "small")) == ("completed", "skipped")


async def test_an_agent_stops_at_its_own_budget_and_a_run_pauses_at_its(tmp_path):
    rules: list[dict[str, Any]] = [{"calls": [call("lookup", id=1)]}]
    with ScriptedModel(rules) as model:
        async with running(tmp_path) as engine:
            state = await finish(engine, workflow(agent(READ, budget={"calls": 2}, retry={"max_attempts": 1})))
            assert state.error is not None
            assert (state.state, state.error.code, len(model.seen)) == ("failed", "budget_exhausted", 2)
            limited = workflow(agent(READ), limits={"budget": {"calls": 3}})
            await start(engine, limited, "r2")
            state = await until(engine, lambda state: state.state == "paused", "r2")
            assert (state.money.spent.calls, len(model.seen)) == (3, 5)


def problems(*entries: Any, **more: Any) -> list[str]:
    ir = compiled(workflow(agent(*entries, **more))).ir
    return [problem.message for problem in find_problems(ir, builtin()) if problem.severity == "error"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("patch_workflow", "needs the types that it may add"),
        ({"patch_workflow": {"palette": ["human"]}}, "palette"),
        ({"search_tools": {"alow": ["x"]}}, "alow"),
        ("recall", "add 'session: KEY'"),
        ({"function": "crm:use_tool", "effect": "read"}, "give this one another 'name'"),
        ({"execute_pipeline": {"origins": ["https://a.example/x"]}}, "is no origin"),
        ({"execute_pipeline": {"origin": []}}, "unknown key 'origin'"),
        ("openapi_action", "needs the APIs it may call"),
        ({"openapi_action": {"profiles": []}}, "profiles"),
        ({"openapi_action": {}}, "profiles"),
        ({"openapi_action": {"profiles": [["x"], 7]}}, "profiles"),
        ("delegate_to_agent", "needs the agents it may delegate to"),
        ({"delegate_to_agent": {"agents": []}}, "agents"),
        ({"delegate_to_agent": {"agents": ["a"]}, "effect": "read"}, "'effect' goes under delegate_to_agent"),
        ({"function": "crm:read_handle", "effect": "read"}, "give this one another 'name'"),
        ({"mcp": "github", "tools": ["search_*"]}, "tool 'github' has no effect, which says what a call may do"),
        ({"mcp": "github", "effect": "read", "idempotent": True}, "'idempotent' is not for tools of an MCP server"),
        ({"function": "crm:lookup", "effect": "read", "tools": ["x"]}, "'tools' says which of an MCP server's tools"),
        ({"mcp": "github", "function": "crm:lookup", "effect": "read"}, "one of 'function', 'workflow', 'mcp'"),
        ("ask_humn", "did you mean 'ask_human'?"),
        ("crm:lookup", "{function: module:name, effect: read}"),
        (
            {"function": "crm:lookup"},
            "tool 'crm:lookup' has no effect, which says what a call may do: read, write, send",
        ),
        ({"function": "crm:lookup", "workflow": "x", "effect": "read"}, "one of 'function', 'workflow'"),
        ({"workflow": "a b", "effect": "read"}, "is no name that models know"),
        ({"function": "crm:ask_human", "effect": "read"}, "give this one another 'name'"),
        ({"function": "{{ inputs.f }}", "effect": "read"}, "tools hold no templates"),
        ({"function": "crm:lookup", "effect": "read", "control": ["to"]}, "'control' is for tools that write or send"),
        ({"function": "crm:lookup", "effect": "read", "schema": {"type": 7}}, "no usable JSON Schema"),
        ({"function": "crm:lookup", "efect": "read"}, "efect"),
    ],
)
def test_tools_that_cannot_be_used_are_refused_before_anything_runs(entry, words):
    assert any(words in one for one in problems(entry)), problems(entry)


def test_a_wrong_key_hides_no_other_mistake_and_is_named_once():
    missing, unknown = {"function": "crm:lookup"}, {"function": "crm:mail", "efect": "send"}
    policies = [{"when": "tol == 'x'", "then": "deny"}]
    said = problems(missing, unknown, "ask_humn", policies=policies, promt="Do it.")
    for words in (
        "'efect'; did you mean 'effect'",
        "'crm:lookup' has no effect",
        "'ask_human'?",
        "to 'tol'",
        "'promt'",
    ):
        assert sum(words in one for one in said) == 1, (words, said)
    assert len(said) == 5
    reed = problems({"function": "crm:lookup", "effect": "reed"}, "ask_humn")
    assert len(reed) == 2
    assert "reed" in reed[0]
    assert "'ask_human'?" in reed[1]


def test_other_mistakes_of_a_config_are_found_too():
    twice = {"function": "crm:lookup", "effect": "read"}
    assert any("two tools are called 'lookup'" in one for one in problems(twice, twice))
    assert problems(session={"shared": True})
    assert any("a secret is shown to no model" in one for one in problems(prompt="{{ secrets.KEY }}"))
    assert any("a secret is shown to no model" in one for one in problems(instructions="{{ secrets.KEY }}"))
