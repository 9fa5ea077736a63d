"""How far a loop has come with the messages put into it, and the callers that wait until it has come so far."""

from __future__ import annotations

import asyncio


class Progress:
    def __init__(self) -> None:
        self.taken = 0
        """How many messages were taken in; those up to `done` are finished."""
        self.done = 0
        self._ended = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def reach(self, number: int) -> None:
        """Wait until so many messages are done; those that come in meanwhile are not waited for."""
        if self.done < number and not self._ended:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((number, waiter))
            await waiter

    def advance(self, count: int) -> None:
        self.done += count
        if self._waiters:
            self._tell()

    def end(self) -> None:
        """Release all waiting callers: nothing more will be done."""
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        waiting, self._waiters = self._waiters, []
        for number, waiter in waiting:
            if waiter.done():
                continue
            if self._ended or number <= self.done:
                waiter.set_result(None)
            else:
                self._waiters.append((number, waiter))
