"""Files of one attempt: where it reads assets from, and the folder that is gone when it ends."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from perdure.assets import Source

T = TypeVar("T")


class AttemptFiles(Source):
    def __init__(
        self, read: Callable[[str, int, int], Awaitable[bytes | bytearray]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """`read` gives so many bytes of a blob from one on; it is called on the loop."""
        self._read = read
        self._loop = loop
        self._folder: Path | None = None
        self._making = threading.Lock()

    async def part(self, ref: str, first: int, count: int) -> bytes:
        return bytes(await self._read(ref, first, count))

    def part_in_thread(self, ref: str, first: int, count: int) -> bytes:
        return asyncio.run_coroutine_threadsafe(self.part(ref, first, count), self._loop).result()

    @property
    def has_folder(self) -> bool:
        return self._folder is not None

    def folder(self) -> Path:
        with self._making:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="perdure-"))
            return self._folder

    async def beside(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def clear(self) -> None:
        """Remove the folder, if there is one."""
        with self._making:
            folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
