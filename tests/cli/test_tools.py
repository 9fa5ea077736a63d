"""`perdure tools`: what MCP servers offer, and what a person vouches for."""

import json
import sys
from pathlib import Path

import pytest

from tests.agents import mcp_server

pytestmark = pytest.mark.slow  # the SDK of MCP takes seconds to be imported


def operator(tmp_path, monkeypatch, text):
    (tmp_path / "agents.toml").write_text(text)
    monkeypatch.setenv("PERDURE_AGENTS_FILE", str(tmp_path / "agents.toml"))


def server(pins=""):
    command = json.dumps([sys.executable, str(Path(mcp_server.__file__))])
    return f"[mcp.issues]\ncommand = {command}\ntools = ['*_issues']\n{pins}"


def test_tools_are_listed_pinned_and_compared_with_their_pins(shell, tmp_path, monkeypatch):
    operator(tmp_path, monkeypatch, server('pins = "pins.json"'))
    [row] = shell.json("tools", "list")["items"]
    assert (row["server"], row["tool"], row["pin"], row["description"]) == (
        "issues",
        "search_issues",
        "new",
        "Searches issues.",
    )
    assert "Pinned 1 tools of issues" in shell.run("tools", "pin", "issues").stdout
    assert json.loads((tmp_path / "pins.json").read_text()) == {"search_issues": row["hash"]}
    (tmp_path / "pins.json").write_text(json.dumps({"search_issues": "0" * 64, "other": "1" * 64}))
    said = shell.run("tools", "list", "issues").stdout
    assert ("changed" in said, "gone" in said, "perdure tools pin" in said) == (True, True, True)


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        ("", ["list", "issues"], 1, "there is no MCP server 'issues'"),
        (server(), ["pin", "issues"], 2, 'pins = "issues.pins.json"'),
        ("[mcp.issues]\ncommand = ['/nowhere']\npins = 'p'", ["pin", "issues"], 1, "MCP server issues"),
    ],
)
def test_what_cannot_be_asked_is_said(shell, tmp_path, monkeypatch, text, words, code, said):
    operator(tmp_path, monkeypatch, text)
    assert said in " ".join(shell.error("tools", *words, code=code).split())
