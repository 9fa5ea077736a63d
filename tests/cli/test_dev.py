"""`perdure dev`: everything in one process, on a file or on servers of its own."""

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from perdure.cli.dev import has_pages
from perdure.private_servers import PRIVATE
from tests.cli.helpers import Shell, task, wait_until, workflow

pytestmark = pytest.mark.slow


def address(process):
    process.wait_for("Ctrl-C ends all of this")
    found = re.search(r"Listening on (http://\S+)", process.text)
    assert found is not None
    return found[1]


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def child_of(process):
    """The process that does the work: the one that was started keeps it."""
    [found] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(found)


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


# -- on a file


def test_it_serves_the_api_and_executes_what_other_commands_start(shell, tmp_path):
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    assert get(f"{where}/healthz") == {"status": "ok"}
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 7}))
    text = shell.start("run", file, "--run-id", "r1").wait(0)
    assert f"process {child_of(process)} on" in text
    assert get(f"{where}/api/v1/runs/r1")["state"] == "completed"
    definition = json.loads(Path(file).read_text())
    assert post(f"{where}/api/v1/runs", {"definition": definition, "wait_seconds": 20})["outputs"] == {"a": 7}
    process.signal(signal.SIGINT)
    assert "Traceback" not in process.wait(0)
    assert shell.json("doctor")["ok"]


