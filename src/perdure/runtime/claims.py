"""Claims: which tasks run in this process, in a file that outlives it.

Each slot of a worker has 512 bytes in a shared mapping: it writes the id of the task it runs and since when, and clears it
afterwards. Nothing is flushed, because a process that is killed leaves the page cache behind. The next process reads what
was left, and counts a crash for exactly those attempts. A power cut may lose it: then a crash is not counted, nothing more.

Other processes read it too, to say what runs now. The worker has a lock on the file as long as it lives, which the system
gives back when it dies: what stands in a file without one is of the dead.
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

from perdure.kernel import keys

SLOT_BYTES = 512
_SINCE = struct.Struct("<d")
_SINCE_AT = SLOT_BYTES - _SINCE.size
_MAX_NAME = _SINCE_AT - 2
_OWNER = 0xFFFF
"""The length of the last slot, which says whose file it is: as the name of a task it would be too long."""

_TRIES = 10_000

_locks: weakref.WeakSet[Claims] = weakref.WeakSet()


class Owner(msgspec.Struct, frozen=True):
    """The worker whose claims they are."""

    worker: str
    host: str = ""
    pid: int = 0


def this_process() -> tuple[str, int]:
    """Its host and its number, for people."""
    return socket.gethostname(), os.getpid()


def refuse_linked(descriptor: int, path: Path) -> None:
    """Raises OSError for a file that has another name as well: whoever put it there would have that one emptied."""
    if os.fstat(descriptor).st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name as well (a hard link); move it away", str(path))


def describe_process() -> str:
    try:
        return f"process {os.getpid()} (in {Path.cwd()})"
    except FileNotFoundError:  # its folder was deleted
        return f"process {os.getpid()}"


class Running(NamedTuple):
    name: str
    """As `claim_name` names the task."""
    since: float


class Claims:
    """Use `read_left` before opening: opening clears."""

    def __init__(self, path: Path | str, slots: int, kept: Sequence[str] = (), owner: Owner | None = None) -> None:
        """`kept`: what was left of attempts that nobody here looks after; it stays for whoever does."""
        self.path = Path(path)
        self.slots = slots
        self._kept = b"".join(_slot(name) for name in kept)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            refuse_linked(descriptor, self.path)
            # Of its own, since the mapping has a copy of the other that a forked child would keep.
            lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self.unlock = weakref.finalize(self, os.close, lock)
            _take(lock)
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
        """Nothing runs any more: the file goes, unless there is something to keep."""
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
        """The tasks (as `claim_name` names them) that ran when the process before this one died."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return []
        return [running.name for running in _read(content)]

    @staticmethod
    def read_live(path: Path | str) -> tuple[Owner, list[Running]] | None:
        """What runs now, and whose it is. None: no worker has the file. Raises OSError where it may not be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # nobody holds it, so whoever wrote it is dead
            except BlockingIOError:
                content = file.read()
        return _read_owner(content), [one for one in _read(content) if one.since]  # the rest was left by others


def _take(lock: int) -> None:
    """A reader has it for some microseconds at most. Whoever has it for longer is no reader; then others see nothing run."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return


def _read(content: bytes) -> list[Running]:
    """A slot that changes meanwhile gives the name of no task, and so nothing."""
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


# A forked child shares the lock; if it outlived its parent, the dead would seem to work.
os.register_at_fork(after_in_child=_unlock_all)


def _slot(name: str) -> bytes:
    data = name.encode()
    return (len(data).to_bytes(2, "little") + data).ljust(SLOT_BYTES, b"\0")


def root_of(name: str) -> str:
    """The run that a person started, of a run or of a task: children are named after their parents."""
    return keys.root_of(name.partition("/")[0])


def claim_name(task_id: str) -> str:
    """The id itself; one too long for a slot is cut and told apart by its hash."""
    encoded = task_id.encode()
    if len(encoded) <= _MAX_NAME:
        return task_id
    return encoded[:400].decode("utf-8", "ignore") + "#" + hashlib.sha256(encoded).hexdigest()
