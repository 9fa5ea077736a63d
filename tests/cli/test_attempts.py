"""`perdure runs show ID --node NODE`: how each attempt at the node went, by what was recorded."""

import os
import re
import signal

import pytest

from tests.cli.helpers import human, task, wait_until, workflow
from tests.client.helpers import Background


def flaky(folder, **more):
    return workflow(folder, "flaky", task("pay", "pay_third_time", args={"path": str(folder / "tries.txt")}, **more))


def test_every_attempt_is_there_with_its_error_worker_and_times(shell, tmp_path):
    shell.run("run", flaky(tmp_path, retry={"max_attempts": 3, "backoff_ms": 10}), "--run-id", "r1")
    view = shell.json("runs", "show", "r1", "--node", "pay")
    attempts = view["attempts"]
    assert [(one["visit"], one["attempt"], one["state"]) for one in attempts] == [
        (1, 1, "failed"),
        (1, 2, "failed"),
        (1, 3, "completed"),
    ]
    assert [one.get("error", {}).get("message") for one in attempts] == ["ConnectionError: the bank is closed"] * 2 + [
        None
    ]
    assert all(one["started_at"] <= one["ended_at"] and one["worker"].startswith("local-") for one in attempts)
    assert attempts[-1]["started_at"] == view["started_at"]
    lines = shell.run("runs", "show", "r1", "--node", "pay").stdout.splitlines()
    heading = next(line for line in lines if line.startswith("ATTEMPT"))
    assert heading.split() == ["ATTEMPT", "STATE", "WORKER", "STARTED", "TOOK", "ERROR"]
    # A busy machine may take a second for one.
    assert sum("the bank is closed" in line and re.search(r"\d (ms|s)\b", line) is not None for line in lines) == 2


def test_a_node_that_failed_says_how_long_each_attempt_took(shell, tmp_path):
    file = flaky(tmp_path, retry={"max_attempts": 1})
    shell.run("run", file, "--run-id", "r1", code=1)
    told = shell.run("runs", "show", "r1", "--node", "pay").stdout
    row = next(line for line in told.splitlines() if line.startswith("1        failed  local-"))
    assert " ms" in row
    (row,) = [line for line in shell.run("runs", "show", "r1").stdout.splitlines() if line.startswith("pay ")]
    assert " ms" in row


def test_what_completed_at_once_needs_no_table(shell, tmp_path):
    shell.run("run", workflow(tmp_path, "one", task("a", "echo", args={"value": 1})), "--run-id", "r1")
    assert "ATTEMPT  STATE" not in shell.run("runs", "show", "r1", "--node", "a").stdout
    assert len(shell.json("runs", "show", "r1", "--node", "a")["attempts"]) == 1


def test_a_past_moment_has_the_attempts_of_then(shell, tmp_path):
    shell.run("run", flaky(tmp_path, retry={"max_attempts": 3, "backoff_ms": 10}), "--run-id", "r1")
    events = shell.json("runs", "events", "r1")["items"]
    first = next(one["seq"] for one in events if one["type"] == "node.retrying")
    then = shell.json("runs", "show", "r1", "--node", "pay", "--at", first)["attempts"]
    assert [(one["state"], one["retry_at"]) for one in then] == [("failed", events[first - 1]["data"]["retry_at"])]


def test_the_rounds_of_a_loop_have_attempts_of_their_own(shell, tmp_path):
    again = task("again", "echo", args={"value": 1})
    again["loop"] = {"condition": "loop.iteration < 2", "max_iterations": 2, "loop_back_to": "again"}
    shell.run("run", workflow(tmp_path, "loop", again), "--run-id", "r1")
    attempts = shell.json("runs", "show", "r1", "--node", "again")["attempts"]
    assert [(one["visit"], one["attempt"], one["state"]) for one in attempts] == [
        (number, 1, "completed") for number in range(1, len(attempts) + 1)
    ]
    assert len({tuple(one["scope"]) for one in attempts}) == len(attempts) > 1


def test_a_question_is_one_attempt_that_waits(shell, tmp_path):
    shell.run("run", workflow(tmp_path, "asks", human("ask")), "--run-id", "r1", "--no-wait", code=3)
    states = [one["state"] for one in shell.json("runs", "show", "r1", "--node", "ask")["attempts"]]
    assert states == ["waiting"]


@pytest.mark.slow
def test_an_attempt_whose_process_died_says_no_more_than_is_known(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}))
    process = shell.start("run", file, "--run-id", "r1")
    wait_until(lambda: "a     queued" in process.text, "a to be queued")
    wait_until(lambda: shell.json("runs", "show", "r1")["nodes"]["a"]["state"] == "running", "a to be executed")
    (now,) = shell.json("runs", "show", "r1", "--node", "a")["attempts"]
    assert now["state"] == "running"
    assert now["worker"]
    assert "ended_at" not in now
    os.kill(process.pid, signal.SIGKILL)
    process.wait(-signal.SIGKILL)
    gate.touch()
    shell.run("run", file, "--run-id", "r1")
    died, done = shell.json("runs", "show", "r1", "--node", "a")["attempts"]
    assert (died["attempt"], died["state"], died.get("started_at")) == (1, "crashed", None)
    assert (done["attempt"], done["state"]) == (2, "completed")


@pytest.mark.slow
def test_a_server_says_the_same(shell, tmp_path, tmp_path_factory):
    file = flaky(tmp_path, retry={"max_attempts": 3, "backoff_ms": 10})
    with Background(tmp_path_factory.mktemp("server")) as server:
        run_id = shell.json("run", file, "--server", server.url)["run_id"]
        view = shell.json("runs", "show", run_id, "--node", "pay", "--server", server.url)
        assert [one["state"] for one in view["attempts"]] == ["failed", "failed", "completed"]
        told = shell.run("runs", "show", run_id, "--node", "pay", "--server", server.url).stdout
        assert told.count("the bank is closed") == 2
