"""A definition with a mistake in it, found hours later: the run goes on by the mended one, and what is done is kept."""

import json

import pytest

from tests.cli.helpers import task, workflow


def flow(tmp_path, template, *more, name="flow"):
    ran = task("slow", "note", args={"path": str(tmp_path / "ran.txt")})
    last = {"id": "last", "type": "transform", "dependencies": ["slow"], "config": {"value": template}}
    return workflow(tmp_path, name, ran, last, *more)


def broken(shell, tmp_path):
    """A run that did its work and failed at the last node, over a typo."""
    file = flow(tmp_path, "{{ slow.nothing.at.all }}")
    told = shell.error("run", file)
    run_id = shell.json("runs", "list", "--workflow", "flow")["items"][0]["run_id"]
    return file, run_id, told


def end(shell, run_id):
    """Let it end, wherever it runs, and look at it."""
    shell.run("runs", "watch", run_id)
    return shell.json("runs", "show", run_id)


@pytest.mark.slow
def test_a_run_that_failed_over_a_typo_goes_on_by_the_mended_file(anywhere, tmp_path):
    file, run_id, told = broken(anywhere, tmp_path)
    assert f"perdure runs retry {run_id} --definition " in told
    again = anywhere.run("runs", "retry", run_id, code=1)
    assert "failed again at once" in again.stderr
    assert "slow.nothing" in again.stderr
    flow(tmp_path, "{{ slow }}!")
    for flags, code in ((), 1), (("--dry-run",), 1):  # it is too late for a patch, which says what is not
        said = anywhere.run("runs", "patch", run_id, file, *flags, code=code).stderr
        assert f"to go on with a mended definition: perdure runs retry {run_id} --definition FILE" in said
    assert "changed since" not in anywhere.run("runs", "show", run_id).stdout
    answer = anywhere.json("runs", "retry", run_id, "--definition", file, "--reason", "typo")
    assert ", changed since" in anywhere.run("runs", "show", run_id).stdout
    assert answer["state"] in ("running", "completed")
    view = anywhere.json("runs", "show", run_id)
    assert (view["state"], view["outputs"]) == ("completed", {"last": "x!"})
    assert (tmp_path / "ran.txt").read_text() == "x\n"
    events = anywhere.json("runs", "events", run_id)["items"]
    (patched,) = [event for event in events if event["type"] == "run.patched"]
    assert (patched["data"]["mends"], patched["data"]["reason"]) == (True, "typo")


@pytest.mark.slow
def test_a_rerun_takes_a_mended_definition_too(anywhere, tmp_path):
    file, run_id, _ = broken(anywhere, tmp_path)
    flow(tmp_path, "{{ slow }}?")
    view = anywhere.json("runs", "rerun", run_id, "--from", "last", "--definition", file)
    assert view["origin"] == run_id
    view = anywhere.json("runs", "show", view["run_id"])
    assert (view["state"], view["outputs"]) == ("completed", {"last": "x?"})
    assert (tmp_path / "ran.txt").read_text() == "x\n"


@pytest.mark.slow
def test_what_has_no_place_for_the_work_that_is_done_is_refused_with_all_reasons(anywhere, tmp_path):
    _, run_id, _ = broken(anywhere, tmp_path)
    other = {"id": "other", "type": "transform", "config": {"value": 1}}
    last = {"id": "last", "type": "transform", "dependencies": ["other"], "config": {"value": 1}}
    file = workflow(tmp_path, "flow", other, last)
    told = anywhere.error("runs", "retry", run_id, "--definition", file)
    assert "node 'slow' has been activated and cannot be removed" in told
    assert "other -> last comes too late" in told
    assert "'slow' has been activated" in anywhere.error(
        "runs", "rerun", run_id, "--from", "last", "--definition", file
    )
    assert anywhere.json("runs", "show", run_id)["state"] == "failed"


def test_a_definition_that_is_wrong_is_shown_with_its_lines(anywhere, tmp_path):
    _, run_id, _ = broken(anywhere, tmp_path)
    bad = flow(tmp_path, "{{ slow }}", {"id": "x", "type": "http", "config": {"to": 1}}, name="bad")
    (tmp_path / "bad.json").write_text((tmp_path / "bad.json").read_text().replace('"name": "bad"', '"name": "flow"'))
    for command in (("retry", run_id), ("rerun", run_id, "--from", "last")):
        told = anywhere.error("runs", *command, "--definition", bad, code=2)
        assert "unknown key 'to'" in told
        assert "bad.json:" in told


@pytest.mark.slow
def test_running_the_mended_file_says_how_to_go_on(shell, tmp_path):
    file, run_id, _ = broken(shell, tmp_path)
    flow(tmp_path, "{{ slow }}")
    told = shell.error("run", file, "--run-id", run_id, code=2)
    assert f"perdure runs retry {run_id} --definition" in told


def test_the_sdk_goes_on_by_the_workflow_as_it_is_now(shell, tmp_path):
    import perdure

    def load(template):
        return json.loads((tmp_path / flow(tmp_path, template)).read_text())

    first = perdure.run(load("{{ slow.nothing.at.all }}"), run_id="r1", db="sdk.db")
    assert first.state == "failed"
    second = perdure.run(load("{{ slow }}!"), run_id="r1", db="sdk.db", retry_failed=True)
    assert (second.state, second.outputs) == ("completed", {"last": "x!"})
    assert (tmp_path / "ran.txt").read_text() == "x\n"
