"""Lifelines: files that processes keep locked for as long as they live, so that others beside them learn of a death at
once.

Silence proves a death only after a while: a process may be slow, and the network away. The system releases a lock when
its process dies, whichever way it dies, so an unlocked lifeline proves it. Only processes that work in the same folder
see each other's; for all others silence decides, as without. So it does where an unlocked file proves nothing: on a
machine that shares the folder and perhaps not the locks, and for a copy of a lifeline, which nobody has locked. What
follows from a death is not decided here, and a lock guarantees nothing: epochs and attempts keep out a process that is
wrongly taken for dead (PROTOCOL 6).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import platform
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, get_args

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.transport import TransportUnavailable

LOOKS = 20
"""How often a death is acted upon at once: its runs must be taken over before its tasks can be. The rest is left to those
who look for silence."""
LOOK_SECONDS = 0.5
"""How often the lifelines of others are looked at: a folder is listed, and as many files opened as there are processes."""

OLD_SECONDS = 7 * 86_400.0
"""Age, by the clock of the folder, at which the lifelines of other systems are removed."""

logger = logging.getLogger("perdure.lifelines")

Kind = Literal["coordinator", "worker"]

_open: weakref.WeakSet[Lifelines] = weakref.WeakSet()


class Lifelines:
    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder cannot be made."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._system = hashlib.sha256(_name_system().encode()).hexdigest()[:12]
        self._held: dict[Path, int] = {}
        _open.add(self)

    def tie(self, kind: Kind, name: str) -> None:
        """Lock a lifeline of this name, which no other process has, until this process ends."""
        try:
            self._tie(kind, name)
        except OSError as error:
            logger.warning(
                "%s cannot be written (%s): the death of this process is found by its silence", self._folder, error
            )

    def _tie(self, kind: Kind, name: str) -> None:
        path = self._path(kind, name)
        made = path.with_name(f".{path.name}-{os.getpid()}")
        descriptor = os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, f"{name}\n{os.fstat(descriptor).st_ino}".encode())
            made.rename(path)  # only now can others see it: it is never seen unlocked while this process lives
        except BaseException:
            os.close(descriptor)
            made.unlink(missing_ok=True)
            raise
        self._held[path] = descriptor
        self._clear_away(os.fstat(descriptor).st_mtime - OLD_SECONDS)

    def _clear_away(self, before: float) -> None:
        """Remove what nobody looks at any more: lifelines of other systems, most often earlier boots of this one, and files
        that were never finished, if they are older than `before` and nobody here has them locked. One of a process that
        lives on another machine may be among them: its death is then found by its silence."""
        for path in self._folder.iterdir():
            unfinished = path.name.startswith(".")
            kind, _, rest = path.name.removeprefix(".").partition("-")
            if kind not in get_args(Kind) or (rest.startswith(f"{self._system}-") and not unfinished):
                continue
            with contextlib.suppress(OSError):  # removed just now, locked, or not ours to remove
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(descriptor).st_mtime < before:
                        path.unlink()
                finally:
                    os.close(descriptor)

    def find_dead(self, kind: Kind) -> list[str]:
        """The names of processes whose lifelines were let go by their deaths."""
        found: list[str] = []
        for path in sorted(self._folder.glob(f"{kind}-{self._system}-*")):
            with contextlib.suppress(OSError):  # removed just now, or not to be read
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    name, _, number = os.read(descriptor, 4096).decode("utf-8", "replace").partition("\n")
                    if number == str(os.fstat(descriptor).st_ino) and path == self._path(kind, name):
                        found.append(name)
                finally:
                    os.close(descriptor)
        return found

    def bury(self, kind: Kind, name: str) -> None:
        """Remove the lifeline of a process that died, once everything was done about it."""
        _remove(self._path(kind, name))

    def close(self) -> None:
        """Remove what this process holds: it ends in order, and has handed over what it had."""
        for path in self._held:
            _remove(path)
        self.let_go()

    def let_go(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _path(self, kind: Kind, name: str) -> Path:
        return self._folder / f"{kind}-{self._system}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # the death is seen again, and nothing is left to be done about it
        logger.warning("%s cannot be removed: %s", path, error)


def _name_system() -> str:
    """The running system, whose processes see each other's locks: another one from boot to boot, and the same in all
    containers of a machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return platform.node()


def open_lifelines(folder: Path | None) -> Lifelines | None:
    """None: there is no folder, or it cannot be written; deaths are then found by silence alone."""
    if folder is None:
        return None
    try:
        return Lifelines(folder)
    except OSError as error:
        logger.warning(
            "%s cannot be written (%s): deaths of processes are found by their silence", folder, error.strerror
        )
        return None


async def watch(lifelines: Lifelines, clock: Clock, act: Callable[[], Awaitable[None]]) -> None:
    """Act soon after a process has died beside this one."""
    looked: dict[str, int] = {}
    while True:
        await clock.sleep(LOOK_SECONDS)
        dead = (*lifelines.find_dead("coordinator"), *lifelines.find_dead("worker"))
        looked = {name: looked.get(name, 0) + 1 for name in dead}
        if looked and min(looked.values()) <= LOOKS:
            with contextlib.suppress(StoreUnavailable, TransportUnavailable):  # the next look finds the same
                await act()


def _let_all_go() -> None:
    for one in list(_open):
        one.let_go()


# A forked child shares the locks; if it outlived its parent, the death of the parent would not be seen.
os.register_at_fork(after_in_child=_let_all_go)
