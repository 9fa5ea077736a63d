"""`perdure run` in one process: exit codes, inputs, outputs, going on with a run that exists."""

import json
import re
import shlex

import pytest

from tests.cli.helpers import human, task, workflow


def test_a_completed_run_exits_with_0_and_prints_its_outputs_alone_on_standard_output(shell, tmp_path):
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": {"x": 1}}))
    result = shell.run("run", file)
    assert json.loads(result.stdout) == {"a": {"x": 1}}
    assert "a     completed" in result.stderr
    assert "\x1b[" not in result.stderr


def test_a_failed_run_exits_with_1_and_says_what_failed_and_what_to_do(shell, tmp_path):
    file = workflow(tmp_path, "bad", task("a", "boom"), task("b", "echo", "a"))
    text = shell.error("run", file, "--run-id", "r1", code=1)
    assert "run r1 failed at a: " in text
    assert "ValueError: kaputt" in text
    assert "perdure runs retry r1" in text


def test_the_end_names_everything_that_a_run_failed_at(shell, tmp_path):
    once = {"retry": {"max_attempts": 1}}
    nodes = [
        task(name, "block_until", args={"path": str(tmp_path / f"never-{name}"), "seconds": seconds}, **once, **more)
        for name, seconds, more in [("a", 0.2, {}), ("b", 1, {}), ("c", 0.2, {"on_failure": "continue"})]
    ]
    text = shell.error("run", workflow(tmp_path, "bad", *nodes), "--run-id", "r1", code=1)
    assert re.search(r"run r1 failed at a: TimeoutError: .*never-a", text)
    assert re.findall(r"  also:   (\w): TimeoutError: .*never-b", text) == ["b"]
    assert text.count("  also: ") == 1


def test_a_bad_definition_exits_with_2_and_runs_nothing(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: x\nnodes:\n  - {id: a, typ: task}\n")
    text = shell.error("run", "bad.yaml", code=2)
    assert "bad.yaml:3:" in text
    assert "nothing was run" in text
    assert not (tmp_path / ".perdure").exists()


def test_a_run_that_lacks_a_function_is_not_started_where_only_this_process_works(shell, tmp_path):
    (tmp_path / "parts.py").write_text("def give():\n    return 1\n")
    nodes = [
        {"id": "a", "type": "task", "config": {"function": "parts:give"}},
        {"id": "b", "type": "task", "config": {"function": "parts:giev"}},
        {"id": "c", "type": "task", "config": {"function": "nowhere_at_all:f"}},
    ]
    file = workflow(tmp_path, "lacks", *nodes)
    for more in ([], ["--json"]):
        text = shell.error("run", file, *more, code=2)
        assert "it lacks functions: parts:giev, nowhere_at_all:f; nothing was run" in text
    assert shell.json("runs", "list")["items"] == []
    (tmp_path / "made.py").write_text("globals()['later'] = lambda: 2\n")
    file = workflow(tmp_path, "has", {"id": "a", "type": "task", "config": {"function": "made:later"}})
    assert json.loads(shell.run("run", file).stdout) == {"a": 2}, "what is had when it is imported is run"


def test_no_wait_exits_with_3_and_says_how_to_decide(shell, tmp_path):
    file = workflow(tmp_path, "refund", task("a", "echo"), human("review", "a", approvers=["finance"]))
    text = shell.error("run", file, "--run-id", "r1", "--no-wait", code=3)
    assert "perdure approvals approve r1:review:1 --by finance" in text
    assert f"perdure run {file} --run-id r1" in text


def test_no_wait_goes_on_with_what_needs_no_person(shell, tmp_path):
    file = workflow(
        tmp_path,
        "both",
        human("review"),
        {"id": "pause", "type": "wait", "config": {"seconds": 0.2}},
        task("after", "echo", "pause"),
    )
    view = shell.json("run", file, "--no-wait", code=3)
    assert view["state"] == "running"
    assert (view["nodes"]["after"]["state"], view["nodes"]["review"]["state"]) == ("completed", "waiting")


@pytest.mark.parametrize(
    ("node", "command"),
    [
        ({"id": "a", "type": "wait", "config": {"signal": "go"}}, "perdure runs signal r1 go"),
        (task("a", "boom", on_failure="park"), "perdure dlq requeue r1:a"),
    ],
    ids=["signal", "parked"],
)
def test_no_wait_counts_whatever_only_a_person_can_give(shell, tmp_path, node, command):
    file = workflow(tmp_path, "waits", node)
    assert command in shell.error("run", file, "--run-id", "r1", "--no-wait", code=3)


def test_no_wait_looks_into_children(shell, tmp_path):
    child = workflow(tmp_path, "child", human("inner"))
    shell.run("run", child, "--run-id", "c1", "--no-wait", code=3)  # which registers it
    parent = workflow(tmp_path, "parent", {"id": "sub", "type": "workflow", "config": {"workflow": "child"}})
    assert "perdure approvals approve r1:sub:inner:1" in shell.error(
        "run", parent, "--run-id", "r1", "--no-wait", code=3
    )


def test_json_is_the_run_object(shell, tmp_path):
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 1}))
    result = shell.run("run", file, "--json", "-i", "city=Oslo")
    view = json.loads(result.stdout)
    assert result.stderr == ""
    assert view.keys() >= {
        "run_id", "workflow", "version", "state", "counter", "generation", "inputs", "outputs", "error",
        "created_at", "started_at", "ended_at", "tags", "nodes",
    }  # fmt: skip
    assert view["nodes"]["a"].keys() >= {"state", "visit", "attempt", "output", "started_at", "ended_at"}
    assert (view["state"], view["inputs"], view["outputs"]) == ("completed", {"city": "Oslo"}, {"a": 1})


