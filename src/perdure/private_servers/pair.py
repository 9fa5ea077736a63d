"""A PostgreSQL and a Valkey in one folder, for one process at a time: their data is there again at the next start."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from perdure.errors import Refused
from perdure.private_servers.postgres import Postgres, get_installation
from perdure.private_servers.system_user import can_enter, server_user
from perdure.private_servers.valkey import Valkey, get_program

PRIVATE = 0o711 if os.geteuid() == 0 else 0o700
"""The mode of a folder around the servers. PostgreSQL does not run as root: under root, its user passes through the
folder and sees nothing there."""
FOR_ROOT = Path("/var/lib/perdure")
"""Where the data of PostgreSQL is if root runs this in a folder that the server's user cannot enter."""


class Pair(NamedTuple):
    database_url: str
    redis_url: str


@contextmanager
def start_pair(folder: Path, say: Callable[[str], None] = lambda message: None) -> Iterator[Pair]:
    """Run both servers on the data in this folder, until the end of the block."""
    get_installation()  # both are looked for before anything is made
    get_program()
    folder = folder.absolute()
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    with _alone(folder), ExitStack() as stack:
        home = _home(folder / "postgres")
        if home != folder / "postgres":
            say(
                f"PostgreSQL does not run as root, and {server_user().pw_name} cannot enter {folder}; its data is in {home}"
            )
        postgres = Postgres(home, settings={"shared_buffers": "128MB", "unix_socket_permissions": "0700"})
        postgres.start()
        stack.callback(postgres.stop)
        valkey = Valkey(folder / "valkey", ("--save", "", "--appendonly", "yes"))
        valkey.start()
        stack.callback(valkey.stop)
        yield Pair(postgres.url(), valkey.url)


def _home(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if can_enter(server_user(), folder.parent):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    home = FOR_ROOT / name
    home.mkdir(parents=True, exist_ok=True)
    return home


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. The kernel releases it when the process ends, however that comes about."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "r+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refused(
                f"process {file.read().strip() or '?'} runs the servers in {folder} already; stop it first, or start this "
                "in another folder",
                code="servers_running",
            ) from None
        file.seek(0)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