def test_what_an_imported_file_declares_fires_and_is_delivered_to(shell, tmp_path, monkeypatch):
    environment = {**shell.environment, "PERDURE_SECRET_HOOK": "0123456789abcdef0123"}
    monkeypatch.setattr(Shell, "environment", environment)
    (tmp_path / "declares_report.py").write_text(
        "import perdure\n\n\n@perdure.task\ndef report(day: str) -> str:\n    return day\n\n\n"
        "perdure.schedule(report, every='1s', inputs={'day': '{{ trigger.at }}'}, name='beat')\n"
        "perdure.on_webhook(\n"
        "    report, scheme='bearer', secret='HOOK', id='{{ item.body.id }}', inputs={'day': '{{ item.body.day }}'}, name='pushed'\n"
        ")\n"
    )
    process = shell.start("dev", "--no-sample", "--port", "0", "--import", "declares_report.py")
    where = address(process)
    found = re.search(r"  (http://\S+/api/v1/hooks/\S+)", process.text)
    assert found is not None
    assert found[1].startswith(where)

    def fired(trigger):
        runs = get(f"{where}/api/v1/runs?tag=trigger%3D{trigger}&state=completed")["items"]
        return [one["run_id"] for one in runs]

    wait_until(lambda: len(fired("beat")) > 1, "the schedule to fire twice")
    body = json.dumps({"id": "m1", "day": "today"}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer 0123456789abcdef0123"}
    answers = []
    for _ in range(2):
        with urllib.request.urlopen(urllib.request.Request(found[1], body, headers), timeout=60) as answer:
            answers.append(json.load(answer))
    assert [one["duplicate"] for one in answers] == [False, True]
    wait_until(lambda: fired("pushed") == [answers[0]["run_id"]], "the delivery to have its one run")
    assert get(f"{where}/api/v1/runs/{answers[1]['run_id']}")["inputs"] == {"day": "today"}
    process.signal(signal.SIGINT)
    assert "Traceback" not in process.wait(0)


def test_what_runs_when_it_is_stopped_goes_on_at_the_next_start(shell, tmp_path):
    gate = tmp_path / "gate"
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    nodes = [task("a", "block_until", args={"path": str(gate)}, isolation="process"), task("b", "echo", "a")]
    started = post(f"{where}/api/v1/runs", {"definition": {"name": "slow", "nodes": nodes}})
    process.kill()
    again = shell.start("dev", "--no-sample", "--port", "0")
    where = address(again)
    gate.touch()
    wait_until(lambda: get(f"{where}/api/v1/runs/{started['run_id']}")["state"] == "completed", "the run to go on")
    again.signal(signal.SIGTERM)
    again.wait(0)


def test_nothing_that_a_function_raises_ends_it(shell, tmp_path):
    (tmp_path / "leaving.py").write_text(
        "import asyncio, sys\nimport perdure\n"
        "class Odd(Exception):\n    def __str__(self): sys.exit(3)\n"
        "async def leave(): sys.exit(3)\n"
        "@perdure.task\ndef odd(): raise Odd\n"
        "@perdure.task\nasync def interrupted(): raise KeyboardInterrupt\n"
        "@perdure.task\nasync def gathered(): await asyncio.gather(leave())\n"
        "@perdure.task\nasync def left():\n    asyncio.get_running_loop().call_soon(sys.exit)\n    await asyncio.sleep(0.01)\n"
        "@perdure.task\ndef well(): return 7\n"
    )
    process = shell.start("dev", "--no-sample", "--port", "0", "--import", str(tmp_path / "leaving.py"))
    where = address(process)
    states = {}
    for name in ("odd", "interrupted", "gathered", "left", "well"):
        node = {"id": "a", "type": "task", "config": {"function": name}, "retry": {"max_attempts": 1}}
        definition = {"name": "f", "nodes": [node]}
        states[name] = post(f"{where}/api/v1/runs", {"definition": definition, "wait_seconds": 20})["state"]
    assert states == {
        "odd": "failed",
        "interrupted": "failed",
        "gathered": "failed",
        "left": "completed",
        "well": "completed",
    }
    process.signal(signal.SIGINT)
    assert "something that a function started raised SystemExit(3)" in process.wait(0)


def test_it_ends_when_its_file_was_replaced_and_leaves_the_other_one_alone(shell, tmp_path):
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    file = workflow(tmp_path, "one", task("a", "echo", args={"value": 7}))
    shell.start("run", file, "--run-id", "r1").wait(0)
    [path] = tmp_path.rglob("perdure.db")
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(f"{where}/api/v1/runs", {"definition": json.loads(Path(file).read_text())})
    with refused.value as answer:
        assert json.load(answer)["code"] == "journal_replaced"
    text = process.wait(1)
    assert "was replaced by another file while this process had it open" in text
    assert "Traceback" not in text


def test_a_second_one_says_who_has_the_file(shell):
    first = shell.start("dev", "--no-sample", "--port", "0")
    address(first)
    text = shell.start("dev", "--no-sample", "--port", "0").wait(1)
    assert f"process {child_of(first)} on" in text
    assert "stop it first, or name another database with --db" in text
    assert "Traceback" not in text


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind(shell):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = shell.start("dev", "--no-sample", "--port", port).wait(1)
    assert f"cannot listen on 127.0.0.1 port {port}" in text
    assert "Traceback" not in text
    assert "never awaited" not in text


def test_it_refuses_a_deployment_of_several_processes(shell, monkeypatch):
    monkeypatch.setenv("PERDURE_REDIS_URL", "redis://somewhere")
    text = shell.error("dev", code=2)
    assert "redis_url is set (PERDURE_REDIS_URL)" in text
    assert "perdure dev --distributed" in text


def test_a_browser_is_opened_only_where_there_are_pages():
    app = Starlette()
    assert not has_pages(app)
    app.router.routes.append(Route("/", lambda request: PlainTextResponse("pages")))
    assert has_pages(app)


# -- two processes: one that keeps the socket, and one that does the work


def ask(url, method="POST", **headers):
    """The status of a request as a page sends it."""
    request = urllib.request.Request(url, b"", headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_process_that_is_killed_is_followed_by_another_that_goes_on(shell, tmp_path):
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    gate = tmp_path / "gate"
    nodes = [task("a", "echo", args={"value": 1}), task("b", "block_until", "a", args={"path": str(gate)})]
    run = post(f"{where}/api/v1/runs", {"definition": {"name": "slow", "nodes": nodes}})["run_id"]
    wait_until(lambda: get(f"{where}/api/v1/runs/{run}")["nodes"]["b"]["state"] == "running", "b to run")
    first = child_of(process)
    own = {"Origin": where, "X-Perdure-Request": "1"}
    assert ask(f"{where}/api/v1/dev/kill", **{**own, "Origin": "http://evil.example"}) == 403
    assert ask(f"{where}/api/v1/dev/kill", Origin=where) == 403
    assert ask(f"{where}/api/v1/dev/kill", **{"X-Perdure-Request": "1"}) == 403
    assert child_of(process) == first
    assert ask(f"{where}/api/v1/dev/kill", **own) == 202
    wait_until(lambda: is_gone(first), "the first to be gone")
    gate.touch()
    wait_until(lambda: get(f"{where}/api/v1/runs/{run}")["state"] == "completed", "another one to complete it")
    assert get(f"{where}/api/v1/runs/{run}/nodes/a")["attempt"] == 1
    assert get(f"{where}/api/v1/runs/{run}/nodes/b")["attempts"][0]["state"] == "crashed"
    second = child_of(process)
    assert second != first
    process.signal(signal.SIGTERM)
    text = process.wait(0)
    assert f"process {second} goes on with everything" in text
    assert "Traceback" not in text
    assert is_gone(second)


def test_the_two_end_together_however_one_ends(shell):
    first = shell.start("dev", "--no-sample", "--port", "0")
    address(first)
    child = child_of(first)
    first.kill()  # as kill -9
    wait_until(lambda: is_gone(child), "the child to end with its parent")
    second = shell.start("dev", "--no-sample", "--port", "0")
    address(second)
    os.kill(child_of(second), signal.SIGINT)  # as the message says that the database is held
    assert "Stopping" in second.wait(0)
    third = shell.start("dev", "--no-sample", "--port", "0")
    address(third)
    os.kill(child_of(third), signal.SIGQUIT)  # a hangup is ignored where `nohup` began all this
    third.wait(128 + signal.SIGQUIT)


def test_a_signal_to_both_counts_once_and_a_second_one_ends_it_at_once(shell, tmp_path):
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    node = task("a", "wait_until", args={"path": str(gate), "begun": str(begun)})
    post(f"{where}/api/v1/runs", {"definition": {"name": "slow", "nodes": [node]}})
    wait_until(begun.exists, "the function to run")
    child = child_of(process)
    for pid in (child, process.pid):
        os.kill(pid, signal.SIGINT)
    process.wait_for("Stopping")
    gate.touch()
    assert process.wait(0).count("Stopping") == 1
    gate.unlink()
    process = shell.start("dev", "--no-sample", "--port", "0")
    where = address(process)
    begun.unlink()
    post(f"{where}/api/v1/runs", {"definition": {"name": "slow", "nodes": [node]}})
    wait_until(begun.exists, "the function to run")
    process.signal(signal.SIGTERM)
    process.wait_for("Stopping")
    process.signal(signal.SIGTERM)
    assert "Traceback" not in process.wait(128 + signal.SIGTERM)


def test_an_empty_database_gets_a_sample_and_no_other(shell):
    first = shell.start("dev", "--port", "0", "--no-browser")
    where = address(first)
    assert f"A sample runs: {where}/runs/sample?welcome=1" in first.text
    assert get(f"{where}/api/v1/runs/sample")["workflow"] == "sample-order"
    assert get(f"{where}/api/v1/ui/boot")["dev"] is True
    own = {"Origin": where, "X-Perdure-Request": "1"}
    assert ask(f"{where}/api/v1/dev/sample", "DELETE", **{**own, "Origin": "http://evil.example"}) == 403
    assert ask(f"{where}/api/v1/dev/sample", "DELETE", **own) == 204
    assert get(f"{where}/api/v1/runs/sample")["state"] == "cancelled"
    assert get(f"{where}/api/v1/workflows")["items"] == []
    assert ask(f"{where}/api/v1/dev/sample", "DELETE", **own) == 204
    first.kill()
    second = shell.start("dev", "--port", "0", "--no-browser")
    where = address(second)
    assert "A sample" not in second.text
    assert [run["run_id"] for run in get(f"{where}/api/v1/runs")["items"]] == ["sample"]
    second.kill()
    third = shell.start("dev", "--port", "0", "--no-sample", "--db", "other.db")
    assert get(f"{address(third)}/api/v1/runs")["items"] == []


def test_where_callers_need_keys_nothing_can_be_killed(shell, tmp_path):
    (tmp_path / "perdure.toml").write_text('auth = "keys"\n')
    process = shell.start("dev", "--port", "0")
    where = address(process)
    assert "A sample" not in process.text
    assert get(f"{where}/api/v1/ui/boot")["dev"] is False
    key = json.loads(shell.run("keys", "create", "eve", "--role", "admin", "--json").stdout)["key"]
    mine = {"Authorization": f"Bearer {key}", "Origin": where, "X-Perdure-Request": "1"}
    assert ask(f"{where}/api/v1/dev/kill", **mine) == 404


# -- on servers of its own


@pytest.fixture
def folder():
    """That the user of the servers can enter, whoever runs the tests."""
    path = Path(tempfile.mkdtemp(prefix="perdure-dev-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def distributed(folder):
    found = Shell(folder)
    yield found
    found.close()


def servers(pid):
    """The servers among the children of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    named = {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in children}
    return {name: child for name, child in named.items() if name in ("postgres", "valkey-server", "redis-server")}


def test_with_private_servers_data_stays_processes_join_and_nothing_outlives_it(distributed, folder, monkeypatch):
    first = distributed.start("dev", "--distributed", "--port", "0")
    where = address(first)
    pids = servers(first.pid)
    assert len(pids) == 2
    for path in (folder / ".perdure", folder / ".perdure/dev"):
        assert oct(path.stat().st_mode & 0o777) == oct(PRIVATE)
    started = post(
        f"{where}/api/v1/runs",
        {"definition": {"name": "one", "nodes": [task("a", "echo", args={"value": 7})]}, "wait_seconds": 20},
    )
    assert started["outputs"] == {"a": 7}
    # Another process with the settings that were printed.
    settings = dict(re.findall(r"export (\w+)='(.*)'", first.text))
    assert set(settings) == {"PERDURE_DATABASE_URL", "PERDURE_REDIS_URL", "PERDURE_SIGNING_KEYS"}
    show = [sys.executable, "-m", "perdure", "runs", "show", started["run_id"], "--json"]
    shown = subprocess.run(show, cwd=folder, env=distributed.environment | settings, capture_output=True, check=True)
    assert json.loads(shown.stdout)["state"] == "completed"
    refused = distributed.start("dev", "--distributed", "--port", "0").wait(1)
    assert f"process {first.pid} runs the servers in {folder}/.perdure/dev already" in refused
    first.kill()  # as kill -9
    wait_until(lambda: all(is_gone(pid) for pid in pids.values()), "the servers to end with their parent")
    # At once again: what was there is there. What goes through Valkey is signed this time, and it says so.
    signed = distributed.environment | {"PERDURE_SIGNING_KEYS": "k1:" + base64.b64encode(b"k" * 32).decode()}
    monkeypatch.setattr(type(distributed), "environment", signed)
    second = distributed.start("dev", "--distributed", "--port", "0")
    where = address(second)
    assert get(f"{where}/api/v1/runs/{started['run_id']}")["outputs"] == {"a": 7}
    assert "with the same PERDURE_SIGNING_KEYS as this one" in second.text
    assert "SIGNING_KEYS='none'" not in second.text
    pids = servers(second.pid)
    second.signal(signal.SIGINT)
    assert "Traceback" not in second.wait(0)
    assert all(is_gone(pid) for pid in pids.values())


def test_a_database_cannot_be_named_together_with_private_servers(shell):
    assert "leave --db out" in shell.error("dev", "--distributed", "--db", "x.db", code=2)


def test_where_keys_are_needed_it_says_how_to_make_one(shell, tmp_path):
    (tmp_path / "perdure.toml").write_text('auth = "keys"\n')
    process = shell.start("dev", "--no-sample", "--port", "0", "--db", "other.db")
    address(process)
    (command,) = re.findall(r"^  perdure (keys create .*)$", process.text, re.MULTILINE)
    assert json.loads(shell.run(*command.split(), "--json").stdout)["roles"] == ["admin"]
    process.signal(signal.SIGINT)
    process.wait(0)
