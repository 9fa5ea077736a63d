"""What tests do to PostgreSQL again and again, at the least cost: between two tests nothing is connected, planned or looked up anew.

A new connection costs the server more than most tests do, and the driver's question what arrays are costs twice that.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import asyncpg  # type: ignore[import-untyped]

CLEANER = "between tests"
"""How the connections kept here are called, for whoever counts those of a test."""
_FIRST_OF_USERS = 16384
"""Numbers of types below are the same in every database of every version."""
_introspect = asyncpg.Connection._introspect_types
_known: dict[tuple[int, ...], Any] = {}


async def _introspect_once(self: Any, typeoids: Any, timeout: Any) -> Any:  # noqa: ASYNC109  asyncpg's name
    """Types of PostgreSQL itself are asked for once in a process, not on every connection."""
    key = tuple(sorted(typeoids))
    if key[-1] >= _FIRST_OF_USERS:
        return await _introspect(self, typeoids, timeout)
    if key not in _known:
        _known[key] = await _introspect(self, typeoids, timeout)
    return _known[key]


asyncpg.Connection._introspect_types = _introspect_once


class KeptConnections:
    """One for each database, on a loop of their own that runs only while something is executed: loops of tests end with them."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[str, Any] = {}

    async def execute(self, url: str, statements: str) -> None:
        """In a transaction of its own. It may be begun anew, if the server or a test has ended the connection meanwhile."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        await asyncio.to_thread(self._loop.run_until_complete, self._execute(url, statements))

    async def _execute(self, url: str, statements: str) -> None:
        if url in self._connections:
            try:
                return await self._connections[url].execute(statements)
            except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
                self._connections.pop(url).terminate()
            except asyncpg.PostgresError:
                if not self._connections[url].is_closed():
                    raise
                del self._connections[url]
        connection = await asyncpg.connect(url, server_settings={"application_name": CLEANER})
        self._connections[url] = connection
        return await connection.execute(statements)

    def close(self) -> None:
        if self._loop is not None:
            # This thread may have a loop that runs.
            closing = threading.Thread(target=self._loop.run_until_complete, args=(self._close(),))
            closing.start()
            closing.join()
            self._loop.close()
            self._loop = None

    async def _close(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await connection.close(timeout=5.0)
            connection.terminate()
