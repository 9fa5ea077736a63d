"""`perdure blobs`, `perdure gc`, and runs whose values are large: what people see."""

import json

import pytest

from tests.cli.helpers import task, workflow

BIG = "x" * 100_000


def repeat(node, *needs):
    return task(node, "echo", *needs, args={"value": "{{ inputs.text }}"})


def test_content_goes_in_and_comes_out(shell, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"\x00\xff content")
    ref = shell.run("blobs", "put", "data.bin").stdout.strip()
    assert ref.startswith("cas://sha256:")
    assert shell.json("blobs", "put", "data.bin") == {"ref": ref, "size": 10}
    assert shell.run("blobs", "get", ref).stdout_bytes == b"\x00\xff content"
    assert shell.run("blobs", "get", ref.removeprefix("cas://")).stdout_bytes == b"\x00\xff content"
    shell.run("blobs", "get", ref, "-o", "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == b"\x00\xff content"
    assert shell.json("blobs", "stat", ref)["size"] == 10
    assert "10 bytes" in shell.run("blobs", "stat", ref).stdout


def test_content_may_come_from_standard_input(shell):
    ref = shell.run("blobs", "put", "-", input='{"value": 1}').stdout.strip()
    assert shell.json("blobs", "get", ref)["content_base64"] == "eyJ2YWx1ZSI6IDF9"


def test_mistakes_are_said_in_words(shell):
    shell.run("blobs", "put", "-", input="x")
    assert "there is no blob" in shell.error("blobs", "get", "sha256:" + "0" * 64)
    assert "is not a reference to a blob" in shell.error("blobs", "stat", "sha256:12")
    assert "cannot read nothing.json" in shell.error("blobs", "put", "nothing.json", code=2)
    assert "there is no database" in shell.error("blobs", "get", "sha256:" + "0" * 64, "--db", "other.db")


@pytest.mark.slow
def test_a_run_shows_its_outputs_whole_and_of_its_nodes_the_beginning(shell, tmp_path):
    file = workflow(tmp_path, "large", repeat("a"), repeat("b", "a"))
    view = shell.json("run", file, "-i", f"text={BIG}", "--run-id", "r1")
    assert view["outputs"] == {"b": BIG}
    assert view["inputs"] == {"text": BIG}
    assert view["nodes"]["a"]["output"]["preview"].startswith('"xxx')
    assert view["nodes"]["a"]["size"] == len(BIG) + 2
    shown = shell.json("runs", "show", "r1")
    assert shown["outputs"] == {"b": BIG}
    text = shell.run("runs", "show", "r1").stdout
    assert '100,002 bytes: "xxx' in text
    assert shell.json("runs", "show", "r1", "--node", "a")["output"] == BIG
    assert shell.json("doctor")["ok"]
    events = shell.json("runs", "events", "r1")["items"]
    assert len(json.dumps(events)) < 5000
    assert shell.json("runs", "watch", "r1")["outputs"] == {"b": BIG}
    shell.run("run", file, "-i", f"text={BIG}", "--run-id", "r1")
    assert "began with other inputs" in shell.error("run", file, "-i", f"text={BIG}y", "--run-id", "r1", code=2)


def test_a_run_whose_blobs_are_gone_says_so(shell, tmp_path):
    import shutil

    file = workflow(tmp_path, "large", repeat("a"))
    shell.run("run", file, "-i", f"text={BIG}", "--run-id", "r1")
    (folder,) = (tmp_path / ".perdure").glob("*.blobs")
    shutil.rmtree(folder)
    view = shell.json("runs", "show", "r1")
    assert "there is no blob" in view["problems"][0]
    assert view["outputs"] == {"a": {"$ref": view["outputs"]["a"]["$ref"]}}
    report = shell.json("doctor", code=1)
    assert {finding["invariant"] for finding in report["findings"]} == {"V7"}
    assert "which is not in the blob store" in report["findings"][0]["message"]


@pytest.mark.slow
def test_gc_says_what_it_does(shell, tmp_path):
    file = workflow(tmp_path, "large", repeat("a"))
    shell.run("run", file, "-i", f"text={BIG}", "--run-id", "r1")
    shell.run("blobs", "put", "-", input="nobody names this")
    assert "0 discarded" in shell.run("gc").stdout
    assert "1 would be discarded (17 bytes)" in shell.run("gc", "--dry-run", "--grace-hours", "0").stdout
    found = shell.json("gc", "--grace-hours", "0")
    assert (found["runs"], found["discarded"], found["deleted"], found["missing"]) == (1, 1, 0, [])
    assert "1 deleted for good (17 bytes)" in shell.run("gc", "--grace-hours", "0").stdout
    assert shell.json("runs", "show", "r1")["outputs"] == {"a": BIG}


def test_a_workflow_may_keep_a_config_as_a_blob(shell, tmp_path):
    ref = shell.run("blobs", "put", "-", input='{"value": "{{ inputs.n + 1 }}"}').stdout.strip()
    file = workflow(tmp_path, "elsewhere", {"id": "a", "type": "transform", "config_ref": ref})
    assert shell.json("run", file, "-i", "n=2")["outputs"] == {"a": 3}
    missing = workflow(tmp_path, "missing", {"id": "a", "type": "transform", "config_ref": "sha256:" + "0" * 64})
    assert "perdure blobs put FILE" in shell.error("run", missing, code=2)
