"""Planted bugs of coordinators that share the runs."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.runtime.coordinator import Coordinator
from perdure.runtime.share import Share
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
    with method(Coordinator, "take", lambda self, run_id: None):
        yield


@bug("what was leased away stays in memory", by="R2 J5 T1 V3 quarantine", plan=divided)
def _() -> Iterator[None]:
    def forget(self: Coordinator, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self.share.drop(partition)

    with method(Coordinator, "_forget", forget):
        yield


@bug("what is held for want of a worker is not released when one comes", by="R2", plan=_ALONE)
def _() -> Iterator[None]:
    from perdure.runtime.roster import Roster

    with method(Roster, "_release", lambda self, workers: None):
        yield
