"""Limits of the operating system on a sandbox process, set from outside.

This is the second wall: the interpreter inside is built not to reach files, sockets or processes, and here the kernel
refuses them too. Limits that a platform lacks are left out; Linux has all of them.
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
    """Limit another process of ours: it may open and start nothing; `cpu_seconds` count from now."""
    if not hasattr(resource, "prlimit"):
        return
    try:
        for name in ("RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"):
            resource.prlimit(pid, getattr(resource, name), (0, 0))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))  # files that are open stay open
        _limit(pid, resource.RLIMIT_AS, memory_bytes)
        # So that it does not run for ever, even without a parent that watches.
        _limit(pid, resource.RLIMIT_CPU, int(_used_seconds(pid) + cpu_seconds) + 1)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return  # the process is gone, which its caller will notice


def _limit(pid: int, what: int, value: int) -> None:
    """Set the soft limit only, so that the next call may have more."""
    _, hard = resource.prlimit(pid, what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.prlimit(pid, what, (value, hard))


def _used_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
