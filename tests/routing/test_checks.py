from tests.kernel.driver import compiled
from weft.routing.checks import check_parts


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
