"""Server time: sets the clock of this process by that of its database, again and again, so that processes that share a
database agree on the time, whatever their machines say. Between two settings the clock counts by itself."""

from __future__ import annotations

import logging

from perdure.clock import OffsetClock
from perdure.errors import StoreUnavailable
from perdure.leases import Leases
from perdure.runtime.patience import OutageLog

logger = logging.getLogger("perdure.clock")

PAUSE_SECONDS = 10.0


class ServerTime:
    def __init__(self, clock: OffsetClock, leases: Leases) -> None:
        self._clock = clock
        self._leases = leases

    async def ask(self) -> None:
        asked_at = self._clock.monotonic()
        self._clock.set(await self._leases.now(), asked_at)

    async def run(self) -> None:
        outage = OutageLog(
            self._clock, logger, "the database was not asked for the time, which is counted here meanwhile"
        )
        while True:
            await self._clock.sleep(PAUSE_SECONDS)
            try:
                await self.ask()
            except StoreUnavailable as error:
                outage.say(error)
