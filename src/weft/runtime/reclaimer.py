"""The reclaimer: finds work nobody does any more. Workers that fell silent, and messages that vanished."""

from __future__ import annotations

import logging

from weft.clock import Clock
from weft.kernel import commands as c
from weft.runtime.coordinator import Coordinator
from weft.runtime.messages import Asked
from weft.transport import Transport

logger = logging.getLogger("weft.reclaimer")


class Reclaimer:
    def __init__(
        self,
        transport: Transport,
        coordinator: Coordinator,
        clock: Clock,
        *,
        dead_seconds: float = 15.0,
        sweep_seconds: float = 15.0,
    ) -> None:
        self._transport = transport
        self._coordinator = coordinator
        self._clock = clock
        self._dead_seconds = dead_seconds
        self._sweep_seconds = sweep_seconds

    async def run(self) -> None:
        while True:
            await self._clock.sleep(min(self._sweep_seconds, self._dead_seconds / 3))
            await self.sweep()

    async def sweep(self) -> None:
        now = self._clock.monotonic()
        for seen in await self._transport.list_workers():
            if now - seen.seen_at > self._dead_seconds:
                logger.warning("worker %s fell silent for %.0f s", seen.beat.worker, now - seen.seen_at)
                for name in await self._transport.forget_worker(seen.beat.worker):
                    self.lapse(name)
        out = self._coordinator.dispatcher.out()
        if out:
            for name in sorted(await self._transport.find_missing(out)):
                self._send_again(name)

    def lapse(self, name: str) -> None:
        """The attempt died with its worker."""
        entry = self._coordinator.dispatcher.get(name)
        if entry is None:
            return
        self._coordinator.dispatcher_done(name)
        lapse = c.Lapse(
            at=self._clock.now(),
            node=entry.node,
            scope=entry.scope,
            item=entry.item,
            attempt=entry.attempt,
            generation=entry.generation,
            undo=entry.undo,
            reason="crashed",
        )
        self._coordinator.put(Asked(entry.run_id, lambda state: lapse, None))

    def _send_again(self, name: str) -> None:
        """The transport lost it: the same attempt, once more. Counts as no failure."""
        entry = self._coordinator.dispatcher.get(name)
        if entry is not None:
            self._coordinator.send_again(entry)
