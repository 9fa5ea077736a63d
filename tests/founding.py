"""New SQLite files of tests are copies of one that was migrated: that takes a sixth of the time, and thousands of tests make one.

Only files that are empty are made so, and only in the process of pytest; what migrating does is tested with `schema.migrate` itself
(`tests/test_founding.py`, `tests/journals/sqlite/test_open.py`), and programs that tests start always migrate.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from perdure.journals.sqlite import schema

migrate = schema.migrate
"""What it is without this."""

_lock = threading.Lock()
_made: dict[object, sqlite3.Connection] = {}


def found(connection: sqlite3.Connection, path: Path, partitions: int) -> None:
    """Bring a file to the schema. The lock is for tests in which several threads found one file."""
    with _lock:
        if partitions > 0 and _is_empty(connection):
            _template(partitions).backup(connection)
            return
    migrate(connection, path, partitions)


def _is_empty(connection: sqlite3.Connection) -> bool:
    marks = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]
    return not any(marks) and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _template(partitions: int) -> sqlite3.Connection:
    key = (schema.migrations(), partitions)
    if key not in _made:
        made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(made, Path(":memory:"), partitions)
        _made[key] = made
    return _made[key]
