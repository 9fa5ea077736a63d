"""The few ways in which adapters with SQL call their queries; what all databases share is written over them.

The queries of two databases have the same names and parameters and return the same columns, whatever their text
(`journal_calls.py`, `archive_calls.py`). Where that is not so, an adapter writes the method itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from perdure.journals.rows import Row
from perdure.records import RunRecord

Item = TypeVar("Item")
Parameters: TypeAlias = Mapping[str, object]


class Calls(ABC):
    @abstractmethod
    async def _read(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> list[Item]:
        """The rows of a query that only reads, made into items."""

    async def _find(self, name: str, parameters: Parameters, make: Callable[[Row], Item]) -> Item | None:
        rows = await self._read(name, parameters, make)
        return rows[0] if rows else None

    @abstractmethod
    async def _write(self, name: str, parameters: Parameters) -> list[Row]:
        """The rows returned by a query that changes something, in a transaction of its own."""

    @abstractmethod
    async def _change(self, name: str, parameters: Parameters) -> int:
        """The number of rows changed by a query, in a transaction of its own."""

    @abstractmethod
    def _many(self, values: Collection[int] | Collection[str] | None) -> object:
        """A list as a parameter."""

    @abstractmethod
    def _free(self, text: str) -> str | bytes:
        """Free text of people, as it is stored."""

    @abstractmethod
    def _make_run(self, row: Row) -> RunRecord: ...


def first(row: Row) -> Any:
    return row[0]
