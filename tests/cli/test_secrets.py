"""`perdure secrets`: names and keys, and never a value."""

import json
from pathlib import Path

from perdure.clock import new_key
from perdure.secrets.keyring import Keyring, parse, read_file


def test_names_are_listed_with_their_scope_and_source_and_no_value(shell, monkeypatch):
    monkeypatch.setenv("PERDURE_SECRET_STRIPE", "canary")
    file = Path("secrets.toml")
    file.write_text('[[scope]]\ntenant = "acme"\nsecrets = { token = "canary" }\n')
    file.chmod(0o600)
    monkeypatch.setenv("PERDURE_SECRETS_FILE", str(file))
    shown = shell.run("secrets", "list").stdout
    assert "canary" not in shown
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["token", "acme", "*", "secrets.toml"],
        ["STRIPE", "*", "*", "environment"],
    ]
    items = json.loads(shell.run("secrets", "list", "--json").stdout)["items"]
    assert items[0] == {"name": "token", "tenant": "acme", "queue": "*", "source": "secrets.toml"}


def test_without_secrets_it_says_how_to_have_one(shell):
    assert "PERDURE_SECRET_<NAME>" in shell.run("secrets", "list").stdout


def test_rotation_changes_the_file_beside_the_database_and_keeps_the_old_key(shell):
    answers = [json.loads(shell.run("secrets", "rotate", "--json").stdout) for _ in range(2)]
    ring = read_file(Path(answers[0]["file"]))
    assert ring is not None
    assert [answer["current"] for answer in answers] == ["k2", "k3"]
    assert ring.ids == ["k3", "k2", "k1"]
    shown = shell.run("secrets", "rotate").stdout
    assert "k4" in shown
    assert all(key.partition(":")[2] not in shown for key in ring.dumps().split(","))


def test_keys_from_the_settings_are_rotated_by_telling_the_new_ones(shell, monkeypatch):
    before = Keyring({"k7": new_key(32)})
    monkeypatch.setenv("PERDURE_ENCRYPTION_KEYS", before.dumps())
    answer = json.loads(shell.run("secrets", "rotate", "--json").stdout)
    after = parse(answer["encryption_keys"], "the answer")
    assert after.ids == ["k8", "k7"]
    assert after.key("k7") == before.key("k7")
    assert not list(Path().rglob("*.keys"))
    assert shell.run("secrets", "rotate").stdout.splitlines()[-1].startswith("k8:")
