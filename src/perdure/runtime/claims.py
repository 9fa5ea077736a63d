"""Claims: which tasks run in this process, in a file that outlives it.

Each slot of a worker has 512 bytes in a shared mapping: it writes the id of the task it runs and clears it afterwards.
Nothing is flushed, because a process that is killed leaves the page cache behind. The next process reads what was left,
and counts a crash for exactly those attempts. A power cut may lose it: then a crash is not counted, nothing more.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

SLOT_BYTES = 512
_MAX_NAME = SLOT_BYTES - 2


class Claims:
    """Use `read_left` before opening: opening clears."""

    def __init__(self, path: Path | str, slots: int, kept: Sequence[str] = ()) -> None:
        """`kept`: what was left of attempts that nobody here looks after; it stays for whoever does."""
        self.path = Path(path)
        self.slots = slots
        self._kept = b"".join(_slot(name) for name in kept)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(descriptor, 0)
            # Not a sparse file: on a full disk a write to the map would kill the process; this says so instead.
            os.write(descriptor, bytes(slots * SLOT_BYTES) + self._kept)
            self._map = mmap.mmap(descriptor, slots * SLOT_BYTES + len(self._kept))
        finally:
            os.close(descriptor)

    def enter(self, slot: int, task_id: str) -> None:
        name = claim_name(task_id).encode()
        start = slot * SLOT_BYTES
        self._map[start + 2 : start + 2 + len(name)] = name
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
                self.path.write_bytes(self._kept) if self._kept else self.path.unlink()

    @staticmethod
    def read_left(path: Path | str) -> list[str]:
        """The tasks (as `claim_name` names them) that ran when the process before this one died."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return []
        left = []
        for start in range(0, len(content) - SLOT_BYTES + 1, SLOT_BYTES):
            length = int.from_bytes(content[start : start + 2], "little")
            if 0 < length <= _MAX_NAME:
                left.append(content[start + 2 : start + 2 + length].decode("utf-8", "replace"))
        return left


def _slot(name: str) -> bytes:
    data = name.encode()
    return (len(data).to_bytes(2, "little") + data).ljust(SLOT_BYTES, b"\0")


def root_of(name: str) -> str:
    """The run that a person started, of a run or of a task: children are named after their parents."""
    return name.partition("/")[0]


def claim_name(task_id: str) -> str:
    """The id itself; one too long for a slot is cut and told apart by its hash."""
    encoded = task_id.encode()
    if len(encoded) <= _MAX_NAME:
        return task_id
    return encoded[:400].decode("utf-8", "ignore") + "#" + hashlib.sha256(encoded).hexdigest()
