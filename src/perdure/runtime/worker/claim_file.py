"""Claims: which tasks run in this process, in a file that outlives it.

Each slot of a worker has 512 bytes in a shared mapping: it holds the id of the task that runs and since when, and is
cleared afterwards. Nothing is flushed, because a process that is killed leaves the page cache behind. The next process
reads what was left, and counts a crash for exactly those attempts. A power cut may lose the file: then a crash is not
counted, nothing more.

Other processes read the file too, to say what runs now. The worker holds a lock on it for as long as it lives, which
the system releases when it dies: claims in a file without a lock are those of a dead worker.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import socket
import struct
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.kernel import run_ids
from perdure.kernel.address import run_of_task

SLOT_BYTES = 512
_SINCE = struct.Struct("<d")
_SINCE_AT = SLOT_BYTES - _SINCE.size
_MAX_NAME = _SINCE_AT - 2
_OWNER = 0xFFFF
"""The length field that marks the last slot, which says whose file it is. No name of a task is that long."""

_TRIES = 10_000

_locks: weakref.WeakSet[Claims] = weakref.WeakSet()


class Owner(msgspec.Struct, frozen=True):
    """The worker that owns a file of claims."""

    worker: str
    host: str = ""
    pid: int = 0


def this_process() -> tuple[str, int]:
    """The host and the id of this process, for people."""
    return socket.gethostname(), os.getpid()


def refuse_linked(descriptor: int, path: Path) -> None:
    """Raise OSError for a file that has another name as well: it may be a link made to have the other file emptied."""
    if os.fstat(descriptor).st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name as well (a hard link); move it away", str(path))


def describe_process() -> str:
    try:
        return f"process {os.getpid()} (in {Path.cwd()})"
    except FileNotFoundError:  # its folder was deleted
        return f"process {os.getpid()}"


class Running(NamedTuple):
    name: str
    """The name of the task, by `claim_name`."""
    since: float


class Claims:
    """The claims file of this process. Call `read_left` first: opening the file clears it."""

    def __init__(self, path: Path | str, slots: int, kept: Sequence[str] = (), owner: Owner | None = None) -> None:
        """`kept`: tasks left in the file that this process does not look after; they stay for the process that does."""
        self.path = Path(path)
        self.slots = slots
        self._kept = b"".join(_slot(name) for name in kept)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            refuse_linked(descriptor, self.path)
            # A descriptor of its own for the lock: a forked child would keep the mapping's copy of the other one.
            lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self.unlock = weakref.finalize(self, os.close, lock)
            _lock(lock)
            os.ftruncate(descriptor, 0)
            said = b"" if owner is None else msgspec.json.encode(owner)
            last = (_OWNER.to_bytes(2, "little") + said).ljust(SLOT_BYTES, b"\0")
            # Not a sparse file: on a full disk a write to the map would kill the process; this says so instead.
            os.write(descriptor, bytes(slots * SLOT_BYTES) + self._kept + (last if len(last) == SLOT_BYTES else b""))
            self._map = mmap.mmap(descriptor, slots * SLOT_BYTES)
        finally:
            os.close(descriptor)
        _locks.add(self)

    def enter(self, slot: int, task_id: str, since: float = 0.0) -> None:
        name = task_id.encode()
        if len(name) > _MAX_NAME:
            name = claim_name(task_id).encode()
        start = slot * SLOT_BYTES
        self._map[start + 2 : start + 2 + len(name)] = name
        _SINCE.pack_into(self._map, start + _SINCE_AT, since)
        # Crash here: the slot still counts as empty, and the handler has not begun.
        self._map[start : start + 2] = len(name).to_bytes(2, "little")

    def leave(self, slot: int) -> None:
        start = slot * SLOT_BYTES
        self._map[start : start + 2] = b"\0\0"

    def close(self) -> None:
        """Remove the file, since nothing runs any more; what has to be kept stays in it."""
        if not self._map.closed:
            self._map.close()
            with contextlib.suppress(FileNotFoundError):
                self._write_kept() if self._kept else self.path.unlink()
            self.unlock()

    def _write_kept(self) -> None:
        with open(os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW), "wb") as file:
            file.write(self._kept)

    @staticmethod
    def read_left(path: Path | str) -> list[str]:
        """The tasks (by `claim_name`) that ran when the process before this one died."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return []
        return [running.name for running in _read(content)]

    @staticmethod
    def read_live(path: Path | str) -> tuple[Owner, list[Running]] | None:
        """The owner of the file and what it runs; None if no worker has it. Raises OSError if it may not be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # no process holds the lock, so the worker that wrote the file is dead
            except BlockingIOError:
                content = file.read()
        # A slot without a time was left by an earlier process.
        return _read_owner(content), [one for one in _read(content) if one.since]


def _lock(lock: int) -> None:
    """Take the lock. A reader holds it for microseconds; if another holder keeps it, others see nothing run here."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return


def _read(content: bytes) -> list[Running]:
    """The slots that name a task. One that changes while it is read gives a name that no task has."""
    found = []
    for start in range(0, len(content) - SLOT_BYTES + 1, SLOT_BYTES):
        length = int.from_bytes(content[start : start + 2], "little")
        if 0 < length <= _MAX_NAME:
            name = content[start + 2 : start + 2 + length].decode("utf-8", "replace")
            found.append(Running(name, _SINCE.unpack_from(content, start + _SINCE_AT)[0]))
    return found


def _read_owner(content: bytes) -> Owner:
    last = content[-SLOT_BYTES:]
    if int.from_bytes(last[:2], "little") == _OWNER:
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(last[2:].rstrip(b"\0"), type=Owner)
    return Owner("")


def _unlock_all() -> None:
    for claims in list(_locks):
        claims.unlock()


# A forked child shares the lock; if it outlived its parent, the dead worker would seem to work.
os.register_at_fork(after_in_child=_unlock_all)


def _slot(name: str) -> bytes:
    data = name.encode()
    return (len(data).to_bytes(2, "little") + data).ljust(SLOT_BYTES, b"\0")


def root_of(name: str) -> str:
    """The root run of a run or task, which a person started: children are named after their parents."""
    return run_ids.root_of(run_of_task(name))


def claim_name(task_id: str) -> str:
    """The name of a task in a slot: its id. An id too long for a slot is cut and told apart by its hash."""
    encoded = task_id.encode()
    if len(encoded) <= _MAX_NAME:
        return task_id
    return encoded[:400].decode("utf-8", "ignore") + "#" + hashlib.sha256(encoded).hexdigest()
