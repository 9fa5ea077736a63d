"""Ports for servers that must be told one before they start.

A port that the system gave away and that was let go may be given to anybody's next connection. So these lie below the range
that the system gives from, and each is locked in a file as long as this process lives: no other test takes it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

FIRST = 10_000
_locked: list[IO[str]] = []
atexit.register(lambda: [lock.close() for lock in _locked])


def free_port() -> int:
    """A port of this machine that nobody listens on, and that nobody else is given while this process lives."""
    ports = list(range(FIRST, _first_given_away()))
    random.SystemRandom().shuffle(ports)
    for port in ports:
        if (lock := _lock(port)) is None:
            continue
        with socket.socket() as probe:
            # As servers do: what is left of connections that ended is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                lock.close()
                continue
        _locked.append(lock)
        return port
    raise AssertionError(f"no port from {FIRST} to {_first_given_away()} is free")


def _first_given_away() -> int:
    """Where the range begins that the system gives from: 32,768 on Linux, and elsewhere it begins later."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    except FileNotFoundError:
        return 32_768
    first = int(text.split()[0])
    return first if first > FIRST + 1_000 else 32_768


def _lock(port: int) -> IO[str] | None:
    folder = Path(tempfile.gettempdir()) / f"perdure-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = (folder / str(port)).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
