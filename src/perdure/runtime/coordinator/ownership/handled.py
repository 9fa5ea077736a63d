"""Handled: which run this process is deciding for, in a file that outlives the process.

A run whose rendering or folding takes all memory kills its process, and would kill the next one, which takes the run up
again. So the run at hand is named in a shared memory mapping, as claims are: two writes to memory for each message, and
no flush. The next process reads what was left. A run named by two deaths without progress between them is quarantined
before the third (X34).

After a death, runs are loaded one at a time for a while, since side by side the wrong one may be named. A power cut may
lose the file, and a clean end removes it: counting then begins anew, and nothing else is lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import mmap
import os
import struct
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from perdure.clock import Clock
from perdure.journal import Journal
from perdure.runtime.coordinator.quarantine import Quarantined
from perdure.runtime.patience import insist
from perdure.runtime.worker.claim_file import refuse_linked

DEATHS = 2
"""The number of deaths after which the run at hand is not handled again."""
CAREFUL_SECONDS = 60.0
_NAME_BYTES = 4096
_BYTES = 16 * 1024
_LENGTH = struct.Struct("<H")
_SHORT = 254
_SHORT_NAME = struct.Struct(f"{_SHORT}s")
_MOST_KNOWN = 16
_PROCESSES = 64
"""How many processes may share a folder, each with a file of its own."""

logger = logging.getLogger("perdure.coordinator")

_open: weakref.WeakSet[Handled] = weakref.WeakSet()


class Death(msgspec.Struct, frozen=True):
    run_id: str
    seq: int
    """How far the run's journal had come: a run that has gone on since is not to blame."""
    times: int = 1


class Handled:
    def __init__(self, path: Path) -> None:
        """Raises OSError where the file cannot be created or written."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path, lock = _lock_first(path)
        self._unlock = weakref.finalize(self, os.close, lock)
        left = self.path.read_bytes()
        self.deaths, self.after_death = _read(left)
        known = msgspec.json.encode(self.deaths)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            refuse_linked(descriptor, self.path)
            # Not a sparse file: on a full disk a write to the map would kill the process; this write raises instead.
            os.write(descriptor, bytes(_NAME_BYTES) + known.ljust(_BYTES - _NAME_BYTES, b"\0"))
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        self.barred: dict[str, str] = {}
        """Runs that killed processes before they were durable, with the reason: every message for one is refused."""
        _open.add(self)

    def enter(self, run_id: str, seq: int) -> None:
        """Name the run. Packed, since an assignment to a part of the map takes four times as long, twice for every message."""
        name = f"{seq} {run_id}".encode()
        length = len(name)
        if length <= _SHORT:
            _SHORT_NAME.pack_into(self._map, 2, name)
        elif length <= _NAME_BYTES - 2:
            self._map[2 : 2 + length] = name
        else:
            return
        _LENGTH.pack_into(self._map, 0, length)  # last: a process that dies before this has named nothing

    def leave(self) -> None:
        _LENGTH.pack_into(self._map, 0, 0)

    def forget(self, run_id: str) -> None:
        """Forget the deaths of a run that is quarantined: once an operator releases it, counting begins anew."""
        self.deaths = [one for one in self.deaths if one.run_id != run_id]
        known = msgspec.json.encode(self.deaths)
        self._map[_NAME_BYTES:] = known.ljust(_BYTES - _NAME_BYTES, b"\0")

    def close(self) -> None:
        """Remove the file: a process that ends in order leaves nothing to remember."""
        if not self._map.closed:
            self._map.close()
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            self._unlock()

    def unlock(self) -> None:
        self._unlock()


class Blame:
    """Names the run that is to blame if this process dies now, where there is a file to write it in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._handled: Handled | None = None
        self._blamed: AbstractContextManager[None] = _NOBODY
        self._careful_until = 0.0
        self.begin: Callable[[str, int], None] = _name_nobody
        """As `on`, until `end`: for what is done for every message."""
        self.end: Callable[[], None] = _forget_nobody

    def write_to(self, handled: Handled | None) -> None:
        self._handled = handled
        self._blamed = _NOBODY if handled is None else _Blamed(handled)
        self.begin, self.end = (_name_nobody, _forget_nobody) if handled is None else (handled.enter, handled.leave)
        if handled is not None and handled.after_death:
            self._careful_until = self._clock.monotonic() + CAREFUL_SECONDS

    @property
    def careful(self) -> bool:
        """Whether a process died recently, perhaps of a run: runs are then loaded one at a time, so that the right one
        is named if it happens again."""
        return bool(self._careful_until) and self._clock.monotonic() < self._careful_until

    def check(self, run_id: str) -> None:
        """Raises Quarantined for a run that killed processes before it was durable."""
        if self._handled is not None and run_id in self._handled.barred:
            raise Quarantined(f"run {run_id} is quarantined: {self._handled.barred[run_id]}")

    def on(self, run_id: str, seq: int) -> AbstractContextManager[None]:
        """A context in which the death of the process is blamed on this run, from now until it is left."""
        if self._handled is None:
            return _NOBODY
        self._handled.enter(run_id, seq)
        return self._blamed


