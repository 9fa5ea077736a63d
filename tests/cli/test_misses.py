"""Mistakes that a definition can be seen to have before anything runs: each is a warning, with its place and a way out.

The same on a database and on a server, and for validating, registering and running: the check is one.
"""

import pytest

from perdure.model import compile_definition
from perdure.nodes import builtin
from perdure.nodes.config_checks import find_problems
from tests.cli.helpers import workflow

CHILD = {"id": "x", "type": "transform", "config": {"value": "{{ inputs.amount }}"}}
CHILD_INPUTS = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    "additionalProperties": False,
}


def check(*nodes, inputs=None, **more):
    definition = {"name": "w", "nodes": list(nodes), **({"inputs": inputs} if inputs is not None else {}), **more}
    found = compile_definition(definition)
    assert found.ir is not None, found.problems
    problems = find_problems(found.ir, builtin())
    assert all(one.severity == "warning" for one in problems)
    return [(one.path, one.code, one.message) for one in problems]


def giving(value, **more):
    return {"id": "a", "type": "transform", "config": {"value": value}, **more}


LOOPING = {"type": "transform", "config": {"value": {"ready": False}}}
CLOSED = {"type": "object", "properties": {"day": {"type": "string"}}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"day": {"type": "string"}}}
DAY = "node 'a' reads 'inputs.dya', which the inputs of the workflow do not name; did you mean 'day'?"


@pytest.mark.parametrize("schema", [CLOSED, OPEN])
def test_an_input_that_the_schema_does_not_name_is_warned_about(schema):
    assert check(giving("{{ inputs.dya }}"), inputs=schema) == [("nodes.a.config.value", "unknown_field", DAY)]
    assert check(giving(1, when="inputs.dya != ''"), inputs=schema) == [("nodes.a.when", "unknown_field", DAY)]
    (problem,) = check(giving(1), inputs=schema, outputs={"day": "{{ inputs.dya }}"})
    assert problem == ("outputs.day", "unknown_field", DAY.replace("node 'a' reads", "the outputs read"))
    assert check(giving("{{ inputs.day }}", when="inputs.day != ''"), inputs=schema) == []


def test_a_read_with_a_default_is_a_mistake_only_where_the_schema_is_closed():
    for read in (giving("{{ inputs.dya | default('x') }}"), giving(1, when="has(inputs.dya)")):
        assert check(read, inputs=OPEN) == []
        assert len(check(read, inputs=CLOSED)) == 1


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "object"},
        {**OPEN, "additionalProperties": True},
        {**OPEN, "patternProperties": {"^d": {}}},
        {**OPEN, "allOf": [{"properties": {"dya": {}}}]},
        {"$ref": "#/$defs/a", "$defs": {"a": OPEN}},
    ],
)
def test_a_schema_that_may_allow_it_says_nothing(schema):
    assert check(giving("{{ inputs.dya }}"), inputs=schema) == []


def test_fields_inside_an_input_are_looked_at_too():
    order = {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": CLOSED}},
        "additionalProperties": False,
    }
    schema = {"type": "object", "properties": {"order": order}}
    (problem,) = check(giving("{{ inputs.order.lines[0].dya }}"), inputs=schema)
    assert problem[2] == "node 'a' reads 'inputs.order.lines.0.dya', and there is no 'dya'; did you mean 'day'?"
    assert check(giving("{{ inputs.order.lines[0].day }}"), inputs=schema) == []


