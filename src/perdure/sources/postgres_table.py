"""Rows of a table in PostgreSQL as items, in the order of columns that grow.

The cursor is the last row's values of these columns, as text, compared as one row value: equal times lose nothing,
because the primary key stands last. Rows become visible when their transaction ends, not in the order of their values. So
a row is a *mark* first, and rows are given up to a mark only when no earlier one can come any more: every transaction
that had an id when the mark was seen has ended, none that may have begun by then is open or prepared, and a second has
passed. With `settle` in seconds the mark is passed after that time, whatever is still open; `reread` looks back for what came
later than that. `notify` names a channel on which the database says that there is something: it saves time and decides nothing.

Names come from the definition, are checked and quoted; types come from the catalogue; values are always bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from perdure.clock import Clock
from perdure.model.trigger_sources import Table
from perdure.sources import MOST_BYTES, MOST_ITEMS, Item, Polled, Source, SourceFailed, SourceRefused
from perdure.sources.pages import Page
from perdure.sources.postgres_places import Place, read_place, write_place
from perdure.threads import aside

_AFTER_SECONDS = 1.0
"""How much later than the mark a transaction must have begun: clocks of programs that make the values differ by less."""

_LATER_SECONDS = 0.05
MOST_REREAD = 100_000
"""The most rows that one look back compares."""

_SESSION = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; \
SET extra_float_digits = 1; SET default_transaction_read_only = on"
_TYPES = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS filled
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY($2::text[])
"""
_MAY_SEE = "SELECT rolsuper OR pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') FROM pg_roles WHERE rolname = current_user"
_OTHERS = """
SELECT pg_snapshot_xmin(s)::text AS xmin, pg_snapshot_xmax(s)::text AS xmax,
       extract(epoch FROM clock_timestamp())::float8 AS now,
       (SELECT extract(epoch FROM min(xact_start))::float8 FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker') AS oldest,
       (SELECT extract(epoch FROM max(prepared))::float8 FROM pg_prepared_xacts
        WHERE database = current_database()) AS prepared
FROM pg_current_snapshot() s
"""


class Connection(Protocol):
    """The part of asyncpg's connection that is used."""

    async def fetch(self, query: str, *arguments: object) -> list[Any]: ...
    async def fetchrow(self, query: str, *arguments: object) -> Any: ...
    async def fetchval(self, query: str, *arguments: object) -> Any: ...
    async def execute(self, query: str, *arguments: object) -> str: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    def terminate(self) -> None: ...


class _Mark(msgspec.Struct, frozen=True):
    values: tuple[str, ...]
    xmax: int
    """Transactions that had an id when the mark was seen have a smaller one."""
    seen_at: float
    """By the clock of the server."""
    since: float
    """By the clock of this process, which never goes back."""


Connect = Callable[[], Awaitable[Connection]]


