"""Opening and migrating: what cannot be used is refused with what, where, why and what to do, and left alone."""

import asyncio
import datetime
import ipaddress
import os
import subprocess
import sys
from urllib.parse import quote

import asyncpg  # type: ignore[import-untyped]
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perdure.errors import SchemaTooNew, SchemaTooOld, SettingsInvalid
from perdure.journal import Accepted, JournalBusy, JournalCorrupt, JournalUnavailable
from perdure.journals.postgres import migrate_postgres, open_postgres, schema
from perdure.journals.postgres.connections import Options
from tests.conformance.journal.commits import append, commit
from tests.journals.postgres.helpers import until


@pytest.fixture
async def empty(server):
    """The URL of a database without a journal."""
    name = await server.create_database()
    yield server.url(name)
    await server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^pg_|info'"
        )
        return {row[0] for row in rows}
    finally:
        await connection.close()


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


# -- migrations


async def test_a_new_database_is_migrated_once_and_keeps_its_number_of_partitions(empty, open_journal):
    numbers = [number for number, _ in schema.migrations()]
    assert await migrate_postgres(empty, partitions=16) == numbers
    assert await migrate_postgres(empty, partitions=32) == []
    journal = await open_journal(empty)
    assert journal.partition_count == 16
    assert await append(journal, commit("r1")) == Accepted(1)


async def test_many_that_migrate_at_the_same_moment_do_it_once(empty):
    done = await asyncio.gather(*(migrate_postgres(empty, partitions=8) for _ in range(6)))
    assert sorted(done) == [[]] * 5 + [[number for number, _ in schema.migrations()]]


async def test_a_migration_that_fails_leaves_those_before_it_and_the_next_call_goes_on(empty, monkeypatch):
    known = schema.migrations()
    broken = (*known[:-1], (len(known), "CREATE TABLE perdure.half (x integer); SELECT 1 / 0"))
    monkeypatch.setattr(schema, "migrations", lambda: broken)
    with pytest.raises(Exception, match="division by zero"):
        await migrate_postgres(empty)
    assert "perdure.half" not in await tables(empty)
    monkeypatch.setattr(schema, "migrations", lambda: known)
    assert await migrate_postgres(empty) == [len(known)]


async def test_a_lock_that_somebody_else_keeps_is_busy(empty):
    other = await asyncpg.connect(empty)
    await other.execute(f"SELECT pg_advisory_lock({schema.LOCK})")
    with pytest.raises(JournalBusy):
        await migrate_postgres(empty, lock_seconds=0.05)
    await other.close()
    assert await migrate_postgres(empty) != []


async def test_a_schema_of_somebody_else_is_left_alone(empty):
    await execute(empty, "CREATE SCHEMA perdure; CREATE TABLE perdure.theirs (x integer)")
    with pytest.raises(JournalCorrupt, match="not Perdure's"):
        await migrate_postgres(empty)
    with pytest.raises(JournalCorrupt, match="not Perdure's"):
        await open_postgres(empty)
    assert await tables(empty) == {"perdure.theirs"}


async def test_other_tables_of_the_database_do_not_matter(empty, open_journal):
    await execute(empty, "CREATE TABLE runs (x integer); CREATE TABLE events (x integer)")
    await migrate_postgres(empty)
    assert await append(await open_journal(empty), commit("r1")) == Accepted(1)


async def test_a_number_of_partitions_below_one_is_refused(empty):
    with pytest.raises(SettingsInvalid, match="1 or more"):
        await migrate_postgres(empty, partitions=0)


async def test_an_encoding_that_cannot_hold_every_text_is_refused(server):
    await server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(JournalUnavailable, match="UTF8"):
        await migrate_postgres(server.url("latin"))
    await server.execute("DROP DATABASE latin")


# -- versions


async def test_a_database_without_a_journal_is_not_made_one_by_opening(empty):
    with pytest.raises(SchemaTooOld, match="perdure migrate"):
        await open_postgres(empty)
    assert await tables(empty) == set()


async def test_a_schema_that_is_older_is_refused(url, monkeypatch):
    known = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: (*known, (len(known) + 1, "SELECT 1")))
    with pytest.raises(
        SchemaTooOld, match=f"has schema {len(known)}, this program needs {len(known) + 1}.*perdure migrate"
    ):
        await open_postgres(url)


async def test_a_schema_that_is_newer_is_refused_by_who_opens_it_and_not_by_who_has_it_open(url, open_journal):
    journal = await open_journal(url)
    before = len(schema.migrations())
    await execute(url, f"UPDATE perdure.meta SET schema_version = {before + 1}")
    with pytest.raises(SchemaTooNew, match="upgrade Perdure"):
        await open_postgres(url, require_durable=False)
    with pytest.raises(SchemaTooNew):
        await migrate_postgres(url)
    # Its writer has no connection yet: a rolling upgrade migrates while others run.
    assert await append(journal, commit("r1")) == Accepted(1)
    await execute(url, f"UPDATE perdure.meta SET schema_version = {before}")


async def test_tables_that_are_missing_are_damage_not_the_callers_mistake(empty, open_journal):
    await migrate_postgres(empty)
    journal = await open_journal(empty)
    await execute(empty, "DROP TABLE perdure.snapshots")
    with pytest.raises(JournalCorrupt, match="changed by hand"):
        await journal.find_snapshot("r1")


