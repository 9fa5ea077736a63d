"""`perdure models`, and what is said about files of the operator and scripts that have mistakes."""

import asyncio

import pytest

from perdure.llms.key_checks import _judge, check
from perdure.llms.misfits import find_misfits
from perdure.llms.operator_file import Provider, read_models
from perdure.llms.scripted.script import ScriptInvalid, load_script
from perdure.llms.scripted.scripted_server import serving
from tests.cli.helpers import workflow

FILE = """
[providers.local]
kind = "openai_chat"
base_url = "http://127.0.0.1:1/v1"
secret = "LOCAL_KEY"
[models.fast]
provider = "local"
model = "scripted"
[prices]
"local/scripted" = {input = 1.5, output = 2.0}
"""
BROKEN = """
[providers.local]
kind = "openai_chta"
base_url = "http://127.0.0.1:1/v1"
max_calls = 0
[models.fast]
provider = "local"
model = 7
contxt = 1
"""
ASKS = {"id": "a", "type": "llm", "config": {"model": "fast", "prompt": "hi"}}
PLAIN = {"id": "a", "type": "transform", "config": {"value": 1}}


def operator(tmp_path, monkeypatch, text):
    (tmp_path / "agents.toml").write_text(text)
    monkeypatch.setenv("PERDURE_AGENTS_FILE", str(tmp_path / "agents.toml"))


def test_models_are_listed_with_what_they_cost_and_whether_their_key_is_there(shell, tmp_path, monkeypatch):
    operator(tmp_path, monkeypatch, FILE)
    rows = {one["name"]: one for one in shell.json("models", "list")["items"]}
    assert (rows["fast"]["price"], rows["fast"]["key"]) == ({"input": 1.5, "output": 2.0}, "missing")
    assert rows["openai/…"]["secret"] == "OPENAI_API_KEY"
    said = shell.run("models", "list").stdout
    assert "PERDURE_SECRET_LOCAL_KEY" in said
    monkeypatch.setenv("PERDURE_SECRET_LOCAL_KEY", "sk-very-secret")
    said = shell.run("models", "list").stdout
    assert ("there" in said, "sk-very" in said) == (True, False)


def test_a_key_that_is_missing_is_not_tested(shell, tmp_path, monkeypatch):
    operator(tmp_path, monkeypatch, FILE)
    said = shell.run("models", "test", "fast", code=1).stdout
    assert "its key is missing: PERDURE_SECRET_LOCAL_KEY" in said
    assert "did you mean 'fast'?" in shell.error("models", "test", "fsat", code=1)


@pytest.mark.parametrize(
    ("status", "body", "is_good", "words"),
    [
        (200, b'{"data": [{"id": "models/m"}]}', True, "takes the key, and has m"),
        (200, b'{"data": [{"id": "other"}]}', True, "m is not on the first page"),
        (200, b"<html>", True, "cannot be read"),
        (401, b"", False, "refuses the key (401)"),
        (404, b"", True, "nothing more was checked"),
        (500, b"", False, "status 500"),
    ],
)
def test_what_a_provider_says_about_a_key(status, body, is_good, words):
    found = read_models({"models": {"x": {"provider": "openai", "model": "m"}}}, []).get("x", "*")
    checked = _judge(found, status, body)
    assert (checked.is_good, words in checked.said) == (is_good, True), checked


@pytest.mark.slow
def test_a_provider_is_asked_for_its_list_and_nothing_is_spent():
    async def ask():
        async with serving() as server:
            row = {"kind": "openai_chat", "base_url": f"http://127.0.0.1:{server.port}/v1"}
            content = {"providers": {"s": row}, "models": {"x": {"provider": "s", "model": "scripted"}}}
            return await check(read_models(content, []).get("x", "*"), ""), server.seen

    checked, seen = asyncio.run(ask())
    assert (checked.is_good, checked.said, seen) == (True, "s answers, and has scripted", [])


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_broken_file_is_told_once_with_every_mistake_before_anything_runs(shell, tmp_path, monkeypatch, command):
    operator(tmp_path, monkeypatch, BROKEN)
    told = shell.error(command, workflow(tmp_path, "asks", ASKS, {**ASKS, "id": "b"}), code=2)
    for words in (
        "providers.local.kind: 'openai_chta'; did you mean 'openai_chat'?",
        "providers.local.max_calls:",
        "models.fast: unknown key 'contxt'; did you mean 'context'?",
        "models.fast.model:",
    ):
        assert told.count(words) == 1, told
    assert not (tmp_path / ".perdure").exists()
    shell.run(command, workflow(tmp_path, "plain", PLAIN))


def test_every_mistake_of_a_script_has_its_path(tmp_path):
    file = tmp_path / "script.yaml"
    file.write_text("rules:\n  - {say: x, tims: 2}\n  - {when: {trun: 1}, status: 999}\n  - calls: [{nam: x}]\n")
    with pytest.raises(ScriptInvalid) as raised:
        load_script(str(file))
    for words in (
        "rules[0]: unknown key 'tims'",
        "rules[1].when: unknown key 'trun'",
        "rules[1].status:",
        "rules[2].calls[0]: 'name' is missing",
    ):
        assert words in raised.value.message
    assert str(file) in raised.value.message
    file.write_text("rules:\n  - {say: [}\n")
    with pytest.raises(ScriptInvalid, match="in line 2"):
        load_script(str(file))


def test_what_fits_has_no_misfits():
    assert find_misfits(Provider, {"kind": "anthropic", "base_url": "https://x"}, "p") == []
    assert find_misfits(Provider, 7, "p") == ["p: Expected `object`, got `int`"]
    assert find_misfits(Provider, {"kind": 7}, "p") == ["p.kind: Expected `str`, got `int`", "p: 'base_url' is missing"]
