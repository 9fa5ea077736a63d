"""Small values are worked with where they are, and large ones beside the loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.agents.light import MOST, is_light
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.agents.desk import tools, work
from tests.agents.test_loop import call


def look(size: int) -> str:
    return "x" * size


LOOK = {"function": tools(look)[0], "effect": "read"}


@pytest.mark.parametrize(
    ("value", "light"),
    [
        (None, True),
        ("x" * 100, True),
        ({"a": [1, 2.5, True, None, "b"]}, True),
        ("x" * MOST, False),
        ({"x" * MOST: 1}, False),
        ([0] * MOST, False),
        ({str(number): number for number in range(MOST)}, False),
        ([[["x" * 3_000]], "x" * 3_000, {"a": "x" * 3_000}], False),
        pytest.param(1 << (MOST * 10), False, id="digits"),
        (object(), False),
    ],
)
def test_what_is_light_has_few_parts_and_little_text(value, light):
    assert is_light(value) is light


@pytest.mark.parametrize(("size", "many"), [(10, False), (20_000, True)])
async def test_only_large_results_are_worked_with_in_threads(monkeypatch, size, many):
    begun: list[str] = []
    start = threading.Thread.start

    def counted(self: Any) -> None:
        begun.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", counted)
    config = {"model": "scripted", "prompt": "Look.", "tools": [LOOK]}
    with ScriptedModel([{"when": {"turn": 1}, "calls": [call("look", size=size)]}, {"say": "done"}]):
        chosen, _ = await work(config)
    assert chosen.output["output"] == "done"
    assert begun.count("perdure-aside") == 1 + many, "one is for the plan"
