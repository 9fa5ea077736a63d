"""A blob store that goes wrong when a plan says so. The plan is asked before every operation, and after it."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from perdure.blobs import BlobStore, BlobStoreFull, BlobStoreUnavailable


class BlobFault(Enum):
    FAIL_BEFORE = auto()
    """Nothing is done, and it says so."""
    FAIL_AFTER = auto()
    """It is done, and says that it is not."""
    FULL = auto()
    HANG_BEFORE = auto()
    """Nothing is done, and no answer ever comes: as if the process died here."""
    HANG_AFTER = auto()


Plan = Callable[[str, int], BlobFault | None]
"""(operation, how often it was called, this time included) to a fault."""


class FaultyBlobs:
    def __init__(self, store: BlobStore, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self.calls: Counter[str] = Counter()
        self.hung = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            fault = self.plan(name, self.calls[name])
            if fault is BlobFault.FAIL_BEFORE:
                raise BlobStoreUnavailable("injected: the blob store is away")
            if fault is BlobFault.FULL:
                raise BlobStoreFull("injected: no room")
            if fault is BlobFault.HANG_BEFORE:
                await self._hang()
            answer = await found(*args, **kwargs)
            if fault is BlobFault.FAIL_AFTER:
                raise BlobStoreUnavailable("injected: the answer was lost")
            if fault is BlobFault.HANG_AFTER:
                await self._hang()
            return answer

        return call

    async def _hang(self) -> None:
        self.hung.set()
        await asyncio.get_running_loop().create_future()
