"""A conversation that outgrows its model is summed up by it, once, and rebuilt from its steps as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.agents.transcript import KEPT_TURNS, read_plan, read_turns
from perdure.agents.transcript_view import Open, turns_of
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.desk import Journal, fails, tools, work
from tests.agents.test_loop import call

did: Counter[int] = Counter()


def page(number: int) -> str:
    did[number] += 1
    return f"page {number}"


PAGE = {"function": tools(page)[0], "effect": "read", "returns": "untrusted"}
FULL: dict[str, Any] = {"input": 16_000, "output": 10}


def agent(**more: Any) -> dict[str, Any]:
    return {"model": "scripted", "prompt": "Read it all.", "tools": [PAGE], **more}


def reading(pages: int, **usage: int) -> list[dict[str, Any]]:
    """A model that reads so many pages, each answer of which takes what a request takes, and sums up when it is asked to."""
    summary = {"when": {"contains": "Sum up what you were told"}, "say": "I have read."}
    each = [{"times": 1, "calls": [call("page", number=number)], "usage": usage or FULL} for number in range(pages)]
    return [summary, *each, {"say": "done"}]


@pytest.fixture(autouse=True)
def _fresh():
    did.clear()


def texts(request: Any) -> str:
    return "\n".join(one.text for one in request.messages)


async def test_older_turns_are_told_as_a_summary_once_there_is_little_room_left():
    with ScriptedModel(reading(12), context=20_000, max_output=100) as model:
        chosen, journal = await work(agent())
    assert chosen.output["output"] == "done"
    summaries = [name for name in journal.written if name.startswith("compact/")]
    assert summaries[0] == "compact/5"
    assert all(did[number] == 1 for number in range(12))
    last = model.seen[-1]
    assert "summed up by yourself: I have read." in texts(last)
    assert "Read it all." in texts(last), "the task is told as it was given"
    most = max(sum(one.role == "assistant" for one in request.messages) for request in model.seen)
    assert most <= KEPT_TURNS + 2
    [asked] = [one for one in model.seen if "Sum up what" in texts(one)][:1]
    assert (asked.tool_choice, asked.prefix) == ("none", model.seen[0].prefix)


async def test_a_conversation_with_room_and_one_of_which_nobody_knows_are_left_alone():
    rows: list[dict[str, Any]] = [{"context": 100_000}, {}]
    for row in rows:
        with ScriptedModel(reading(12), **row):
            _, journal = await work(agent())
        assert not [name for name in journal.written if name.startswith("compact/")]


async def test_every_request_can_be_rebuilt_and_the_label_stays():
    with ScriptedModel(reading(12), context=20_000, max_output=100):
        _, journal = await work(agent())
    turns = read_turns(journal.steps)
    assert (len(turns), any(turn.drift for turn in turns)) == (13, False)
    assert str(turns[-1].label) == "untrusted,public"
    assert read_plan(journal.steps).label.is_tainted is False
    shown = [make()["summed_up"] for make in turns_of("agent", journal.steps, Open())]
    assert (shown[4], shown[3], shown[5]) == ("I have read.", None, None)


async def test_a_model_that_says_that_it_is_too_much_gets_a_summary():
    rules = reading(6, input=1, output=1)
    rules.insert(6, {"times": 1, "status": 400, "error": "context_length_exceeded"})
    with ScriptedModel(rules):
        chosen, journal = await work(agent())
    assert chosen.output["output"] == "done"
    assert [name for name in journal.written if name.startswith("compact/")] == ["compact/6"]
    assert not any(turn.drift for turn in read_turns(journal.steps))


async def test_what_cannot_be_made_shorter_fails_as_it_did():
    rules = [{"times": 1, "calls": [call("page", number=1)]}, {"status": 400, "error": "context_length_exceeded"}]
    with ScriptedModel(rules):
        await fails("llm:context_too_long", agent())


@pytest.mark.slow
async def test_a_crash_anywhere_sums_up_nothing_twice_that_was_kept():
    with ScriptedModel(reading(9), context=20_000, max_output=100):
        chosen, journal = await work(agent())
    for point in range(1, journal.points + 1):
        with ScriptedModel(reading(9), context=20_000, max_output=100) as model:
            did.clear()
            try:
                again, other = await work(agent(), None, Journal(point))
            finally:
                seen = len(model.seen)
        kept = [name for name in other.written if name.startswith(("model/", "compact/"))]
        assert len(kept) == len(set(kept)), point
        assert seen <= len(kept) + 1, point
        assert not any(turn.drift for turn in read_turns(other.steps)), point
        assert again.output["output"] == chosen.output["output"], point
