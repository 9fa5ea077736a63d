"""`perdure graph`: pictures of workflows and of runs, from the command line."""

import json
import xml.etree.ElementTree as ET

import pytest

from tests.cli.helpers import human, task, workflow


@pytest.fixture
def flow(tmp_path):
    return workflow(tmp_path, "refund", task("fetch", "echo"), human("review", "fetch"), task("pay", "echo", "review"))


def test_mermaid_is_printed_unless_another_format_is_asked_for(shell, flow):
    assert shell.run("graph", flow).stdout.startswith("flowchart TD\n")
    assert "fetch --> review" in shell.run("graph", flow, "--format", "mermaid").stdout
    assert shell.run("graph", flow, "--format", "dot").stdout.startswith('digraph "refund" {')
    assert ET.fromstring(shell.run("graph", flow, "--format", "svg").stdout).tag.endswith("svg")
    assert shell.run("graph", flow, "--direction", "right").stdout.startswith("flowchart LR\n")


@pytest.mark.parametrize(
    ("name", "begin"), [("a.svg", "<svg"), ("a.dot", "digraph"), ("a.mmd", "flowchart"), ("a", "flow")]
)
def test_the_name_of_the_file_says_the_format(shell, flow, tmp_path, name, begin):
    result = shell.run("graph", flow, "-o", name)
    assert result.stdout == ""
    assert f"Wrote {name}" in result.stderr
    assert (tmp_path / name).read_text().startswith(begin)


def test_a_run_is_drawn_with_its_states(shell, flow):
    shell.run("run", flow, "--run-id", "r1", "--no-wait", code=3)
    drawn = shell.run("graph", "--run", "r1", "--format", "svg").stdout
    assert "s-good" in drawn
    assert "s-waits" in drawn
    assert "waiting" in drawn
    states = {node["id"]: node["state"] for node in shell.json("graph", "--run", "r1")["nodes"]}
    assert states == {"fetch": "completed", "review": "waiting", "pay": "pending"}


def test_json_has_boxes_and_lines_with_their_places(shell, flow):
    data = shell.json("graph", flow)
    assert [node["id"] for node in data["nodes"]] == ["fetch", "review", "pay"]
    assert data["nodes"][0]["place"].keys() == {"x", "y", "width", "height"}
    assert data["nodes"][0]["state"] is None
    assert [(edge["from"], edge["to"]) for edge in data["edges"]] == [("fetch", "review"), ("review", "pay")]
    assert data["edges"][0]["line"]["curves"]


def test_a_bad_definition_is_not_drawn(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: x\nnodes: [{id: a, type: task, dependencies: [b]}]\n")
    text = shell.error("graph", "bad.yaml", code=2)
    assert "bad.yaml:2:" in text
    assert "nothing was drawn" in text


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ([], "give a FILE, or name a run with --run ID"),
        (["a.yaml", "--run", "x"], "give a FILE or a run, not both"),
        (["a.yaml", "--db", "x.db"], "--db goes with --run"),
        (["a.yaml", "--format", "png"], "mermaid"),
        (["a.yaml", "-o", "a.png"], "-o a.svg, then rsvg-convert a.svg -o a.png"),
    ],
)
def test_wrong_usage_says_what_is_right(shell, args, problem):
    assert problem in shell.error("graph", *args, code=2)


def test_a_run_that_is_not_there_is_said(shell, flow):
    shell.run("run", flow, "--run-id", "r1", "--no-wait", code=3)
    assert "there is no run zz" in shell.error("graph", "--run", "zz")


def test_a_file_that_cannot_be_written_is_said_without_a_traceback(shell, flow):
    assert "no/such/folder/x.svg: No such file or directory" in shell.error("graph", flow, "-o", "no/such/folder/x.svg")


def test_standard_input_is_drawn(shell, flow):
    definition = json.dumps({"name": "x", "nodes": [{"id": "a", "type": "input"}]})
    assert "a([" in shell.run("graph", "-", input=definition).stdout
