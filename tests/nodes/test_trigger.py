"""The config of a trigger inside a run: what can be is accepted, and what cannot is refused before it runs (rule 54)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.nodes import trigger
from perdure.nodes.config_checks import explain_rendered, find_mistakes
from perdure.nodes.registry import Awaiting, Call, Failed

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"webhook": {}}, "let it send an event"),
    ({}, "has no source"),
    ({"event": {"name": "a"}, "schedule": {"every": "1s"}}, "give exactly one of"),
    ({"event": {"name": "{{ inputs.x }}"}}, "name"),
    ({"event": {"name": "a", "key": ""}}, "key"),
    ({"event": {"name": "a"}, "filter": "item.("}, "unexpected"),
    ({"event": {"name": "a", "match": "("}}, "("),
    ({"schedule": {"cron": "99 * * * *"}}, "99"),
    ({"poll": {"type": "x"}, "overlap": "skip"}, "overlap"),
    ({"poll": {"type": "x"}, "limits": {"open": 3}}, "open"),
    ({"event": {"name": "a"}, "catchup": "all"}, "catchup"),
]
RIGHT: list[dict[str, Any]] = [
    {"event": {"name": "paid", "key": "{{ inputs.who }}", "match": "event.amount > 3"}},
    {"event": {"name": "paid", "key": 7}, "filter": "item.payload.n > 3", "limits": {"buffer": 5}},
    {"runs": {"workflow": "report"}},
    {"schedule": {"every": "5m"}, "catchup": "all"},
    {"poll": {"type": "mine", "config": {"token": "{{ secrets.T }}"}}},
    {"table": {"database": "{{ secrets.CRM }}", "table": "orders", "cursor": ["id"]}},
]


@pytest.mark.parametrize(("config", "said"), WRONG)
def test_what_cannot_be_is_refused(config: dict[str, Any], said: str) -> None:
    found = find_mistakes(trigger.TYPE, config)
    assert any(said in one.message for one in found), found


@pytest.mark.parametrize("config", RIGHT)
def test_what_can_be_is_accepted(config: dict[str, Any]) -> None:
    assert find_mistakes(trigger.TYPE, config) == []


def call(config: dict[str, Any]) -> Any:
    assert trigger.TYPE.answer is not None
    return trigger.TYPE.answer(Call(run_id="r", node="take", config=config, run_inputs=None, inputs={}, at=1.0))


def test_the_answer_is_a_trigger_that_starts_no_workflow_and_buffers() -> None:
    answer = call({"event": {"name": "paid", "key": 7}})
    assert isinstance(answer, Awaiting)
    made = answer.trigger
    assert (made.name, made.workflow, made.overlap, made.source.key) == ("take", "", "buffer", "7")  # type: ignore[union-attr]


def test_a_moment_gives_its_times() -> None:
    made = call({"schedule": {"every": "5m"}}).trigger
    assert (sorted(made.inputs), made.overlap) == (["at", "next", "number", "previous"], "buffer")


@pytest.mark.parametrize("key", ["", True, None, "x" * 501, ["a"]])
def test_a_key_that_is_none_fails_the_node(key: Any) -> None:
    answer = call({"event": {"name": "paid", "key": key}})
    assert isinstance(answer, Failed)
    assert answer.code == "bad_key"


def test_a_rendered_config_is_checked_again() -> None:
    assert explain_rendered(trigger.TYPE, {"event": {"name": "paid", "key": 7}}) == ""
