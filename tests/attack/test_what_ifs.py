"""What-ifs of conversations that are large, or have very many parts (S05)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.contents import TooMuch
from perdure.llms.scripted.scripted_model import ScriptedModel
from perdure.service import Service
from tests.agents.desk import tools
from tests.agents.test_loop import call
from tests.attack.marks import attack
from tests.attack.watchdog import watching
from tests.engine.helpers import ended, running, start, workflow

pytestmark = pytest.mark.slow
LISTS, CALLS = 140_000, 16
LETTERS = 2_600_000


def lists(number: int) -> list[Any]:
    return [[] for _ in range(LISTS)]


def letters(number: int) -> str:
    return "x" * LETTERS


GIVE_LISTS, GIVE_LETTERS = tools(lists, letters)


def agent(function: str) -> dict[str, Any]:
    tool = {"function": function, "effect": "read"}
    config = {"model": "scripted", "prompt": "Do it.", "tools": [tool, {"execute_pipeline": {}}], "max_turns": 30}
    return {"id": "agent", "type": "agent", "config": config}


def turns(name: str, count: int) -> list[dict[str, Any]]:
    asked = [{"when": {"turn": number}, "calls": [call(name, number=number)]} for number in range(1, count + 1)]
    return [*asked, {"say": "Done."}]


@attack("S05", "a what-if of a conversation whose tools gave millions of parts, or more than a run reads")
@pytest.mark.parametrize(("function", "count", "fits"), [(GIVE_LISTS, CALLS, False), (GIVE_LISTS, 1, True), (GIVE_LETTERS, 4, False), (GIVE_LETTERS, 3, True)])  # fmt: skip
async def test_a_what_if_of_very_much_is_refused_or_goes_through_and_holds_up_nobody(tmp_path, function, count, fits):
    rules = turns("lists" if function is GIVE_LISTS else "letters", count)
    async with running(tmp_path) as engine:
        with ScriptedModel(rules, price={"input": 1.0, "output": 2.0}):
            await start(engine, workflow(agent(function), name="triage"))
            await ended(engine)
            runs = Service.of_owner(engine).runs
            with watching():
                if not fits:
                    with pytest.raises(TooMuch, match="name a node, a visit or an item"):
                        await runs.what_if("r1", budget={"usd": 1.0}, key="k")
                    return
                begun = await runs.what_if("r1", budget={"usd": 1.0}, key="k")
                await ended(engine, begun["run_id"])
                report = await runs.what_if_report(begun["run_id"])
    assert (report["state"], report["totals"]["equal"]) == ("completed", 1)
