"""Agents of pydantic-ai on Perdure: what was answered is not asked again, whenever the process dies."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from perdure.asks import Suspended
from perdure.ext.pydantic_ai import Durable
from perdure.outcomes import Failure, StepAmbiguous
from perdure.transport import Task
from tests.agents.desk import DeskContext, Dies, Journal
from tests.ext.killed import run_until_it_ends

pytestmark = pytest.mark.slow  # the library takes seconds to be imported

asked: Counter[str] = Counter()
did: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh():
    asked.clear()
    did.clear()


def answers(messages: list[Any], info: Any) -> ModelResponse:
    """Three tools at once, one of them again, then an answer made of what they gave."""
    given = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    turn = sum(isinstance(message, ModelResponse) for message in messages) + 1
    asked[f"turn {turn}"] += 1
    if turn == 1:
        return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in ("Oslo", "Rome", "Rome")])
    if turn == 2:
        return ModelResponse(parts=[ToolCallPart("charge", {"cents": 7}), ToolCallPart("picky", {"n": 1})])
    if turn == 3:
        return ModelResponse(parts=[ToolCallPart("picky", {"n": 2})])
    return ModelResponse(parts=[TextPart(" ".join(str(part.content) for part in given))])


async def weather(city: str) -> dict[str, str]:
    did[f"weather {city}"] += 1
    return {city: "fine"}


async def charge(cents: int) -> str:
    did["charge"] += 1
    return "charged"


async def picky(n: int) -> str:
    did[f"picky {n}"] += 1
    if n == 1:
        raise ModelRetry("not 1")
    return "good"


async def enter(journal: Journal, **more: Any) -> str:
    kept = {"data": journal.data, "steps": dict(journal.steps)} if journal.steps else None
    task = Task(
        run_id="r1", node="a", type="task", idempotency_key="r1/a/do", checkpoint=kept, begun=tuple(journal.begun)
    )
    durable = Durable(DeskContext(task, journal), **more)
    agent = Agent(FunctionModel(answers), tools=[weather, charge, picky], capabilities=[durable])
    return (await agent.run("Do it.")).output


WHOLE = "{'Oslo': 'fine'} {'Rome': 'fine'} {'Rome': 'fine'} charged not 1 good"


async def test_each_request_and_each_call_is_a_step():
    journal = Journal()
    assert await enter(journal) == WHOLE
    assert sorted(one.rpartition("/")[0] if "tool" in one else one for one in journal.steps) == [
        "model/1",
        "model/2",
        "model/3",
        "model/4",
        *["tool/1/weather"] * 3,
        "tool/2/charge",
        "tool/2/picky",
        "tool/3/picky",
    ]
    before = (dict(asked), dict(did))
    assert await enter(journal) == WHOLE
    assert (dict(asked), dict(did)) == before


async def test_a_crash_at_any_moment_repeats_no_request_and_no_call_that_was_kept():
    journal = Journal()
    await enter(journal)
    whole = journal.points
    for point in range(1, whole + 1):
        asked.clear()
        did.clear()
        journal = Journal(point)
        with pytest.raises(Dies):
            await enter(journal)
        kept = set(journal.steps)
        assert await enter(journal) == WHOLE, point
        assert kept <= set(journal.steps)
        assert sum(asked.values()) <= 5, point
        assert all(times <= 2 for name, times in did.items() if name != "weather Rome"), point
        assert sum(did.values()) <= 6 + 3, point  # at most the calls that were under way


async def test_a_call_that_may_happen_once_is_not_repeated_by_itself():
    effects: Any = {"charge": "at_most_once"}
    journal = Journal()
    assert await enter(journal, effects=effects) == WHOLE
    name = next(one for one in journal.steps if one.startswith("tool/2/charge"))
    broken = Journal()
    broken.steps = {
        one: value for one, value in journal.steps.items() if one.startswith(("model/1", "model/2", "tool/1"))
    }
    broken.begun = {name: "at_most_once"}
    did.clear()
    with pytest.raises(StepAmbiguous):
        await enter(broken, effects=effects)
    assert did["charge"] == 0


async def test_what_cannot_be_kept_is_refused():
    def once(messages: list[Any], info: Any) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("picture", {})])

    async def picture() -> BinaryContent:
        return BinaryContent(b"\x89PNG", media_type="image/png")

    ctx = DeskContext(Task(run_id="r1", node="a", type="task", idempotency_key="k"), Journal())
    agent = Agent(FunctionModel(once), tools=[picture], capabilities=[Durable(ctx)])
    with pytest.raises(Failure, match="not kept as data"):
        await agent.run("Do it.")
    streamed = Agent(FunctionModel(stream_function=_stream), capabilities=[Durable(ctx, name="other")])
    with pytest.raises(Failure, match="whole answers"):
        async with streamed.run_stream("Do it.") as result:
            await result.get_output()


async def _stream(messages: list[Any], info: Any) -> Any:
    yield "hello"


async def test_calls_that_need_an_approval_are_asked_for_at_once_and_no_worker_waits():
    def wants(messages: list[Any], info: Any) -> ModelResponse:
        given = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if not given:
            return ModelResponse(parts=[ToolCallPart("pay", {"cents": one}, tool_call_id=f"c{one}") for one in (1, 2)])
        return ModelResponse(parts=[TextPart(" | ".join(str(part.content) for part in given))])

    def pay(cents: int) -> str:
        did[f"pay {cents}"] += 1
        return f"paid {cents}"

    async def enter_once(journal: Journal) -> str:
        kept = {"data": None, "steps": dict(journal.steps)} if journal.steps else None
        task = Task(run_id="r1", node="a", type="task", idempotency_key="k", checkpoint=kept, asked=dict(journal.asked))
        ctx = DeskContext(task, journal)
        durable = Durable(ctx, approvers=["ann"])
        agent = Agent(FunctionModel(wants), tools=[Tool(pay, requires_approval=True)], capabilities=[durable])
        try:
            return (await agent.run("Pay.")).output
        except Suspended:
            journal.asks += ctx.asks or []
            raise

    journal = Journal()
    with pytest.raises(Suspended):
        await enter_once(journal)
    assert [one["shown"] for one in journal.asks] == [{"tool": "pay", "arguments": {"cents": one}} for one in (1, 2)]
    assert {tuple(one["approvers"]) for one in journal.asks} == {("ann",)}
    assert not did
    for one, decision in zip(journal.asks, ("approve", "reject"), strict=True):
        journal.asked[one["name"]] = one["content"]
        journal.steps[one["name"]] = {"decision": decision, "comments": "too much"}
    assert await enter_once(journal) == "paid 1 | A person did not allow this call. too much"
    assert dict(did) == {"pay 1": 1}
    assert await enter_once(journal) == "paid 1 | A person did not allow this call. too much"
    assert dict(did) == {"pay 1": 1}


def test_a_process_that_is_killed_in_a_tool_goes_on_and_people_are_asked(tmp_path):
    said, did = run_until_it_ends(tmp_path, "pydantic_ai", dict(os.environ))
    assert said == "completed {'result': 'approve'}"
    assert did == ["turn 1", "first", "turn 2", "deadly", "deadly", "turn 3", "pay", "turn 4"]