_NOBODY = contextlib.nullcontext()


def _name_nobody(run_id: str, seq: int) -> None:
    """Where there is no file to name a run in."""


def _forget_nobody() -> None:
    """Where there is no file that names a run."""


class _Blamed:
    """The end of the blame: a context that is left twice for every message, and so one for all, and no generator."""

    __slots__ = ("_leave",)

    def __init__(self, handled: Handled) -> None:
        self._leave = handled.leave

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        self._leave()


async def begin_handled(path: Path | None, journal: Journal, clock: Clock) -> Handled | None:
    """Quarantine the runs that killed earlier processes, and watch from now on. None: there is no file, or it cannot be
    written."""
    if path is None:
        return None
    try:
        handled = Handled(path)
    except OSError as error:
        logger.warning(
            "%s cannot be written (%s): a run that makes its process die again and again will not be noticed",
            path,
            error.strerror,
        )
        return None
    for death in [one for one in handled.deaths if one.times >= DEATHS]:
        record = await insist(clock, partial(journal.find_run, death.run_id))
        if record is None or (record.row.ended_at is None and record.quarantined is None):
            reason = (
                f"{death.times} times the process died while it handled this run (after event {death.seq}), so it is not handled"
                " again. Look for what of it takes so much memory; `perdure doctor --repair` lets it go on"
            )
            logger.error("run %s is quarantined: %s", death.run_id, reason, extra={"run_id": death.run_id})
            if record is None:  # its first decision is what kills; there is no row to mark
                handled.barred[death.run_id] = reason
                continue
            await insist(clock, partial(journal.mark_quarantined, death.run_id, reason))
        handled.forget(death.run_id)
    return handled


def _lock_first(path: Path) -> tuple[Path, int]:
    """The first file that no living process has locked, and the lock on it."""
    for number in range(_PROCESSES):
        mine = path if not number else path.with_name(f"{path.name}-{number}")
        # A descriptor of its own: the mapping keeps a copy of the other, which a forked child would hold on to.
        lock = os.open(mine, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), os.stat(mine)):
                return mine, lock
        except (BlockingIOError, FileNotFoundError):  # locked, or removed just now by the process that ended
            pass
        os.close(lock)
    raise BlockingIOError(0, f"{_PROCESSES} processes have such files")


def _read(content: bytes) -> tuple[list[Death], bool]:
    """The deaths so far, and whether a run was at hand at the last one."""
    known: list[Death] = []
    with contextlib.suppress(msgspec.MsgspecError):
        known = msgspec.json.decode(content[_NAME_BYTES:].rstrip(b"\0") or b"[]", type=list[Death])
    length = int.from_bytes(content[:2], "little")
    seq, _, run_id = content[2 : 2 + length].decode("utf-8", "replace").partition(" ")
    if not run_id or not seq.isdigit():
        return known, False
    before = next((one.times for one in known if one.run_id == run_id and one.seq == int(seq)), 0)
    others = [one for one in known if one.run_id != run_id]
    return [*others, Death(run_id, int(seq), before + 1)][-_MOST_KNOWN:], True


def _unlock_all() -> None:
    for one in list(_open):
        one.unlock()


# A forked child shares the lock; if it outlived its parent, what the parent left would never be read.
os.register_at_fork(after_in_child=_unlock_all)
