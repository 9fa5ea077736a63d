"""`perdure run` in a database where other runs are unfinished: what it says, what it leaves alone."""

import json
import os
import signal

import pytest

from tests.cli.helpers import task, wait_until, workflow

pytestmark = pytest.mark.slow

KILLER = """
import os, pathlib

def kill():
    with pathlib.Path("kills.txt").open("a") as file:
        file.write("x")
    os._exit(3)
"""


@pytest.fixture
def interrupted(shell, tmp_path):
    """A run a1, stopped with Ctrl-C before its last step."""
    gate, begun, done = tmp_path / "gate", tmp_path / "begun", tmp_path / "done.txt"
    nodes = (
        task("first", "wait_until", args={"path": str(gate), "begun": str(begun)}),
        task("second", "note", "first", args={"path": str(done)}),
    )
    process = shell.start("run", workflow(tmp_path, "a", *nodes), "--run-id", "a1")
    wait_until(begun.exists, "the first step")
    process.signal(signal.SIGINT)
    process.wait_for("Stopping:")
    gate.touch()  # the first step ends within its grace, and the last one is not begun any more
    text = process.wait(130)
    assert "goes on with it, too, unless it has --only" in text
    return done


def test_a_run_says_which_others_it_goes_on_with(shell, tmp_path, interrupted):
    slow = tmp_path / "slow"
    process = shell.start("run", workflow(tmp_path, "c", task("x", "wait_until", args={"path": str(slow)})))
    process.wait_for("Also going on with 1 other run here: a1 (--only leaves it alone).")
    wait_until(interrupted.exists, "a1 to go on")
    slow.touch()
    process.wait(0)


@pytest.fixture
def interrupted_parent(shell, tmp_path):
    """A run p1, stopped while its children are under way."""
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    steps = (task("c", "wait_until", args={"path": str(gate), "begun": str(begun)}), task("d", "echo", "c"))
    shell.run("workflows", "push", workflow(tmp_path, "child", *steps))
    each = {"id": "each", "type": "map", "config": {"over": [1, 2], "workflow": "child"}}
    process = shell.start("run", workflow(tmp_path, "parent", each), "--run-id", "p1")
    wait_until(lambda: len(shell.json("runs", "list", "--children")["items"]) == 3, "the children")
    wait_until(begun.exists, "the first step of one of them")
    process.signal(signal.SIGINT)
    process.wait_for("Stopping:")
    gate.touch()
    process.wait(130)


@pytest.mark.parametrize("flags", [(), ("--only",)], ids=["all", "only"])
def test_the_children_of_a_run_are_no_others_when_it_goes_on(shell, interrupted_parent, flags):
    told = shell.run("run", "parent.json", "--run-id", "p1", *flags).stderr
    assert "other run" not in told
    assert {run["state"] for run in shell.json("runs", "list", "--children")["items"]} == {"completed"}


def test_only_leaves_the_others_where_they_are(shell, tmp_path, interrupted):
    file = workflow(tmp_path, "c", task("x", "echo", args={"value": 1}))
    result = shell.run("run", file, "--only", "--run-id", "c1")
    assert "Leaving alone 1 other run here: a1." in result.stderr
    assert json.loads(result.stdout) == {"x": 1}
    assert not interrupted.exists()
    assert shell.json("runs", "show", "a1")["state"] == "running"
    shell.run("run", "a.json", "--run-id", "a1")
    assert interrupted.exists()


@pytest.fixture
def between_attempts(shell, tmp_path):
    """A run late, stopped while it waits for the time of its second attempt."""
    retry = {"max_attempts": 2, "backoff_ms": 3_600_000, "max_backoff_ms": 3_600_000}
    process = shell.start("run", workflow(tmp_path, "late", task("x", "boom", retry=retry)), "--run-id", "late")
    process.wait_for("retrying")
    process.signal(signal.SIGINT)
    process.wait(130)


