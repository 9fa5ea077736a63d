import pytest

from perdure.expressions.checks import check_parts
from perdure.model import compile_definition
from tests.kernel.driver import compiled


def test_every_condition_that_does_not_compile_is_named_with_its_path():
    ir = compiled(
        {"id": "a", "when": "inputs.x >"},
        {"id": "b", "dependencies": ["a"], "loop": {"condition": "nobody.knows", "max_iterations": 2}},
        {"id": "c", "dependencies": ["a"], "branch": {"rules": [{"condition": "output.n + 1", "next_nodes": ["d"]}]}},
        {"id": "d"},
    )
    problems = {problem.path: problem.code for problem in check_parts(ir)}
    assert problems.keys() >= {"nodes.a.when", "nodes.b.loop.condition"}
    assert set(problems.values()) == {"bad_condition"}


def test_a_workflow_with_sound_conditions_has_no_problems():
    ir = compiled({"id": "a", "when": "inputs.x == 1"}, {"id": "b", "dependencies": ["a"]})
    assert check_parts(ir) == ()


@pytest.mark.parametrize(
    ("nodes", "path"),
    [
        (
            [{"id": "a", "type": "task", "config": {"args": {"x": "{{ inputs.x | urlencode }}"}}}],
            "nodes.a.config.args.x",
        ),
        (
            [{"id": "a", "type": "transform", "config": {"value": ["{{ inputs.x | round(1, 2, 3, 4) }}"]}}],
            "nodes.a.config.value[0]",
        ),
    ],
)
def test_a_template_that_can_never_be_rendered_is_a_problem_with_its_place(nodes, path):
    problems = check_parts(compile_definition({"name": "w", "nodes": nodes}).get_ir())
    assert [(problem.code, problem.path) for problem in problems] == [("bad_template", path)]


def test_every_template_of_a_workflow_is_checked():
    bad = "{{ inputs.x | nosuch }}"
    item = {"type": "task", "config": {"function": "m:f", "args": {"x": bad}}}
    definition = {
        "name": "w",
        "nodes": [
            {"id": "m", "type": "map", "config": {"over": [1], "node": item}},
            {"id": "c", "type": "task", "config": {}, "compensator": {"type": "task", "config": {"args": {"x": bad}}}},
        ],
        "outputs": {"o": bad},
    }
    problems = check_parts(compile_definition(definition).get_ir())
    assert {problem.path for problem in problems} == {
        "nodes.m.config.node.config.args.x",
        "nodes.c.compensator.config.args.x",
        "outputs.o",
    }
