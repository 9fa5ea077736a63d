"""How journal and archive call a SQLite file: through readers that never wait for the one writer."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec

from perdure.journals.calls import Calls, Parameters
from perdure.journals.rows import Row, run_record
from perdure.journals.sqlite.readers import Readers
from perdure.journals.sqlite.statements import query, text
from perdure.journals.sqlite.writer import Writer
from perdure.records import RunRecord

Item = TypeVar("Item")


class SqliteCalls(Calls):
    _readers: Readers

    @abstractmethod
    def _writing(self) -> Writer:
        """The writer, or an error that says why nothing may be written."""

    async def _read(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> list[Item]:
        return await self._readers.fetch(name, parameters, make)

    async def _write(self, name: str, parameters: Parameters) -> list[Row]:
        return await self._writing().run(lambda connection: fetch(connection, name, parameters))

    async def _change(self, name: str, parameters: Parameters) -> int:
        return await self._writing().run(lambda connection: connection.execute(text(name), parameters).rowcount)

    def _many(self, values: Collection[int] | Collection[str] | None) -> str | None:
        return as_json(values)

    def _free(self, text: str) -> str:
        return text

    def _make_run(self, row: Row) -> RunRecord:
        return run_record(row)


def fetch(connection: sqlite3.Connection, name: str, parameters: Parameters) -> list[Row]:
    return connection.execute(query(name, parameters), parameters).fetchall()


def as_json(values: Collection[int] | Collection[str] | None) -> str | None:
    """The values as JSON, which SQLite takes apart with json_each."""
    return None if values is None else msgspec.json.encode(list(values)).decode()
