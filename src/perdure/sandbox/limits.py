"""Limits of the operating system on a sandbox process, set from outside.

The second wall: the interpreter inside is built not to reach files, sockets or processes, and here the kernel refuses them
too. What a platform lacks is left out; Linux has all of it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

if sys.platform != "win32":
    import resource
else:
    resource: Any = None

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def confine(pid: int, *, memory_bytes: int, cpu_seconds: float) -> None:
    """Limit another process of ours: nothing may be opened or started; `cpu_seconds` count from now."""
    if not hasattr(resource, "prlimit"):
        return
    try:
        for name in ("RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"):
            resource.prlimit(pid, getattr(resource, name), (0, 0))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))  # those it has stay open
        _limit(pid, resource.RLIMIT_AS, memory_bytes)
        # Also without a parent that watches, it does not run for ever.
        _limit(pid, resource.RLIMIT_CPU, int(_used_seconds(pid) + cpu_seconds) + 1)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return  # it is gone, which whoever talks to it will notice


def _limit(pid: int, what: int, value: int) -> None:
    """The soft limit, so that the next call may have more."""
    _, hard = resource.prlimit(pid, what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.prlimit(pid, what, (value, hard))


def _used_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