# -- addresses


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://ann:secret@db.example:5432/perdure?sslmode=require", "db.example:5432/perdure"),
        ("postgresql://ann:se@cret@db1,db2/perdure", "db1,db2/perdure"),
        ("postgresql:///perdure?host=/run/postgresql&password=secret", "/run/postgresql/perdure"),
        ("postgresql://", "localhost/"),
    ],
)
def test_messages_name_the_database_and_never_the_password(url, name):
    assert Options(url=url).name == name
    assert "cret" not in repr(Options(url=url))


async def test_sockets_and_ports_lead_to_the_same_database(server, url, open_journal):
    name = url.partition("@/")[2].partition("?")[0]
    await append(await open_journal(url), commit("r1"))
    for other in (server.url(name, tcp=True), f"postgres://perdure@localhost:{server.port}/{name}?sslmode=disable"):
        assert (await (await open_journal(other)).get_run("r1")).seq == 1


async def test_a_database_that_does_not_exist_is_named(server):
    with pytest.raises(JournalUnavailable, match=r'database "nowhere" does not exist.*create it, or correct the URL'):
        await open_postgres(server.url("nowhere"))


async def test_a_user_without_rights_is_told_so(server, url):
    await server.execute("CREATE ROLE stranger LOGIN")
    name = url.partition("@/")[2].partition("?")[0]
    with pytest.raises(JournalUnavailable, match="no right"):
        await open_postgres(server.url(name, user="stranger"), require_durable=False)
    await server.execute("DROP ROLE stranger")


async def test_a_plain_user_that_owns_the_database_needs_no_more(server, open_journal):
    await server.execute("CREATE ROLE plain LOGIN")
    await server.execute("CREATE DATABASE plains OWNER plain")
    url = server.url("plains", user="plain")
    await migrate_postgres(url, partitions=8)
    journal = await open_journal(url)
    assert await append(journal, commit("r1")) == Accepted(1)
    assert len((await journal.leases.lease("me", 5.0)).epochs) == 8
    await journal.hold()
    await journal.close()
    await server.execute("DROP DATABASE plains WITH (FORCE)")
    await server.execute("DROP ROLE plain")


async def test_a_url_that_means_nothing_is_refused(server):
    with pytest.raises(JournalUnavailable, match="journal"):
        await open_postgres("postgresql://perdure@127.0.0.1:1/perdure")
    for wrong in ("postgresql://perdure@localhost/perdure?sslmode=nonsense", "mysql://perdure@localhost/perdure"):
        with pytest.raises(SettingsInvalid, match="is not valid"):
            await open_postgres(wrong)


async def test_what_could_be_lost_is_refused_unless_allowed(server, url, open_journal):
    with pytest.raises(JournalUnavailable, match="fsync is off"):
        await open_postgres(url)
    name = url.partition("@/")[2].partition("?")[0]
    await execute(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(JournalUnavailable, match="synchronous_commit is off"):
        await open_postgres(url)
    await execute(url, f"ALTER DATABASE {name} RESET synchronous_commit")
    await open_journal(url, require_durable=False)


async def test_sslmode_is_passed_on(stoppable, stoppable_url, tmp_path):
    """A server that was built without TLS refuses; one that has it encrypts, and is verified against its certificate."""
    can = await _turn_tls_on(stoppable, stoppable_url, tmp_path)
    with_tls = stoppable.url(stoppable_url.partition("@/")[2].partition("?")[0], tcp=True)
    if not can:
        with pytest.raises(JournalUnavailable, match="SSL"):
            await open_postgres(f"{with_tls}?sslmode=require", require_durable=False)
        return
    authority = quote(str(tmp_path / "server.crt"), safe="")
    for mode in ("require", f"verify-full&sslrootcert={authority}"):
        journal = await open_postgres(f"{with_tls}?sslmode={mode}", require_durable=False)
        rows = await journal._connections._run("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", [])
        assert rows[0][0] is True
        await journal.close()
    other = quote(str(_certificate(tmp_path, "other", "127.0.0.1")), safe="")
    with pytest.raises(JournalUnavailable, match="certificate"):
        await open_postgres(f"{with_tls}?sslmode=verify-full&sslrootcert={other}", require_durable=False)


async def _turn_tls_on(server, url: str, folder) -> bool:
    """Whether the server can."""
    certificate = _certificate(folder, "server", "127.0.0.1")
    for name in ("server.crt", "server.key"):
        target = server.data / name
        target.write_bytes((certificate.parent / name).read_bytes())
        target.chmod(0o600)
        os.chown(target, server.user.pw_uid, server.user.pw_gid)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ALTER SYSTEM SET ssl = on")
        await connection.execute("SELECT pg_reload_conf()")
        await until(lambda: _is_on(connection), "TLS to be on")
    except asyncpg.PostgresError:
        return False
    finally:
        await connection.close()
    return True


async def _is_on(connection) -> bool:
    return await connection.fetchval("SHOW ssl") == "on"


def _certificate(folder, name: str, address: str):
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.crt"
    path.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.mark.slow
def test_without_the_driver_the_way_to_get_it_is_told():
    program = (
        "import sys, asyncio; sys.modules['asyncpg'] = None\n"
        "from perdure.journals.postgres import open_postgres\n"
        "asyncio.run(open_postgres('postgresql:///x'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "perdure.errors.SettingsInvalid: PostgreSQL needs a driver: install perdure[postgres]" in done.stderr
