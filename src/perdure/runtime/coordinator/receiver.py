"""The receiver: brings the messages of workers to the coordinator: results, and requests to begin what may happen at
most once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from perdure.clock import Clock
from perdure.runtime.coordinator.messages import BeginAsked, Message, Reported
from perdure.runtime.coordinator.progress import Progress
from perdure.runtime.patience import insist
from perdure.transport import Delivery, Transport

_MOST = 1000
"""How many results are received at a time."""


class Receiver:
    def __init__(self, transport: Transport, put: Callable[[Message], None], clock: Clock) -> None:
        self._transport = transport
        self._put = put
        self._clock = clock
        self._received = Progress()

    async def run(self) -> None:
        self._transport.on_result(self._hear)
        try:
            while True:
                deliveries = await insist(self._clock, partial(self._transport.receive, _MOST))
                for delivery in deliveries:
                    self._put(Reported(delivery))
                self._received.advance(len(deliveries))
        finally:
            self._transport.on_result(None)
            self._received.end()

    def _hear(self, delivery: Delivery) -> None:
        self._put(Reported(delivery))
        self._received.advance(1)

    async def run_begins(self) -> None:
        while True:
            self._put(BeginAsked(await insist(self._clock, self._transport.receive_begin)))

    async def settled(self, reported: int) -> None:
        """Wait until so many results have reached the coordinator, through a transport that only this process reads."""
        await self._received.reach(reported)
