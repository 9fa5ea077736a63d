"""Leases in memory: the model of the real ones, on the tables of a `Store` and by the clock of its database."""

from __future__ import annotations

from collections.abc import Collection

from perdure.clock import Clock, system
from perdure.leases import Leased
from perdure.simulation.store import Store


class MemoryLeases:
    def __init__(self, store: Store, *, clock: Clock = system) -> None:
        self._store = store
        self._clock = clock
        """The clock of the database, not that of a process."""

    async def lease(self, holder: str, lease_seconds: float) -> Leased:
        store, now = self._store, self._clock.now()
        for late in [name for name, until in store.coordinators.items() if until <= now and name != holder]:
            del store.coordinators[late]
        store.coordinators[holder] = now + lease_seconds
        share, more = divmod(store.partition_count, len(store.coordinators))
        share += sorted(store.coordinators).index(holder) < more
        free = (number for number in store.epochs if store.partition_holders.get(number) not in store.coordinators)
        for partition, _ in zip(free, range(share - len(self._held(holder))), strict=False):
            store.partition_holders[partition] = holder
            store.epochs[partition] += 1
        return Leased({partition: store.epochs[partition] for partition in self._held(holder)}, share)

    async def give_back(self, holder: str, partitions: Collection[int]) -> None:
        for partition in self._held(holder):
            if partition in partitions:
                del self._store.partition_holders[partition]
                self._store.epochs[partition] += 1

    async def now(self) -> float:
        return self._clock.now()

    async def leave(self, holder: str) -> None:
        await self.give_back(holder, self._held(holder))
        self._store.coordinators.pop(holder, None)

    def _held(self, holder: str) -> list[int]:
        return sorted(partition for partition, name in self._store.partition_holders.items() if name == holder)
