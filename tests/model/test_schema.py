"""The JSON Schema of the language: what the compiler accepts fits it, and what is plainly wrong does not."""

from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given, settings

from perdure.model import compile_definition
from perdure.model.definition_schema import DIALECT, Kind, _mapping, describe_language
from perdure.model.problems import Problems
from perdure.model.reader import read
from perdure.nodes import builtin
from perdure.nodes.config_checks import find_more_problems
from tests.documents import blocks
from tests.model import strategies
from tests.model.helpers import again, node, workflow
from tests.model.test_reference import NODES, load

ROOT = Path(__file__).parent.parent.parent
REGISTRY = builtin()
SCHEMA = describe_language(Kind(one.name, one.aliases, one.description, one.config_schema) for one in REGISTRY)
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


def mistakes(data):
    return [f"{list(error.instance_path)}: {error.message}"[:300] for error in VALIDATOR.iter_errors(data)]


def data_of(text):
    problems = Problems()
    data, _, _ = read(text, None, problems)
    return data if problems.errors == 0 else None


def written():
    """Every definition that an example or a page of the docs shows and that the compiler accepts."""
    for path in sorted([*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "src").rglob("*.yaml.txt")]):
        yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]):
        for number, (language, name, text) in enumerate(blocks(path.read_text(encoding="utf-8"))):
            if language in ("yaml", "json"):
                yield f"{path.relative_to(ROOT)}:{name or number}", text


def accepted(data):
    compiled = compile_definition(data)
    return compiled.ir is not None and not [
        one for one in find_more_problems(compiled, REGISTRY) if one.severity == "error"
    ]


DEFINITIONS = {
    str(name): data
    for name, text in written()
    if isinstance(data := data_of(text), dict) and "nodes" in data and compile_definition(data).ir is not None
}


def test_it_is_a_schema_of_the_draft_it_names():
    assert SCHEMA["$schema"] == DIALECT
    assert jsonschema_rs.meta.is_valid(SCHEMA)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_examples_and_docs_show_fits(name):
    assert mistakes(DEFINITIONS[name]) == []


def test_there_are_many_of_them():
    assert len(DEFINITIONS) > 15


@pytest.mark.parametrize("kind", list(REGISTRY), ids=lambda kind: kind.name)
def test_the_example_of_every_node_type_fits(kind):
    assert mistakes(workflow({"id": "a", **kind.example})) == []


@pytest.mark.parametrize("name", NODES)
def test_what_the_reference_documents_write_fits(name):
    assert mistakes(workflow(load(name))) == []


def call(**config):
    return {"id": "a", "type": "http", "config": config}


