"""Runs on a server, by the same commands as runs in a database: what they print, and what they say they cannot do."""

import json
import os
import re

import pytest
from click.testing import CliRunner

from perdure import Client
from perdure.archive.stored_lines import LogLine
from perdure.cli.app import app
from perdure.settings import Settings
from tests.cli.helpers import human, task, wait_until, workflow
from tests.cli.test_completion import values
from tests.client.helpers import Background
from tests.client.scripted import Scripted, answer, problem


@pytest.fixture
def remote(shell, server, monkeypatch):
    monkeypatch.setenv("PERDURE_SERVER_URL", server.url)
    return shell


def waiting(shell, folder, name="refund"):
    """The id of a run that waits for a decision."""
    file = workflow(folder, name, task("a", "echo", args={"value": 1}), human("ask", "a", approvers=["anna"]))
    run_id = shell.run("run", file, "--no-wait").stdout.strip()
    approvals = wait_until(lambda: shell.json("approvals", "list", "--run-id", run_id)["items"], "the question")
    return run_id, approvals[0]["approval_id"]


@pytest.mark.slow
def test_a_file_is_pushed_started_and_followed_there(remote, tmp_path):
    file = workflow(tmp_path, "good", task("a", "echo", args={"value": "{{ inputs.n }}"}), task("b", "echo", "a"))
    result = remote.run("run", file, "-i", "n=7", "--tag", "team=blue")
    assert json.loads(result.stdout) == {"b": None}
    assert re.search(r"run +created +good version 1, ", result.stderr)
    assert re.search(r"\d\d:\d\d:\d\d  a +completed", result.stderr)
    assert not (tmp_path / ".perdure").exists()
    view = remote.json("run", file, "-i", "n=8")
    assert (view["state"], view["version"], view["inputs"]) == ("completed", 1, {"n": 8})
    listed = remote.json("runs", "list", "--tag", "team=blue", "--workflow", "good")["items"]
    assert [run["state"] for run in listed] == ["completed"]
    assert remote.run("runs", "list", "--workflow", "good").stdout.count("completed") == 2


@pytest.mark.slow
def test_the_correlation_id_gets_there(remote, tmp_path):
    file = workflow(tmp_path, "named", task("a", "echo", args={"value": 1}))
    assert remote.json("run", file, "--correlation-id", "order-17")["correlation_id"] == "order-17"
    assert remote.json("runs", "start", "named", "--correlation-id", "order-18")["correlation_id"] == "order-18"


@pytest.mark.slow
def test_a_run_that_fails_there_exits_with_1_and_says_what_to_do(remote, server, tmp_path, monkeypatch):
    file = workflow(tmp_path, "bad", task("a", "boom", retry={"max_attempts": 1}))
    told = remote.error("run", file, code=1)
    (run_id,) = re.findall(r"run (\w+) failed at a: .*kaputt", told)
    assert f"look:   perdure runs show {run_id}\n" in told
    monkeypatch.delenv("PERDURE_SERVER_URL")
    told = remote.error("run", file, "--server", server.url, code=1)
    assert re.search(rf"retry:  perdure runs retry \w+ --server {re.escape(server.url)}\n", told)
    retried = CliRunner().invoke(app, ["runs", "retry", run_id, "--server", server.url, "--json"])
    assert retried.exit_code in (0, 1)  # 1 where it has failed again by then
    assert json.loads(retried.stdout)["generation"] == 2


@pytest.mark.slow
def test_without_waiting_the_id_comes_back_and_the_same_command_follows_it(remote, tmp_path):
    file = workflow(tmp_path, "short", task("a", "echo", args={"value": 1}))
    result = remote.run("run", file, "--no-wait")
    run_id = result.stdout.strip()
    assert f"perdure runs watch {run_id}" in result.stderr
    assert json.loads(remote.run("run", file, "--run-id", run_id).stdout) == {"a": 1}
    assert remote.json("runs", "watch", run_id[:30])["state"] == "completed"
    assert "chooses the ids of new runs" in remote.error("run", file, "--run-id", "mine", code=2)
    other = workflow(tmp_path, "other", task("a", "echo"))
    assert "is of another workflow (short version 1, not this" in remote.error("run", other, "--run-id", run_id, code=2)
    assert "the workers import" in remote.error("run", file, "--import", "json", code=2)


