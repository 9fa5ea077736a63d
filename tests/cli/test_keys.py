"""`perdure keys` and `perdure audit`: credentials made and taken back here, and the trace of it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

DATABASE = Path(".perdure") / "perdure.db"


def create(shell, *args):
    return shell.json("keys", "create", *args)


def test_a_key_is_shown_once_and_kept_nowhere(shell):
    result = shell.run("keys", "create", "ci", "--role", "operator")
    key = result.stdout.strip()
    assert key.startswith("perdure_")
    assert "not shown again" in result.stderr
    secret = key.split("_", 2)[2]
    listed = shell.run("keys", "list").stdout + shell.run("keys", "list", "--json").stdout
    assert key.split("_")[1] in listed
    assert secret not in listed + shell.run("audit", "list", "--json").stdout
    files = [path for path in Path(".perdure").rglob("*") if path.is_file()]
    assert DATABASE in files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_key_has_the_roles_scopes_tenant_and_end_that_were_asked_for(shell):
    made = create(shell, "ci", "--role", "author", "--role", "approver", "--scope", "runs:read", "--tenant", "acme")
    assert (made["name"], made["roles"], made["scopes"]) == ("ci", ["author", "approver"], ["runs:read"])
    ends = create(shell, "robot", "--expires-days", "0.5")
    assert ends["roles"] == ["viewer"]
    assert ends["expires_at"] - ends["created_at"] == pytest.approx(43_200, abs=1)
    assert [one["name"] for one in shell.json("keys", "list")["items"]] == ["robot"]
    assert [one["name"] for one in shell.json("keys", "list", "--tenant", "acme")["items"]] == ["ci"]


def test_what_cannot_be_a_key_is_refused_with_all_its_problems(shell):
    said = shell.error("keys", "create", "ci", "--role", "operatr", "--scope", "runs:red", code=2)
    assert "did you mean 'operator'" in said
    assert "did you mean 'runs:read'" in said
    assert "U+000A" in shell.error("keys", "create", "a\nb", code=2)
    assert shell.json("keys", "list")["items"] == []


def test_a_key_is_revoked_by_its_id_with_or_without_the_prefix(shell):
    ids = [create(shell, name)["key_id"] for name in ("a", "b")]
    assert "is revoked" in shell.run("keys", "revoke", ids[0]).stdout
    assert shell.json("keys", "revoke", f"perdure_{ids[1]}")["revoked_at"] is not None
    assert [line.split()[-1] for line in shell.run("keys", "list").stdout.splitlines()[1:]] == ["revoked"] * 2
    assert "does not exist" in shell.error("keys", "revoke", "nope")
    third = create(shell, "c")["key_id"]
    assert "does not exist" in shell.error("keys", "revoke", third, "--tenant", "acme")


def test_keys_come_in_pages(shell):
    for number in range(3):
        create(shell, f"key{number}")
    page = shell.json("keys", "list", "--limit", "2")
    rest = shell.json("keys", "list", "--limit", "2", "--cursor", page["next_cursor"])
    assert [one["name"] for one in page["items"] + rest["items"]] == ["key2", "key1", "key0"]


def test_without_keys_it_says_how_to_have_one_and_without_a_database_where_it_looked(shell):
    assert "there is no database" in shell.error("keys", "list")
    assert "there is no database" in shell.error("audit", "verify")
    create(shell, "ci")
    assert "perdure keys create" in shell.run("keys", "list", "--tenant", "acme").stdout


def test_the_audit_has_what_was_done_and_can_be_filtered(shell):
    key_id = create(shell, "ci")["key_id"]
    shell.run("keys", "revoke", key_id)
    entries = shell.json("audit", "list")["items"]
    assert [(one["seq"], one["action"], one["object"]) for one in entries] == [
        (2, "key.revoked", f"key {key_id}"),
        (1, "key.created", f"key {key_id}"),
    ]
    assert entries[1]["detail"]["after"]["name"] == "ci"
    assert len(shell.json("audit", "list", "--action", "key.created", "--object", f"key {key_id}")["items"]) == 1
    assert shell.json("audit", "list", "--by", "nobody")["items"] == []
    assert "Nothing is recorded" in shell.run("audit", "list", "--tenant", "acme").stdout


def test_an_audit_that_was_changed_is_found_and_named(shell):
    for name in ("a", "b", "c"):
        create(shell, name)
    lines = shell.run("audit", "verify").stdout.splitlines()
    assert lines[0] == "3 entries are as written"
    assert shell.run("audit", "verify", "--known", lines[1]).stdout.splitlines() == lines
    with closing(sqlite3.connect(DATABASE, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET principal = 'eve' WHERE seq = 2")
    assert "entry 2 was changed" in shell.error("audit", "verify")
    said = json.loads(shell.run("audit", "verify", "--json", code=1).stdout)
    assert (said["intact"], said["broken_seq"], said["entries"]) == (False, 2, 1)


def test_a_chain_that_was_written_anew_is_noticed_by_what_was_noted(shell):
    create(shell, "a")
    noted = shell.run("audit", "verify").stdout.splitlines()[1]
    DATABASE.unlink()
    for path in Path(".perdure").glob("perdure.db-*"):
        path.unlink()
    create(shell, "a")
    assert "1 entry is as written" in shell.run("audit", "verify").stdout
    assert "written anew" in shell.error("audit", "verify", "--known", noted)
    assert "expected a number" in shell.error("audit", "verify", "--known", "7:xyz", code=2)
