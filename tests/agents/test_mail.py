"""Mail to an agent at work, in the real engine: it is read before the next turn, once, also where the process dies (rule 86)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from perdure.agents.transcript import read_turns
from perdure.errors import Refused
from perdure.kernel.values import steps_of
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.service import Service
from perdure.service.errors import Invalid
from tests.agents.desk import tools
from tests.agents.test_engine import agent
from tests.agents.test_loop import call
from tests.engine.helpers import crash, ended, opened, output_of, running, start, task, workflow

did: Counter[str] = Counter()
begun, go_on = asyncio.Event(), asyncio.Event()


async def search(year: int) -> str:
    """Looks for invoices."""
    did[f"search {year}"] += 1
    begun.set()
    await go_on.wait()
    return f"invoices of {year}"


(SEARCH,) = tools(search)
SCRIPT: list[dict[str, Any]] = [
    {"calls": [call("search", year=2020)], "times": 1},
    {"say": "Done."},
]


@pytest.fixture(autouse=True)
def _fresh():
    global begun, go_on
    did.clear()
    begun, go_on = asyncio.Event(), asyncio.Event()


def texts(request: Any) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]


async def test_an_agent_reads_its_mail_before_its_next_turn_and_repeats_nothing(tmp_path):
    with ScriptedModel(SCRIPT) as model:
        async with running(tmp_path) as engine:
            runs = Service.of_owner(engine, by="ann").runs
            await start(engine, workflow(agent({"function": SEARCH, "effect": "read"})))
            await begun.wait()
            await runs.tell("r1", "agent", "Only of this year.", message_id="m1")
            await runs.tell("r1", "agent", "Only of this year.", message_id="m1")
            go_on.set()
            state = await ended(engine)
            found: Any = state.find("agent")
            assert (output_of(state, "agent")["text"], dict(did)) == ("Done.", {"search 2020": 1})
            assert (found.attempt, found.tries) == (2, 1)
            steps = steps_of(found.checkpoint)
            assert steps["mail/1"] == {"text": "Only of this year.", "label": "user", "before": "model/2"}
            assert "mail/2" not in steps
            with pytest.raises(Refused, match="reads no more"):
                await runs.tell("r1", "agent", "Too late.")
    asked = [texts(request) for request in model.seen]
    assert len(asked) == 2
    assert "Only of this year." not in asked[0]
    assert asked[1][-1] == "Only of this year."
    turns = await asyncio.to_thread(read_turns, msgspec.to_builtins(steps))
    assert [turn.drift for turn in turns] == [False, False]  # the request is rebuilt with the letter in it


async def test_mail_outlives_the_process_that_took_it(tmp_path):
    with ScriptedModel(SCRIPT) as model:
        engine = await opened(tmp_path)
        await engine.hold()
        await start(engine, workflow(agent({"function": SEARCH, "effect": "read"})))
        await begun.wait()
        await Service.of_owner(engine).runs.tell("r1", "agent", "Only of this year.")
        await crash(engine)
        go_on.set()
        async with running(tmp_path) as engine:
            state = await ended(engine)
    assert output_of(state, "agent")["text"] == "Done."
    assert texts(model.seen[-1])[-1] == "Only of this year."


async def test_only_an_agent_at_work_has_mail(tmp_path):
    async with running(tmp_path) as engine:
        runs = Service.of_owner(engine).runs
        await start(engine, workflow(task("a", "echo", args={"value": 1})))
        await ended(engine)
        with pytest.raises(Refused, match="is no agent"):
            await runs.tell("r1", "a", "Hello.")
        for text in ("", " \n", "x" * 4_001):
            with pytest.raises(Invalid, match="characters"):
                await runs.tell("r1", "a", text)
        with pytest.raises(Invalid, match="are mail"):
            await runs.signal("r1", "agent:a", {"text": "Hello.", "label": "trusted"})
