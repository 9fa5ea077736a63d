"""Databases from before there was an archive: they get one, and nothing they had is lost."""

import contextlib
import sqlite3

import pytest

from perdure.archive.aliases import VersionNote
from perdure.archive.audit_chain import AuditEntry
from perdure.journal import RunFilter
from perdure.journals.postgres import migrate_postgres, open_postgres
from perdure.journals.postgres import schema as postgres_schema
from perdure.journals.sqlite import SqliteJournal
from perdure.journals.sqlite import schema as sqlite_schema
from tests.conformance.archive.test_keys import key
from tests.conformance.journal.commits import append, commit
from tests.servers.postgres import installations


def until_archive(schema, monkeypatch):
    """Only the migrations before that of the archive."""
    known = schema.migrations()
    before = known[: next(number for number, script in known if "api_keys" in script) - 1]
    assert before
    monkeypatch.setattr(schema, "migrations", lambda: before)
    return [number for number, _ in known[len(before) :]]


async def fill(journal, tags=b'{"team":"red"}') -> None:
    await append(
        journal,
        commit("lives", 0, 3, tenant="acme", workflow_version=2, tags=tags),
        commit("ended", 0, 4, tenant="acme", workflow_version=1, ended_at=5.0),
        commit("other", tenant="globex", ended_at=5.0),
    )


async def check(journal) -> None:
    assert await journal.register_workflow("orders", "h1", ir_hash="i", tenant="acme") == 1
    assert await journal.register_workflow("orders", "h2", ir_hash="i", tenant="acme") == 2
    for tenant, expected in (("acme", ["lives"]), ("globex", [])):
        tagged = await journal.list_runs(RunFilter(tenant=tenant, tag=("team", "red")))
        assert [one.run_id for one in tagged.items] == expected
    archive = journal.archive
    assert [one.run_id for one in (await archive.list_users("acme", "orders", 2)).items] == ["lives"]
    await archive.create_key(key())
    assert await archive.find_key(key().key_id) == key()
    await archive.note_version(VersionNote(tenant="acme", workflow="orders", version=1, by="ada", at=1.0))
    await archive.append_audit([AuditEntry(tenant="acme", at=1.0, principal="p", action="a", object="o")])
    assert len(await archive.read_audit("acme")) == 1
    assert await archive.prune_runs(100.0) == 2
    assert len(await journal.read_events("lives")) == 3
    assert [one.run_id for one in (await journal.list_runs()).items] == ["lives"]


def write_tag_as_before(file) -> None:
    """In the columns that the table had then; today's statement names one more."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "INSERT INTO run_tags (name, value, created_at, run_key)"
            " SELECT 'team', 'red', created_at, run_key FROM runs WHERE run_id = 'lives'"
        )


async def test_an_older_file_is_migrated_when_it_is_opened(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        until_archive(sqlite_schema, patch)
        journal = await SqliteJournal.open(tmp_path / "perdure.db", partitions=8)
        await fill(journal, tags=b"{}")
        await journal.close()
    write_tag_as_before(tmp_path / "perdure.db")
    journal = await SqliteJournal.open(tmp_path / "perdure.db")
    await check(journal)
    await journal.close()


@pytest.mark.parametrize("installation", sorted(installations()))
async def test_an_older_database_is_migrated_while_others_have_it_open(postgres_servers, installation, monkeypatch):
    server = postgres_servers.get(installation)
    name = await server.create_database()
    url = server.url(name)
    with monkeypatch.context() as patch:
        missing = until_archive(postgres_schema, patch)
        await migrate_postgres(url, partitions=8)
        old = await open_postgres(url, require_durable=False)
        await fill(old)
        patch.undo()
        assert await migrate_postgres(url) == missing
        await append(old, commit("lives", 3, tenant="acme"))  # a process that runs goes on
        await append(old, commit("lives2", ended_at=6.0))
        await old.close()
    journal = await open_postgres(url, require_durable=False)
    assert len(await journal.read_events("lives", after=3)) == 1
    await journal.archive.prune_runs(5.5)
    assert await journal.find_run("lives2") is not None
    assert await journal.archive.prune_runs(7.0) == 1
    await journal.close()
    await server.execute(f"DROP DATABASE {name}")
