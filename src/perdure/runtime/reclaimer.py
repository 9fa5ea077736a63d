"""The reclaimer: finds work that is no longer done, because its worker fell silent or its message vanished."""

from __future__ import annotations

import contextlib
import logging

from perdure.clock import Clock
from perdure.kernel import commands as c
from perdure.kernel.address import Address, parse_task_id
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.messages import Asked, Resumed
from perdure.runtime.lifelines import Lifelines
from perdure.tempo import Tempo
from perdure.transport import Transport, TransportClosed, TransportUnavailable

logger = logging.getLogger("perdure.reclaimer")


class Reclaimer:
    def __init__(
        self,
        transport: Transport,
        coordinator: Coordinator,
        clock: Clock,
        tempo: Tempo,
        lifelines: Lifelines | None = None,
    ) -> None:
        """`lifelines` tell of workers that died beside this process, before they are silent for long enough."""
        self._transport = transport
        self._coordinator = coordinator
        self._clock = clock
        self._dead_seconds = tempo.dead_seconds
        self._pause = min(tempo.sweep_seconds, tempo.dead_seconds / 3)
        self._lifelines = lifelines
        self._blind = False
        self._swept_at: float | None = None
        self._readable_since: float | None = None

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._pause)
            try:
                await self.sweep()
            except TransportClosed:
                raise
            except TransportUnavailable as error:
                self._blind = True
                logger.warning("the transport cannot be read: %s; no worker is declared dead until it can", error)

    async def sweep(self) -> None:
        workers = await self._transport.list_workers()
        now = self._clock.monotonic()
        stood_still = self._swept_at is not None and now - self._swept_at > self._pause + self._dead_seconds
        if self._readable_since is None or self._blind or stood_still:
            # This process has just begun to look, could not read the transport, or stood still: silence before now
            # proves nothing (PROTOCOL 15).
            self._readable_since, self._blind = now, False
        for run_id in await self._coordinator.transport.settle():
            self._coordinator.put(Resumed(run_id, None))
        gone = [] if self._lifelines is None else self._lifelines.find_dead("worker")
        for seen in workers:
            if seen.beat.worker in gone:
                logger.warning("worker %s has died; its tasks are tried again", seen.beat.worker)
                for name in await self._transport.forget_worker(seen.beat.worker):
                    self._lapse_claimed(name)
            elif min(seen.silent_seconds, now - self._readable_since) > self._dead_seconds:
                logger.warning(
                    "worker %s has sent no heartbeat for %.0f s and counts as dead; its tasks are tried again",
                    seen.beat.worker,
                    seen.silent_seconds,
                )
                for name in await self._transport.forget_worker(seen.beat.worker):
                    self.lapse(name)
        self._bury(gone, {seen.beat.worker for seen in workers})
        out = self._coordinator.publisher.dispatcher.out()
        if out:
            for name in sorted(await self._transport.find_missing(out)):
                self._send_again(name)
        self._swept_at = self._clock.monotonic()

    def _bury(self, gone: list[str], listed: set[str]) -> None:
        """Forget the deaths of workers that have no tasks any more: their names are listed nowhere."""
        if self._lifelines is not None:
            for worker in gone:
                if worker not in listed:
                    self._lifelines.bury("worker", worker)

    def lapse(self, name: str) -> None:
        """Tell the coordinator that an attempt died with its worker."""
        entry = self._coordinator.publisher.dispatcher.find(name)
        if entry is None:
            return
        self._coordinator.publisher.done(name)
        self._tell_crashed(entry.address)

    def _lapse_claimed(self, name: str) -> None:
        """Tell of an attempt whose coordinator may have died with its worker: this process may have the run and not have
        resumed it yet, and the crash counts nevertheless (rule 2)."""
        if self._coordinator.publisher.dispatcher.find(name) is not None:
            self.lapse(name)
            return
        with contextlib.suppress(ValueError):  # a number too long to be one: the name is of another client
            if (address := parse_task_id(name)) is not None:
                self._tell_crashed(address)

    def _tell_crashed(self, address: Address) -> None:
        lapse = c.Lapse(at=self._clock.now(), address=address, reason="crashed")
        self._coordinator.put(Asked(address.run_id, lambda state: lapse, None))

    def _send_again(self, name: str) -> None:
        """Send again an attempt that the transport lost. It is the same attempt, and does not count as a failure."""
        entry = self._coordinator.publisher.dispatcher.find(name)
        if entry is not None:
            self._coordinator.send_again(entry.address)
