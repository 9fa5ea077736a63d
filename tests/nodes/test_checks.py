"""Configs against the schemas of their types: before anything runs, with templates standing for anything."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.expressions.rendered_config import Secret, Segments
from perdure.model import DefinitionError, compile_definition
from perdure.model.policies import TYPE_ALIASES
from perdure.nodes import BUILTIN, builtin
from perdure.nodes.config_checks import check_configs, explain_rendered, find_mistakes
from perdure.nodes.registry import CAPABILITIES, NodeType
from perdure.simulation.stage.stubs import TRIVIAL
from tests.cli.conftest import shell  # noqa: F401
from tests.engine.helpers import compiled, finish, running, workflow

REGISTRY = builtin()
TYPES = list(REGISTRY)


@pytest.mark.parametrize("node_type", TYPES, ids=lambda one: one.name)
def test_every_built_in_type_says_what_it_is(node_type):
    assert node_type.description.endswith(".")
    assert node_type.config_schema.get("type") == "object"
    assert node_type.capabilities <= CAPABILITIES.keys()
    assert node_type.example["type"] == node_type.name
    assert find_mistakes(node_type, node_type.example.get("config")) == []
    assert compile_definition(workflow({"id": "add", **node_type.example})).definition is not None or node_type.example


def test_the_aliases_of_the_registry_are_those_of_the_compiler():
    known = {alias: one.name for one in TYPES for alias in one.aliases}
    assert known == {alias: name for alias, name in TYPE_ALIASES.items() if name in BUILTIN}


def test_what_the_coordinator_answers_can_be_stubbed_in_tests():
    assert {one.name for one in TYPES if one.answer is not None} == TRIVIAL


def paths(value, path=()):
    """Every place in a config but the config itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def put(config, path, value):
    config = copy.deepcopy(config)
    inner = config
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return config


CONFIGS = [
    (one, {**one.example["config"], **more})
    for one in TYPES
    if one.example.get("config")
    for more in ({}, {"timeout_seconds": 3, "on_timeout": "fail"} if one.name == "human" else {})
]
HTTP = REGISTRY.find("http")
FULL = {
    "url": "https://a.test/",
    "method": "POST",
    "headers": {"x": "y"},
    "query": {"a": [1, 2]},
    "json": {"deep": [1]},
    "expect_status": [200, "4xx"],
    "auth": {"type": "basic", "username": "u", "password": "p"},
    "follow_redirects": True,
    "response": "json",
    "timeout": 3,
    "max_bytes": 10,
}


@pytest.mark.parametrize(("node_type", "config"), [*CONFIGS, (HTTP, FULL)], ids=lambda one: getattr(one, "name", ""))
def test_a_template_may_stand_anywhere_in_a_config(node_type, config):
    for path in paths(config):
        for text in ("{{ inputs.x }}", "a{{ b.c }}d"):
            if node_type.name == "function" and path == ("code",):
                continue  # what a template gave would be run
            if node_type.name == "trigger" and path != ("event", "key"):
                continue  # a source is fixed: the run reads on behind its cursor
            if node_type.name == "agent" and path[0] == "tools":
                continue  # what a template gave would say what the agent may do
            if path == ("url",) and (text[0] == "a" or "secrets" in str(config)):
                continue  # a URL cannot begin like that, whatever the rest comes to; and a secret needs its host written out
            assert find_mistakes(node_type, put(config, path, text)) == [], path


@given(st.sampled_from(list(paths(FULL))), st.sampled_from([7.5, [], {}, True, "\n", -1]))
def test_what_is_found_names_a_place_at_or_above_what_is_wrong(path, value):
    for mistake in find_mistakes(HTTP, put(FULL, path, value)):
        assert mistake.path == path[: len(mistake.path)]