HUMAN = {"id": "c", "type": "human", "config": {"form": CLOSED}, "dependencies": ["before"]}
BEFORE = {"id": "before", "type": "transform", "config": {"value": {"total": {"net": 1}}}}


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ("c.decison", "node 'a' reads 'c.decison', and there is no 'decison'; did you mean 'decision'?"),
        ("c.data.dya", "node 'a' reads 'c.data.dya', and there is no 'dya'; did you mean 'day'?"),
        ("before.totl", "node 'a' reads 'before.totl', and there is no 'totl'; did you mean 'total'?"),
        ("before.total.nett", "node 'a' reads 'before.total.nett', and there is no 'nett'; did you mean 'net'?"),
        ("get.bdy", "node 'a' reads 'get.bdy', and there is no 'bdy'; did you mean 'body'?"),
        *((known, None) for known in ("c.decision", "c.comments", "c.before.total", "c.title", "c.error.code")),
        *(
            (known, None)
            for known in ("c.data.day", "c.output.decision", "before.total.net", "get.body.anything", "own.x")
        ),
    ],
)
def test_a_field_that_a_node_does_not_give_is_warned_about(read, said):
    get = {"id": "get", "type": "http", "config": {"url": "https://example.com"}}
    own = {"id": "own", "type": "task", "config": {"function": "os:getcwd"}}
    after = {"dependencies": ["c", "get", "own"]}
    found = check(BEFORE, HUMAN, get, own, giving(f"{{{{ {read} }}}}", **after))
    assert [message for _, _, message in found] == ([] if said is None else [said])
    node = read.partition(".")
    condition = f"ctx.{node[0]}.output.{node[2].removeprefix('output.')} != 1"
    found = check(BEFORE, HUMAN, get, own, giving(1, when=condition, **after))
    assert [message for _, _, message in found] == ([] if said is None else [said])


def test_a_node_that_says_what_it_gives_is_held_to_it():
    task = {"id": "t", "type": "task", "config": {"function": "os:getcwd"}, "output_schema": CLOSED}
    branch = {"rules": [{"condition": "output.dya == 'x'", "next_nodes": ["a"]}]}
    found = check({**task, "branch": branch}, giving("{{ t.dya }}"))
    assert {path for path, _, _ in found} == {"nodes.a.config.value", "nodes.t.branch.rules[0].condition"}
    assert {message for _, _, message in found} == {
        "node 'a' reads 't.dya', and there is no 'dya'; did you mean 'day'?",
        "node 't' reads 't.dya', and there is no 'dya'; did you mean 'day'?",
    }


def human(**config):
    return {"id": "c", "type": "human", "config": config}


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (human(on_timeout="escalate", timeout_seconds=5), "asks the same people again; name others with 'escalate_to'"),
        (human(on_timeout="approve"), "there is no time that could pass; give 'timeout_seconds'"),
        (human(on_timeout="reject", timeout_seconds=5, escalate_to=["ann"]), "set that to 'escalate'"),
        (
            {"id": "e", "type": "http", "config": {"url": "https://a.test", "method": "FETCH"}},
            "known are GET, HEAD, POST",
        ),
        (human(on_timeout="escalate", escalate_to=["ann"], timeout_seconds=5), None),
        (human(timeout_seconds=5), None),
        ({"id": "e", "type": "http", "config": {"url": "https://a.test", "method": "propfind"}}, None),
        ({"id": "e", "type": "http", "config": {"url": "https://a.test", "method": "{{ inputs.how }}"}}, None),
    ],
)
def test_what_is_allowed_and_hardly_meant_is_warned_about(node, said):
    found = check(node)
    assert [said in message for _, _, message in found] == ([] if said is None else [True])


def test_a_default_that_does_not_fit_its_own_schema_is_warned_about():
    schema = {"type": "object", "properties": {"total": {"type": "number", "default": "abc"}, "n": {"default": 1}}}
    ((path, code, message),) = check(giving(1), inputs=schema)
    assert (path, code) == ("inputs.properties.total.default", "invalid_schema")
    assert (
        message
        == 'the default of input \'total\' does not fit: "abc" is not of type "number"; correct it, or its schema'
    )


def test_every_problem_is_said_at_once_beside_errors_of_the_compiler(shell, tmp_path):
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: w\ninputs: {type: object, properties: {day: {}}}\nnodes:\n"
        '  - {id: a, type: transform, config: {value: "{{ inputs.dya }}"}, dependencies: [nobody]}\n'
        "  - {id: e, type: http, config: {url: 'https://a.test', method: FETCH}}\n"
    )
    found = shell.json("validate", str(file), code=2)["problems"]
    assert {(one["code"], one["line"]) for one in found} == {
        ("unknown_node", 4),
        ("unknown_field", 4),
        ("bad_config", 5),
    }


