"""What stands in data reaches no terminal, by the ways out that are seldom taken: comments, empty lists, a hostile server, `dev` (S22)."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from perdure import Client
from perdure.cli.app import app
from perdure.cli.terminal.happenings import Happening
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.trigger_run import TRIGGER
from perdure.kernel.values import Error
from tests.attack.marks import attack
from tests.attack.test_terminal import HOSTILE, assert_clean, prepare, shell  # noqa: F401  # a fixture
from tests.cli.helpers import human, task, wait_until, workflow
from tests.client.helpers import Background


def invoke(*command):
    """Both forms, with and without colour; nothing but text, and no exception. Returns what was said for people."""
    said = ""
    for form in (("--json",), ()):
        for colour in (True, False):
            result = CliRunner().invoke(app, [*map(str, command), *form], color=colour)
            assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
            assert_clean(result.stdout, (command, form))
            assert_clean(result.stderr, (command, form))
            said = result.stdout + result.stderr
    return said


@pytest.mark.slow
@attack("S22", "comments and reasons of people, descriptions, names that nothing has, lists that are empty")
def test_no_exit_path_prints_what_people_wrote(shell):  # noqa: F811
    bad, _ = prepare(shell)
    two = workflow(shell.folder, "two", human("yes"), human("no"), description=HOSTILE)
    shell.run("run", two, "--run-id", "r1", "--no-wait", code=3)
    told = [
        shell.run("approvals", "approve", "r1:yes:1", "--comments", HOSTILE),
        shell.run("approvals", "reject", "r1:no:1", "--comments", HOSTILE),
        shell.run("workflows", "push", bad, "--reason", HOSTILE),
        shell.run("runs", "start", "bad", "--tag", f"k={HOSTILE}", "--correlation-id", HOSTILE),
    ]
    run_id = told[-1].stdout.strip()
    told += [
        shell.run("runs", "signal", run_id, HOSTILE, json.dumps(HOSTILE)),
        shell.run("runs", "cancel", run_id, "--force", "--reason", HOSTILE),
    ]
    for one in told:
        assert_clean(one.stdout + one.stderr, one)
    said = invoke("approvals", "show", "r1:yes:1") + invoke("workflows", "show", "bad")
    assert "\\x1b[2J" in said
    for command in (
        ("dlq", "list"),
        ("dlq", "list", "--run-id", HOSTILE),
        ("dlq", "show", HOSTILE),
        ("dlq", "requeue", HOSTILE),
        ("approvals", "list", "--state", "decided"),
        ("approvals", "approve", HOSTILE),
        ("approvals", "approve", "r1:yes:1", "--by", f"ann{HOSTILE}"),
        ("approvals", "list", "--cursor", HOSTILE),
        ("runs", "list", "--workflow", HOSTILE),
        ("runs", "list", "--tag", f"{HOSTILE}={HOSTILE}"),
        ("runs", "list", "--since", HOSTILE),
        ("runs", "show", "r1", "--node", HOSTILE),
        ("runs", "explain", run_id, HOSTILE),
        ("runs", "events", run_id),
        ("runs", "path", "r1"),
        ("runs", "diff", "r1", run_id),
        ("runs", "start", HOSTILE),
        ("workflows", "list"),
        ("workflows", "versions", "bad"),
        ("workflows", "show", HOSTILE),
        ("graph", two),
        ("blobs", "stat", HOSTILE),
        ("keys", "create", HOSTILE, "--role", HOSTILE),
        ("audit", "list", "--by", HOSTILE),
        ("run", two, "-i", HOSTILE),
        ("run", two, "--run-id", HOSTILE),
        ("run", two, "--import", HOSTILE),
    ):
        invoke(*command)


class Mirror:
    """A server that passes on what another says, with an escape sequence at the end of every text."""

    def __init__(self, url):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    with urllib.request.urlopen(url + self.path, timeout=30) as found:
                        status, kind, body = found.status, found.headers["Content-Type"], found.read()
                except urllib.error.HTTPError as error:
                    status, kind, body = error.code, error.headers["Content-Type"], error.read()
                if "json" in kind:
                    body = json.dumps(poisoned(json.loads(body))).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def poisoned(value):
    match value:
        case str():
            return value + HOSTILE
        case list():
            return [poisoned(one) for one in value]
        case dict():
            return {name: poisoned(one) for name, one in value.items()}
        case _:
            return value


@pytest.mark.slow
@attack("S22", "a server whose every answer has escape sequences in every text")
def test_no_command_obeys_what_a_server_answers(shell, tmp_path_factory):  # noqa: F811
    park = task("park", "boom", "a", on_failure="park", retry={"max_attempts": 1})
    with Background(tmp_path_factory.mktemp("server")) as server, Mirror(server.url) as mirror:
        file = workflow(shell.folder, "both", task("a", "say", args={"text": "x"}), park, human("ask"))
        run_id = shell.run("run", file, "--server", server.url, "--no-wait").stdout.strip()
        there = ("--server", server.url)
        with Client(server.url) as client:  # `a` prints in this process: no command may be at work meanwhile
            letters = wait_until(lambda: list(client.dead_letters.list()), "the dead letter")
        (approval,) = wait_until(lambda: shell.json("approvals", "list", *there)["items"], "the question")
        for command in (
            ("runs", "list"),
            ("runs", "show", run_id),
            ("runs", "show", run_id, "--node", "park"),
            ("runs", "explain", run_id),
            ("runs", "events", run_id),
            ("runs", "logs", run_id),
            ("runs", "path", run_id),
            ("approvals", "list"),
            ("approvals", "show", approval["approval_id"]),
            ("dlq", "list"),
            ("dlq", "show", letters[0]["dead_letter_id"]),
            ("workflows", "list"),
            ("workflows", "show", "both"),
            ("workflows", "versions", "both"),
            ("node-types", "list"),
            ("runs", "show", "nothing"),
            ("validate", file),
        ):
            said = invoke(*command, "--server", mirror.url)
            assert "Traceback" not in said, command
            assert "\\x1b" in said or command[-1] in ("nothing", file), f"{command}: nothing of it was shown: {said}"


@attack("S22", "an error with escape sequences, in the lines of `perdure dev`")
def test_the_lines_of_dev_are_text(capsys):
    state = State(run_id="r1", workflow=f"w{HOSTILE}")
    about: dict[str, Any] = {"seq": 1, "at": 1.0, "cause": "", "node": f"n{HOSTILE}"}
    failed = e.NodeFailed(**about, error=Error("error", f"raised {HOSTILE}"), outcome="fatal")
    asked = e.ApprovalRequested(**about, approval="r1:n:1", approvers=(f"ann{HOSTILE}",))
    Happening().note(state, [failed, asked])
    said = capsys.readouterr().err
    assert "raised \\x1b]0;owned" in said
    assert said.count("\n") == 2
    assert_clean(said, "dev")


def test_the_lines_of_dev_tell_what_triggers_could_not_start(capsys):
    box = Mailbox(trigger="trigger~x0", name=f"orders{HOSTILE}", kind="webhook")
    state = State(run_id="trigger~x0", workflow="perdure:trigger", ir_hashes=[TRIGGER.hash], triggers={"receive": box})
    about: dict[str, Any] = {"seq": 1, "at": 1.0, "cause": "", "node": "receive"}
    Happening().note(
        state,
        [
            e.TriggerParked(**about, number=3, error=Error("unmapped", f"inputs: {HOSTILE}")),
            e.TriggerSkipped(**about, reason="overlap", numbers=(4, 5)),
            e.TriggerSkipped(**about, reason="duplicate", count=1),
            e.TriggerSkipped(**about, reason="paused", count=1),
            e.TriggerStarted(**about, starts=()),
            e.RunPaused(seq=1, at=1.0, cause="", reason="failures"),
        ],
    )
    said = capsys.readouterr().err
    assert_clean(said, "dev")
    assert [line.partition("owned")[0].split("  ")[1][:14] for line in said.splitlines()] == ["trigger orders"] * 3
    assert "parked  item 3: unmapped" in said
    assert "skipped  2 items: overlap" in said
    assert "paused  failures" in said
