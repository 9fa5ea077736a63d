"""Threads for work that blocks or computes for long, so that the event loop does not: a few, started when first
needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from perdure.blobs import BlobStoreUnavailable

Result = TypeVar("Result")

THREADS = 4
_SMALL = 256 * 1024
"""Up to this many bytes, hashing takes less time than the way to a thread and back."""


class Threads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-blobs")

    async def call(self, function: Callable[..., Result], *args: object) -> Result:
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        except RuntimeError as error:
            raise BlobStoreUnavailable(f"the blob store is closed: {error}") from None
        return await future

    async def compute(self, function: Callable[..., Result], *args: object) -> Result:
        """Compute here if the arguments are so small that it takes no time; otherwise in a thread."""
        if all(isinstance(one, bytes | bytearray) and len(one) <= _SMALL for one in args):
            return function(*args)
        return await self.call(function, *args)

    def close(self) -> None:
        """Finish the calls that run; do not begin those that wait."""
        self._pool.shutdown(cancel_futures=True)
