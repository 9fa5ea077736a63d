"""`python launcher.py UID GID PROGRAM …` becomes PROGRAM, as that user, and ends when its parent is gone.

PostgreSQL refuses to run as root, and a fork with Python code in it is not safe beside threads: hence a program. It is
run as a file, so it imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def die_with_parent(how: signal.Signals = signal.SIGKILL) -> None:
    """End this process when its parent is gone; called first thing in a child. On Linux the kernel does so when the
    thread that started the child is gone."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, how)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)


def main(arguments: list[str]) -> None:
    uid, gid, program = int(arguments[0]), int(arguments[1]), arguments[2:]
    if os.geteuid() == 0 != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's `&` makes its children ignore it, and so would the server
    die_with_parent(signal.SIGQUIT)  # after the change of user, which would undo it; SIGQUIT lets a server tidy up
    os.execv(program[0], program)  # noqa: S606  no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
