"""Other spellings that the reference documents use, in definitions."""

from typing import Any

import pytest

from perdure.model import compile_definition, compile_text
from perdure.nodes import installed
from perdure.nodes.config_checks import find_more_problems


def config_of(**node: Any) -> Any:
    compiled = compile_definition({"name": "w", "nodes": [{"id": "a", **node}]})
    assert find_more_problems(compiled, installed()) == ()
    found = compiled.get_ir().nodes[0]
    assert found is not None
    return found.type, found.config


@pytest.mark.parametrize(("policy", "choice"), [("auto_approve", "approve"), ("auto_reject", None)])
def test_an_escalation_policy_may_be_short(policy, choice):
    _, config = config_of(type="human", human_config={"escalation_policy": policy, "timeout_hours": 1})
    assert config.get("on_timeout") == choice


def test_one_approver_and_a_title():
    _, config = config_of(type="human", human_config={"approver": "ann", "title": "A refund"})
    assert config == {"approvers": ["ann"], "title": "A refund"}
    both = {"id": "a", "type": "human", "config": {"approver": "ann", "approvers": ["bob"]}}
    assert compile_definition({"name": "w", "nodes": [both]}).problems[0].code == "conflicting_keys"


def test_a_function_of_a_module_is_a_task():
    assert config_of(type="function", config={"function": "m:f"})[0] == "task"
    assert (
        compile_definition({"name": "w", "nodes": [{"id": "a", "type": "function"}]}).get_ir().nodes[0].type
        == "function"
    )


def test_a_port_where_nothing_streams_is_refused():
    nodes = [{"id": name, "type": "transform", "config": {"value": 1}} for name in "ab"]
    compiled = compile_definition({"name": "w", "nodes": nodes, "edges": [{"from": "a.out", "to": "b.in"}]})
    assert [(one.code, one.severity) for one in compiled.problems] == [("no_such_port", "error")] * 2
    assert find_more_problems(compiled, installed()) == ()


def test_comments_with_slashes_are_told_from_those_of_yaml():
    compiled = compile_text('{"name": "x", // so\n"nodes": []}', format="json")
    assert "where they begin with '#'" in compiled.problems[0].message
