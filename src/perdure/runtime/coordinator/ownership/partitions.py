"""Sharing: leases partitions of the journal, and tells the coordinator which runs it decides for.

A new process gets its share as the others give back what exceeds theirs; one that ends hands everything over at once;
one that died is noticed when its lease lapses. A lease only saves work: it is the epoch that keeps a process from
writing under a lost lease (PROTOCOL 6, 17).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from perdure.clock import Clock, OffsetClock
from perdure.errors import StoreUnavailable
from perdure.leases import Leased, Leases
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.lifelines import Lifelines
from perdure.runtime.patience import OutageLog, first_of
from perdure.transport import SharedTransport

logger = logging.getLogger("perdure.sharing")

_TROUBLE_SECONDS = 0.2


class Sharing:
    def __init__(
        self,
        leases: Leases,
        coordinator: Coordinator,
        receiver: SharedTransport,
        clock: Clock,
        *,
        holder: str,
        recover: Callable[[Collection[int]], Awaitable[None]],
        lease_seconds: float,
        lifelines: Lifelines | None = None,
    ) -> None:
        """`recover` continues the runs of partitions that were taken. `lifelines` tell of coordinators that died beside
        this one."""
        self._leases = leases
        self._coordinator = coordinator
        self._receiver = receiver
        self._clock = clock
        self._holder = holder
        self._recover = recover
        self._lease_seconds = lease_seconds
        self._lifelines = lifelines
        self._held: dict[int, int] = {}
        self._unrecovered: dict[int, int] = {}
        """Partitions that were taken and whose runs have not all been listed yet, each with the number of its taking. Its
        epoch would not tell one taking from the next: a process that was late has the same one again."""
        self._takings = 0
        self._taken = asyncio.Event()
        self._until = 0.0
        """When the lease ends, by this process's own clock, counted from before it asked for the lease."""
        self._changed = asyncio.Event()
        self._outages = OutageLog(clock, logger, "leases cannot be renewed")
        coordinator.share.divide()
        coordinator.share.lost = self._lost

    async def run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self.renew()
                pause = self._lease_seconds / 3
            except StoreUnavailable as error:
                self._outages.say(error)
                pause = _TROUBLE_SECONDS
                if self._held and self._clock.monotonic() >= self._until:
                    logger.warning(
                        "the lease of %d partitions has lapsed: other coordinators may take over their runs",
                        len(self._held),
                    )
                    await self._give_up(set(self._held))
            await first_of(self._clock.sleep(pause), self._changed.wait())

    async def watch(self) -> None:
        """Receive and remember nothing once the lease has lapsed, even while the database takes longer than that to
        answer: what other processes decide meanwhile is not seen here."""
        while True:
            left = self._until - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
                continue
            if held := set(self._held):  # they stay in `_held`: `renew` finds that it was late, and gives them up
                self._receiver.hand_back(held)
                await self._coordinator.release(held)
            await self._clock.sleep(self._lease_seconds / 3)

    async def recover(self) -> None:
        """Continue the runs of partitions that were taken, beside renewing: there may be more than can be listed within
        a lease."""
        while True:
            await self._taken.wait()
            self._taken.clear()
            taken = dict(self._unrecovered)
            try:
                await self._recover(list(taken))
            except StoreUnavailable as error:
                logger.warning("the runs of %d partitions cannot be listed: %s; trying again", len(taken), error)
                await self._clock.sleep(_TROUBLE_SECONDS)
                self._taken.set()
                continue
            for one, taking in taken.items():
                if self._unrecovered.get(one) == taking:  # or it was lost and taken anew meanwhile
                    del self._unrecovered[one]

    async def renew(self) -> None:
        await self._coordinator.incarnation.learn()  # a restored journal may give these epochs to another process
        await self._speak_for_dead()
        asked = self._clock.monotonic()
        leased = await self._leases.lease(self._holder, self._lease_seconds)
        if self._held and self._clock.monotonic() >= self._until:  # meanwhile messages were turned away
            await self._give_up(set(self._held))
        self._until = asked + self._lease_seconds
        self._coordinator.share.extend(self._until)
        if isinstance(self._clock, OffsetClock):
            asked = self._clock.monotonic()
            self._clock.set(await self._leases.now(), asked)
        lost = {one for one, epoch in self._held.items() if leased.epochs.get(one) != epoch}
        if lost:
            logger.info("%d partitions were taken over by other coordinators", len(lost))
            await self._give_up(lost)
        gained = {one: epoch for one, epoch in leased.epochs.items() if one not in self._held}
        surplus = self._surplus(leased)
        if surplus:
            for one in surplus:
                gained.pop(one, None)
            await self._let_go(surplus & set(self._held))
            await self._leases.give_back(self._holder, surplus)
            logger.info("gave %d partitions to other coordinators", len(surplus))
        if gained:
            self._take_over(gained)

    async def _speak_for_dead(self) -> None:
        """Leave in the place of coordinators that died and could not: their partitions are free without waiting for their
        leases to lapse, and under another epoch."""
        if self._lifelines is None:
            return
        for name in self._lifelines.find_dead("coordinator"):
            logger.warning("the coordinator %s has died; its runs go on elsewhere", name)
            await self._leases.leave(name)
            self._lifelines.bury("coordinator", name)

    def look(self) -> None:
        """Renew now: another coordinator may have left."""
        self._changed.set()

    def _surplus(self, leased: Leased) -> set[int]:
        """The partitions above this process's share: those with the highest numbers."""
        return set(sorted(leased.epochs)[leased.share :])

    def _take_over(self, epochs: dict[int, int]) -> None:
        logger.info("took over %d partitions and their runs", len(epochs))
        self._held.update(epochs)
        self._coordinator.share.lease(epochs)
        self._receiver.take_over(list(epochs))
        self._takings += 1
        self._unrecovered.update(dict.fromkeys(epochs, self._takings))
        self._taken.set()

    async def _let_go(self, partitions: set[int]) -> None:
        """Release partitions for other processes to take; the current batch is decided and acknowledged first."""
        for one in partitions:
            self._held.pop(one, None)
            self._unrecovered.pop(one, None)
        await self._coordinator.release(partitions)
        self._receiver.hand_back(partitions)

    async def _give_up(self, partitions: set[int]) -> None:
        """Release partitions that other processes may hold already: receive nothing for them, however long the current
        batch takes."""
        self._coordinator.share.doubt(partitions)
        self._receiver.hand_back(partitions)
        await self._let_go(partitions)

    def _lost(self, partition: int) -> None:
        """Forget a partition whose epoch the journal refused."""
        if self._held.pop(partition, None) is not None:
            self._receiver.hand_back([partition])
        self._unrecovered.pop(partition, None)
        self._changed.set()

    async def leave(self) -> None:
        """Hand everything over, without waiting for the lease to lapse."""
        await self._let_go(set(self._held))
        try:
            await self._leases.leave(self._holder)
        except StoreUnavailable as error:
            logger.warning(
                "the partitions could not be handed over; other coordinators get them when the lease lapses: %s",
                error,
            )
