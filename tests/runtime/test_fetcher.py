"""The fetcher: a message that was set aside comes back, whatever becomes of the first try."""

import asyncio
from typing import Any

from perdure.clock import system
from perdure.expressions.errors import NeedsStore
from perdure.runtime.coordinator.cache import Cache
from perdure.runtime.coordinator.fetcher import Fetched, Fetcher
from perdure.runtime.coordinator.messages import TimerDue


async def test_what_waits_for_something_whose_fetching_was_cancelled_is_not_forgotten():
    """R2: a library that cancels what it runs took the fetch with it, and the result of a node was heard by nobody."""
    tries: list[str] = []
    back: asyncio.Queue[Any] = asyncio.Queue()

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        tries.append(tenant)
        if len(tries) == 1:
            raise asyncio.CancelledError
        return Fetched(True)

    fetcher = Fetcher({NeedsStore: store}, Cache(1000), back.put_nowait, system)
    message = TimerDue("r1", "deadline", 0.0)
    fetcher.set_aside(message, NeedsStore("cas://x", b"{}"))
    running = asyncio.create_task(fetcher.run())
    try:
        assert await asyncio.wait_for(back.get(), 10) is message
        assert (len(fetcher), len(tries)) == (0, 2)
    finally:
        running.cancel()
        await asyncio.wait([running])
