"""`python -m tests.servers.launcher UID GID PROGRAM …` becomes PROGRAM, as that user, and ends when its parent is gone.

PostgreSQL refuses to run as root, and a fork with Python code in it is not safe beside threads: hence a program.
"""

from __future__ import annotations

import os
import signal
import sys

from tests.processes import die_with_parent

if __name__ == "__main__":
    uid, gid = int(sys.argv[1]), int(sys.argv[2])
    if os.geteuid() == 0 != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    die_with_parent(signal.SIGQUIT)  # after the change of user, which would undo it; SIGQUIT lets a server tidy up
    os.execv(sys.argv[3], sys.argv[3:])
