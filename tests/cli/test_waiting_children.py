"""A parent whose child waits for a person waits as well, wherever a run is shown: lists, the filter of lists, and the run itself."""

import os

import pytest

from tests.cli.helpers import human, task, wait_until, workflow


def calling(node_id, name):
    return {"id": node_id, "type": "workflow", "config": {"workflow": name}}


def listed(shell, *words):
    return {one["workflow"]: one["waiting"] for one in shell.json("runs", "list", "--children", *words)["items"]}


@pytest.mark.slow
def test_a_parent_whose_child_waits_for_a_person_is_listed_as_waiting(anywhere, tmp_path):
    anywhere.run("workflows", "push", workflow(tmp_path, "asks", human("ask")))
    anywhere.run("workflows", "push", workflow(tmp_path, "middle", calling("call", "asks")))
    anywhere.run("run", workflow(tmp_path, "top", calling("call", "middle")), "--no-wait", code=_code())
    everyone = {"top": True, "middle": True, "asks": True}
    wait_until(lambda: listed(anywhere) == everyone, "every run to wait")
    assert listed(anywhere, "--state", "waiting") == everyone
    top = next(one for one in anywhere.json("runs", "list")["items"] if one["workflow"] == "top")
    assert anywhere.json("runs", "show", top["run_id"])["waiting"] is True
    assert "waiting" in anywhere.run("runs", "list").stdout


def _code():
    return 0 if "PERDURE_SERVER_URL" in os.environ else 3


@pytest.mark.slow
def test_a_parent_that_works_beside_its_waiting_child_is_running(shell, tmp_path):
    shell.run("workflows", "push", workflow(tmp_path, "asks", human("ask")))
    busy = task("busy", "wait_until", args={"path": str(tmp_path / "go")})
    shell.start("run", workflow(tmp_path, "top", calling("call", "asks"), busy), "--run-id", "r1")
    wait_until(lambda: listed(shell).get("asks"), "the child to wait")
    assert listed(shell) == {"top": False, "asks": True}
    assert listed(shell, "--state", "waiting") == {"asks": True}
    (tmp_path / "go").write_text("")
    wait_until(lambda: listed(shell)["top"], "the parent to wait")