class PostgresTableSource(Source):
    """A table, read by polls."""

    def __init__(
        self,
        spec: Table,
        connect: Connect,
        clock: Clock,
        failures: tuple[type[Exception], ...] = (OSError,),
        is_worn: Callable[[Any], bool] = lambda connection: False,
    ) -> None:
        """`connect` gives a connection of its own, by the rules for outgoing calls; `failures` is what the driver raises; one that
        `is_worn` is not used for another poll. Raises SourceRefused."""
        self._spec = spec
        self._connect = connect
        self._clock = clock
        self._failures = failures
        self._is_worn = is_worn
        self._connection: Connection | None = None
        self._types: dict[str, str] = {}
        self._mark: _Mark | None = None
        """Lost with the process: another one is seen, and waited for anew."""
        self._given: set[str] = set()
        """The rows that the last look back knew or gave. Lost with the process: they are given again, with the ids that they had."""
        self._said = ""
        """The cursor of the last answer. Who asks from another one has not heard it, and nothing counts as given."""
        self._notified = asyncio.Event()

    async def poll(self, cursor: str | None) -> Polled:
        if self._connection is not None and self._is_worn(self._connection):
            await self.close()
        try:
            return await self._poll(cursor)
        except (SourceFailed, SourceRefused):
            raise
        except self._failures as error:
            await self.close()
            raise SourceFailed(f"table {self._spec.table} cannot be read: {str(error)[:300]}") from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def wait(self, seconds: float) -> None:
        """Until it is worth while to ask again: a notification came, or what was seen may be passed."""
        if not self._spec.notify:
            await self._clock.sleep(seconds)
        elif self._mark is None:
            await self._notified.wait()
        else:
            await self._clock.sleep(self._spec.settle or _AFTER_SECONDS + _LATER_SECONDS)

    async def _poll(self, cursor: str | None) -> Polled:
        connection = await self._open()
        self._notified.clear()
        if cursor is None and self._spec.from_ != "start":
            # What is open now may still write rows before the last one: they are not items, as if they were there already.
            return Polled((), _encode(await self._find_last(connection, None)))
        place = read_place(cursor or "", len(self._spec.cursor))
        if self._spec.reread and place.after is not None:
            if cursor != self._said:
                self._given.clear()
            items, more = await self._look_back(connection, place)
            if items:
                self._said = write_place(msgspec.structs.replace(place, late=place.late + 1))
                return Polled(items, self._said, more=more)
        polled = await self._read_on(connection, place.after)
        if not self._spec.reread:
            return polled
        self._given.update(item.id for item in polled.items)
        moved = polled.cursor != _encode(place.after)
        self._said = write_place(place.moved(_decode(polled.cursor))) if moved else cursor or ""
        return msgspec.structs.replace(polled, cursor=self._said)

    async def _look_back(self, connection: Connection, place: Place) -> tuple[tuple[Item, ...], bool]:
        """Rows that have become visible behind the cursor, no longer ago than `reread`; and whether there are more."""
        there = await self._find_lately(connection, place)
        self._given.intersection_update(_encode(key) for key in there)
        new = [key for key in there if _encode(key) not in self._given]
        if not new:
            return (), False
        rows = await self._read(connection, *self._among(new[:MOST_ITEMS]))
        page, last, more = await aside("", _fill, rows)
        if last is not None:
            self._given.update(_encode(tuple(key)) for _, _, *key in rows[: len(page.items)])
        return tuple(page.items), more or len(new) > MOST_ITEMS

    async def _read_on(self, connection: Connection, after: tuple[str, ...] | None) -> Polled:
        if self._mark is None or (after is not None and self._mark.values == after):
            self._mark = await self._find_mark(connection, after)
        if self._mark is None or not await self._is_passed(connection, self._mark):
            return Polled((), _encode(after))
        rows = await self._read(connection, *self._between(after, self._mark.values))
        page, last, more = await aside("", _fill, rows)
        after = last if more else self._mark.values
        if not more:
            self._mark = None
        return Polled(tuple(page.items), _encode(after), more=more)

    async def _find_mark(self, connection: Connection, after: tuple[str, ...] | None) -> _Mark | None:
        values = await self._find_last(connection, after)
        if values is None:
            return None
        # Looked at after the row: transactions that began in between are waited for too.
        others = await connection.fetchrow(_OTHERS)
        return _Mark(values, int(others["xmax"]), others["now"], self._clock.monotonic())

    async def _is_passed(self, connection: Connection, mark: _Mark) -> bool:
        """Whether no row up to the mark can appear any more."""
        if self._spec.settle is not None:
            return self._clock.monotonic() - mark.since >= self._spec.settle
        others = await connection.fetchrow(_OTHERS)
        begun_by = mark.seen_at + _AFTER_SECONDS
        return (
            int(others["xmin"]) >= mark.xmax
            and others["now"] > begun_by
            and (others["oldest"] is None or others["oldest"] > begun_by)
            # One that was prepared since may have begun before, and is no longer among the open ones.
            and (others["prepared"] is None or others["prepared"] < mark.seen_at)
        )

    # -- statements ----------------------------------------------------------------------------------------------------

    async def _open(self) -> Connection:
        if self._connection is not None:
            return self._connection
        connection = await self._connect()
        self._connection = connection
        await connection.execute(_SESSION)
        found = await connection.fetch(_TYPES, self._table(), list(self._spec.cursor))
        self._types = {row["name"]: row["type"] for row in found}
        missing = [column for column in self._spec.cursor if column not in self._types]
        if missing:
            await self.close()
            raise SourceFailed(f"there is no table {self._spec.table} with the column {missing[0]}")
        if self._spec.settle is None and not await connection.fetchval(_MAY_SEE):
            await self.close()
            raise SourceRefused(
                "settle: transactions needs to see when others began: GRANT pg_read_all_stats, or give settle in seconds"
            )
        await self._check_filled(connection, [row["name"] for row in found if not row["filled"]])
        if self._spec.notify:
            await connection.add_listener(self._spec.notify, lambda *_: self._notified.set())
        return connection

    async def _check_filled(self, connection: Connection, loose: list[str]) -> None:
        """A row without a value in a column of the cursor compares with nothing, and would be passed over in silence."""
        if not loose:
            return
        nothing = " OR ".join(f"{_quoted(column)} IS NULL" for column in loose)
        if await connection.fetchval(f"SELECT 1 FROM {self._table()} WHERE {nothing} LIMIT 1"):  # noqa: S608
            await self.close()
            raise SourceFailed(
                f"table {self._spec.table} has rows without a value in {', '.join(loose)}; "
                "they have no place in the order: declare the columns NOT NULL"
            )

    def _table(self) -> str:
        return ".".join(_quoted(part) for part in self._spec.table.split("."))

    def _columns(self) -> str:
        return ", ".join(f"t.{_quoted(column)}" for column in self._spec.cursor)

    def _texts(self) -> str:
        return ", ".join(f"t.{_quoted(column)}::text" for column in self._spec.cursor)

    def _values(self, first: int) -> str:
        """The places of bound values, as the types of the columns."""
        columns = enumerate(self._spec.cursor, first)
        return ", ".join(f"CAST(${number}::text AS {self._types[column]})" for number, column in columns)

    async def _find_last(self, connection: Connection, after: tuple[str, ...] | None) -> tuple[str, ...] | None:
        order = ", ".join(f"t.{_quoted(column)} DESC" for column in self._spec.cursor)
        where = "" if after is None else f"WHERE ({self._columns()}) > ({self._values(1)})"
        statement = f"SELECT {self._texts()} FROM {self._table()} t {where} ORDER BY {order} LIMIT 1"  # noqa: S608
        row = await connection.fetchrow(statement, *(after or ()))
        return None if row is None else tuple(row)

    def _between(self, after: tuple[str, ...] | None, upto: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The condition for the rows behind one key, up to another, and its values."""
        where = f"({self._columns()}) <= ({self._values(1)})"
        if after is None:
            return where, upto
        return f"{where} AND ({self._columns()}) > ({self._values(1 + len(upto))})", (*upto, *after)

    def _among(self, keys: Sequence[tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
        """The condition for the rows of these keys, and its values."""
        count = len(self._spec.cursor)
        rows = ", ".join(f"({self._values(1 + number * count)})" for number in range(len(keys)))
        return f"({self._columns()}) IN ({rows})", tuple(value for key in keys for value in key)

    async def _find_lately(self, connection: Connection, place: Place) -> list[tuple[str, ...]]:
        """The keys of all rows up to the cursor that are no older than `reread`, and come behind the place where reading began."""
        assert place.after is not None
        first = self._spec.cursor[0]
        if not self._types[first].startswith("timestamp"):
            raise SourceRefused(
                f"'reread' goes back in time, and column {first} is {self._types[first]}: begin 'cursor' with one of times"
            )
        where, values = self._between(place.floor, place.after)
        back = f"CAST($1::text AS {self._types[first]}) - interval '{self._spec.reread} seconds'"
        statement = f"""SELECT {self._texts()} FROM {self._table()} t
            WHERE {where} AND t.{_quoted(first)} >= {back} ORDER BY {self._columns()} LIMIT {MOST_REREAD + 1}"""  # noqa: S608
        found = [tuple(row) for row in await connection.fetch(statement, *values)]
        if len(found) > MOST_REREAD:
            raise SourceRefused(
                f"more than {MOST_REREAD:,} rows of {self._spec.table} are read again each time; shorten 'reread'"
            )
        return found

    async def _read(self, connection: Connection, where: str, values: tuple[str, ...]) -> list[Any]:
        """Rows in order, one more than a page has: the JSON, its size, and the values of the cursor. The server leaves out what does
        not fit into one answer."""
        count = len(self._spec.cursor)
        sorted_by = ", ".join(f"c{number}" for number in range(count))
        keys = ", ".join(f"t.{_quoted(column)} AS c{number}" for number, column in enumerate(self._spec.cursor))
        texts = ", ".join(f"c{number}::text AS k{number}" for number in range(count))
        statement = f"""
            SELECT CASE WHEN size <= {MOST_BYTES} AND upto <= {MOST_BYTES} THEN body END, size, {texts}
            FROM (
                SELECT *, sum(CASE WHEN size <= {MOST_BYTES} THEN size ELSE 0 END)
                    OVER (ORDER BY {sorted_by} ROWS UNBOUNDED PRECEDING) AS upto
                FROM (
                    SELECT *, octet_length(body) AS size
                    FROM (
                        SELECT to_jsonb(t)::text AS body, {keys} FROM {self._table()} t
                        WHERE {where} ORDER BY {self._columns()} LIMIT {MOST_ITEMS + 1}
                    ) chosen
                ) measured
            ) summed ORDER BY {sorted_by}
        """  # noqa: S608  (names are checked, quoted)
        return await connection.fetch(statement, *values)


def _fill(rows: list[Any]) -> tuple[Page, tuple[str, ...] | None, bool]:
    """The rows that fit into a page, the key of the last of them, and whether there are more."""
    page, last = Page(), None
    for body, size, *key in rows:
        id = _encode(tuple(key))
        if body is not None:
            added = page.add_json(id, body.encode())
        elif size > MOST_BYTES:
            added = page.refuse(id, f"its row has {size:,} bytes as JSON, and {MOST_BYTES:,} are allowed")
        else:
            added = False
        if not added:
            return page, last, True
        last = tuple(key)
    return page, last, False


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _encode(values: tuple[str, ...] | None) -> str:
    return "" if values is None else msgspec.json.encode(values).decode()


def _decode(cursor: str) -> tuple[str, ...] | None:
    return msgspec.json.decode(cursor, type=tuple[str, ...]) if cursor else None