@pytest.mark.parametrize(
    ("node", "code", "said"),
    [
        ({"type": "human", "approvers": ["ann"]}, "unknown_key", "what type 'human' is given stands under 'config'"),
        (
            {"type": "transform", "config": {"value": 1, "when": "true"}},
            "unknown_key",
            "'when' stands on the node, beside config",
        ),
        (
            {**LOOPING, "loop": {"condition": "a.ready", "max_iterations": 2}},
            "bad_reference",
            "its own output is written output",
        ),
        ({"type": "transform", "config": {"value": "{{ input.x }}"}}, "unknown_node", "did you mean 'inputs'?"),
    ],
)
def test_a_thing_in_the_wrong_place_is_told_its_place(shell, tmp_path, node, code, said):
    problems = shell.json("validate", workflow(tmp_path, "w", {"id": "a", **node}), code=2)["problems"]
    assert any(one["code"] == code and one["message"].endswith(f"; {said}") for one in problems), problems


def test_nodes_that_are_a_mapping_are_told_how_a_list_is_written(shell, tmp_path):
    (tmp_path / "w.yaml").write_text("name: w\nnodes:\n  a: {type: transform, config: {value: 1}}\n")
    (problem,) = shell.json("validate", "w.yaml", code=2)["problems"]
    assert problem["message"] == "'nodes' of the workflow must be a list, got a mapping; begin each with '- id: NAME'"


def test_the_children_of_a_python_file_are_looked_at_with_it(shell, tmp_path):
    (tmp_path / "flow.py").write_text(
        "import perdure\n\n@perdure.workflow\ndef ask():\n"
        '    return perdure.approval(title="Pay?", approvers=["ann"])["decison"]\n\n'
        "@perdure.workflow\ndef top():\n    return ask()\n"
    )
    said = (
        "child workflow 'ask': the outputs read 'approval.decison', and there is no 'decison'; did you mean 'decision'?"
    )
    assert [one["message"] for one in shell.json("validate", "flow.py:top")["problems"]] == [said]
    assert said.partition(";")[0] in shell.run("run", "flow.py:top", "--no-wait", code=3).stderr


# -- children ----------------------------------------------------------------------------------------------------------


def parent(tmp_path, name, inputs):
    node = {"id": "k", "type": "workflow", "config": {"workflow": name, "inputs": inputs}}
    return workflow(tmp_path, "parent", node)


@pytest.mark.parametrize(
    ("inputs", "path", "said"),
    [
        ({}, "nodes[0].config.inputs", "there is no 'amount'; give it under inputs"),
        ({"amount": "abc"}, "nodes[0].config.inputs.amount", "'amount' must be a number, got 'abc'"),
        ({"amount": 1, "nte": "x"}, "nodes[0].config.inputs.nte", "unknown key 'nte'; did you mean 'note'?"),
        ({"amount": "{{ inputs.any }}"}, None, None),
        ({"amount": 3}, None, None),
    ],
)
def test_inputs_that_do_not_fit_a_child_that_is_known_are_warned_about(anywhere, tmp_path, inputs, path, said):
    anywhere.run("workflows", "push", workflow(tmp_path, "child", CHILD, inputs=CHILD_INPUTS))
    file = parent(tmp_path, "child", inputs)
    problems = anywhere.json("validate", file)["problems"]
    pushed = anywhere.json("workflows", "push", file)["problems"]
    assert [one["message"] for one in problems] == [one["message"] for one in pushed]
    if said is None:
        assert problems == []
    else:
        (problem,) = problems
        assert (problem["path"], problem["code"], problem["severity"]) == (path, "child_inputs", "warning")
        assert problem["message"] == f"the inputs of node 'k' do not fit workflow 'child': {said}"


def test_a_child_that_is_not_known_is_warned_about_before_a_run_everywhere(anywhere, tmp_path):
    name = "stranger"
    file = parent(tmp_path, name, {})
    for words, code in ((["validate", file], 0), (["workflows", "push", file], 0), (["run", file], 1)):
        told = anywhere.run(*words, code=code).stderr
        assert told.count("[unknown_workflow]") == 1, words
        assert f"no workflow '{name}' is registered here" in told
        assert "perdure workflows push FILE" in told
    beside = workflow(tmp_path, name, giving(1))
    assert f"perdure workflows push {beside}" in anywhere.run("validate", file).stderr