def test_a_definition_the_server_refuses_is_shown_at_its_lines(remote, tmp_path):
    (tmp_path / "wrong.yaml").write_text("name: wrong\nnodes:\n  - id: a\n    type: wait\n    config: {secs: 1}\n")
    told = remote.error("run", "wrong.yaml", code=2)
    assert "wrong.yaml:5:" in told
    assert "'secs'" in told
    assert "nothing was changed on the server" in told
    (tmp_path / "syntax.yaml").write_text("name: [\n")
    assert "syntax.yaml:" in remote.error("run", "syntax.yaml", code=2)
    needs = workflow(tmp_path, "needs", task("a", "echo"), inputs={"type": "object", "required": ["city"]})
    assert "needs city; give -i city=" in remote.error("run", needs, code=2)
    typed = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert "n" in remote.error("run", workflow(tmp_path, "typed", task("a", "echo"), inputs=typed), "-i", "n=x", code=2)


@pytest.mark.slow
def test_looking_at_a_run_is_the_same_as_in_a_database(remote, server, tmp_path, monkeypatch):
    run_id, approval = waiting(remote, tmp_path)
    commands = [
        ("runs", "show", run_id),
        ("runs", "show", run_id, "--node", "a"),
        ("runs", "show", run_id, "--at", "2"),
        ("runs", "explain", run_id),
        ("runs", "explain", run_id, "ask"),
        ("runs", "events", run_id),
        ("runs", "events", run_id, "--after", "1", "--limit", "2"),
        ("runs", "export", run_id),
        ("approvals", "list", "--run-id", run_id),
        ("approvals", "show", approval),
        ("dlq", "list", "--run-id", run_id),
        ("runs", "list", "--workflow", "refund", "--limit", "1"),
    ]
    there = [[remote.run(*command).output, remote.json(*command)] for command in commands]
    monkeypatch.delenv("PERDURE_SERVER_URL")
    file = str(server.folder / "perdure.db")
    here = [[remote.run(*command, "--db", file).output, remote.json(*command, "--db", file)] for command in commands]
    for command, (text, data), (text_here, data_here) in zip(commands, there, here, strict=True):
        assert data == data_here, command
        if "export" not in command:  # the same data, with other spaces between
            assert _timeless(text) == _timeless(text_here), command


def _timeless(text):
    return re.sub(r"\d+(\.\d)? (s|ms)\b", "", text)


@pytest.mark.slow
def test_large_and_sealed_values_are_as_in_a_database(remote, server, tmp_path):
    big = "x" * 100_000
    sealed = task("b", "echo", "a", args={"value": {"ssn": "{{ inputs.ssn }}", "city": "Oslo"}}, sensitive=["ssn"])
    file = workflow(tmp_path, "large", task("a", "echo", args={"value": "{{ inputs.text }}"}), sealed)
    result = remote.run("run", file, "-i", f"text={big}", "-i", "ssn=123-45")
    assert json.loads(result.stdout)["b"]["city"] == "Oslo"
    assert "completed" in result.stderr
    run_id = remote.json("runs", "list", "--workflow", "large")["items"][0]["run_id"]
    here = ("--db", server.folder / "perdure.db")
    for command in (("runs", "show", run_id), ("runs", "show", run_id, "--node", "a"), ("runs", "events", run_id)):
        assert remote.json(*command) == remote.json(*command, *here)
    assert remote.json("runs", "show", run_id, "--node", "a")["output"] == big
    assert "123-45" not in remote.run("runs", "show", run_id, "--node", "b").output
    assert remote.json("runs", "watch", run_id)["inputs"]["text"] == big


@pytest.mark.slow
def test_the_course_of_a_run_is_changed_from_afar(remote, tmp_path):
    run_id, _ = waiting(remote, tmp_path, "course")
    assert f"Paused {run_id}; it is paused now" in remote.run("runs", "pause", run_id, "--reason", "lunch").stdout
    assert remote.json("runs", "resume", run_id)["state"] == "running"
    assert f"Sent go to {run_id}" in remote.run("runs", "signal", run_id, "go", '{"a": 1}').stdout
    added = {"id": "more", "type": "transform", "dependencies": ["ask"], "config": {"value": 1}}
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "add", "path": "/nodes/-", "value": added}]))
    dry = remote.json("runs", "patch", run_id, patch, "--dry-run")
    assert (dry["possible"], dry["added"]) == (True, ["more"])
    assert "added: more" in remote.run("runs", "patch", run_id, patch).stdout
    patch.write_text(json.dumps([{"op": "remove", "path": "/nodes/77"}]))
    assert "there is no such place" in remote.error("runs", "patch", run_id, patch, code=2)
    file = workflow(tmp_path, "course", task("a", "echo", args={"value": 1}), human("ask", "a", approvers=["anna"]))
    assert remote.json("runs", "patch", run_id, file, "--dry-run")["removed"] == ["more"]
    assert remote.json("runs", "cancel", run_id, "--force")["state"] == "cancelled"
    assert "only a running run can be paused" in remote.error("runs", "pause", run_id)
    again = remote.json("runs", "rerun", run_id)
    assert again["origin"] == run_id
    remote.run("runs", "cancel", again["run_id"], "--force")
    assert "Rolling back" in remote.run("runs", "rollback", run_id).stdout
    assert "leave --run-id out" in remote.error("runs", "rerun", run_id, "--run-id", "x", code=2)
    assert "a server knows who you are" in remote.error("runs", "cancel", run_id, "--by", "eve", code=2)


