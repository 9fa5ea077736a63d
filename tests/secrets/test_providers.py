"""Secrets come from the environment, a file or a provider, and only to the tenant and queue they are for."""

import sys

import pytest

from perdure.errors import SettingsInvalid
from perdure.secrets.providers import Environment, Secrets, SecretsFile, open_secrets

FILE = """
[secrets]
api_key = "everyone's"
only_here = "h"

[[scope]]
tenant = "acme"
secrets = { api_key = "acme's" }

[[scope]]
queue = "payments"
secrets = { api_key = "payments'", card_key = "c" }

[[scope]]
tenant = "acme"
queue = "payments"
secrets = { api_key = "acme's payments'" }
"""


@pytest.fixture
def write(tmp_path):
    def write(text, mode=0o600):
        path = tmp_path / "secrets.toml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


@pytest.mark.parametrize(
    ("tenant", "queue", "expected"),
    [
        ("acme", "payments", "acme's payments'"),
        ("acme", "default", "acme's"),
        ("other", "payments", "payments'"),
        ("other", "default", "everyone's"),
    ],
)
def test_the_narrowest_scope_that_has_the_name_wins(write, tenant, queue, expected):
    assert SecretsFile(write(FILE)).find("api_key", tenant, queue) == expected


def test_a_queue_does_not_get_what_belongs_to_another(write):
    secrets = Secrets([("file", SecretsFile(write(FILE)))])
    assert secrets.get("card_key", "acme", "payments") == "c"
    with pytest.raises(LookupError):
        secrets.get("card_key", "acme", "default")


def test_the_environment_has_names_in_capitals_or_as_written():
    provider = Environment({"API_KEY": "a", "mixed": "m"})
    assert [provider.find(name, "t", "q") for name in ("api_key", "API_KEY", "mixed", "MIXED")] == ["a", "a", "m", None]


def test_the_file_is_asked_before_the_environment(write):
    secrets = open_secrets({"API_KEY": "env", "OTHER": "o"}, str(write(FILE)))
    assert (secrets.get("api_key", "t", "q"), secrets.get("other", "t", "q")) == ("everyone's", "o")


def test_rows_say_what_there_is_and_never_a_value(write):
    rows = open_secrets({"OTHER": "canary-env"}, str(write(FILE))).rows()
    assert {(row["name"], row["tenant"], row["queue"]) for row in rows} >= {
        ("api_key", "acme", "payments"),
        ("OTHER", "*", "*"),
    }
    assert "canary-env" not in repr(rows)
    assert "everyone's" not in repr(rows)


def test_a_file_that_others_may_read_is_refused(write):
    with pytest.raises(SettingsInvalid, match="chmod 600"):
        SecretsFile(write(FILE, 0o644))


@pytest.mark.parametrize(
    "text",
    [
        '[secrets]\napi_key = "canary',
        '[secrets]\napi_key = ["canary"]',
        'api_key = "canary"',
        '[[scope]]\ntenants = "canary"\nsecrets = {}',
    ],
)
def test_a_bad_file_is_refused_without_quoting_it(write, text):
    with pytest.raises(SettingsInvalid) as caught:
        SecretsFile(write(text))
    assert "secrets.toml" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_missing_file_and_a_missing_provider_say_what_to_do(tmp_path):
    with pytest.raises(SettingsInvalid, match="cannot read the secrets file"):
        open_secrets({}, str(tmp_path / "none.toml"))
    with pytest.raises(SettingsInvalid, match="no secret provider 'vault' is installed"):
        open_secrets({}, provider="vault")


def test_a_provider_comes_from_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "vault_for_perdure.py").write_text(
        "class Vault:\n"
        "    def find(self, name, tenant, queue):\n"
        "        return f'{name} of {tenant} in {queue}' if name != 'none' else None\n"
        "    def names(self):\n"
        "        return [('a', '*', '*')]\n"
    )
    info = tmp_path / "vault_for_perdure-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vault-for-perdure\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[perdure.secret_providers]\nvault = vault_for_perdure:Vault\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    secrets = open_secrets({"NONE": "from the environment"}, provider="vault")
    assert secrets.get("x", "acme", "q") == "x of acme in q"
    assert secrets.get("none", "acme", "q") == "from the environment"
