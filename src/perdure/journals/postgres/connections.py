"""How this adapter reaches PostgreSQL: one connection, and a small, bounded pool of them. It knows nothing of tables.

Every query of this adapter walks an index, a page at a time. Sessions are told so: plans never scan a table, however few
rows it seemed to have when the plan was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]
import msgspec

from perdure.journal import JournalClosed
from perdure.journals.postgres.errors import (
    is_lost,
    is_no_text,
    is_rivalry,
    translate,
    translate_connect,
    translate_write,
)
from perdure.journals.postgres.statements import bind
from perdure.journals.rows import Row

Item = TypeVar("Item")

OLDEST_SERVER = 15
TRIES = 5
"""How often a write is tried while others keep it from being done."""
_CLOSE_SECONDS = 5.0
_GRACE_SECONDS = 5.0
"""How much longer this side waits than the server does; after that the network is at fault."""

# The driver asks once what these types are, with a query that the session settings below would slow down.
_TYPES = "SELECT $1::boolean[], $2::integer[], $3::bigint[], $4::double precision[], $5::text[], $6::bytea[]"

_SESSION = """
SET jit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET idle_in_transaction_session_timeout = '60s';
"""


class Connection(Protocol):
    """The part of asyncpg's connection that is used."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *arguments: object) -> Any: ...
    async def fetchval(self, query: str, *arguments: object) -> Any: ...
    async def execute(self, query: str, *arguments: object) -> str: ...
    async def close(self, *, timeout: float) -> None: ...  # noqa: ASYNC109  asyncpg's name
    def terminate(self) -> None: ...
    def is_closed(self) -> bool: ...
    def transaction(self) -> Any: ...


class Options(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    application_name: str = "perdure"
    connect_seconds: float = 10.0
    statement_seconds: float = 15.0
    lock_seconds: float = 10.0
    require_durable: bool = True
    plans: str = "force_custom_plan"
    """How lists are planned: for the values asked with, as a rare state needs another index than a common one."""

    def __repr__(self) -> str:
        return f"Options({self.name})"  # the URL may hold a password

    @property
    def name(self) -> str:
        """The database as messages name it: without the password, and whatever else the URL holds."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", []))
        return f"{host or 'localhost'}{parts.path or '/'}"


async def connect(options: Options) -> Connection:
    """A new connection to the server, with the session settings of this adapter."""
    try:
        connection: Connection = await asyncpg.connect(
            options.url,
            timeout=options.connect_seconds,
            command_timeout=options.statement_seconds + _GRACE_SECONDS,
            server_settings={"application_name": options.application_name},
        )
    except Exception as error:
        raise translate_connect(error, options.name) from error
    try:
        await connection.fetch(_TYPES, *[[]] * 6)
        await connection.execute(
            f"{_SESSION}SET plan_cache_mode = {options.plans};"
            f"SET statement_timeout = {round(options.statement_seconds * 1000)};"
            f"SET lock_timeout = {round(options.lock_seconds * 1000)};"
        )
    except BaseException:
        connection.terminate()
        raise
    return connection


async def disconnect(connection: Connection) -> None:
    """Close a connection, politely if the server answers, and in any case."""
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except Exception as error:
        if not is_lost(error):
            raise
    finally:
        connection.terminate()


class Connections:
    """A bounded pool, made and used on one event loop. `greet` looks at every new connection before it is used."""

    def __init__(self, options: Options, count: int, greet: Callable[[Connection], Awaitable[None]]) -> None:
        self._options = options
        self._count = count
        self._greet = greet
        self._places = asyncio.Semaphore(count)
        self._idle: list[Connection] = []
        self._closed = False

    async def fetch(self, name: str, parameters: Mapping[str, object], make: Callable[[Row], Item]) -> list[Item]:
        """The rows of a query that only reads, made into items."""
        query, arguments = bind(name, parameters)
        try:
            return [make(row) for row in await self._run(query, arguments)]
        except Exception as error:
            if is_no_text(error):
                return []
            if not is_lost(error):
                raise translate(error, self._options.name) from error
        # The connection had died while it was idle, or just now; reading again does no harm.
        try:
            return [make(row) for row in await self._run(query, arguments)]
        except Exception as error:
            raise translate(error, self._options.name) from error

    async def write(self, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """The rows returned by a query that changes something, in a transaction of its own."""
        query, arguments = bind(name, parameters)
        for left in reversed(range(TRIES)):
            try:
                return await self._run(query, arguments)
            except Exception as error:
                if not (left and is_rivalry(error)):
                    raise translate_write(error, self._options.name) from error
        raise AssertionError

    async def close(self) -> None:
        self._closed = True
        for _ in range(self._count):
            await self._places.acquire()
        for connection in self._idle:
            await disconnect(connection)
        self._idle.clear()
        for _ in range(self._count):
            self._places.release()  # so that late callers learn that the pool is closed

    async def _run(self, query: str, arguments: list[object]) -> list[Row]:
        async with self._places:
            if self._closed:
                raise JournalClosed(f"journal {self._options.name} is closed")
            connection = await self._take()
            try:
                rows = await connection.fetch(query, *arguments)
            except Exception as error:
                if is_lost(error):
                    self._drop(connection)
                else:
                    self._idle.append(connection)
                raise
            except BaseException:
                # Cancelled: the driver tells the server, and the next use of the connection waits for that.
                self._idle.append(connection)
                raise
            self._idle.append(connection)
            return rows

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await open_connection(self._options, self._greet)

    def _drop(self, connection: Connection) -> None:
        """Terminate all connections: what ended one has most likely ended the others."""
        for each in (connection, *self._idle):
            each.terminate()
        self._idle.clear()


async def open_connection(options: Options, greet: Callable[[Connection], Awaitable[None]]) -> Connection:
    """A connection that may be used. If this fails, nothing was written."""
    try:
        connection = await connect(options)
        try:
            await greet(connection)
        except BaseException:
            connection.terminate()
            raise
    except Exception as error:
        raise translate(error, options.name) from error
    return connection