def test_a_run_that_goes_on_when_its_time_comes_is_named_too(shell, tmp_path, between_attempts):
    file = workflow(tmp_path, "c", task("x", "echo"))
    asks = {"id": "h", "type": "human", "config": {"title": "ok?"}}
    shell.run("run", workflow(tmp_path, "asks", asks), "--run-id", "asks", "--no-wait", "--only", code=3)
    said = shell.run("run", file, "--run-id", "c1").stderr
    assert "Also going on here, when the time that it waits for comes: late (--only leaves it alone).\n" in said
    said = shell.run("run", file, "--run-id", "c2", "--only").stderr
    assert "Leaving alone what waits for a time here: late.\n" in said
    shell.run("runs", "pause", "late")
    shell.run("run", file, "--run-id", "c3")  # carries out the pause
    said = shell.run("run", file, "--run-id", "c4").stderr
    assert "late" not in said


def test_who_goes_on_with_a_run_that_the_holder_leaves_alone_is_told_what_to_type(shell, tmp_path, interrupted):
    enough = tmp_path / "enough"
    slow = workflow(tmp_path, "c", task("x", "wait_until", args={"path": str(enough)}), task("y", "echo", "x"))
    holder = shell.start("run", slow, "--only").wait_for("Leaving alone 1 other run here: a1.")
    follower = shell.start("run", "a.json", "--run-id", "a1").wait_for(f"    kill -INT {holder.pid}\n")
    assert not interrupted.exists()
    holder.signal(signal.SIGINT)
    holder.wait_for("has 10 s to finish")
    enough.touch()  # it finishes within its grace
    holder.wait(130)
    follower.wait(0)
    assert interrupted.exists()


def test_a_run_that_kills_its_process_is_named_and_stops_no_other(shell, tmp_path):
    (tmp_path / "killer.py").write_text(KILLER)
    config = {"function": "killer:kill"}
    bad = workflow(tmp_path, "bad", {"id": "k", "type": "task", "config": config})
    shell.start("run", bad, "--run-id", "bad").wait(3)
    good = workflow(tmp_path, "good", task("x", "echo", args={"value": 1}))
    for number in (1, 2):  # leaving it alone does not forget it
        text = shell.start("run", good, "--run-id", f"g{number}").wait(0)
        assert "Run bad was being executed (node k) when its process died.\n  It is left alone here" in text
        assert "`perdure run FILE --run-id bad`, goes on with it." in text
        assert "give it `isolation: process`" in text
        assert "other run" not in text, "nor is it said to go on"
    assert shell.json("runs", "show", "bad")["state"] == "running"
    assert (tmp_path / "kills.txt").read_text() == "x"
    text = shell.start("run", bad, "--run-id", "bad").wait(3)  # one crash is no pattern
    assert "was being executed" not in text
    text = shell.start("run", bad, "--run-id", "bad").wait(3)
    assert (
        "Run bad was being executed (node k) when its process died, 2 times now.\n  After 5 times it is parked." in text
    )


def test_the_crashes_of_a_run_that_was_left_alone_are_counted_by_who_goes_on_with_it(shell, tmp_path):
    (tmp_path / "killer.py").write_text(KILLER)
    node = {"id": "k", "type": "task", "config": {"function": "killer:kill"}, "max_crashes": 2}
    bad = workflow(tmp_path, "bad", node)
    good = workflow(tmp_path, "good", task("x", "echo"))
    for _ in range(2):
        shell.start("run", bad, "--run-id", "bad").wait(3)
        shell.run("run", good)
    shell.start("run", bad, "--run-id", "bad", "--no-wait").wait(3)  # it waits for a person now
    assert shell.json("runs", "show", "bad")["nodes"]["k"]["state"] == "parked"
    assert (tmp_path / "kills.txt").read_text() == "xx"
    assert not os.path.exists(tmp_path / ".perdure" / "perdure.db.claims")
