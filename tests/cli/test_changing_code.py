"""Code that changes while a process uses it: `perdure dev` loads it anew, others say that they do not."""

import json
import os
import re
import signal
import time
import urllib.request

import pytest

from tests.cli.helpers import DEADLINE_SECONDS, human, task, wait_until, workflow
from tests.cli.test_dev import address, post

pytestmark = pytest.mark.slow


def write(path, text):
    """In a way that no clock hides: a file of the same size, written in the same instant, is another one."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, max(before + 10**9, time.time_ns())))


def node(name, function, *dependencies, **more):
    return {"id": name, "type": "task", "dependencies": [*dependencies], "config": {"function": function}, **more}


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_dev_loads_changed_code_between_attempts(shell, tmp_path, isolation):
    write(tmp_path / "helper.py", "VALUE = 1\n")
    write(tmp_path / "steps.py", "import helper\n\ndef give():\n    return helper.VALUE\n")
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    more = {} if isolation == "none" else {"isolation": "process"}
    body = {"definition": {"name": "one", "nodes": [node("a", "steps:give", **more)]}, "wait_seconds": 30}
    assert post(f"{where}/api/v1/runs", body)["outputs"] == {"a": 1}
    write(tmp_path / "helper.py", "VALUE = 2\n")
    wait_until(lambda: post(f"{where}/api/v1/runs", body)["outputs"] == {"a": 2}, "the new code")
    if isolation == "none":
        process.wait_for("helper.py changed: loaded anew.")
    process.signal(signal.SIGINT)
    process.wait(0)


def test_dev_goes_on_with_what_it_could_not_import_once_the_file_is_mended(shell, tmp_path):
    write(tmp_path / "steps.py", "def give():\n    return 1\n")
    process = shell.start("dev", "--no-sample", "--port", "0")
    address(process)
    file = workflow(tmp_path, "one", node("a", "steps:give"), node("b", "steps:more", "a"))
    handed = shell.start("run", file).wait_for("could not import steps:more")
    write(tmp_path / "steps.py", "def give():\n    return 1\n\ndef more():\n    return 2\n")
    assert handed.wait(0).endswith('{\n  "b": 2\n}\n')
    handed = shell.start("run", workflow(tmp_path, "two", node("a", "parts:give")))
    handed.wait_for("could not import parts:give")
    write(tmp_path / "parts.py", "import lacking\n\ndef give():\n    return lacking.VALUE\n")
    process.wait_for("parts.py changed: loaded anew.")
    write(tmp_path / "lacking.py", "VALUE = 3\n")
    assert handed.wait(0).endswith('{\n  "a": 3\n}\n'), "a module that was not there, and one that it imports"
    write(tmp_path / "steps.py", "def give(:\n")

    def failed():  # who works looks at files at a use, once in a while
        run = shell.start("run", file)
        return run.popen.wait(DEADLINE_SECONDS) and run.wait(1)

    text = wait_until(failed, "the new code")
    assert "import_failed" in text
    assert "SyntaxError" in text
    process.signal(signal.SIGINT)
    process.wait(0)


def test_a_second_run_is_told_whose_code_runs_and_that_its_file_is_newer(shell, tmp_path):
    write(tmp_path / "steps.py", "def give():\n    return 1\n")
    waits = workflow(tmp_path, "waits", node("a", "steps:give"), human("h", "a"))
    first = shell.start("run", waits).wait_for("waiting")
    file = workflow(tmp_path, "one", node("a", "steps:give"))
    text = shell.start("run", file).wait(0)
    assert "handed to it, and followed here" in text
    assert "newer than that process" not in text
    write(tmp_path / "steps.py", "def give():\n    return 2\n")
    os.utime(tmp_path / "steps.py", (time.time() + 5, time.time() + 5))
    text = shell.start("run", file).wait(0)
    assert "steps.py is newer than that process. If it is `perdure dev`, that has" in text
    assert text.endswith('{\n  "a": 1\n}\n')
    said = "steps.py changed; this process goes on with the code it has loaded."

    def is_told():  # who works looks at files at a use, once in a while
        return said in first.text or (shell.start("run", file).wait(0) and False)

    wait_until(is_told, said)
    first.signal(signal.SIGINT)
    first.wait(130)


def test_dev_says_what_starts_fails_and_ends_and_has_a_page_to_begin_with(shell, tmp_path):
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    assert "perdure run FILE    " in process.text
    retry = {"max_attempts": 2, "backoff_ms": 10}
    nodes = [task("a", "boom", retry=retry)]
    run_id = post(f"{where}/api/v1/runs", {"definition": {"name": "bad", "nodes": nodes}, "wait_seconds": 30})["run_id"]
    process.wait_for(f"bad {run_id}  failed  after ")
    assert f"bad {run_id}  started" in process.text
    assert f"bad {run_id}  retrying  a: error: ValueError: kaputt (work.py:" in process.text
    assert f"bad {run_id}  failed  a: error: ValueError: kaputt (work.py:" in process.text
    with urllib.request.urlopen(where, timeout=30) as page:
        text = page.read().decode()
        policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "The web interface of Perdure needs JavaScript." in text
    for path in (
        "/api/v1/runs",
        "/openapi.json",
        re.findall(r'<script type="module" src="([^"]+)"></script>', text)[0],
    ):
        with urllib.request.urlopen(where + path, timeout=30) as page:
            assert page.read()
    process.signal(signal.SIGINT)
    process.wait(0)


def test_an_async_function_that_keeps_the_loop_is_named(shell, tmp_path):
    write(tmp_path / "steps.py", "import time\n\nasync def doze():\n    time.sleep(1.3)\n    return 1\n")
    result = shell.run("run", workflow(tmp_path, "slow", node("a", "steps:doze")), "--run-id", "r1")
    assert "run r1, node a: the async function steps:doze kept the event loop for 1." in result.stderr
    assert json.loads(result.stdout) == {"a": 1}


def test_debug_shows_the_traceback_of_a_bug_on_a_terminal(shell, tmp_path):
    write(
        tmp_path / "planted.py",
        "from perdure.cli.terminal import tree\n\ndef bad(*args):\n    raise RuntimeError('planted')\n\ntree._head = bad\n",
    )
    file = workflow(tmp_path, "one", task("a", "echo"))
    text = shell.start_on_terminal("run", file, "--import", "planted.py", "--debug").wait(1)
    assert "Traceback" in text
    assert "RuntimeError: planted" in text
    assert "--debug" in shell.run("run", "--help").stdout
