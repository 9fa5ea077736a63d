"""Several processes on one database: commands from another terminal, hand-over, take-over, signals, kills."""

import json
import signal

import pytest

from tests.cli.helpers import human, task, wait_until, workflow
from tests.processes import stop_between_writes

pytestmark = pytest.mark.slow


def finish(shell, run_id):
    return shell.json("runs", "show", run_id)


def executing(shell, file, run_id="r1", start=None):
    """`perdure run`, once its node a is executed: what is only queued is missed by nobody and needs no time to finish."""
    process = (start or shell.start)("run", file, "--run-id", run_id).wait_for("queued")
    wait_until(lambda: shell.json("runs", "show", run_id)["nodes"]["a"]["state"] == "running", "a to be executed")
    return process


def test_an_approval_is_decided_from_a_second_process_while_the_first_holds_the_file(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review", approvers=["finance"]), task("pay", "echo", "review"))
    first = shell.start("run", file, "--run-id", "r1")
    first.wait_for("perdure approvals approve r1:review:1 --by finance")
    second = shell.start("approvals", "approve", "r1", "--by", "finance", "--comments", "fine")
    assert "Approved r1:review:1" in second.wait(0)
    assert "completed" in first.wait(0)
    assert finish(shell, "r1")["nodes"]["review"]["output"]["comments"] == "fine"


def test_a_second_run_is_handed_to_the_holder_and_followed(shell, tmp_path):
    gate = tmp_path / "gate"
    first = shell.start(
        "run", workflow(tmp_path, "one", task("a", "wait_until", args={"path": str(gate)})), "--run-id", "r1"
    ).wait_for("queued")
    second = shell.start("run", workflow(tmp_path, "two", task("b", "echo", args={"value": 7})), "--run-id", "r2")
    text = second.wait(0)
    assert f"process {first.pid} on" in text
    assert '"b": 7' in text
    gate.touch()
    first.wait(0)


def test_a_follower_takes_over_when_the_holder_is_killed(shell, tmp_path):
    gate = tmp_path / "gate"
    one = workflow(tmp_path, "one", task("a", "wait_until", args={"path": str(gate)}))
    first = shell.start("run", one, "--run-id", "r1").wait_for("queued")
    second = shell.start("run", one, "--run-id", "r1").wait_for("is followed here")
    first.kill()
    second.wait_for("going on here")
    gate.touch()
    assert "completed" in second.wait(0)
    assert finish(shell, "r1")["state"] == "completed"
    assert shell.json("doctor")["ok"]


def test_who_goes_on_with_a_run_while_another_process_holds_the_database_is_told_so(shell, tmp_path):
    gate = tmp_path / "gate"
    one = workflow(tmp_path, "one", task("a", "wait_until", args={"path": str(gate)}))
    executing(shell, one).kill()
    two = workflow(tmp_path, "two", task("b", "wait_until", args={"path": str(gate)}))
    holder = shell.start("run", two, "--run-id", "r2").wait_for("It is left alone here")
    follower = shell.start("run", one, "--run-id", "r1")
    follower.wait_for(f"process {holder.pid} on")
    follower.wait_for("If nothing happens, end it")
    gate.touch()
    holder.wait(0)
    assert "completed" in follower.wait(0)


def test_a_takeover_names_the_run_that_is_left_alone(shell, tmp_path):
    gate = tmp_path / "gate"
    one = workflow(tmp_path, "one", task("a", "wait_until", args={"path": str(gate)}))
    two = workflow(tmp_path, "two", {"id": "ask", "type": "human", "config": {}}, task("b", "echo", "ask"))
    holder = executing(shell, one)
    second = shell.start("run", two, "--run-id", "r2").wait_for("approvals approve")
    holder.kill()
    second.wait_for("going on here")
    second.wait_for("Run r1 was being executed (node a) when its process died.")
    shell.start("approvals", "approve", "r2").wait(0)
    second.wait(0)


def test_a_start_that_the_holder_never_answered_is_decided_by_who_takes_over(shell, tmp_path):
    never = {"path": str(tmp_path / "never")}
    holder = shell.start("run", workflow(tmp_path, "one", task("a", "wait_until", args=never)), "--run-id", "r1")
    stop_between_writes(holder.wait_for("queued").pid, tmp_path / ".perdure" / "perdure.db")
    file = workflow(tmp_path, "two", task("b", "echo", args={"value": 7}))
    second = shell.start("run", file, "--run-id", "r2").wait_for("is handed to it")
    holder.kill()
    assert '"b": 7' in second.wait(0)
    events = shell.json("runs", "events", "r2")["items"]
    assert [event["type"] for event in events].count("run.created") == 1


def test_a_killed_run_goes_on_with_the_same_command_and_repeats_nothing_that_completed(shell, tmp_path):
    gate, notes = tmp_path / "gate", tmp_path / "notes"
    file = workflow(
        tmp_path,
        "long",
        task("first", "note", args={"path": str(notes)}),
        task("second", "block_until", "first", args={"path": str(gate)}),
    )
    shell.start_interpreter("run", file, "--run-id", "r1").wait_for("second  queued").kill()
    gate.touch()
    text = shell.start_interpreter("run", file, "--run-id", "r1").wait(0)
    assert "going on with it" in text
    assert notes.read_text() == "x\n"
    assert shell.json("doctor")["ok"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_gracefully_and_says_how_to_go_on(shell, tmp_path, number, code):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}), task("b", "echo", "a"))
    process = executing(shell, file, start=shell.start_interpreter)
    process.signal(number)
    process.wait_for("has 10 s to finish")
    gate.touch()  # it finishes within its grace
    text = process.wait(code)
    assert f"perdure run {file} --run-id r1" in text
    view = finish(shell, "r1")
    assert (view["state"], view["nodes"]["a"]["state"], view["nodes"]["a"]["attempt"]) == ("running", "completed", 1)
    assert "completed" in shell.start("run", file, "--run-id", "r1").wait(0)


