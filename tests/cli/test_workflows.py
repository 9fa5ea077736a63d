"""`perdure workflows` and what is newer of `perdure runs`, in a database and on a server: the same commands, the same words."""

import json
import os

import pytest

from tests.cli.helpers import human, task, wait_until, workflow


@pytest.mark.slow
def test_versions_come_and_names_point_to_them(anywhere, tmp_path):
    file = workflow(tmp_path, "orders", task("a", "echo", args={"value": 1}))
    assert anywhere.run("workflows", "push", file, "--reason", "the first").stdout == "orders is now version 1\n"
    assert anywhere.run("workflows", "push", file).stdout == "orders was already version 1\n"
    workflow(tmp_path, "orders", task("a", "echo", args={"value": 2}))
    assert anywhere.json("workflows", "push", file)["created"] is True
    names = [one["name"] for one in anywhere.json("workflows", "list")["items"]]
    assert names.count("orders") == 1  # the server has those of other tests too
    assert "orders" in anywhere.run("workflows", "list").stdout

    versions = anywhere.json("workflows", "versions", "orders")["items"]
    origin = "" if "PERDURE_SERVER_URL" in os.environ else f"from {file}"  # a path means nothing on a server
    assert [(one["version"], one["reason"]) for one in versions] == [(2, origin), (1, "the first")]
    assert "the first" in anywhere.run("workflows", "versions", "orders").stdout
    assert anywhere.json("workflows", "versions", "orders", "--limit", "1")["next_cursor"] is not None

    assert "latest" in anywhere.run("workflows", "alias", "orders").stderr
    assert anywhere.run("workflows", "alias", "orders", "live", "1").stdout == "orders@live means version 1\n"
    shared = anywhere.run("workflows", "alias", "orders", "live", "1=90", "2=10", "--reason", "try it").stdout
    assert shared == "orders@live means version 1 for 90 %, version 2 for 10 %\n"
    assert "try it" in anywhere.run("workflows", "alias", "orders").stdout
    assert anywhere.json("workflows", "alias", "orders", "live", "--rollback")["version"] == 1
    assert anywhere.json("workflows", "show", "orders@live")["version"] == 1
    assert anywhere.json("workflows", "show", "orders@2")["definition"]["nodes"][0]["config"]["args"] == {"value": 2}
    shown = anywhere.run("workflows", "show", "orders").stdout
    places = [shown.index(key) for key in ("  name: ", "  nodes:", "id: a", "type: task", "config:")]
    assert places == sorted(places)  # the order of the reference
    assert "version     2" in shown
    assert "name: orders" in shown
    assert anywhere.run("workflows", "alias", "orders", "live", "--delete").stdout == "orders@live is forgotten\n"
    assert anywhere.json("workflows", "alias", "orders")["items"] == []


@pytest.mark.slow
def test_a_patch_is_the_next_version(anywhere, tmp_path):
    anywhere.run("workflows", "push", workflow(tmp_path, "patched", task("a", "echo")))
    added = {"id": "b", "type": "transform", "dependencies": ["a"], "config": {"value": 1}}
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/nodes/-", "value": added}]))
    assert "added: b" in anywhere.run("workflows", "patch", "patched", patch, "--dry-run").stdout
    assert anywhere.json("workflows", "versions", "patched")["items"][0]["version"] == 1
    told = anywhere.run("workflows", "patch", "patched", patch, "--base", "1").stdout
    assert "patched is now version 2" in told
    assert "not 1" in anywhere.error("workflows", "patch", "patched", patch, "--base", "1")
    patch.write_text(json.dumps([{"op": "remove", "path": "/nodes/9"}]))
    assert "there is no such place" in anywhere.error("workflows", "patch", "patched", patch, code=2)
    file = workflow(tmp_path, "patched", task("a", "echo"))
    assert "is not a JSON Patch" in anywhere.error("workflows", "patch", "patched", file, code=2)


@pytest.mark.slow
def test_mistakes_are_said_in_words(anywhere, tmp_path):
    anywhere.run("workflows", "push", workflow(tmp_path, "mistaken", task("a", "echo")))
    assert "there is no workflow nosuch; register it first" in anywhere.error("workflows", "show", "nosuch")
    anywhere.run("workflows", "alias", "mistaken", "live", "1")
    assert "has no alias liv; did you mean 'live'?" in anywhere.error("runs", "start", "mistaken@liv")
    assert "version 7" in anywhere.error("workflows", "show", "mistaken@7")
    assert "give a VERSION" in anywhere.error("workflows", "alias", "mistaken", "live", code=2)
    assert "'x' is no version" in anywhere.error("workflows", "alias", "mistaken", "live", "x", code=2)
    assert "sum to 90" in anywhere.error("workflows", "alias", "mistaken", "live", "1=90", code=2)
    (tmp_path / "wrong.yaml").write_text("name: wrong\nnodes:\n  - id: a\n    type: wait\n    config: {secs: 1}\n")
    assert "wrong.yaml:5:" in anywhere.error("workflows", "push", "wrong.yaml", code=2)
    (tmp_path / "worse.yaml").write_text("name: wrong\nnodes: 7\n")
    assert "worse.yaml:2:" in anywhere.error("workflows", "push", "worse.yaml", code=2)


