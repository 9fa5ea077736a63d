"""A place for files that does not wait for a disk."""

from __future__ import annotations

import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30


def room_in_memory() -> Path | None:
    """Where files are memory, if there is enough of it."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None
