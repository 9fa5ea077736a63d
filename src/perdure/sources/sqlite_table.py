"""Rows of a table in SQLite as items, in the order of columns that grow.

The cursor is the last row's values of these columns, compared as one row value, so that equal times lose nothing: the
primary key stands last and decides. SQLite has one writer at a time; rows whose values were made before their
transaction began can still come late, which `settle` is for. Names come from the definition, are checked
and quoted; values are always bound. The database is opened for reading only.
"""

from __future__ import annotations

import base64
import math
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Table
from perdure.sources import Polled, Source, SourceFailed, SourceRefused
from perdure.sources.pages import Page
from perdure.sources.roots import check_place, resolve_place

READ_SECONDS = 20.0
"""How long one poll may take: a view may compute without end."""
LARGEST_ROW = 16 * 1024 * 1024
"""The largest row that is looked at; a larger one is an item without content."""
_BUSY_SECONDS = 5.0
_LOOK_STEPS = 10_000
"""After how many steps of SQLite's machine the clock is looked at: about a thousandth of a second."""
_BYTES, _TEXT, _REAL = "$bytes", "$text", "$real"


class _Text(bytes):
    """Text that is not UTF-8, as it stands in the file."""


Key = tuple[Any, ...]


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
        self._path = resolve_place(unquote(path), roots, path)
        self._roots = roots
        self._connection: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        """Who reads has it: a source is closed by another thread."""
        self._until = 0.0
        self._mark: tuple[Key, float] | None = None
        """The last row of a look, and when that was. Lost with the process: it is looked at again."""

    def poll(self, cursor: str | None) -> Polled:
        with self._reading:
            self._until = self._clock.monotonic() + READ_SECONDS
            try:
                return self._poll(cursor)
            except sqlite3.Error as error:
                late = self._clock.monotonic() > self._until
                self._close()
                why = f"it takes longer than {READ_SECONDS:.0f} s; give its columns an index" if late else str(error)
                raise SourceFailed(f"table {self._spec.table} cannot be read: {why}") from error

    def close(self) -> None:
        """Also while it is read, in another thread: that ends at once."""
        self._until = -math.inf
        with self._reading:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _poll(self, cursor: str | None) -> Polled:
        self._check_columns()
        last = self._find_last()
        if cursor is None and self._spec.from_ != "start":
            return Polled((), _encode(last))
        after = None if cursor is None else _decode(cursor, len(self._spec.cursor))
        upto = self._settled(last, after)
        if upto is None:
            return Polled((), _encode(after))
        page = Page()
        after, more = self._fill(page, after, upto)
        if not more:
            self._mark = None
        return Polled(tuple(page.items), _encode(after), more=more)

    def _fill(self, page: Page, after: Key | None, upto: Key) -> tuple[Key | None, bool]:
        """Add the rows after a key as long as there is room; the key of the last one, and whether there are more."""
        try:
            for row in self._read("*", after, upto):
                if not self._add(page, row):
                    return after, True
                after = self._key(row)
        except (
            sqlite3.DataError
        ):  # one of the next two rows is larger than any that is looked at: the driver reads ahead
            (row,) = self._read(self._columns(), after, upto, " LIMIT 1").fetchall()
            try:
                added = self._add(page, self._read("*", after, upto, " LIMIT 1").fetchone())
            except sqlite3.DataError:  # its key must do
                added = page.refuse(_encode(tuple(row)), f"its row has more than {LARGEST_ROW:,} bytes")
            return (tuple(row) if added else after), True
        return after, False

    def _add(self, page: Page, row: sqlite3.Row) -> bool:
        return page.add(_encode(self._key(row)), {name: _plain(row[name]) for name in row.keys()})  # noqa: SIM118  (no dict)

    def _key(self, row: sqlite3.Row) -> Key:
        return tuple(row[column] for column in self._spec.cursor)

    def _settled(self, last: Key | None, after: Key | None) -> Key | None:
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
            check_place(self._path, self._roots)
            if not self._path.is_file():
                raise SourceFailed("there is no such database file")
            self._connection = sqlite3.connect(
                f"file:{quote(str(self._path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            check_place(self._path, self._roots)  # again: it may have been replaced just before
            self._connection.row_factory = sqlite3.Row
            self._connection.text_factory = _read_text
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
            self._connection.set_progress_handler(lambda: self._clock.monotonic() > self._until, _LOOK_STEPS)
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

    def _find_last(self) -> Key | None:
        order = ", ".join(f"{_quoted(column)} DESC" for column in self._spec.cursor)
        statement = f"SELECT {self._columns()} FROM {self._table()} ORDER BY {order} LIMIT 1"  # noqa: S608
        row = self._connect().execute(statement).fetchone()
        return None if row is None else tuple(row)

    def _read(self, what: str, after: Key | None, upto: Key, limit: str = "") -> sqlite3.Cursor:
        columns = self._columns()
        where = f"({columns}) <= ({_places(upto)})" + (
            "" if after is None else f" AND ({columns}) > ({_places(after)})"
        )
        statement = f"SELECT {what} FROM {self._table()} WHERE {where} ORDER BY {columns}{limit}"  # noqa: S608
        return self._connect().execute(statement, (*upto, *(after or ())))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _places(values: Key) -> str:
    return ", ".join("CAST(? AS TEXT)" if isinstance(value, _Text) else "?" for value in values)


def _read_text(value: bytes) -> str | _Text:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _Text(value)


def _plain(value: Any) -> Any:
    return {_BYTES: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _encode(values: Key | None) -> str:
    return "" if values is None else msgspec.json.encode([_write(value) for value in values]).decode()


def _write(value: Any) -> Any:
    """A value of a cursor, such that the same value is read from it."""
    if isinstance(value, _Text):
        return {_TEXT: base64.b64encode(value).decode()}
    return {_REAL: str(value)} if isinstance(value, float) and math.isinf(value) else _plain(value)


def _read_value(said: Any) -> Any:
    if not isinstance(said, dict):
        return said
    ((name, value),) = said.items()
    if name == _REAL:
        return float(value)
    return (_Text if name == _TEXT else bytes)(base64.b64decode(value))


def _decode(cursor: str, columns: int) -> Key | None:
    if not cursor:
        return None
    try:
        values = msgspec.json.decode(cursor, type=list[Any])
        found = tuple(_read_value(value) for value in values)
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError):
        found = ()
    if len(found) != columns:
        raise SourceRefused("the cursor is not one of this table")
    return found
