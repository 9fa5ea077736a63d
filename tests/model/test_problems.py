import re
from pathlib import Path

import pytest

import perdure.model
from perdure.model import DefinitionError, compile_definition, compile_text
from perdure.model.problems import CODES, describe, format_path
from tests.model.cases import CASES
from tests.model.helpers import codes, message, node, workflow

SOURCE = Path(perdure.model.__file__).parent
# Needs a graph made for the purpose and seconds of searching; its own test lowers the limit instead.
ELSEWHERE = {"loops_too_complex", "too_costly"}


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=pytest.mark.slow) if code == "too_large" else code for code in sorted(CASES)]
)
def test_every_code_is_produced_by_its_case(code):
    assert code in codes(CASES[code])


def test_every_code_has_a_case_and_every_case_a_code():
    assert set(CASES) | ELSEWHERE == set(CODES)


def test_every_code_in_the_source_is_in_the_table():
    used = set()
    for file in SOURCE.glob("*.py"):
        text = file.read_text()
        used |= set(re.findall(r"(?:error|warning)\(\s*\"(\w+)\"", text))
        used |= set(re.findall(r"yield\s*\(?\s*\"(\w+)\",\s*f\"", text))
        used |= set(re.findall(r"_refuse\(\s*event,\s*\"(\w+)\"", text))
        used |= set(re.findall(r"Problem\(\"\", None, None, \"(\w+)\"", text))
    assert used == set(CODES)


def test_all_problems_come_at_once_in_the_order_of_the_text():
    text = """
name: w
nodes:
  - id: a
    type: task
    retires: 3
  - id: b
    typ: task
    dependencies: [c]
  - id: b
    type: task
    timeout_seconds: soon
  - id: d
    type: task
    dependencies: [a]
    config: {x: "{{ nobody.x }}", y: "{{ open"}
"""
    result = compile_text(text)
    assert [(p.line, p.code) for p in result.problems] == [
        (6, "unknown_key"),
        (7, "missing_key"),
        (8, "unknown_key"),
        (9, "unknown_node"),
        (10, "duplicate_id"),
        (12, "wrong_type"),
        (16, "unknown_node"),
        (16, "bad_template"),
    ]
    assert [p.path for p in result.problems][:2] == ["nodes[0].retires", "nodes[1]"]


def test_a_message_names_subject_problem_and_way_out():
    result = compile_definition(workflow(node("fetch", retires=3)))
    assert message(result, "unknown_key") == "unknown key 'retires' in node 'fetch'; did you mean 'retry'?"


def test_lines_are_found_in_json_too():
    text = '{\n "name": "w",\n "nodes": [\n  {"id": "a", "type": "task"},\n  {"id": "b", "typ\\u0065": "task",\n   "dependencies": ["zz"]}]}'
    [problem] = compile_text(text).problems
    assert (problem.line, problem.column, problem.path) == (6, 21, "nodes[1].dependencies[0]")


def test_a_definition_error_carries_every_problem():
    result = compile_definition(workflow(node("a", "x", "y")))
    with pytest.raises(DefinitionError, match=r"'x'.*and 1 more") as caught:
        result.get_ir()
    assert caught.value.problems == result.problems
    assert caught.value.code == "invalid_definition"


def test_a_suggestion_over_many_nodes_stays_cheap_and_useful():
    nodes = [node(f"step_{i}") for i in range(5000)]
    result = compile_definition(workflow(*nodes, node("last", "step_49999")))
    assert "did you mean 'step_" in message(result, "unknown_node")


def test_loops_that_take_too_long_to_check_are_refused(monkeypatch):
    monkeypatch.setattr("perdure.model.loops.MAX_STEPS", 3)
    chain = [node("n0"), *(node(f"n{i}", f"n{i - 1}") for i in range(1, 9))]
    loop = {"condition": "output.x", "max_iterations": 2}
    chain[8]["loop"] = {**loop, "loop_back_to": "n1"}
    assert codes(workflow(*chain)) == {"loops_too_complex"}


def test_paths_and_values_are_written_for_people():
    assert format_path(("nodes", 3, "config", "a b", "x-y")) == 'nodes[3].config["a b"].x-y'
    assert format_path(()) == ""
    values: list = [None, True, {}, [1], "x", 2]
    assert [describe(v) for v in values] == ["null", "true", "a mapping", "a list", "'x'", "2"]
    assert len(describe("y" * 99)) < 70
