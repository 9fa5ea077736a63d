"""The operating system's lock that makes one process the coordinator of a file.

It stands beside the database, in `<file>.lock` (of the file itself, by whichever link it was named), because SQLite has locks of its own on the database. The kernel
releases it when the process ends, however it ends: after `kill -9` the next process goes on at once. The file is never
deleted: a process that waits for it would otherwise hold a lock on a file that no other can find.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
import weakref
from pathlib import Path

from perdure.journal import HeldBy, JournalUnavailable

_LONGEST = 512
_OURS = re.compile(rb"(?:[0-9]+ [^\s]*\n?)?")
_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """A held lock. `release` may be called again."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _held.add(self)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Crash here: the file still names this process, but its lock is gone, and the lock decides.
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def forget(self) -> None:
        """Close without releasing: the parent of this process goes on holding the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def hold(path: Path) -> FileLock | HeldBy:
    """Take the lock of the database at `path`, or say which process has it. Never waits."""
    name = Path(f"{os.path.realpath(path)}.lock")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(name, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _no_lock(name) from error
        raise JournalUnavailable(
            f"cannot open the lock {name}: {error.strerror}; check the rights of its folder"
        ) from error
    try:
        if not _try_lock(descriptor):
            holder = _read(descriptor)
            os.close(descriptor)
            return holder
        os.lseek(descriptor, 0, os.SEEK_SET)
        if not _OURS.fullmatch(os.read(descriptor, _LONGEST)):
            os.close(descriptor)
            raise _no_lock(name)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode())
    except OSError as error:
        os.close(descriptor)
        raise JournalUnavailable(
            f"cannot take the lock {name}: {error.strerror}; is its disk local and not full?"
        ) from error
    return FileLock(descriptor)


def _no_lock(name: Path) -> JournalUnavailable:
    """The refusal to write over what a user put there, or linked to: it would be lost."""
    return JournalUnavailable(f"{name} is a link or holds something else than a lock; move it away")


def _read(descriptor: int) -> HeldBy:
    # The file may be empty: its holder has the lock and is about to write.
    os.lseek(descriptor, 0, os.SEEK_SET)
    words = os.read(descriptor, _LONGEST).decode(errors="replace").split()
    return HeldBy(int(words[0]) if words and words[0].isdecimal() else 0, words[1] if len(words) > 1 else "")


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # Locks are mandatory on Windows: a byte far behind the content keeps the content readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _forget_all() -> None:
        for lock in list(_held):
            lock.forget()

    # A forked child shares the lock; if it outlived its parent, the journal would stay held without a holder.
    os.register_at_fork(after_in_child=_forget_all)
