"""The audit: what it says, that databases refuse to change it, and that a change by force is found and named."""

import json
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import asyncpg  # type: ignore[import-untyped]
import pytest

from perdure.access import LOCAL, Audit, make_principal, verify_audit
from perdure.access.audit import DETAIL_BYTES
from perdure.archive import Archive
from perdure.archive.audit_chain import AuditEntry, audit_hash, audit_payload
from perdure.errors import PerdureError
from perdure.journals.postgres import open_postgres
from tests.servers.postgres import installations

ADA = make_principal(tenant="acme", name="ada", kind="key", roles=("admin",), key_id="k1")


@pytest.fixture
def audit(archive, clock) -> Audit:
    return Audit(archive, clock)


async def test_an_entry_says_who_did_what_to_what_and_when(audit, archive, clock):
    await audit.record(
        ADA, "alias.moved", "workflow orders@live", before={"version": 1}, after={"version": 2}, request_id="q1"
    )
    await audit.record(LOCAL, "run.cancelled", "run r1")
    (first,) = await archive.read_audit("acme")
    assert (first.entry.principal, first.entry.action, first.entry.object) == (
        "ada",
        "alias.moved",
        "workflow orders@live",
    )
    assert (first.entry.at, first.entry.request_id) == (clock.now(), "q1")
    assert json.loads(first.entry.detail) == {
        "kind": "key",
        "key_id": "k1",
        "before": {"version": 1},
        "after": {"version": 2},
    }
    (second,) = await archive.read_audit("default")
    assert json.loads(second.entry.detail) == {"kind": "local"}


async def test_a_large_value_is_kept_as_its_hash(audit, archive):
    await audit.record(ADA, "workflow.registered", "workflow orders", after={"x": "y" * DETAIL_BYTES})
    (record,) = await archive.read_audit("acme")
    assert len(record.entry.detail) < 300
    assert set(json.loads(record.entry.detail)["after"]) == {"bytes", "sha256"}


async def test_ids_from_requests_become_one_line(audit, archive):
    await audit.record(ADA, "run.cancelled", "run a\0b\nc\ud800" + "x" * 1000, request_id="q\r\n")
    (record,) = await archive.read_audit("acme")
    assert record.entry.object.startswith("run a\\x00b\\nc\\ud800xxx")
    assert len(record.entry.object) < 600
    assert record.entry.request_id == "q\\r\\n"


async def test_a_chain_that_nobody_touched_is_right(audit, archive):
    verdict = await verify_audit(archive, "acme")
    assert (verdict.entries, verdict.head, verdict.broken_seq) == (0, None, None)
    entry = AuditEntry(tenant="acme", at=5, principal="p", action="a", object="o")
    for _ in range(5):  # more than a page
        await archive.append_audit([entry] * 500)
    verdict = await verify_audit(archive, "acme")
    assert (verdict.entries, verdict.broken_seq, verdict.problem) == (2500, None, "")
    assert verdict.head == await archive.find_audit_head("acme")


# -- tampering ---------------------------------------------------------------------------------------------------------


class Store(NamedTuple):
    """An archive of ten entries; SQL by somebody who may do what they like, and by the program itself. `{audit}` is the table."""

    archive: Archive
    force: Callable[[str], Awaitable[Any]]
    plain: Callable[[str], Awaitable[Any]]


@pytest.fixture(params=["sqlite", *(f"postgres-{name}" for name in sorted(installations()))])
async def store(request, tmp_path, journal, postgres_servers):
    kind, _, installation = request.param.partition("-")
    if kind == "sqlite":

        async def run(text: str, *drops: str) -> None:
            def work(connection: sqlite3.Connection) -> None:
                for statement in (*drops, text.format(audit="audit", heads="audit_heads")):
                    connection.execute(statement)

            await journal._writer.run(work)

        async def force(text: str) -> None:
            names = ("audit_is_not_changed", "audit_is_not_deleted")
            await run(text, *(f"DROP TRIGGER IF EXISTS {name}" for name in names))

        await fill(journal.archive)
        yield Store(journal.archive, force, run)
        return
    server = postgres_servers.get(installation)
    async with server.database(8) as name:
        opened = await open_postgres(server.url(name), require_durable=False)
        admin = await asyncpg.connect(server.url(name))

        async def plain_postgres(text: str) -> None:
            await admin.execute(text.format(audit="perdure.audit", heads="perdure.audit_heads"))

        async def force_postgres(text: str) -> None:
            await admin.execute("SET session_replication_role = replica")
            await plain_postgres(text)
            await admin.execute("RESET session_replication_role")

        await fill(opened.archive)
        yield Store(opened.archive, force_postgres, plain_postgres)
        await admin.close()
        await opened.close()