@pytest.mark.slow
def test_a_decision_is_made_from_afar(remote, tmp_path):
    run_id, approval = waiting(remote, tmp_path, "deciding")
    assert approval in remote.run("approvals", "list").stdout
    assert "anna" in remote.error("approvals", "approve", approval)
    told = remote.run("approvals", "approve", run_id, "--as", "anna", "--comments", "fine").stdout
    assert told == f"Approved {approval}\n"
    assert remote.json("runs", "watch", run_id)["outputs"]["ask"]["decided_by"] == "anna"


@pytest.mark.slow
def test_dead_letters_are_repaired_from_afar(remote, tmp_path):
    free = tmp_path / "free"
    parked = {"retry": {"max_attempts": 1}, "on_failure": "park"}
    file = workflow(
        tmp_path, "parked", task("a", "fail_until", args={"path": str(free)}, **parked), task("b", "boom", **parked)
    )
    run_id = remote.run("run", file, "--no-wait").stdout.strip()
    wait_until(lambda: len(remote.json("dlq", "list", "--run-id", run_id)["items"]) == 2, "both parked")
    free.write_text("")
    letter = remote.json("dlq", "requeue", "--run-id", run_id, "--node-id", "a")["items"][0]
    assert (letter["node"], letter["state"]) == ("a", "requeued")
    assert "Discarded" in remote.run("dlq", "discard", "--run-id", run_id, "--as", "skip").stdout
    assert remote.json("runs", "watch", run_id)["state"] == "completed"
    assert "nothing of run" in remote.error("dlq", "requeue", "--run-id", run_id)


@pytest.mark.slow
def test_a_run_of_a_definition_that_is_not_registered_is_followed_and_drawn_also_when_it_was_patched(remote, server):
    definition = {"name": "loose", "nodes": [{"id": "a", "type": "wait", "config": {"signal": "go"}}]}
    added = {"id": "b", "type": "transform", "dependencies": ["a"], "config": {"value": 3}}
    with Client(server.url) as client:
        run_id = client.runs.start(definition=definition)["run_id"]
        client.runs.patch(run_id, [{"op": "add", "path": "/nodes/-", "value": added}])
        client.runs.signal(run_id, "go")
        client.runs.wait(run_id)
    result = remote.run("runs", "watch", run_id)
    assert re.search(r"  b +completed\b", result.stderr), result.stderr
    assert json.loads(result.stdout) == {"b": 3}
    drawn = remote.json("graph", "--run", run_id)
    assert {one["id"]: one["state"] for one in drawn["nodes"]} == {"a": "completed", "b": "completed"}


@pytest.mark.slow
def test_a_run_with_very_many_nodes_is_shown_whole(remote, server, tmp_path):
    nodes = [{"id": f"n{number}", "type": "transform", "config": {"value": number}} for number in range(1200)]
    run_id = remote.run("run", workflow(tmp_path, "many", *nodes), "--no-wait").stdout.strip()
    assert remote.json("runs", "watch", run_id)["state"] == "completed"
    view = remote.json("runs", "show", run_id)
    assert len(view["nodes"]) == 1200
    assert view == remote.json("runs", "show", run_id, "--db", server.folder / "perdure.db")
    events = remote.json("runs", "events", run_id, "--limit", "2000")
    assert len(events["items"]) > 1200
    assert events == remote.json("runs", "events", run_id, "--limit", "2000", "--db", server.folder / "perdure.db")
    assert "There are more nodes" in remote.run("runs", "show", run_id, "--at", "5").stderr


