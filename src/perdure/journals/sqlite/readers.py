"""A small, bounded pool of threads that read, each with a connection that cannot write.

Reads never wait for the writer: in write-ahead mode each sees the last commit before it began.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from perdure.journal import JournalClosed
from perdure.journals.sqlite.connection import Options, connect_reader
from perdure.journals.sqlite.errors import translate
from perdure.journals.sqlite.statements import query

Item = TypeVar("Item")


class Readers:
    def __init__(self, options: Options, count: int) -> None:
        self._options = options
        self._count = count
        self._places = asyncio.Semaphore(count)
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="perdure-journal-reader")

    async def fetch(
        self, name: str, parameters: Mapping[str, object], make: Callable[[tuple[Any, ...]], Item]
    ) -> list[Item]:
        """The rows of a query from `queries/`, made into items on the reading thread."""

        def read(connection: sqlite3.Connection) -> list[Item]:
            return [make(row) for row in connection.execute(query(name, parameters), parameters)]

        return await self.run(read)

    async def run(self, work: Callable[[sqlite3.Connection], Item]) -> Item:
        async with self._places:
            if self._closed:
                raise JournalClosed(f"journal {self._options.path} is closed")
            call = asyncio.get_running_loop().run_in_executor(self._pool, self._run, work)
            try:
                return await asyncio.shield(call)
            except asyncio.CancelledError:
                # The place is free only when the thread is: waiting keeps `close` from cutting a read in half.
                await asyncio.wait([call])
                raise

    async def close(self) -> None:
        self._closed = True
        for _ in range(self._count):
            await self._places.acquire()
        self._pool.shutdown()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        for _ in range(self._count):
            self._places.release()  # so that late callers learn that the pool is closed

    def _run(self, work: Callable[[sqlite3.Connection], Item]) -> Item:
        try:
            connection = self._idle.pop() if self._idle else connect_reader(self._options)
        except Exception as error:
            raise translate(error, self._options.path) from error
        try:
            result = work(connection)
        except Exception as error:
            connection.close()
            raise translate(error, self._options.path) from error
        self._idle.append(connection)
        return result
