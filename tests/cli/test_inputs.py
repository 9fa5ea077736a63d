"""What a run is given: defaults of its schema, text that looks like a number, typos, and formats."""

import json

import pytest

import perdure
from perdure.errors import PerdureError
from perdure.expressions.run_inputs import apply_defaults, find_unknown
from tests.cli.helpers import task, workflow

SCHEMA = {
    "type": "object",
    "required": ["n"],
    "properties": {
        "n": {"type": "integer", "default": 3},
        "order": {"type": "string"},
        "when": {"type": "string", "format": "date"},
        "box": {"type": "object", "properties": {"colour": {"type": "string", "default": "red"}}},
        "any": {},
    },
}


def flow(tmp_path, name="flow"):
    node = {"id": "a", "type": "transform", "config": {"value": "{{ inputs }}"}}
    return workflow(tmp_path, name, node, inputs=SCHEMA)


def outcome(shell, *args):
    return json.loads(shell.run("run", *args).stdout)["a"]


@pytest.mark.slow
def test_defaults_of_the_schema_are_there_and_recorded(anywhere, tmp_path):
    file = flow(tmp_path)
    assert outcome(anywhere, file) == {"n": 3}
    newest = anywhere.json("runs", "list", "--workflow", "flow")["items"][0]["run_id"]
    assert outcome(anywhere, file, "-i", "n=4", "-i", "box={}") == {"n": 4, "box": {"colour": "red"}}
    created = anywhere.json("runs", "events", newest)["items"][0]
    assert (created["type"], created["data"]["inputs"]) == ("run.created", {"n": 3})


def test_the_same_run_goes_on_though_only_some_inputs_are_given(shell, tmp_path):
    file = flow(tmp_path)
    shell.run("run", file, "-i", "order=x", "--run-id", "r1")
    shell.run("run", file, "-i", "order=x", "--run-id", "r1")
    assert "began with other inputs" in shell.error("run", file, "-i", "order=y", "--run-id", "r1", code=2)


def test_children_and_programs_get_defaults_too(shell, tmp_path):
    import perdure
    import perdure.testing

    child = json.loads((tmp_path / flow(tmp_path)).read_text())
    shell.run("workflows", "push", flow(tmp_path), "--db", "sdk.db")
    parent = {"name": "parent", "nodes": [{"id": "c", "type": "workflow", "config": {"workflow": "flow"}}]}
    assert perdure.run(parent, db="sdk.db").outputs == {"c": {"a": {"n": 3}}}
    assert perdure.run(child, db="sdk.db").outputs == {"a": {"n": 3}}
    again = perdure.run(child, db="sdk.db", run_id="r1", order="x")
    assert perdure.run(child, db="sdk.db", run_id="r1", order="x").outputs == again.outputs
    assert perdure.testing.run(child).outputs == {"a": {"n": 3}}


@pytest.mark.slow
def test_text_that_looks_like_a_number_is_text_where_text_is_wanted(anywhere, tmp_path):
    file = flow(tmp_path)
    assert outcome(anywhere, file, "-i", "order=123")["order"] == "123"
    assert outcome(anywhere, file, "-i", "order=true")["order"] == "true"
    assert outcome(anywhere, file, "-i", 'order="123"')["order"] == "123"
    assert outcome(anywhere, file, "-i", "any=123")["any"] == 123
    assert '"four" is not of type "integer"' in anywhere.error("run", file, "-i", "n=four", code=2)
    anywhere.run("workflows", "push", file)
    started = anywhere.json("runs", "start", "flow", "-i", "order=123")
    assert started["inputs"] == {"order": "123", "n": 3}


def test_a_typo_in_the_name_of_an_input_is_said(anywhere, tmp_path):
    file = flow(tmp_path)
    told = anywhere.run("run", file, "-i", "oder=x").stderr
    assert "warning: the workflow has no input 'oder'; did you mean 'order'?" in told
    anywhere.run("workflows", "push", file)
    assert "did you mean 'order'?" in anywhere.run("runs", "start", "flow", "-i", "oder=x").stderr


def test_a_new_run_that_is_named_is_told_the_same(shell, tmp_path):
    file = flow(tmp_path)
    told = shell.run("run", file, "-i", "oder=x", "--run-id", "new").stderr
    assert "warning: the workflow has no input 'oder'; did you mean 'order'?" in told
    assert "warning:" not in shell.run("run", file, "--run-id", "new").stderr, "it goes on, and takes no inputs"
    needs = {"type": "object", "required": ["day"], "properties": {"day": {}, "code": {"type": "integer"}}}
    strict = workflow(tmp_path, "strict", task("a", "echo"), inputs=needs)
    said = shell.error("run", strict, "-i", "dy=1", "-i", "code=x", "--run-id", "s1", code=2)
    assert "needs day; give -i day=…" in said
    assert 'code: "x" is not of type "integer"' in said
    assert "no input 'dy'; did you mean 'day'?" in said
    assert "strict" not in shell.run("workflows", "list").stdout, "nothing was begun"


