"""The receiver: brings what workers say to the coordinator. Results, and who wants to begin what may happen at most once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from perdure.clock import Clock
from perdure.runtime.coordinator.messages import BeginAsked, Message, Reported
from perdure.runtime.coordinator.progress import Progress
from perdure.runtime.patience import insist
from perdure.transport import Transport

_MOST = 1000
"""Results at a time."""


class Receiver:
    def __init__(self, transport: Transport, put: Callable[[Message], None], clock: Clock) -> None:
        self._transport = transport
        self._put = put
        self._clock = clock
        self._received = Progress()

    async def run(self) -> None:
        try:
            while True:
                deliveries = await insist(self._clock, partial(self._transport.receive, _MOST))
                for delivery in deliveries:
                    self._put(Reported(delivery))
                self._received.advance(len(deliveries))
        finally:
            self._received.end()

    async def run_begins(self) -> None:
        while True:
            self._put(BeginAsked(await insist(self._clock, self._transport.receive_begin)))

    async def settled(self, reported: int) -> None:
        """So many results were reported to a transport that nobody else reads, and all of them are with the coordinator."""
        await self._received.reach(reported)
