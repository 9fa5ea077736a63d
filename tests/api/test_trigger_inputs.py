"""The inputs that a trigger writes out are held to the schema of the workflow that it starts, before anything comes."""

import pytest

from tests.api.helpers import serving
from tests.engine.helpers import transform, workflow

SCHEMA = {
    "type": "object",
    "properties": {"day": {"type": "string"}, "count": {"type": "integer", "default": 3}, "kind": {"enum": ["a", "b"]}},
    "required": ["day"],
}
REPORT = workflow(transform("a", {"day": "{{ inputs.day }}"}), name="report", inputs=SCHEMA)
LOOSE = {**REPORT, "inputs": {"type": "object"}}
HOURLY = {"name": "hourly", "workflow": "report", "schedule": {"every": "1h"}}
PUSHED = {"name": "pushed", "workflow": "report", "webhook": {"verify": {"scheme": "standard", "secret": "S"}}}
GOOD = {"day": "{{ trigger.at }}"}
BAD = {"count": "many", "kind": "c"}
BAD_PATHS = [("inputs", "error"), ("inputs.count", "error"), ("inputs.kind", "error")]


@pytest.fixture
async def server(tmp_path):
    async with serving(tmp_path) as made:
        yield made


def told(answer):
    return sorted((one["path"], one["severity"]) for one in answer["problems"] if one["code"] == "trigger_inputs")


async def test_all_that_does_not_fit_is_refused_at_once_each_at_its_path(server):
    await server.ok("/workflows", REPORT)
    for name in ("report", "report@1", "report@latest"):
        refused = await server.post("/triggers", {**HOURLY, "workflow": name, "inputs": BAD})
        assert (refused.status_code, told(refused.json())) == (422, BAD_PATHS)
    nothing = await server.post("/triggers", HOURLY)
    assert told(nothing.json()) == [("", "error")]
    assert "there is no 'day'; give it under inputs" in nothing.json()["problems"][0]["message"]
    assert (await server.ok("/triggers"))["items"] == []
    assert (await server.post("/triggers", {**HOURLY, "inputs": GOOD})).json()["problems"] == []


async def test_what_a_template_makes_is_not_known_yet(server):
    await server.ok("/workflows", REPORT)
    given = {"day": "{{ item.body.day }}", "count": "{{ item.body.n }}", "kind": "{{ item.body.kind }}"}
    assert (await server.ok("/triggers", {**PUSHED, "inputs": given}))["problems"] == []
    mixed = await server.post("/triggers", {**PUSHED, "inputs": {**given, "day": 7}})
    assert told(mixed.json()) == [("inputs.day", "error")]


async def test_what_the_schema_does_not_name_is_a_warning(server):
    await server.ok("/workflows", REPORT)
    applied = await server.ok("/triggers", {**HOURLY, "inputs": {**GOOD, "dya": 1}})
    assert told(applied) == [("inputs", "warning")]
    assert "did you mean 'day'?" in applied["problems"][0]["message"]


async def test_an_alias_may_be_moved_so_it_is_only_warned_about(server):
    await server.ok("/workflows", REPORT)
    await server.ok("/workflows/report/aliases/stable", {"version": 1}, method="PUT")
    applied = await server.ok("/triggers", {**HOURLY, "workflow": "report@stable", "inputs": BAD})
    assert told(applied) == [(path, "warning") for path, _ in BAD_PATHS]


async def test_triggers_of_a_definition_are_held_to_its_own_schema_and_not_to_the_version_before(server):
    own = {"name": "own", "schedule": {"every": "1h"}}
    await server.ok("/workflows", {**REPORT, "triggers": [{**own, "inputs": GOOD}]})
    wrong = {**REPORT, "triggers": [{**own, "inputs": GOOD}, {**own, "name": "second", "inputs": BAD}]}
    paths = [(f"triggers[1].{path}", severity) for path, severity in BAD_PATHS]
    judged = await server.ok("/workflows/validate", wrong)
    assert (judged["valid"], told(judged)) == (False, paths)
    refused = await server.post("/workflows", wrong)
    assert (refused.status_code, told(refused.json())) == (422, paths)
    pushed = await server.ok("/workflows", {**LOOSE, "triggers": [{**own, "inputs": BAD}]})
    assert (pushed["version"], pushed["triggers"]["applied"][0]["problems"]) == (2, [])


async def test_triggers_are_judged_also_in_a_definition_with_other_errors(server):
    broken = {**REPORT, "triggers": [{"name": "own", "schedule": {"every": "1h"}, "inputs": BAD}]}
    broken["nodes"] = [{**broken["nodes"][0], "dependencies": ["nobody"]}]
    judged = await server.ok("/workflows/validate", broken)
    assert told(judged) == [(f"triggers[0].{path}", severity) for path, severity in BAD_PATHS]
    assert len(judged["problems"]) > len(BAD_PATHS)


async def test_a_trial_says_that_an_item_would_be_parked_for_its_inputs(server):
    await server.ok("/workflows", LOOSE)
    await server.ok("/triggers", {**PUSHED, "inputs": {"day": "{{ item.body.day }}"}})
    await server.ok("/triggers", {**HOURLY, "inputs": BAD})
    item = {"item": {"headers": {}, "query": {}, "body": {"day": 7}}}
    assert (await server.ok("/triggers/pushed/test", item))["result"] == "mapped"
    await server.ok("/workflows", REPORT)
    tried = await server.ok("/triggers/pushed/test", item)
    assert (tried["result"], tried["part"]) == ("poison", "inputs")
    assert "do not fit report: " in tried["error"]
    assert "day" in tried["error"]
    assert (await server.ok("/triggers/hourly/test", {}))["result"] == "poison"