@pytest.mark.slow
def test_blobs_and_node_types_are_those_of_where_one_looks(anywhere, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"\x00\xff content")
    ref = anywhere.run("blobs", "put", "data.bin").stdout.strip()
    assert anywhere.json("blobs", "put", "data.bin") == {"ref": ref, "size": 10}
    assert anywhere.run("blobs", "get", ref).stdout_bytes == b"\x00\xff content"
    assert anywhere.json("blobs", "stat", ref)["size"] == 10
    assert "10 bytes" in anywhere.run("blobs", "stat", ref).stdout
    assert "there is no blob" in anywhere.error("blobs", "get", "sha256:" + "0" * 64)
    assert "human" in [one["name"] for one in anywhere.json("node-types")["items"]]
    assert "human" in anywhere.run("node-types").stdout
    assert "config schema" in anywhere.run("node-types", "human").stdout
    assert "did you mean 'human'?" in anywhere.error("node-types", "humn")


@pytest.mark.slow
def test_a_run_of_a_registered_workflow_is_started_by_its_name(anywhere, tmp_path):
    typed = {"type": "object", "properties": {"n": {"type": "integer"}}}
    file = workflow(tmp_path, "named", task("a", "echo", args={"value": "{{ inputs.n }}"}), inputs=typed)
    anywhere.run("workflows", "push", file)
    result = anywhere.run("runs", "start", "named@1", "-i", "n=3", "--tag", "team=blue")
    run_id = result.stdout.strip()
    assert run_id in result.stderr
    view = anywhere.json("run", file, "--run-id", run_id)
    assert (view["outputs"], view["version"], view["tags"]) == ({"a": 3}, 1, {"team": "blue"})
    assert anywhere.json("runs", "start", "named")["workflow"] == "named"
    assert "no workflow nosuch" in anywhere.error("runs", "start", "nosuch")
    assert "the inputs do not fit" in anywhere.error("runs", "start", "named", "-i", "n=x", code=2)


def started(shell, file, *flags):
    return shell.json("run", file, *flags)["run_id"]


@pytest.mark.slow
def test_the_way_and_the_differences_of_runs_are_shown(anywhere, tmp_path):
    file = workflow(tmp_path, "ways", task("a", "echo", args={"value": "{{ inputs.n }}"}), task("b", "echo", "a"))
    one, two = (started(anywhere, file, "-i", f"n={n}") for n in (1, 2))
    steps = anywhere.json("runs", "path", one)["items"]
    assert [(step["node"], step["taken"]) for step in steps] == [("a", ["b"]), ("b", [])]
    assert "(the end)" in anywhere.run("runs", "path", one).stdout
    assert f"--after {steps[0]['seq']}" in anywhere.run("runs", "path", one, "--limit", "1").stderr
    found = anywhere.json("runs", "diff", one, two)
    assert (found["before"]["run_id"], found["after"]["run_id"], [*found["nodes"]]) == (one, two, ["a"])
    assert "/inputs/n" in anywhere.run("runs", "diff", one, two).stdout
    assert anywhere.json("runs", "diff", one, "--at", "1")["before"]["seq"] == 1
    assert "No difference." in anywhere.run("runs", "diff", one, one).stdout
    assert "name OTHER" in anywhere.error("runs", "diff", one, code=2)


@pytest.mark.slow
def test_a_run_is_exported_and_imported_to_look_at(anywhere, tmp_path):
    run_id = started(anywhere, workflow(tmp_path, "moved", task("a", "echo", args={"value": 7})))
    anywhere.run("runs", "export", run_id, "-o", "run.json")
    imported = anywhere.json("runs", "import", "run.json")
    assert imported["imported_from"] == run_id
    shown = anywhere.json("runs", "show", imported["run_id"])
    assert shown["outputs"] == {"a": 7}
    assert "to look at" in shown["quarantined"]
    assert "Imported" in anywhere.run("runs", "import", "-", input=(tmp_path / "run.json").read_text()).stdout
    anywhere.run("runs", "export", run_id, "-o", "run.jsonl")
    assert "is not JSON" in anywhere.error("runs", "import", "run.jsonl", code=2)
    (tmp_path / "run.json").write_text("{}")
    assert "not an exported run" in anywhere.error("runs", "import", "run.json", code=2)


@pytest.mark.slow
def test_a_decision_is_handed_to_somebody_else(anywhere, tmp_path):
    file = workflow(tmp_path, "handed", human("ask", approvers=["anna"]))
    run_id = anywhere.json("run", file, "--no-wait", code=3 if "PERDURE_SERVER_URL" not in os.environ else 0)["run_id"]
    listed = wait_until(lambda: anywhere.json("approvals", "list", "--run-id", run_id)["items"], "the question")
    approval = listed[0]["approval_id"]
    told = anywhere.run("approvals", "delegate", run_id, "ben", "--as", "anna", "--comments", "away").stdout
    assert told == f"ben is asked about {approval}\n"
    assert "anna" in anywhere.error("approvals", "approve", approval, "--as", "anna")
    assert anywhere.json("approvals", "approve", approval, "--as", "ben")["state"] == "decided"
