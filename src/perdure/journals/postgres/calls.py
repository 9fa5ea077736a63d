"""How journal and archive call a PostgreSQL database: each call is one statement, and so one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec

from perdure.journals.calls import Calls, Parameters
from perdure.journals.postgres.connections import Connections
from perdure.journals.rows import Row, as_bytes, as_text, run_record
from perdure.records import RunRecord

Item = TypeVar("Item")


class PostgresCalls(Calls):
    _connections: Connections

    async def _read(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> list[Item]:
        return await self._connections.fetch(name, parameters, make)

    async def _write(self, name: str, parameters: Parameters) -> list[Row]:
        return await self._connections.write(name, parameters)

    async def _change(self, name: str, parameters: Parameters) -> int:
        return len(await self._connections.write(name, parameters))  # each statement returns the rows it changed

    def _many(self, values: Collection[int] | Collection[str] | None) -> object:
        return None if values is None else list(values)

    def _free(self, text: str) -> bytes:
        return as_bytes(text)

    def _make_run(self, row: Row) -> RunRecord:
        record = run_record(row)
        if row[3] is None:
            return record
        return msgspec.structs.replace(record, quarantined=as_text(row[3]))
