"""Rows of a table in SQLite as items, in the order of columns that grow.

The cursor is the last row's values of these columns, compared as one row value, so that equal times lose nothing: the
primary key stands last and decides. SQLite has one writer at a time; rows whose values were made before their
transaction began can still come late, which `settle` is for. Names come from the definition, are checked
and quoted; values are always bound. The database is opened for reading only.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Table
from perdure.sources import MOST_ITEMS, Item, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.roots import resolve_place

_BUSY_SECONDS = 5.0
_BYTES = "$bytes"


class SqliteTableSource(Source):
    """A table, read by polls. Synchronous: it is called in a thread."""

    def __init__(self, spec: Table, url: str, roots: Sequence[str], clock: Clock) -> None:
        """`url` is that of the database, with its secret filled in. Raises SourceRefused."""
        scheme, _, path = url.partition(":///")
        if scheme != "sqlite" or not path:
            raise SourceRefused("a table of SQLite is in sqlite:///PATH, with four slashes where the path is absolute")
        for key in ("reread", "notify"):
            if getattr(spec, key):
                raise SourceRefused(f"'{key}' is for PostgreSQL; SQLite has one writer at a time")
        self._spec = spec
        self._clock = clock
        self._path = resolve_place(unquote(path), roots)
        self._connection: sqlite3.Connection | None = None
        self._mark: tuple[tuple[Any, ...], float] | None = None
        """The last row of a look, and when that was. Lost with the process: it is looked at again."""

    def poll(self, cursor: str | None) -> Polled:
        try:
            return self._poll(cursor)
        except sqlite3.Error as error:
            self.close()
            raise SourceFailed(f"table {self._spec.table} cannot be read: {error}") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _poll(self, cursor: str | None) -> Polled:
        self._check_columns()
        last = self._find_last()
        if cursor is None and self._spec.from_ == "end":
            return Polled((), _encode(last))
        after = None if cursor is None else _decode(cursor, len(self._spec.cursor))
        upto = self._settled(last, after)
        if upto is None:
            return Polled((), _encode(after))
        rows = self._read(after, upto)
        items = []
        for row in rows[:MOST_ITEMS]:
            key = tuple(row[column] for column in self._spec.cursor)
            items.append(Item(_encode(key), {name: _plain(value) for name, value in row.items()}))
            after = key
        if len(rows) <= MOST_ITEMS:
            self._mark = None
        return Polled(tuple(items), _encode(after), more=len(rows) > MOST_ITEMS)

    def _settled(self, last: tuple[Any, ...] | None, after: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """The row up to which no earlier one can come any more, as far as `settle` promises; None: there is nothing yet."""
        if last is None or last == after:
            self._mark = None
            return None
        settle = self._spec.settle or 0
        if not settle:
            return last
        now = self._clock.monotonic()
        if self._mark is None:
            self._mark = (last, now)
        mark, since = self._mark
        return mark if now - since >= settle else None

    # -- statements ----------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self._path.is_file():
                raise SourceFailed("there is no such database file")
            self._connection = sqlite3.connect(
                f"file:{quote(str(self._path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            self._connection.row_factory = sqlite3.Row
        return self._connection

    def _columns(self) -> str:
        return ", ".join(_quoted(column) for column in self._spec.cursor)

    def _table(self) -> str:
        return ".".join(_quoted(part) for part in self._spec.table.split("."))

    def _check_columns(self) -> None:
        """A row without a value in a column of the cursor compares with nothing, and would be passed over in silence."""
        schema, _, name = self._spec.table.rpartition(".")
        told = self._connect().execute("SELECT * FROM pragma_table_info(?, ?)", (name, schema or "main")).fetchall()
        filled = {row["name"] for row in told if row["notnull"] or (row["pk"] and row["type"].upper() == "INTEGER")}
        loose = [column for column in self._spec.cursor if column not in filled]
        if not loose:  # the table says it, and need not be searched
            return
        nothing = " OR ".join(f"{_quoted(column)} IS NULL" for column in loose)
        statement = f"SELECT 1 FROM {self._table()} WHERE {nothing} LIMIT 1"  # noqa: S608  (names are checked, quoted)
        if self._connect().execute(statement).fetchone() is not None:
            raise SourceFailed(
                f"table {self._spec.table} has rows without a value in {', '.join(loose)}; "
                "they have no place in the order: declare the columns NOT NULL"
            )

    def _find_last(self) -> tuple[Any, ...] | None:
        order = ", ".join(f"{_quoted(column)} DESC" for column in self._spec.cursor)
        statement = f"SELECT {self._columns()} FROM {self._table()} ORDER BY {order} LIMIT 1"  # noqa: S608
        row = self._connect().execute(statement).fetchone()
        return None if row is None else tuple(row)

    def _read(self, after: tuple[Any, ...] | None, upto: tuple[Any, ...]) -> list[dict[str, Any]]:
        places = ", ".join("?" * len(self._spec.cursor))
        columns = self._columns()
        where = f"({columns}) <= ({places})" + (f" AND ({columns}) > ({places})" if after is not None else "")
        statement = f"SELECT * FROM {self._table()} WHERE {where} ORDER BY {columns} LIMIT {MOST_ITEMS + 1}"  # noqa: S608
        rows = self._connect().execute(statement, (*upto, *(after or ()))).fetchall()
        return [dict(row) for row in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    return {_BYTES: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _encode(values: tuple[Any, ...] | None) -> str:
    return "" if values is None else msgspec.json.encode([_plain(value) for value in values]).decode()


def _decode(cursor: str, columns: int) -> tuple[Any, ...] | None:
    if not cursor:
        return None
    try:
        values = msgspec.json.decode(cursor, type=list[Any])
        found = tuple(base64.b64decode(value[_BYTES]) if isinstance(value, dict) else value for value in values)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError):
        found = ()
    if len(found) != columns:
        raise SourceRefused("the cursor is not one of this table")
    return found