def test_a_run_that_completes_while_it_is_stopped_is_not_called_stopped(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}))
    process = executing(shell, file)
    process.signal(signal.SIGINT)
    process.wait_for("has 10 s to finish")
    gate.touch()
    text = process.wait(0)
    assert "Run r1 came to its end before it was stopped: completed." in text
    assert "Stopped" not in text
    assert text.endswith('{\n  "a": "free"\n}\n')


def test_what_a_function_prints_comes_after_the_line_that_the_run_was_created(shell, tmp_path):
    file = workflow(tmp_path, "loud", task("speak", "say", args={"text": "hello"}))
    for _ in range(3):
        lines = shell.start("run", file).wait(0).splitlines()
        assert "created" in lines[0], lines
        assert "hello" in lines[1:], lines


def test_a_second_ctrl_c_leaves_at_once_and_nothing_is_lost(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "block_until", args={"path": str(gate)}))
    process = executing(shell, file)
    process.signal(signal.SIGINT)
    process.wait_for("Ctrl-C again")
    process.signal(signal.SIGINT)
    process.wait(130)
    gate.touch()
    assert "completed" in shell.start("run", file, "--run-id", "r1").wait(0)


def test_a_person_on_a_terminal_is_asked_and_sees_a_tree(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review", approvers=["finance"]), task("pay", "echo", "review"))
    process = shell.start_on_terminal("run", file, "--run-id", "r1")
    process.wait_for("[a]pprove")
    process.type("a\n")
    process.wait_for("Comments")
    process.type("looks good\n")
    text = process.wait(0)
    assert "✓" in text
    output = finish(shell, "r1")["nodes"]["review"]["output"]
    assert (output["decision"], output["decided_by"], output["comments"]) == ("approve", "finance", "looks good")


def test_a_question_goes_away_when_somebody_else_decides(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review"), task("pay", "echo", "review"))
    process = shell.start_on_terminal("run", file, "--run-id", "r1").wait_for("[a]pprove")
    shell.start("approvals", "approve", "r1").wait(0)
    assert "Decided elsewhere" in process.wait(0)


def test_a_person_who_wants_to_decide_later_is_told_how(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review"))
    process = shell.start_on_terminal("run", file, "--run-id", "r1").wait_for("[a]pprove")
    process.type("l\n")
    assert "perdure approvals approve r1:review:1" in process.wait(3)


def test_ctrl_c_at_a_question_stops_the_run_but_not_its_life(shell, tmp_path):
    file = workflow(tmp_path, "refund", human("review"))
    process = shell.start_on_terminal("run", file, "--run-id", "r1").wait_for("[a]pprove")
    process.signal(signal.SIGINT)
    assert "--run-id r1" in process.wait(130)


def test_watch_follows_a_run_of_another_process(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}))
    first = shell.start("run", file, "--run-id", "r1").wait_for("queued")
    second = shell.start("runs", "watch", "r1").wait_for("queued")
    gate.touch()
    assert '"a": "free"' in second.wait(0)
    first.wait(0)


def test_pause_and_resume_from_another_process(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(gate)}), task("b", "echo", "a"))
    first = shell.start("run", file, "--run-id", "r1").wait_for("queued")
    assert "it is paused now" in shell.start("runs", "pause", "r1").wait(0)
    gate.touch()
    wait_until(lambda: finish(shell, "r1")["nodes"]["b"]["state"] == "held", "b to be held")
    assert "the run is paused" in shell.start("runs", "explain", "r1", "b").wait(0)
    shell.start("runs", "resume", "r1").wait(0)
    first.wait(0)


def test_cancel_from_another_process_ends_the_run_with_1(shell, tmp_path):
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(tmp_path / "never")}))
    first = shell.start("run", file, "--run-id", "r1").wait_for("queued")
    shell.start("runs", "cancel", "r1", "--reason", "enough").wait(0)
    assert "cancelled" in first.wait(1)


def test_json_has_nothing_else_on_standard_output(shell, tmp_path):
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 1}))
    text = shell.start("run", file, "--json").wait(0)
    assert json.loads(text)["outputs"] == {"a": 1}
