"""`perdure chat`, `perdure sessions` and the registry of `perdure tools`."""

from __future__ import annotations

import json

import pytest

from perdure import llms
from perdure.llms.scripted.scripted_model import ScriptedModel

SUPPORT = {
    "name": "support",
    "expose": {"tool": True, "effect": "read"},
    "description": "Answers \x1b[2Jquestions.",
    "inputs": {"type": "object", "properties": {"session": {"type": "string"}, "message": {"type": "string"}}},
    "nodes": [
        {
            "id": "answer",
            "type": "agent",
            "config": {"model": "scripted", "session": "{{ inputs.session }}", "prompt": "{{ inputs.message }}"},
        }
    ],
    "outputs": {"answer": "{{ answer.result }}"},
}


@pytest.mark.slow
def test_a_person_talks_with_a_workflow_that_knows_what_was_said(shell, tmp_path, monkeypatch):
    file = tmp_path / "support.json"
    file.write_text(json.dumps(SUPPORT))
    rules = [{"when": {"turn": 1}, "say": "Hello."}, {"when": {"turn": 2}, "say": "Again."}]
    with ScriptedModel(rules) as model, monkeypatch.context() as patched:
        patched.setattr(llms, "configure", lambda models: None)
        said = shell.run("chat", str(file), "--session", "ann", input="I am Ann.\nWho am I?\n\n").stdout
    assert said.split() == ["Hello.", "Again."]
    assert [one.text for one in model.seen[1].messages] == ["I am Ann.", "Hello.", "Who am I?"]
    [row] = shell.json("sessions", "list", "--key", "ann")["items"]
    assert (row["workflow"], row["node"], row["turns"]) == ("support", "answer", 2)
    assert "ann" in shell.run("sessions", "list").stdout
    shown = shell.run("sessions", "show", "support", "answer", "ann").stdout
    assert "asked: I am Ann." in shown
    assert "said: Again." in shown
    assert "forgotten: 2 turns and 0 notes" in shell.run("sessions", "delete", "support", "answer", "ann").stdout
    assert "no session" in shell.error("sessions", "show", "support", "answer", "ann")
    listed = shell.run("tools", "list").stdout
    assert "support" in listed
    assert "\x1b" not in listed
    assert "version 1" in shell.run("tools", "pin", "support").stdout
    assert "retired" in shell.run("tools", "retire", "support").stdout
    assert shell.json("tools", "promote", "support")["state"] == "live"
    assert shell.json("tools", "show", "support")["pinned"] == 1
    assert shell.json("tools", "list", "-q", "weather")["items"] == []