@pytest.mark.slow
def test_a_run_there_is_drawn_and_its_logs_are_read(remote, server, tmp_path):
    run_id, _ = waiting(remote, tmp_path, "drawn")
    drawn = remote.run("graph", "--run", run_id).stdout
    assert drawn == remote.run("graph", "--run", run_id, "--db", server.folder / "perdure.db").stdout
    assert "waiting" in drawn
    line = LogLine(tenant="default", run_id=run_id, node="a", at=1.0, message="hello there")
    server.do(server.archive.append_logs([line]))
    assert "hello there" in remote.run("runs", "logs", run_id, "--node", "a").stdout
    here = ("runs", "logs", run_id, "--db", server.folder / "perdure.db")
    assert remote.json(*here) == remote.json("runs", "logs", run_id)
    assert "Nothing was said" in remote.run("runs", "logs", run_id, "--node", "ask").stderr


@pytest.mark.slow
def test_what_a_node_yields_is_shown_there_and_here(remote, server, tmp_path):
    config = {"function": "tests.engine.streaming:count", "args": {"n": 3}}
    file = workflow(tmp_path, "yields", {"id": "a", "type": "task", "config": config, "stream": {}})
    run_id = remote.run("run", file, "--no-wait").stdout.strip()
    assert remote.run("runs", "chunks", run_id, "a", "-f").stdout.split() == ["1", "2", "3"]
    lines = remote.run("runs", "chunks", run_id, "a", "--json").stdout.splitlines()
    assert json.loads(lines[0]) == {"type": "chunk", "edition": 1, "number": 1, "chunk": 1}
    assert json.loads(lines[-1])["reason"] == "end"
    here = ("runs", "chunks", run_id, "a", "--json", "--db", server.folder / "perdure.db")
    assert remote.run(*here).stdout.splitlines() == lines


@pytest.mark.slow
def test_tab_completes_what_is_on_the_server(remote, tmp_path):
    run_id, approval = waiting(remote, tmp_path, "completed-by-tab")
    assert run_id in values("runs", "show", run_id[:20])
    assert values("approvals", "approve", run_id) == [approval]
    assert values("runs", "explain", run_id, "") == ["a", "ask"]
    assert values("workflows", "show", "completed-") == values("workflows", "versions", "comp") == ["completed-by-tab"]
    assert values("runs", "show", "--server", "http://127.0.0.1:1", "") == []


@pytest.mark.slow
def test_on_a_terminal_a_run_there_is_shown_as_a_tree(shell, server, tmp_path):
    file = workflow(tmp_path, "treed", task("first", "echo", args={"value": 1}), task("second", "echo", "first"))
    process = shell.start_on_terminal("run", file, "--server", server.url)
    told = process.wait(0)
    assert "first" in told
    assert "second" in told
    assert "completed" in told


@pytest.mark.slow
def test_on_a_terminal_a_run_there_asks_for_a_decision(shell, server, tmp_path):
    file = workflow(tmp_path, "asked", human("ask", approvers=["anna", "ben"]), task("after", "echo", "ask"))
    process = shell.start_on_terminal("run", file, "--server", server.url)
    process.wait_for("[a]pprove, [r]eject or [l]ater?")
    process.type("a\n")
    process.wait_for("As whom (anna, ben)?")
    process.type("ben\n")
    process.wait_for("Comments")
    process.type("fine\n")
    process.wait(0)
    listed = shell.json("runs", "list", "--workflow", "asked", "--server", server.url)["items"]
    run = shell.json("runs", "show", listed[0]["run_id"], "--server", server.url)
    assert run["nodes"]["ask"]["output"]["decided_by"] == "ben"


@pytest.mark.slow
def test_a_stop_leaves_the_run_to_the_server(shell, server, tmp_path):
    free = tmp_path / "free"
    file = workflow(tmp_path, "long", task("a", "wait_until", args={"path": str(free)}))
    process = shell.start("run", file, "--server", server.url)
    process.wait_for("queued")
    process.signal(2)
    told = process.wait(130)
    (run_id,) = re.findall(rf"perdure runs watch (\w+) --server {re.escape(server.url)}", told)
    free.write_text("")
    assert shell.json("runs", "watch", run_id, "--server", server.url)["outputs"] == {"a": "free"}


# -- which server ------------------------------------------------------------------------------------------------------