def test_json_of_a_failed_run_has_its_error(shell, tmp_path):
    view = shell.json("run", workflow(tmp_path, "bad", task("a", "boom")), code=1)
    assert view["state"] == "failed"
    assert "kaputt" in view["error"]["message"]


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_inputs_are_json_where_they_are_json_and_text_otherwise(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    pairs = ["n=120", "b=true", "l=[1, 2]", "t=Oslo", 'q="120"', "e=", "eq=a=b"]
    view = shell.json("run", file, *(word for pair in pairs for word in ("-i", pair)))
    assert view["inputs"] == {"n": 120, "b": True, "l": [1, 2], "t": "Oslo", "q": "120", "e": "", "eq": "a=b"}


def test_flags_stand_on_top_of_the_inputs_file(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    (tmp_path / "in.json").write_text('{"x": 1, "y": 2}')
    assert shell.json("run", file, "--inputs", "in.json", "-i", "y=3")["inputs"] == {"x": 1, "y": 3}
    assert shell.json("run", file, "--inputs", "-", input='{"z": 4}')["inputs"] == {"z": 4}


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["-i", "city"], "expected name=value"),
        (["--inputs", "none.json"], "cannot read none.json"),
        (["--inputs", "list.json"], "expected a JSON object"),
        (["--inputs", "bad.json"], "not JSON"),
        (["--run-id", "a/b"], "--run-id"),
        (["--import", "no_such_module_here"], "--import no_such_module_here: ModuleNotFoundError"),
        (["--import", "none.py"], "there is no file none.py"),
        (["--no-wiat"], "Did you mean"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_right(shell, tmp_path, args, problem):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "bad.json").write_text("{")
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    assert problem in shell.error("run", file, *args, code=2)


def test_a_required_input_that_is_missing_is_noticed_before_the_start(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"}, inputs={"type": "object", "required": ["city"]})
    assert "needs city; give -i city=" in shell.error("run", file, code=2)
    shell.run("run", file, "-i", "city=Oslo")


# -- modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_functions_beside_the_definition_and_imported_files_are_found(shell, tmp_path):
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "beside_the_flow.py").write_text("def f():\n    return 'beside'\n")
    (tmp_path / "given_by_name.py").write_text("def g():\n    return 'given'\n")
    nodes = [
        {"id": "a", "type": "task", "config": {"function": "beside_the_flow:f"}},
        {"id": "b", "type": "task", "config": {"function": "given_by_name:g"}},
    ]
    view = shell.json("run", workflow(folder, "mods", *nodes), "--import", tmp_path / "given_by_name.py")
    assert view["outputs"] == {"a": "beside", "b": "given"}


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_exists_goes_on(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review"), task("pay", "echo", "review"))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    shell.run("approvals", "approve", "r1")
    result = shell.run("run", file, "--run-id", "r1")
    assert "Run r1 exists and is running; going on with it." in result.stderr
    again = shell.run("run", file, "--run-id", "r1")
    assert again.stdout == result.stdout


@pytest.mark.slow
def test_a_failed_run_that_exists_stays_failed_until_it_is_retried(shell, tmp_path):
    file = workflow(tmp_path, "late", task("a", "fail_until", args={"path": str(tmp_path / "there")}))
    shell.run("run", file, "--run-id", "r1", code=1)
    (tmp_path / "there").touch()
    shell.run("run", file, "--run-id", "r1", code=1)
    shell.run("runs", "retry", "r1")
    view = shell.json("run", file, "--run-id", "r1")
    assert (view["state"], view["generation"]) == ("completed", 2)


def test_the_id_of_another_workflow_or_other_inputs_are_refused(shell, tmp_path):
    first = workflow(tmp_path, "first", {"id": "a", "type": "input"})
    shell.run("run", first, "--run-id", "r1", "-i", "x=1")
    other = workflow(tmp_path, "other", {"id": "b", "type": "input"})
    assert "is of another workflow (first version 1" in shell.error("run", other, "--run-id", "r1", code=2)
    assert "began with other inputs" in shell.error("run", first, "--run-id", "r1", "-i", "x=2", code=2)
    shell.run("run", first, "--run-id", "r1", "-i", "x=1")


@pytest.mark.slow
def test_a_file_that_was_edited_since_is_named_as_such_with_what_goes_on(shell, tmp_path):
    file = workflow(tmp_path, "flow", human("ask"), task("b", "echo", "ask"))
    shell.run("run", file, "--run-id", "r1", "--no-wait", code=3)
    workflow(tmp_path, "flow", human("ask"), task("b", "echo", "ask", args={"value": 2}))
    told = shell.error("run", file, "--run-id", "r1", code=2)
    assert "another workflow" not in told
    assert "run r1 began with another definition of flow (version 1)" in told
    command = re.search(r"perdure (runs patch r1 \S+)", told)
    assert command is not None
    shell.run(*shlex.split(command[1]))
    shell.run("approvals", "approve", "r1")
    assert shell.json("run", file, "--run-id", "r1")["nodes"]["b"]["output"] == 2


# -- databases ---------------------------------------------------------------------------------------------------------


def test_db_takes_a_path_or_a_url_and_makes_its_folder(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    shell.run("run", file, "--run-id", "r1", "--db", "data/runs.db")
    assert (tmp_path / "data" / "runs.db").exists()
    assert shell.json("runs", "list", "--db", "sqlite:///data/runs.db")["items"][0]["run_id"] == "r1"


def test_an_unknown_kind_of_database_is_named(shell, tmp_path):
    file = workflow(tmp_path, "one", {"id": "a", "type": "input"})
    assert "expected sqlite:///path or postgresql://" in shell.error("run", file, "--db", "mysql://host/db")


def test_maps_retries_and_handled_failures_are_lines_too(shell, tmp_path):
    item = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": "{{ item }}"}}}
    file = workflow(
        tmp_path,
        "lines",
        {"id": "each", "type": "map", "config": {"over": "{{ inputs.n }}", "node": item}},
        task("shaky", "boom", retry={"max_attempts": 2, "backoff_ms": 1}, on_failure="continue"),
        inputs={"type": "object"},
    )
    text = shell.run("run", file, "-i", "n=[1,2,3]").stderr
    assert "each      items      3 of 3" in text
    assert "shaky     retrying   attempt 1 failed" in text
    assert "shaky     failed     the run goes on, " in text


@pytest.mark.slow
def test_children_of_a_map_are_counted_and_the_columns_stay(shell, tmp_path):
    child = workflow(tmp_path, "child", task("a", "echo", args={"value": "{{ inputs.n }}"}))
    shell.run("run", child, "-i", "n=0")
    node = {"type": "workflow", "config": {"workflow": "child", "inputs": {"n": "{{ item }}"}}}
    each = {"id": "each", "type": "map", "config": {"over": list(range(40)), "node": node}}
    lines = shell.run("run", workflow(tmp_path, "many", each)).stderr.splitlines()
    assert not any("child run" in line for line in lines)
    assert any("items      40 of 40" in line for line in lines)
    assert len(lines) < 20
    bad = {"type": "task", "config": {"function": "tests.cli.work:boom"}, "retry": {"max_attempts": 1}}
    failing = {"id": "each", "type": "map", "config": {"over": [1, 2], "node": bad, "tolerated_failures": 2}}
    lines = shell.run("run", workflow(tmp_path, "bad", failing)).stderr.splitlines()
    assert {line.index(word) for line in lines for word in ("created", "failed", "completed") if word in line} == {20}
