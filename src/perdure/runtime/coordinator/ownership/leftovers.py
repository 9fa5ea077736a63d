"""Leftovers: the unfinished runs that earlier processes left, and which of them a new process takes up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Literal

from perdure.clock import Clock
from perdure.journal import Journal, RunRecord
from perdure.runtime.patience import insist
from perdure.runtime.worker.claim_file import root_of

Others = Literal["all", "uncrashed", "none"]
"""Which unfinished runs of other processes are taken up: all, those that were not being executed when their process
died (such a run may have killed it), or none."""


async def list_active(
    journal: Journal, clock: Clock, partitions: Collection[int] | None = None, *, busy: bool
) -> AsyncIterator[RunRecord]:
    after = ""
    while True:
        read = partial(journal.list_active_runs, partitions, after=after, busy=busy)
        if not (records := await insist(clock, read)):
            return
        for record in records:
            yield record
        after = records[-1].run_id


async def find_left_alone(
    journal: Journal, clock: Clock, others: Others, claims: Sequence[str], own: set[str]
) -> frozenset[str]:
    """The root runs that are left alone, with their children. `claims` are the attempts that were under way when a
    process died."""
    if others == "all":
        return frozenset()
    names = {root_of(name) for name in claims}
    if others == "none":
        names |= {root_of(record.run_id) async for record in list_active(journal, clock, busy=False)}
    return frozenset(names - own)