def test_a_database_that_is_named_wins_over_a_server_that_is_set(remote, tmp_path):
    file = workflow(tmp_path, "here", task("a", "echo"))
    remote.run("run", file, "--run-id", "here-1", "--db", "mine.db")
    assert [run["run_id"] for run in remote.json("runs", "list", "--db", "mine.db")["items"]] == ["here-1"]
    assert "give only one of them" in remote.error("runs", "list", "--db", "mine.db", "--server", "http://x", code=2)
    assert "there is no database" in remote.error("runs", "list", "--server", "")


@pytest.mark.slow
def test_a_key_is_shown_to_the_server_it_belongs_to(shell, monkeypatch):
    empty = answer({"items": [], "next_cursor": None})
    monkeypatch.setenv("PERDURE_API_KEY", "perdure_secret")
    with Scripted([empty] * 4) as one:
        shell.run("runs", "list", "--server", one.url)
        shell.run("runs", "list", "--server", one.url, "--api-key", "perdure_other")
        monkeypatch.setenv("PERDURE_SERVER_URL", one.url)
        shell.run("runs", "list")
        monkeypatch.setenv("PERDURE_SERVER_URL", "http://127.0.0.1:1")
        shell.run("runs", "list", "--server", one.url)
    shown = [headers.get("authorization") for _, _, headers, _ in one.asked]
    assert shown == ["Bearer perdure_secret", "Bearer perdure_other", "Bearer perdure_secret", None]
    assert "perdure_secret" not in shell.run("config", "show").output
    assert "***" in shell.run("config", "show").output


@pytest.mark.slow
def test_what_a_server_refuses_is_said_with_the_way_out(shell):
    with Scripted([problem(401, "unauthenticated", "this needs a credential")] * 2) as server:
        assert "this needs a credential; give --api-key KEY" in shell.error("runs", "list", "--server", server.url)
    assert "cannot reach" in shell.error("runs", "list", "--server", server.url)
    assert "http:// or https://" in shell.error("runs", "list", "--server", "localhost:8700", code=2)


@pytest.mark.parametrize(
    "command", [("doctor",), ("gc",), ("secrets", "list"), ("secrets", "rotate"), ("simulate", "x.yaml")], ids=" ".join
)
def test_what_no_server_can_do_says_so(shell, command):
    assert "cannot be done through a server" in shell.error(*command, "--server", "http://127.0.0.1:1", code=2)


@pytest.mark.parametrize("command", [("doctor",), ("gc",), ("secrets", "rotate")], ids=" ".join)
def test_what_is_for_databases_takes_none_that_nobody_named(remote, command):
    assert "name the database with --db" in remote.error(*command, code=2)
    assert not os.path.exists(".perdure")


@pytest.mark.slow
def test_with_keys_each_person_does_what_their_role_allows(shell, tmp_path, monkeypatch):
    folder = tmp_path / "there"
    folder.mkdir()
    with Background(folder, settings=Settings(auth="keys")) as server:

        def key(name, role):
            return ("--server", server.url, "--api-key", server.make_key(name, role))

        author, operator, anna = key("paul", "author"), key("olga", "operator"), key("anna", "approver")
        file = workflow(tmp_path, "guarded", human("ask", approvers=["anna"]))
        assert "needs the permission workflows:write" in shell.error("run", file, *operator)
        shell.run("workflows", "push", file, *author)
        run_id = shell.run("runs", "start", "guarded", *operator).stdout.strip()
        wait_until(lambda: shell.json("approvals", "list", *anna)["items"], "the question")
        assert "may not" in shell.error("approvals", "approve", run_id, *operator)
        assert "leave 'approver' out" in shell.error("approvals", "approve", run_id, "--as", "eve", *anna)
        shell.run("approvals", "approve", run_id, *anna)
        assert shell.json("runs", "watch", run_id, *operator)["outputs"]["ask"]["decided_by"] == "anna"
        assert "give --api-key KEY" in shell.error("runs", "list", "--server", server.url)


@pytest.mark.slow
def test_keys_and_the_audit_are_those_of_the_server(remote):
    made = remote.json("keys", "create", "ci", "--role", "operator")
    assert made["key"].startswith("perdure_")
    assert made["key_id"] in remote.run("keys", "list").stdout
    assert f"Key {made['key_id']} of ci is revoked." in remote.run("keys", "revoke", made["key_id"]).stdout
    actions = [entry["action"] for entry in remote.json("audit", "list")["items"]]
    assert len(actions) >= 2
    assert remote.json("audit", "verify")["intact"] is True
    assert "leave --tenant out" in remote.error("keys", "list", "--tenant", "acme", code=2)
    assert "--known" in remote.error("audit", "verify", "--known", f"1:{'0' * 64}", code=2)
