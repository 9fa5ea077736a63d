"""The user that a private server runs as, and what that user can reach."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from perdure.private_servers import launcher
from perdure.private_servers.errors import ServerFailed


def server_user() -> pwd.struct_passwd:
    """The current user, or one without rights if that is root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerFailed(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody; run this as another user"
    )


def as_user(uid: int, gid: int, *program: str) -> list[str]:
    """The command that runs a program as a user, as a child that does not outlive the thread that starts it."""
    return [sys.executable, "-I", "-S", launcher.__file__, str(uid), str(gid), *program]


def can_enter(user: pwd.struct_passwd, folder: Path) -> bool:
    """Whether the user may go down to this folder."""
    if user.pw_uid == 0:
        return True
    for one in (folder, *folder.parents):
        about = one.stat()
        if about.st_uid == user.pw_uid:
            bit = 0o100
        elif about.st_gid == user.pw_gid:
            bit = 0o010
        else:
            bit = 0o001
        if not about.st_mode & bit:
            return False
    return True
