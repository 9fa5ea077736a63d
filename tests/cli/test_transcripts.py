"""`perdure runs transcript` and `perdure runs guards`, for a run that waits and for one that has ended."""

import json
import re
from typing import Any

import pytest

from perdure import llms
from perdure.cli.runs import transcripts
from perdure.llms.scripted.scripted_model import ScriptedModel
from tests.cli.helpers import workflow

RULES: list[dict[str, Any]] = [
    {"when": {"turn": 1}, "calls": [{"name": "echo", "arguments": {"value": "x" * 700}}]},
    {"when": {"turn": 2}, "say": "I send it.", "calls": [{"name": "send", "arguments": {"value": "hello\x1b[2J"}}]},
    {"say": "Done."},
]
AGENT = {
    "id": "helper",
    "type": "agent",
    "config": {
        "model": "scripted",
        "instructions": "Be kind.",
        "prompt": "Help {{ inputs.who }}.",
        "tools": [
            {"function": "tests.cli.work:echo", "effect": "read", "returns": "untrusted"},
            {"function": "tests.cli.work:echo", "name": "send", "effect": "send"},
        ],
    },
}


@pytest.mark.slow
def test_a_person_sees_what_an_agent_was_told_said_and_did(shell, tmp_path, monkeypatch):
    file = workflow(tmp_path, "help", AGENT)
    with ScriptedModel(RULES, price={"input": 1.0, "output": 1.0}), monkeypatch.context() as patched:
        patched.setattr(llms, "configure", lambda models: None)  # the commands have no agents file
        shell.run("run", file, "-i", "who=ann", "--run-id", "h1", "--no-wait", code=3)
        waiting = shell.run("runs", "transcript", "h1").stdout
        assert "waits: for people: h1:helper" in waiting
        shell.run("approvals", "reject", "h1", "--comments", "not now", "--by", "ann")
        shell.run("run", file, "--run-id", "h1")
    said = shell.run("runs", "transcript", "h1", "helper").stdout
    for words in (
        "helper: agent, completed",
        "told: Help ann.",
        "tools: echo (read), send (send)",
        "gave (untrusted,public):",
        "guard: a person is asked by untrusted.send: the agent has read what a stranger could have written",
        "people: reject by ann: not now",
        "says: Done.",
        "used: 3 calls, ",
    ):
        assert words in said
    assert "\x1b" not in said
    assert "x" * 700 in said
    view = shell.json("runs", "transcript", "h1")
    assert [one["turn"] for one in view["turns"]] == [1, 2, 3]
    guards = shell.run("runs", "guards", "h1", "--verdict", "ask").stdout
    assert 'helper t2.0: send {"value":"hello' in guards
    assert "had read: untrusted,public: t1.0 echo" in guards
    assert [one["verdict"] for one in shell.json("runs", "guards", "h1")["items"]] == ["allow", "ask"]
    monkeypatch.setattr(transcripts, "width_of", lambda _: 80)
    monkeypatch.setattr(transcripts, "on_terminal", lambda: True)
    narrow = shell.run("runs", "transcript", "h1").stdout
    assert max(map(len, narrow.splitlines())) <= 80
    assert "characters; --full shows all)" in narrow.replace("\n      ", " ")
    assert "--full shows all" not in shell.run("runs", "transcript", "h1", "--full").stdout


def test_the_log_of_guards_and_the_approval_say_what_a_person_changed_and_why_a_call_was_not_made(
    shell, tmp_path, monkeypatch
):
    tool = {"function": "tests.cli.work:say", "effect": "send", "approve": "always"}
    node = {"id": "helper", "type": "agent", "config": {"model": "scripted", "prompt": "Say it.", "tools": [tool]}}
    policies = [{"when": "tool == 'say' && args.text == 'never'", "then": "deny"}]
    file = workflow(tmp_path, "tell", node, policies=policies)
    rules: list[dict[str, Any]] = [
        {"when": {"turn": 1}, "calls": [{"name": "say", "arguments": {"text": "hello"}}]},
        {"say": "Done."},
    ]
    with ScriptedModel(rules), monkeypatch.context() as patched:
        patched.setattr(llms, "configure", lambda models: None)  # the commands have no agents file
        for run, given in (("h1", {"text": "bye"}), ("h2", {"text": "never"})):
            shell.run("run", file, "--run-id", run, "--no-wait", code=3)
            wrong = ("--data", json.dumps({"arguments": {"txt": "bye"}}))
            refused = shell.error("approvals", "approve", run, "--by", "ann", *wrong, code=2)
            assert "say cannot be called so: its arguments do not fit: " in refused
            shell.run("approvals", "approve", run, "--by", "ann", "--data", json.dumps({"arguments": given}))
            shell.run("run", file, "--run-id", run)
    assert 'changed to: {"text":"bye"}' in shell.run("runs", "guards", "h1").stdout
    assert "not made" not in shell.run("runs", "guards", "h1").stdout
    said = shell.run("runs", "guards", "h2").stdout
    assert 'changed to: {"text":"never"}' in said
    assert "not made: A person changed the call, and that is not allowed by policy[0]: " in said
    view = shell.run(
        "approvals", "show", shell.json("approvals", "list", "--state", "decided")["items"][1]["approval_id"]
    )
    assert re.search(r'^gave +{"arguments":{"text":"never"}}$', view.stdout, re.MULTILINE)
    assert re.search(r"^not made +A person changed the call", view.stdout, re.MULTILINE)


def test_a_run_without_a_model_says_so(shell, tmp_path):
    shell.run(
        "run", workflow(tmp_path, "plain", {"id": "a", "type": "transform", "config": {"value": 1}}), "--run-id", "p1"
    )
    assert "it has none that asks a model" in shell.error("runs", "transcript", "p1", code=2)
    assert "asks no model" in shell.run("runs", "transcript", "p1", "a").stdout
    assert "No call of an agent" in shell.run("runs", "guards", "p1").stdout
