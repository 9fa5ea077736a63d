"""Child processes of tests: none outlives the test run, however that ends; and one may be stopped where it does no harm."""

import contextlib
import os
import signal
import sqlite3
from pathlib import Path

from perdure.private_servers.launcher import die_with_parent
from tests.waiting import wait_until

__all__ = ["die_with_parent", "python_path", "stop_between_writes"]
ROOT = Path(__file__).parent.parent


def python_path(*before: Path | str) -> str:
    """The `PYTHONPATH` of a child: these folders, then Perdure as it is here, which need not be the installed one, and its
    tests."""
    return os.pathsep.join(map(str, (*before, ROOT / "src", ROOT)))


def stop_between_writes(pid: int, database: Path) -> None:
    """SIGSTOP. Stopped within a transaction, it would keep everybody else from writing."""
    with contextlib.closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:

        def is_stopped() -> bool:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        def stopped_outside() -> bool:
            os.kill(pid, signal.SIGSTOP)
            wait_until(is_stopped, "it is stopped")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                return False
            connection.execute("ROLLBACK")
            return True

        wait_until(stopped_outside, "it is stopped between two writes")