async def fill(archive: Archive) -> None:
    await archive.append_audit(
        [
            AuditEntry(tenant=tenant, at=100.5 + number, principal="ada", action="key.created", object=f"key {number}")
            for number in range(10)
            for tenant in ("acme", "globex")
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE {audit} SET principal = 'eve' WHERE seq = 4",
        "DELETE FROM {audit} WHERE seq = 4",
        "DELETE FROM {audit}",
        "UPDATE {audit} SET hash = previous_hash",
    ],
)
async def test_the_database_refuses_to_change_or_delete_an_entry(store, text):
    with pytest.raises((PerdureError, asyncpg.PostgresError), match="never"):
        await store.plain(text)
    assert (await verify_audit(store.archive, "acme")).entries == 10


@pytest.mark.parametrize(
    ("change", "seq"),
    [
        ("principal = 'eve'", 1),
        ("action = 'key.revoked'", 4),
        ("object = 'key 99'", 10),
        ("at = at + 0.001", 1),
        ("detail = hash", 5),
        ("request_id = 'q'", 10),
        ("hash = previous_hash", 10),
        ("hash = previous_hash", 2),
        ("previous_hash = hash", 1),
        ("seq = seq + 100", 10),
        ("seq = seq + 100", 3),
        ("tenant = 'else'", 7),
    ],
)
async def test_a_changed_entry_is_named(store, change, seq):
    await store.force(f"UPDATE {{audit}} SET {change} WHERE tenant = 'acme' AND seq = {seq}")
    verdict = await verify_audit(store.archive, "acme")
    assert verdict.broken_seq == seq
    assert verdict.entries == seq - 1
    assert f"entry {seq}" in verdict.problem
    assert (await verify_audit(store.archive, "globex")).broken_seq is None


@pytest.mark.parametrize(
    ("gone", "named"), [("seq = 1", 1), ("seq = 5", 5), ("seq = 10", 10), ("seq > 7", 8), ("seq > 0", 1)]
)
async def test_an_entry_that_is_gone_is_named(store, gone, named):
    await store.force(f"DELETE FROM {{audit}} WHERE tenant = 'acme' AND {gone}")
    verdict = await verify_audit(store.archive, "acme")
    assert (verdict.broken_seq, verdict.entries) == (named, named - 1)
    assert "missing" in verdict.problem


async def test_a_chain_whose_end_is_not_noted_is_not_right(store):
    await store.force("DELETE FROM {heads} WHERE tenant = 'acme'")
    assert (await verify_audit(store.archive, "acme")).broken_seq == 10


async def test_a_chain_that_was_written_anew_differs_from_what_was_noted(store):
    noted = (await verify_audit(store.archive, "acme")).head
    assert noted is not None
    records = await store.archive.read_audit("acme")
    await store.force("DELETE FROM {audit} WHERE tenant = 'acme'")
    await store.force("DELETE FROM {heads} WHERE tenant = 'acme'")
    entries = [record.entry for record in records]
    entries[3] = AuditEntry(tenant="acme", at=1.0, principal="eve", action="nothing", object="nothing")
    await store.archive.append_audit(entries)
    assert (await verify_audit(store.archive, "acme")).broken_seq is None
    verdict = await verify_audit(store.archive, "acme", {noted.seq: noted.hash})
    assert (verdict.broken_seq, verdict.entries) == (10, 9)
    assert (await verify_audit(store.archive, "acme", {11: noted.hash})).broken_seq == 11


def test_no_two_entries_have_the_same_payload():
    base: dict[str, Any] = {
        "tenant": "a",
        "at": 1.0,
        "principal": "b",
        "action": "c",
        "object": "d",
        "detail": b"e",
        "request_id": "f",
    }
    entries = [AuditEntry(**base)]
    entries += [
        AuditEntry(**base | {name: 2.0 if name == "at" else b"x" if name == "detail" else "x"}) for name in base
    ]
    entries += [AuditEntry(**base | {"principal": 'b","c'}), AuditEntry(**base | {"action": 'c","d', "object": ""})]
    assert len({audit_payload(entry) for entry in entries}) == len(entries)
    assert audit_hash(bytes(32), 1, b"x") != audit_hash(bytes(32), 2, b"x")