@pytest.mark.parametrize(
    ("config", "path", "code", "words"),
    [
        ({}, (), "missing_key", "it has no 'url'"),
        ({"url": 7}, ("url",), "bad_config", "'url' must be text, got 7"),
        ({"url": "https://a.test/", "ulr": 1}, ("ulr",), "unknown_key", "did you mean 'url'?"),
        (
            {"url": "https://a.test/", "auth": {"type": "bearer", "tokn": "x"}},
            ("auth", "tokn"),
            "unknown_key",
            "'token'?",
        ),
        (
            {"url": "https://a.test/", "response": "xml"},
            ("response",),
            "bad_config",
            "one of auto, json, text, bytes, got 'xml'",
        ),
        ({"url": "https://a.test/", "timeout": 0}, ("timeout",), "bad_config", "more than 0, got 0"),
        ({"url": "https://user:canary@a.test/"}, ("url",), "bad_config", "use `auth`"),
        ({"url": "ftp://{{ x }}"}, ("url",), "bad_config", "http:// or https://"),
        ({"url": "https://{{ x }}", "json": 1, "form": {}}, ("form",), "bad_config", "both are the body"),
        ({"url": "https://a.test/", "headers": {"Host": "b"}}, ("headers", "Host"), "bad_config", "set by Perdure"),
        (
            {"url": "https://a.test/", "headers": {"a b": "c"}},
            ("headers", "a b"),
            "bad_config",
            "not the name of a header",
        ),
        ({"url": "https://a.test/", "method": "CONNECT"}, ("method",), "bad_config", "CONNECT"),
        (
            {"url": "https://a.test/", "auth": {"type": "header", "name": "x"}},
            ("auth",),
            "bad_config",
            "has no 'value'",
        ),
        (
            {"url": "https://a.test/", "auth": {"type": "bearer", "token": "t", "name": "x"}},
            ("auth", "name"),
            "bad_config",
            "no use",
        ),
        (
            {"url": "https://a.test/", "auth": {"type": "header", "name": "Host", "value": "x"}},
            ("auth", "name"),
            "bad_config",
            "",
        ),
        ({"url": "https://a.test/", "expect_status": []}, ("expect_status",), "bad_config", "a status such as"),
        (
            {"url": "https://a.test/", "expect_status": ["2xx", 999]},
            ("expect_status",),
            "bad_config",
            "a status such as",
        ),
    ],
)
def test_mistakes_in_an_http_config_are_found_with_their_place(config, path, code, words):
    [mistake] = find_mistakes(HTTP, config)
    assert (mistake.path, mistake.code) == (path, code)
    assert words in mistake.message
    assert "canary" not in mistake.message


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("{{ inputs.url }}", True),
        ("{{ inputs.base }}/x", True),
        ("https://{{ inputs.host }}", True),
        ("https://{{ inputs.host }}/x", True),
        ("https://api-{{ inputs.region }}.example.com/x", True),
        ("https://api.example.com/{{ inputs.path }}", True),
        ("https://api.example.com?q={{ inputs.q }}", True),
        ("http{{ inputs.s }}://a.test/", True),
        ("https://api.example.com{{ inputs.path }}", False),
        ("https://api.example.com:80{{ inputs.path }}", False),
        ("ftp://{{ x }}/", False),
        ("a.test/{{ x }}", False),
    ],
)
def test_data_cannot_continue_the_host_of_a_url(url, fits):
    assert (find_mistakes(HTTP, {"url": url}) == []) is fits


def test_conditional_schemas_wait_for_the_rendered_config():
    schema = {
        "type": "object",
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["a"]},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }

    async def handle(config, ctx):
        return None

    node_type = NodeType(name="x", description="X.", config_schema=schema, handler=handle)
    assert find_mistakes(node_type, {"kind": "{{ x }}", "b": 1}) == []
    assert find_mistakes(node_type, {"kind": "a", "b": 1}) != []
    assert explain_rendered(node_type, {"kind": "a", "b": 1}) != ""
    assert explain_rendered(node_type, {"kind": "b", "b": 1}) == ""


def test_a_secret_that_is_not_filled_in_yet_leaves_its_place_open():
    config = {"url": Segments(("https://a.test/?k=", Secret("k"))), "auth": {"type": "bearer", "token": Secret("t")}}
    assert explain_rendered(HTTP, config) == ""
    assert "unknown key 'x'" in explain_rendered(HTTP, {**config, "x": 1})


def test_values_are_not_in_what_is_said_about_a_rendered_config():
    for key in FULL:
        for value in ("canary", ["canary"], {"canary-value": "canary"}):
            text = explain_rendered(HTTP, {**FULL, key: value})
            assert "canary" not in text.replace("canary-value", ""), (key, text)


async def test_a_workflow_with_bad_configs_is_refused_with_all_of_them(tmp_path):
    definition = workflow(
        {"id": "a", "type": "http", "config": {"ulr": "x"}, "compensator": {"type": "http", "config": {"url": 1}}},
        {"id": "b", "type": "wait", "config": {"seconds": "x"}, "dependencies": ["a"]},
    )
    async with running(tmp_path) as engine:
        with pytest.raises(DefinitionError) as caught:
            await engine.workflows.register(compiled(definition))
        assert await engine.journal.find_workflow("tested", None) is None
    assert sorted(problem.path for problem in caught.value.problems) == [
        "nodes.a.compensator.config.url",
        "nodes.a.config",
        "nodes.a.config.ulr",
        "nodes.b.config.seconds",
    ]


def test_a_type_nobody_here_has_is_a_warning():
    ir = compiled(workflow({"id": "a", "type": "htpp"})).ir
    [problem] = check_configs(ir, REGISTRY)
    assert (problem.severity, problem.code, problem.path) == ("warning", "unknown_type", "nodes.a.type")
    assert "did you mean 'http'?" in problem.message


