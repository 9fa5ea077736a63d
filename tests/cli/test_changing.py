"""`perdure runs patch` and `perdure runs rerun`, when nobody holds the file and when another process does."""

import json

import pytest

from tests.cli.helpers import human, task, wait_until, workflow


@pytest.fixture
def waiting(shell, tmp_path):
    """A run that waits for a person, before it pays."""
    file = workflow(tmp_path, "refund", human("review", approvers=["finance"]), task("pay", "echo", "review"))
    shell.run("run", file, "--run-id", "waiting-1", "--no-wait", code=3)
    return file


def write(tmp_path, value, name="change.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def refund(tmp_path, *nodes):
    folder = tmp_path / "new"
    folder.mkdir(exist_ok=True)
    return workflow(folder, "refund", *nodes)


# -- patch -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_whole_definition_is_a_patch(shell, tmp_path, waiting):
    review = human("review", approvers=["finance"])
    new = refund(tmp_path, review, task("pay", "echo", "review", args={"value": 2}), task("mail", "echo", "pay"))
    result = shell.run("runs", "patch", "waiting-1", new, "--reason", "tell them", "--by", "ann")
    assert result.stdout.splitlines() == [
        "Patched waiting-1; it is ready to go on",
        "  added: mail",
        "  changed: pay",
        "  edges added: pay -> mail",
    ]
    assert "No process works on this database now" in result.stderr
    (event,) = [e for e in shell.json("runs", "events", "waiting-1")["items"] if e["type"] == "run.patched"]
    assert (event["data"]["by"], event["data"]["reason"]) == ("ann", "tell them")
    shell.run("approvals", "approve", "waiting-1", "--by", "finance")
    shell.run("run", waiting, "--run-id", "waiting-1")
    nodes = shell.json("runs", "show", "waiting-1")["nodes"]
    assert (nodes["pay"]["output"], nodes["mail"]["state"]) == (2, "completed")


@pytest.mark.slow
def test_a_list_is_a_json_patch_of_the_definition_the_run_has(shell, tmp_path, waiting):
    operations = [{"op": "add", "path": "/nodes/-", "value": task("mail", "echo", "pay")}]
    for number in range(2):  # the second one finds what the first made
        operations[0]["value"]["id"] = f"mail{number}"
        file = write(tmp_path, operations)
        assert shell.json("runs", "patch", "waiting", file)["nodes"][f"mail{number}"]["state"] == "pending"
    assert shell.json("runs", "show", "waiting-1")["nodes"].keys() == {"review", "pay", "mail0", "mail1"}
    patches = [
        e["data"]["patch"] for e in shell.json("runs", "events", "waiting-1")["items"] if e["type"] == "run.patched"
    ]
    assert [one[0]["value"]["id"] for one in patches] == ["mail0", "mail1"]


def test_a_json_patch_may_be_yaml(shell, tmp_path, waiting):
    text = "- {op: replace, path: /nodes/0/config/args, value: {value: 7}}\n"
    definition = shell.json("runs", "patch", "waiting-1", write(tmp_path, text, "change.yaml"), "--dry-run")
    assert definition["possible"]
    assert definition["changed"] == ["pay"]


def test_a_dry_run_says_what_would_change_and_changes_nothing(shell, tmp_path, waiting):
    new = refund(
        tmp_path, human("review", approvers=["finance"]), task("pay", "echo", "review"), task("mail", "echo", "pay")
    )
    result = shell.run("runs", "patch", "waiting-1", new, "--dry-run")
    assert result.stdout.splitlines()[-1] == "waiting-1 can be patched so; nothing was changed"
    around = refund(tmp_path, human("review", approvers=["finance"]), task("pay", "echo"))
    refused = shell.json("runs", "patch", "waiting-1", around, "--dry-run", code=1)
    assert not refused["possible"]
    assert "'pay' runs only after the approval 'review'" in refused["refused"]
    assert "edges removed: review -> pay" in shell.run("runs", "patch", "waiting-1", around, "--dry-run", code=1).stdout
    assert "run.patched" not in shell.run("runs", "events", "waiting-1").stdout


def test_a_refused_patch_gives_every_reason_and_exits_with_1(shell, tmp_path, waiting):
    error = shell.error("runs", "patch", "waiting-1", refund(tmp_path, task("pay", "echo")))
    assert "node 'review' has been activated and cannot be removed" in error
    assert "'pay' runs only after the approval 'review'; it would run without it" in error
    other = shell.error("runs", "patch", "waiting-1", workflow(tmp_path, "other", task("pay", "echo")))
    assert "the run is of workflow 'refund', the patch of 'other'" in other


def test_a_bad_definition_or_patch_is_shown_and_exits_with_2(shell, tmp_path, waiting):
    bad = refund(tmp_path, human("review"), task("pay", "echo", "revue"))
    error = shell.error("runs", "patch", "waiting-1", bad, code=2)
    assert "revue" in error
    assert "1 error; nothing was patched" in error
    syntax = write(tmp_path, "{", "broken.json")
    assert "nothing was patched" in shell.error("runs", "patch", "waiting-1", syntax, code=2)
    wrong = write(tmp_path, [{"op": "remove", "path": "/nodes/9"}])
    assert "operation 0 (remove /nodes/9): there is no such place" in shell.error(
        "runs", "patch", "waiting-1", wrong, code=2
    )
    worse = write(tmp_path, [{"op": "replace", "path": "/nodes", "value": []}])
    assert "nothing was patched" in shell.error("runs", "patch", "waiting-1", worse, code=2)
    assert "cannot read" in shell.error("runs", "patch", "waiting-1", tmp_path / "none.json", code=2)


# -- rerun -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def done(shell, tmp_path):
    file = workflow(
        tmp_path,
        "sum",
        task("a", "echo", args={"value": {"n": "{{ inputs.n }}"}}),
        task("b", "echo", "a", args={"value": "{{ a.n }}"}),
        inputs={"type": "object", "required": ["n"]},
    )
    shell.run("run", file, "-i", "n=5", "--run-id", "done-1")
    return file


@pytest.mark.slow
def test_a_rerun_from_a_node_keeps_what_came_before_it(shell, done):
    view = shell.json("runs", "rerun", "done", "--from", "b", "-i", 'a={"n": 9}', "--run-id", "again-1")
    assert (view["run_id"], view["origin"], view["state"]) == ("again-1", "done-1", "running")
    assert view["nodes"]["a"]["state"] == "completed"
    shell.run("run", done, "--run-id", "again-1")
    assert shell.json("runs", "show", "again-1")["nodes"]["b"]["output"] == 9


def test_a_rerun_without_a_node_has_the_old_inputs_with_others_on_top(shell, done):
    result = shell.run("runs", "rerun", "done-1", "-i", "m=1", "--run-id", "again-2")
    assert result.stdout == "Started again-2 out of done-1; it is ready to go on\n"
    assert "No process works on this database now; `perdure run FILE --run-id again-2`" in result.stderr
    assert shell.json("runs", "show", "again-2")["inputs"] == {"n": 5, "m": 1}
    assert shell.json("runs", "rerun", "done-1")["run_id"] not in ("done-1", "again-2")


def test_a_rerun_that_cannot_be_says_why(shell, done):
    assert "The workflow has no node z; known are a, b" in shell.error("runs", "rerun", "done-1", "--from", "z")
    error = shell.error("runs", "rerun", "done-1", "--from", "b", "-i", "c=1")
    assert "the inputs of 'b' are what came before it (a); 'c' is not one of them" in error
    assert "exists" in shell.error("runs", "rerun", "done-1", "--run-id", "done-1")
    assert "there is no run nothing" in shell.error("runs", "rerun", "nothing")
    assert "expected name=value" in shell.error("runs", "rerun", "done-1", "-i", "x", code=2)


# -- beside another process --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_patch_and_rerun_are_decided_by_the_process_that_holds_the_file(shell, tmp_path):
    review = human("review", approvers=["finance"])
    file = workflow(tmp_path, "refund", review, task("pay", "echo", "review"))
    holder = shell.start("run", file, "--run-id", "held-1")
    wait_until(lambda: "review" in holder.text, "the run waits")
    new = refund(tmp_path, review, task("pay", "echo", "review"), task("mail", "echo", "pay"))
    assert shell.json("runs", "patch", "held-1", new)["state"] == "running"
    again = shell.json("runs", "rerun", "held-1", "--run-id", "held-2")
    assert again["nodes"].keys() == {"review", "pay", "mail"}
    for run in ("held-2", "held-1"):
        shell.run("approvals", "approve", run, "--by", "finance")
    wait_until(lambda: shell.json("runs", "show", "held-1")["state"] == "completed", "the run ends")
    assert shell.json("runs", "show", "held-1")["nodes"]["mail"]["state"] == "completed"
