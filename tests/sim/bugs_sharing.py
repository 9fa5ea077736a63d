"""Planted bugs of coordinators that share the runs."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.ownership.partition_share import Share
from perdure.runtime.coordinator.ownership.partitions import Sharing
from perdure.simulation.plan import DIVIDED_FROM, Plan, make_plan
from tests.sim.planting import bug, focused, method


def divided(seed: int) -> Plan:
    return make_plan(DIVIDED_FROM + seed)


_LATE = focused(
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "c", "dependencies": ["b"]},
    {"id": "d", "dependencies": ["c"]},
    {"id": "e", "dependencies": ["d"]},
    rates={"journal_delay": 0.15, "stop_short": 2.0},
    shared=True,
    divided=True,
    engines=3,
    handler_seconds=2.0,
    fault_seconds=120.0,
    skews=[0.0] * 8,
)
"""Journals so slow that leases lapse."""

_STUCK = focused(
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "c", "dependencies": ["b"]},
    rates={"journal_delay": 0.3},
    shared=True,
    divided=True,
    engines=2,
    handler_seconds=10.0,
    fault_seconds=10.0,
    skews=[0.0] * 8,
)
"""Short, with work that takes longer than a lease: at its end the database may still keep an answer back."""

_UNHEARD = focused(
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "c", "dependencies": ["b"]},
    rates={"journal_timeout_applied": 0.15, "journal_delay": 0.15},
    shared=True,
    divided=True,
    engines=2,
    handler_seconds=0.1,
    fault_seconds=120.0,
    skews=[0.0] * 8,
)
"""Appends that are done, and nobody is told for longer than a lease."""

_ALONE = focused(
    {"id": "a", "dependencies": []},
    {"id": "b", "dependencies": ["a"]},
    rates={"stop_long": 3.0, "transport_flush": 3.0},
    shared=True,
    divided=True,
    engines=1,
    workers=1,
    handler_seconds=0.1,
    fault_seconds=120.0,
    skews=[0.0] * 8,
)
"""One worker, and it is silent now and then."""


@bug("a coordinator whose lease has lapsed goes on as if it had not", by="T1 R2 J5 exit", plan=_LATE)
def _() -> Iterator[None]:
    with method(Share, "lapsed", property(lambda self: False)):
        yield


@bug("runs of a partition that was taken are not gone on with", by="R2", plan=divided)
def _() -> Iterator[None]:
    with method(Coordinator, "take_over", lambda self, run_id: None):
        yield


@bug("what was leased away stays in memory", by="R2 J5 T1 V3 quarantine", plan=divided)
def _() -> Iterator[None]:
    def forget(self: Coordinator, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self.share.drop(partition)

    with method(Coordinator, "_forget", forget):
        yield


@bug("runs are remembered when the lease lapses while the database keeps an answer back", by="J5", plan=_STUCK)
def _() -> Iterator[None]:
    async def watch(self: Sharing) -> None:
        while True:
            left = self._until - self._clock.monotonic()
            if left <= 0:
                self._receiver.hand_back(list(self._held))
            await self._clock.sleep(left if left > 0 else self._lease_seconds / 3)

    with method(Sharing, "watch", watch):
        yield


@bug("what was written is acted upon after the lease has lapsed", by="R7 T1 T3", plan=_UNHEARD)
def _() -> Iterator[None]:
    with method(Share, "still_holds", lambda self, run_id: True):
        yield


@bug("what is held for want of a worker is not released when one comes", by="R2", plan=_ALONE)
def _() -> Iterator[None]:
    from perdure.runtime.coordinator.tasks.roster import Roster

    with method(Roster, "_release", lambda self, workers: None):
        yield
