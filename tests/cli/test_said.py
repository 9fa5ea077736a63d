"""What functions print and log: beside the results, never among them, and kept with their run."""

import json
import logging
import os
import signal
import sys

import pytest

from perdure.runtime.worker import capture
from tests import forking
from tests.cli.helpers import task, wait_until, workflow

SPEAKING = """
import asyncio, logging, os, subprocess, sys

print("at import")

def speak(ctx):
    print("by print", end="")
    print(", in two parts")
    logging.getLogger("app").info("by logging: %d", 7)
    logging.getLogger("app").debug("too small")
    subprocess.run(["echo", "by a subprocess"], check=True)
    os.write(1, b"by a descriptor\\n")
    ctx.log.info("by ctx.log")
    return 1

async def whisper(text):
    print(text)
    await asyncio.sleep(0)
    return await asyncio.to_thread(print, text, "in a thread")

def shout():
    for number in range(2500):
        print("line", number)
"""


@pytest.fixture
def speaking(tmp_path):
    (tmp_path / "speaking.py").write_text(SPEAKING)

    def make(*nodes):
        return workflow(tmp_path, "said", *nodes)

    return make


def node(name, function, *dependencies, **more):
    config = {"function": f"speaking:{function}", **more.pop("config", {})}
    return {"id": name, "type": "task", "dependencies": list(dependencies), "config": config, **more}


def messages(shell, run_id, *more):
    lines = [line["message"] for line in shell.json("runs", "logs", run_id, *more)["items"]]
    return [line for line in lines if line != "at import"]  # by the attempt that was the first to need the module


def execute(shell, *args):
    return forking.run(list(args), cwd=shell.folder, env=shell.environment)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_json_is_alone_on_standard_output_whatever_functions_and_their_processes_print(shell, speaking, isolation):
    file = speaking(node("a", "speak", **({"isolation": "process"} if isolation == "process" else {})))
    done = execute(shell, "run", file, "--run-id", "r1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "completed"
    for text in ("at import", "by print, in two parts", "by a subprocess", "by a descriptor"):
        assert text in done.stderr
    assert messages(shell, "r1") == ["by print, in two parts", "by logging: 7", "by ctx.log"]


@pytest.mark.slow
def test_a_pipe_gets_the_outputs_and_nothing_else(shell, speaking):
    done = execute(shell, "run", speaking(node("a", "speak")))
    assert json.loads(done.stdout) == {"a": 1}
    assert "by a subprocess" in done.stderr


@pytest.mark.slow
def test_a_module_that_prints_leaves_the_json_of_other_commands_alone(shell, tmp_path):
    (tmp_path / "flow.py").write_text(
        "import os, perdure\nos.system('echo loud')\nprint('loud')\n\n@perdure.task\ndef a() -> int:\n    return 1\n\n"
        "@perdure.workflow\ndef flow() -> int:\n    return a()\n"
    )
    done = execute(shell, "validate", "flow.py", "--json")
    assert done.stderr.count("loud") == 2
    json.loads(done.stdout)


def test_what_each_attempt_says_is_kept_with_its_node(shell, speaking, caplog):
    caplog.set_level(logging.INFO)  # pytest has a handler, so that nobody else says what is logged
    file = speaking(node("a", "whisper", config={"args": {"text": "quiet"}}), node("b", "speak", "a"))
    shell.run("run", file, "--run-id", "r1")
    assert messages(shell, "r1", "--node", "a") == ["quiet", "quiet in a thread"]
    assert messages(shell, "r1", "--node", "b") == ["by print, in two parts", "by logging: 7", "by ctx.log"]


def test_a_stream_that_was_put_in_place_while_others_listen_is_heard_too(shell, speaking):
    before = sys.stdout
    capture.begin()
    try:
        shell.run("run", speaking(node("a", "whisper", config={"args": {"text": "quiet"}})), "--run-id", "r1")
    finally:
        capture.end()
    assert messages(shell, "r1") == ["quiet", "quiet in a thread"]
    assert getattr(sys.stdout, "inner", sys.stdout) is before  # a server of other tests may listen still


@pytest.mark.slow
def test_an_attempt_that_never_stops_talking_is_cut_and_says_so(shell, speaking):
    shell.run("run", speaking(node("a", "shout")), "--run-id", "r1")
    kept = messages(shell, "r1", "--limit", "5000")
    said = [line for line in kept if line.startswith("line ")]
    assert said == [f"line {number}" for number in range(len(said))]
    assert len(said) > 1990  # importing the module printed, too; on a busy machine Perdure may warn
    assert len(kept) <= 2001
    assert kept[-1] == "… it said more; of one attempt 2,000 printed and logged lines are kept"


def test_secrets_that_are_printed_are_kept_masked(shell, speaking, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_TOKEN", "never-shown-anywhere")
    shell.run("run", speaking(node("a", "whisper", config={"args": {"text": "{{ secrets.TOKEN }}"}})), "--run-id", "r1")
    assert len(messages(shell, "r1")) == 2
    assert "never-shown-anywhere" not in "".join(messages(shell, "r1"))


@pytest.mark.slow
def test_afterwards_print_and_logging_are_as_they_were(shell, speaking, monkeypatch):
    before = logging.getLogger().level, sys.stdout
    monkeypatch.setenv("PERDURE_SECRET_TOKEN", "never-shown-anywhere")  # then secrets are taken out of log records, too
    for number in range(3):
        shell.run("run", speaking(node("a", "speak")), "--run-id", f"r{number}")
        assert logging.getLogRecordFactory()("app", logging.WARNING, "", 1, "made", (), None).msg == "made"
    assert (logging.getLogger().level, sys.stdout) == before


@pytest.mark.slow
def test_logs_are_followed_until_the_run_ends(shell, tmp_path):
    gate = tmp_path / "gate"
    file = workflow(
        tmp_path,
        "long",
        task("a", "say", args={"text": "first"}),
        task("b", "wait_until", "a", args={"path": str(gate)}),
        task("c", "say", "b", args={"text": "last"}),
    )
    running = shell.start("run", file, "--run-id", "r1")
    wait_until(lambda: os.path.exists(tmp_path / ".perdure" / "perdure.db") and "a     completed" in running.text, "a")
    following = shell.start("runs", "logs", "r1", "--follow").wait_for("first")
    stopped = shell.start("runs", "logs", "r1", "--follow", "--json").wait_for('"message":"first"')
    stopped.signal(signal.SIGINT)
    stopped.wait(130)
    gate.touch()
    running.wait(0)
    lines = following.wait(0).splitlines()
    assert [line.split()[-3:] for line in lines] == [["a", "info", "first"], ["c", "info", "last"]]


def test_what_other_code_has_put_around_the_factory_of_records_is_heard_once(monkeypatch):
    """It is left in place when the last listener goes, with the old one in it; the next listener comes around both."""
    monkeypatch.setattr(logging, "_logRecordFactory", logging.getLogRecordFactory())
    lines: list[str] = []
    for _ in range(3):
        capture.begin()
        ours = logging.getLogRecordFactory()
        logging.setLogRecordFactory(lambda *args, ours=ours, **more: ours(*args, **more))
        capture.end()
    capture.begin()
    try:
        with capture.heard(lambda level, line: lines.append(line)):
            logging.getLogger("app").warning("once")
    finally:
        capture.end()
    assert lines == ["once"]