async def test_an_alias_runs_as_what_it_stands_for(tmp_path):
    async with running(tmp_path) as engine:
        call = {"id": "a", "type": "call_external_service", "config": {"url": "http://10.0.0.1/"}}
        assert (await finish(engine, workflow(call))).error.code == "egress_refused"


# -- the command line --------------------------------------------------------------------------------------------------

BAD = """\
name: bad
nodes:
  - id: fetch
    type: http
    config:
      url: https://example.com/
      metod: POST
  - node_id: all
    type: map
    depends_on: [fetch]
    config:
      over: "{{ fetch.body }}"
      node:
        type: wait
        config: {seconds: -1}
"""


def test_validate_shows_the_line_of_every_mistake(shell, tmp_path):  # noqa: F811
    (tmp_path / "bad.yaml").write_text(BAD)
    text = shell.error("validate", "bad.yaml", code=2)
    assert "bad.yaml:7:7: error: config of node 'fetch': unknown key 'metod'" in text
    assert "did you mean 'method'?" in text
    assert "bad.yaml:15:27: error: config of the item of node 'all': 'seconds' must be at least 0, got -1" in text
    found = json.loads(shell.run("validate", "bad.yaml", "--json", code=2).stdout)["problems"]
    assert [(one["path"], one["line"]) for one in found] == [
        ("nodes[0].config.metod", 7),
        ("nodes[1].config.node.config.seconds", 15),
    ]


def test_run_refuses_a_bad_config_with_2_and_runs_nothing(shell, tmp_path):  # noqa: F811
    (tmp_path / "bad.yaml").write_text(BAD)
    assert "nothing was run" in shell.error("run", "bad.yaml", "--db", "x.db", code=2)


def test_a_bad_setting_of_who_may_be_called_stops_a_run_with_2(shell, tmp_path, monkeypatch):  # noqa: F811
    (tmp_path / "good.yaml").write_text("name: good\nnodes: [{id: a, type: input}]\n")
    monkeypatch.setenv("PERDURE_EGRESS_ALLOW", "10.0.0.1/8")
    assert "setting egress_allow: '10.0.0.1/8'" in shell.error("run", "good.yaml", "--db", "x.db", code=2)


@pytest.mark.parametrize(
    ("node", "path"),
    [
        ({"type": "transform", "config": {"value": 1}, "sensitive": ["a"]}, "nodes.a.sensitive"),
        ({"type": "human", "config": {"approvers": ["x"]}, "sensitive": ["data"]}, "nodes.a.sensitive"),
        ({"type": "transform", "config": {"value": "{{ secrets.x }}"}}, "nodes.a.config"),
        ({"type": "workflow", "config": {"workflow": "w", "inputs": {"t": "x {{ secrets.x }}"}}}, "nodes.a.config"),
    ],
)
def test_what_needs_no_worker_can_seal_nothing_and_hold_no_secret(node, path):
    ir = compile_definition(workflow({"id": "a", **node})).get_ir()
    assert [(problem.code, problem.path) for problem in check_configs(ir, REGISTRY)] == [("bad_config", path)]


def test_a_worker_may_seal_and_be_given_secrets():
    call = {"type": "task", "config": {"function": "m:f", "args": {"t": "{{ secrets.x }}"}}}
    nodes = [
        {"id": "a", **call, "sensitive": ["x"]},
        {"id": "b", "type": "transform", "config": {"jq": ".t", "input": {"t": "{{ secrets.x }}"}}, "sensitive": ["x"]},
        {"id": "c", "type": "map", "config": {"over": [1], "node": call}},
    ]
    assert check_configs(compile_definition(workflow(*nodes)).get_ir(), REGISTRY) == ()


def test_a_limit_on_what_needs_no_worker_is_a_warning_with_its_place():
    limit = {"key": "k", "limit": 1}
    item = {"type": "task", "config": {"function": "m:f"}, "concurrency": limit}
    nodes = [
        {"id": "m", "type": "map", "config": {"over": [1], "node": item}, "concurrency": limit},
        {"id": "h", "type": "human", "rate": {**limit, "per_seconds": 1}},
        {"id": "t", "type": "task", "config": {"function": "m:f"}, "concurrency": limit},
    ]
    ir = compile_definition({"name": "w", "nodes": nodes}).get_ir()
    found = [problem for problem in check_configs(ir, REGISTRY) if "has no effect" in problem.message]
    assert sorted((problem.path, problem.severity) for problem in found) == [
        ("nodes.h.rate", "warning"),
        ("nodes.m.concurrency", "warning"),
    ]
    assert any("put it on its item" in problem.message for problem in found)