def test_a_format_is_asserted(anywhere, tmp_path):
    assert outcome(anywhere, flow(tmp_path), "-i", "when=2026-11-16")["when"] == "2026-11-16"
    assert 'is not a "date"' in anywhere.error("run", flow(tmp_path), "-i", "when=yesterday", code=2)


def test_defaults_follow_references_lists_and_conjunctions_and_change_nothing_given():
    schema = {
        "$defs": {"box": {"properties": {"colour": {"default": "red"}}}},
        "allOf": [{"properties": {"a": {"default": [1]}}}],
        "properties": {
            "box": {"$ref": "#/$defs/box"},
            "boxes": {"items": {"$ref": "#/$defs/box"}},
            "self": {"$ref": "#"},
        },
    }
    given = {"box": {}, "boxes": [{}, {"colour": "blue"}]}
    made = apply_defaults(schema, given)
    assert made == {"a": [1], "box": {"colour": "red"}, "boxes": [{"colour": "red"}, {"colour": "blue"}]}
    assert given == {"box": {}, "boxes": [{}, {"colour": "blue"}]}
    assert apply_defaults(schema, None) == {"a": [1]}
    assert apply_defaults({"properties": {"a": {}}}, None) is None
    assert apply_defaults({"properties": {"a": {"default": 1}}}, {"a": None}) == {"a": None}
    whole = {"x": 1}
    assert apply_defaults({"type": "object"}, whole) is whole


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {".*": {}}}, {"anyOf": [{}]}])
def test_a_schema_that_says_more_about_its_keys_is_not_guessed_at(more):
    assert find_unknown({"properties": {"n": {}}, **more}, {"m": 1}) == []
    assert find_unknown({"properties": {"n": {}}}, {"m": 1}) == ["the workflow has no input 'm'; known are n"]


def test_a_typo_is_said_by_the_answer_of_a_start_and_by_a_program(shell, tmp_path, server, caplog):
    import perdure
    from perdure import Client

    definition = {"name": "typo", "inputs": SCHEMA, "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]}
    said = "the workflow has no input 'ordr'; did you mean 'order'?"
    with Client(server.url) as client:
        client.workflows.register(definition)
        assert client.runs.start("typo", {"ordr": "x"})["warnings"] == [said]
        assert client.runs.start("typo", {"ordr": "x"}, wait_seconds=30)["warnings"] == [said]
        assert "warnings" not in client.runs.start("typo", {"order": "x"})
        assert len(client.runs.start("typo", {f"x{n}": n for n in range(50)})["warnings"]) == 20
    perdure.run(definition, inputs={"ordr": "x"}, db=":memory:")
    assert said in caplog.text


def test_everything_that_is_wrong_with_the_inputs_is_said_at_once(anywhere, tmp_path):
    schema = {
        "type": "object",
        "required": ["day", "code"],
        "properties": {"day": {"type": "string", "format": "date"}, "code": {"type": "integer"}},
    }
    file = workflow(tmp_path, "strict", {"id": "a", "type": "input"}, inputs=schema)
    told = anywhere.error("run", file, "-i", "dy=2026-01-01", "-i", "code=x", code=2)
    assert "needs day; give -i day=…" in told
    assert 'code: "x" is not of type "integer"' in told
    assert "no input 'dy'; did you mean 'day'?" in told


def test_a_program_is_told_everything_that_is_wrong_with_the_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema = {
        "type": "object",
        "required": ["day"],
        "properties": {"day": {"type": "string"}, "n": {"type": "integer"}},
    }
    file = workflow(tmp_path, "strict", {"id": "a", "type": "input"}, inputs=schema)
    with pytest.raises(PerdureError) as caught:
        perdure.run(file, inputs={"dy": "x", "n": "y"})
    assert '"day" is a required property' in str(caught.value)
    assert 'n: "y" is not of type "integer"' in str(caught.value)
    assert "did you mean 'day'?" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a"', "it ends too early"),
        (b'{"a": }', "invalid character, at byte 6"),
        (b"{} x", "there is more behind its end"),
        (b'{"a": "\xff"}', "is not UTF-8"),
    ],
)
def test_inputs_that_are_no_json_say_where_and_not_what_the_decoder_calls_it(shell, tmp_path, content, said):
    (tmp_path / "inputs.json").write_bytes(content)
    error = shell.error("run", workflow(tmp_path, "a", task("a", "echo")), "--inputs", "inputs.json", code=2)
    assert said in error