BROKEN = {
    "no nodes": {"name": "w"},
    "empty nodes": {"name": "w", "nodes": []},
    "a list": [],
    "a typo in the workflow": workflow(node("a"), nods=[]),
    "a typo in a node": workflow(node("a", retires=3)),
    "a name with a space": {"name": "a b", "nodes": [node("a")]},
    "an id with a digit first": workflow(node("1st")),
    "a reserved id": workflow(node("inputs")),
    "no id": workflow({"type": "task"}),
    "no type": workflow({"id": "a"}),
    "a type that is no name": workflow(node("a", type="a b")),
    "a timeout in words": workflow(node("a", timeout_seconds="soon")),
    "a timeout below zero": workflow(node("a", timeout_seconds=-1)),
    "an unknown effect": workflow(node("a", effect="once")),
    "no attempts": workflow(node("a", retry=0)),
    "a typo in retry": workflow(node("a", retry={"attempts": 3})),
    "a join of none": workflow(node("a", join={"at_least": 0})),
    "an unknown join": workflow(node("a", join="some")),
    "a loop without a condition": workflow(node("a", loop={"max_iterations": 3})),
    "a typo in a loop": workflow(node("a", loop=again(max=3))),
    "a rule without nodes": workflow(node("a", branch={"rules": [{"condition": "output.ok"}]})),
    "a branch without rules": workflow(node("a", branch={"default": ["b"]})),
    "an empty condition": workflow(node("a", when=" ")),
    "an unknown kind of condition": workflow(node("a", when={"type": "regex", "expression": "x"})),
    "a condition without its query": workflow(node("a", when={"type": "jsonpath", "operator": "exists"})),
    "a comparison with nothing": workflow(node("a", when={"type": "jsonpath", "query": "$.x", "operator": "=="})),
    "a NOT of two": workflow(node("a", when={"type": "composite", "operator": "not", "conditions": ["a", "b"]})),
    "a dependency that is a number": workflow(node("a", dependencies=[1])),
    "dependencies that are text": workflow(node("b", dependencies="a")),
    "an edge without an end": workflow(node("a"), edges=[{"from": "a"}]),
    "an address of another kind": workflow(node("a", config_ref="md5:abc")),
    "a rate without a time": workflow(node("a", rate={"limit": 3})),
    "a call without a url": workflow(call(method="GET")),
    "a call without a config": workflow({"id": "a", "type": "http"}),
    "a call under another name of the type": workflow({"id": "a", "handler": "call_external_service", "config": {}}),
    "a typo in a config": workflow(call(url="http://x", methd="GET")),
    "a wrong type in a config": workflow(call(url="http://x", max_bytes="many")),
    "a typo in a task": workflow(node("a", config={"function": "m:f", "arg": {}})),
    "an item that has a place in the graph": workflow(
        {"id": "a", "type": "map", "config": {"over": [], "node": node("x", "y")}}
    ),
    "an item with a wrong config": workflow(
        {"id": "a", "type": "map", "config": {"over": [], "node": {"type": "http", "config": {"uri": "x"}}}}
    ),
    "a compensator with a wrong config": workflow(node("a", compensator={"type": "http", "config": {"uri": "x"}})),
    "an unknown answer to a timeout": workflow({"id": "a", "type": "human", "config": {"on_timeout": "panic"}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_plainly_wrong_does_not_fit_and_the_compiler_refuses_it_too(name):
    assert mistakes(BROKEN[name]) != []
    assert not accepted(BROKEN[name])


FINE = {
    "templates stand for anything": workflow(call(url="{{ inputs.url }}", max_bytes="{{ inputs.most }}")),
    "null is absent": workflow(node("a", retry=None, when=None, config=None, queue=None, join=None), edges=None),
    "a task without a type": workflow({"id": "a", "config": {"function": "m:f"}}),
    "arguments beside an action": workflow(node("a", config={"action": "email", "to": "ann"})),
    "a type of a worker elsewhere": workflow({"id": "a", "type": "acme.scan", "config": {"depth": 3}}),
    "a config that is elsewhere": workflow({"id": "a", "type": "http", "config_ref": "sha256:" + "0" * 64}),
    "hours and policies": workflow(
        {"id": "a", "type": "human", "config": {"timeout_hours": 2, "escalation_policy": "auto_reject"}}
    ),
    "a compensator by its action": workflow(node("a", config={"function": "m:f"}, compensator={"action": "refund"})),
}


@pytest.mark.parametrize("name", FINE)
def test_what_the_compiler_takes_fits(name):
    assert compile_definition(FINE[name]).ir is not None, compile_definition(FINE[name]).problems
    assert mistakes(FINE[name]) == []


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(strategies.definitions())
def test_whatever_the_compiler_takes_fits(data):
    if accepted(data):
        assert mistakes(data) == []


def test_a_key_that_is_read_has_to_be_described():
    with pytest.raises(KeyError, match="colour"):
        _mapping({"id", "colour"}, {"id": {}})


def test_references_inside_the_config_of_a_type_begin_at_that_config():
    config = {
        "type": "object",
        "properties": {"size": {"$ref": "#/$defs/size"}},
        "$defs": {"size": {"type": "integer"}},
    }
    schema = describe_language([Kind("acme", (), "", config)])
    sized = [workflow({"id": "a", "type": "acme", "config": {"size": size}}) for size in (3, "{{ inputs.n }}", "three")]
    assert [jsonschema_rs.is_valid(schema, one) for one in sized] == [True, True, False]
