"""Brings a database to the schema that this program knows, under a lock, one transaction per migration.

Opening a journal migrates nothing: many processes share the database, and their operator decides when. A program
refuses a schema it does not know, older or newer. Running processes go on while a later program migrates: migrations
first add, and take away only a release later.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from perdure.errors import SchemaTooNew, SchemaTooOld, SettingsInvalid
from perdure.journal import JournalCorrupt, JournalReadOnly, JournalUnavailable
from perdure.journals.postgres.connections import OLDEST_SERVER, Connection, Options, connect, disconnect
from perdure.journals.postgres.errors import translate

LOCK = "1346720324, 1"
"""The advisory lock of migrations: the first number (`PERD` in ASCII) marks locks of Perdure, the second says what for (1 to 5)."""


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """(number, script) in order, numbered from 1 without a gap."""
    folder = resources.files("perdure.journals.postgres") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    numbered = tuple((int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files)
    assert [number for number, _ in numbered] == list(range(1, len(numbered) + 1)), "migrations have a gap"
    return numbered


async def migrate(options: Options, partitions: int) -> list[int]:
    """Apply the missing migrations. Returns their numbers. `partitions` counts only for a new database."""
    if partitions < 1:
        raise SettingsInvalid(f"expected a number of partitions of 1 or more, got {partitions}")
    try:
        connection = await connect(options)
        try:
            return await _migrate(connection, options, partitions)
        finally:
            await disconnect(connection)
    except Exception as error:
        # Crash anywhere: each migration is applied or not, and the next call goes on.
        raise translate(error, options.name) from error


async def _migrate(connection: Connection, options: Options, partitions: int) -> list[int]:
    await check_server(connection, options.name)
    # A migration may take long; waiting for another process that migrates may not.
    await connection.execute("SET statement_timeout = 0; SET enable_seqscan = on; SET enable_hashjoin = on")
    await connection.execute(f"SELECT pg_advisory_lock({LOCK})")
    version = await read_version(connection, options.name)
    if version > len(migrations()):
        raise _too_new(options.name, version)
    done = []
    for number, script in migrations()[version:]:
        async with connection.transaction():
            await connection.execute(script)
            if number == 1:
                await connection.execute(
                    "INSERT INTO perdure.meta (schema_version, partitions) VALUES (1, $1)", partitions
                )
                await connection.execute(
                    "INSERT INTO perdure.partitions (partition) SELECT generate_series(0, $1 - 1)", partitions
                )
            await connection.execute("UPDATE perdure.meta SET schema_version = $1", number)
        done.append(number)
    return done


async def check_server(connection: Connection, name: str) -> None:
    version, encoding, standby = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_encoding'), "
        "pg_is_in_recovery()"
    )
    if version < OLDEST_SERVER:
        raise JournalUnavailable(
            f"journal {name}: PostgreSQL {version} is too old; Perdure needs {OLDEST_SERVER} or later"
        )
    if encoding != "UTF8":
        raise JournalUnavailable(
            f"journal {name}: the encoding of the database is {encoding}; create one with ENCODING 'UTF8'"
        )
    if standby:
        raise JournalReadOnly(
            f"journal {name}: the server is a standby; name the primary, or add target_session_attrs=read-write"
        )


async def read_version(connection: Connection, name: str) -> int:
    """The number of the last migration; 0 when there is no journal in this database."""
    ours, relations = await connection.fetchrow(
        "SELECT to_regclass('perdure.meta') IS NOT NULL, "
        "(SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('perdure'))"
    )
    if not ours:
        if relations:
            raise JournalCorrupt(
                f"journal {name}: its schema 'perdure' holds tables that are not Perdure's; choose another database"
            )
        return 0
    return int(await connection.fetchval("SELECT schema_version FROM perdure.meta"))


def check_version(version: int, name: str, *, opening: bool) -> None:
    """Refuse an unknown schema; a process that has it open may go on with a newer one, because migrations first add."""
    known = len(migrations())
    if version == 0:
        raise SchemaTooOld(f"journal {name}: there is no journal in this database yet; run `perdure migrate`")
    if version < known:
        raise SchemaTooOld(f"journal {name} has schema {version}, this program needs {known}; run `perdure migrate`")
    if version > known and opening:
        raise _too_new(name, version)


def _too_new(name: str, version: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"journal {name} has schema {version}, this program knows {len(migrations())}: "
        "a later version of Perdure made it; upgrade Perdure, or use another database"
    )
