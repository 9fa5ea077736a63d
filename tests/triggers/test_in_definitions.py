"""Triggers under `triggers` of a workflow: its own, checked with it, and every problem at its place."""

import pytest

from perdure.expressions.json_schema import check as misfits
from perdure.model import compile_definition, compile_text
from perdure.model.compilation import has_triggers
from perdure.model.definition_schema import describe_language
from perdure.testing import deliver, run_schedule
from perdure.triggers.declarations import find_problems, read_text

NOW = 1_790_000_000.0
TEXT = """
name: report
nodes: [{id: a, type: transform, config: {value: "{{ inputs.day }}"}}]
triggers:
  - name: nightly
    schedule: {cron: "30 2 * * *", timezone: Europe/Oslo}
    inputs: {day: "{{ trigger.at }}"}
  - name: pushed
    workflow: report@stable
    webhook: {verify: {scheme: github, secret: HUB}}
    inputs: {day: "{{ item.body }}"}
"""


def definition(text=TEXT):
    found = compile_text(text).definition
    assert found is not None
    return found


def codes(text):
    compiled = compile_text(text)
    found = [*compiled.problems, *(find_problems(compiled, NOW) if has_triggers(compiled) else ())]
    return [(one.path, one.code) for one in found]


def test_a_workflow_has_triggers_which_start_it():
    compiled = compile_text(TEXT)
    assert compiled.problems == ()
    assert [one["name"] for one in definition()["triggers"]] == ["nightly", "pushed"]
    assert compile_definition(definition()).definition == definition()
    read = read_text(TEXT, NOW)
    assert [(one.name, one.workflow) for one in read.get_triggers()] == [
        ("nightly", "report"),
        ("pushed", "report@stable"),
    ]
    assert [one["workflow"] for one in read.written] == ["report", "report@stable"]
    assert definition(TEXT.partition("triggers:")[0]).keys() == {"name", "nodes", "edges"}


def test_another_schedule_is_another_definition():
    assert compile_text(TEXT).get_ir().hash != compile_text(TEXT.replace("30 2", "31 2")).get_ir().hash


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("Europe/Oslo", "Europe/Olso", ("triggers[0].schedule.timezone", "wrong_value")),
        ("30 2", "99 2", ("triggers[0].schedule.cron", "wrong_value")),
        ("trigger.at", "trigger.to", ("triggers[0].inputs.day", "bad_reference")),
        ("name: pushed", "name: nightly", ("triggers[1].name", "duplicate_id")),
        ("report@stable", "other", ("triggers[1].workflow", "wrong_value")),
        ("scheme: github, ", "", ("triggers[1].webhook.verify", "missing_key")),
        ("timezone:", "zone:", ("triggers[0].schedule.zone", "unknown_key")),
        ("triggers:\n", "triggers: {a: 1}\nx:\n", ("triggers", "wrong_type")),
        ("name: report", "description: x", ("", "missing_key")),
    ],
)
def test_a_problem_has_its_place(old, new, found):
    assert found in codes(TEXT.replace(old, new))


def test_all_problems_come_at_once_also_beside_those_of_nodes():
    text = TEXT.replace("30 2", "99 2").replace("type: transform", "type: transform, when: 7")
    found = [path for path, _ in codes(text)]
    assert "triggers[0].schedule.cron" in found
    assert any(path.startswith("nodes[0]") for path in found)


def test_a_workflow_with_triggers_fits_the_schema_for_editors():
    schema = describe_language([])
    whole = definition()
    assert misfits(schema, whole) == []
    assert misfits(schema, {**whole, "triggers": [{"name": "x", "schedul": {}}]}) != []
    assert misfits(schema, {**whole, "triggers": [{"name": "x"}]}) != []


def test_a_workflow_with_triggers_is_tested_by_itself():
    fired = run_schedule(TEXT, name="nightly", since="2026-05-01", until="2026-05-02")
    assert [run.outputs for run in fired.runs] == [{"a": "2026-05-01T02:30:00+02:00"}]
    assert deliver(TEXT, {"body": "x"}, name="pushed").runs[0].outputs == {"a": "x"}
