"""`python -m tests.servers.launcher UID GID PROGRAM …`: that of the private servers, for programs of tests."""

from __future__ import annotations

import sys

from perdure.private_servers.launcher import main

if __name__ == "__main__":
    main(sys.argv[1:])
