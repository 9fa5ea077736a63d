"""Objects in memory, for tests and simulation. Dropping the adapter is a crash; what was written stays in `kept`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perdure.blob_stores.objects import FileChanged, Found, Pieces
from perdure.blobs import BlobStat, Data
from perdure.clock import Clock, system

Result = TypeVar("Result")


class MemoryObjects:
    def __init__(self, kept: dict[str, tuple[bytes, float]] | None = None, *, clock: Clock = system) -> None:
        self.kept = {} if kept is None else kept
        """By name: the bytes, and when they were written."""
        self._clock = clock

    async def write(self, name: str, data: Data) -> None:
        self.kept[name] = (bytes(data), self._clock.now())

    async def write_file(self, name: str, path: Path, digest: str) -> bool:
        try:
            await self.write(name, b"".join(Pieces(path, digest)))
        except FileChanged:
            return False
        return True

    async def create(self, name: str, data: Data) -> bool:
        if name in self.kept:
            return False
        await self.write(name, data)
        return True

    async def read(self, name: str, first: int = 0, count: int | None = None) -> bytes | None:
        found = self.kept.get(name)
        return None if found is None else found[0][first : None if count is None else first + count]

    async def look(self, name: str) -> BlobStat | None:
        found = self.kept.get(name)
        return None if found is None else BlobStat(len(found[0]), found[1])

    async def find(self, folder: str, after: str, limit: int) -> list[Found]:
        names = sorted(name for name in self.kept if name.startswith(f"{folder}/") and name > after)
        return [Found(name, len(self.kept[name][0]), self.kept[name][1]) for name in names[:limit]]

    async def move(self, name: str, to: str) -> bool:
        found = self.kept.get(name)
        if found is None:
            return False
        await self.write(to, found[0])
        self.kept.pop(name, None)
        return True

    async def remove(self, name: str) -> None:
        self.kept.pop(name, None)

    async def tidy(self, before: float) -> int:
        return 0

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        return function(*args)

    async def close(self) -> None:
        pass
