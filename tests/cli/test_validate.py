"""`weft validate`: every problem at once, each with its line, as compilers print them."""

import json

from tests.cli.helpers import task, workflow

BAD = """\
name: refund
nodes:
  - id: fetch
    type: task
    retires: 3
    config: {function: "tasks:fetch"}
  - id: pay
    type: task
    dependencies: [fetc]
    config: {function: "tasks:pay"}
"""


def test_a_valid_file_exits_with_0_and_says_so(shell, tmp_path):
    file = workflow(tmp_path, "good", task("a", "echo"), task("b", "echo", "a"))
    assert shell.run("validate", file).stdout == f"{file} is valid: good, 2 nodes\n"


def test_problems_are_printed_with_file_line_column_the_line_and_a_way_out(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    text = shell.error("validate", "bad.yaml", code=2)
    assert "bad.yaml:5:5: error: unknown key 'retires' in node 'fetch'; did you mean 'retry'? [unknown_key]" in text
    assert "    5 |     retires: 3\n      |     ^^^^^^^\n" in text
    assert "bad.yaml:9:20: error:" in text
    assert "bad.yaml: 2 errors" in text


def test_json_has_the_documented_shape(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    result = json.loads(shell.run("validate", "bad.yaml", "--json", code=2).stdout)
    assert (result["valid"], result["hash"]) == (False, None)
    first = result["problems"][0]
    assert {"path", "line", "code", "message"} <= first.keys()
    assert (first["path"], first["line"], first["code"]) == ("nodes[0].retires", 5, "unknown_key")
    good = shell.json("validate", workflow(tmp_path, "good", task("a", "echo")))
    assert good["valid"] is True
    assert good["hash"].startswith("sha256:")
    assert good["problems"] == []


def test_syntax_errors_have_a_line(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: x\nnodes: [\n")
    assert "[syntax]" in shell.error("validate", "bad.yaml", code=2)


def test_a_problem_in_one_long_line_shows_the_part_that_matters(shell, tmp_path):
    nodes = ", ".join(f'{{"id": "n{i}", "type": "task", "config": {{"function": "a:b"}}}}' for i in range(50))
    (tmp_path / "long.json").write_text(f'{{"name": "x", "nodes": [{nodes}], "nods": 1}}')
    text = shell.error("validate", "long.json", code=2)
    shown = [line for line in text.splitlines() if line.startswith("    1 |")]
    assert shown
    assert all(len(line) < 140 for line in shown)
    assert "nods" in shown[0]


def test_standard_input_is_read(shell):
    result = shell.run("validate", "-", input='{"name": "x", "nodes": [{"id": "a", "type": "input"}]}')
    assert "<stdin> is valid: x, 1 node\n" in result.stdout


def test_a_missing_file_is_a_usage_error_that_names_what_is_there(shell, tmp_path):
    (tmp_path / "flow.yaml").write_text("")
    text = shell.error("validate", "flov.yaml", code=2)
    assert "cannot read flov.yaml" in text
    assert "flow.yaml" in text


def test_python_files_are_refused_with_a_reason(shell):
    assert "not there yet" in shell.error("validate", "flow.py:main", code=2)
