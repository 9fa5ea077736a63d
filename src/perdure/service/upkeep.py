"""A database as its operator finds it: the other work in it, whose names it has, whether all it says is true, and what can go.

Only who has the database itself asks this, so HTTP and clients do not have it. It must not know how an answer is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from perdure.kernel.address import run_of_task
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.run_ids import root_of
from perdure.runtime.coordinator.ownership.leftovers import list_active
from perdure.runtime.origins import find_namesake
from perdure.runtime.patience import insist
from perdure.runtime.worker.claim_file import claim_name
from perdure.service.tenancy import Tenancy

if TYPE_CHECKING:
    from perdure.doctor import Report
    from perdure.doctor.repair import Repaired
    from perdure.runtime.collector import Collected

NAMED = 3
"""How many runs of one kind a person is told by name."""


class Crash(msgspec.Struct, frozen=True):
    """An attempt that was under way when its process died."""

    run_id: str
    node: str
    times: int
    most: int


class OtherWork(msgspec.Struct, frozen=True):
    going: tuple[str, ...] = ()
    """Other runs that have work to do."""
    timed: tuple[str, ...] = ()
    """Other runs that have work to do once a time has come: the end of a wait, the next attempt. Not more of them are
    looked for than are named, and one."""
    crashes: tuple[Crash, ...] = ()


class Upkeep:
    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy
        self._engine = tenancy.engine

    async def check(self) -> None:
        """Raise if the database cannot be read, or cannot be written to."""
        await self._engine.journal.incarnation()
        await self._engine.journal.check_writable()

    async def other_work(self, run_id: str) -> OtherWork:
        """The other runs and crashes in the database, looked for before this process works and may end them."""
        engine = self._engine
        if engine.distributed:
            return OtherWork()
        left = engine.read_left_claims()
        busy = {root_of(record.run_id) async for record in list_active(engine.journal, engine.clock, busy=True)}
        known = {root_of(run_of_task(claim)) for claim in left} | {run_id}
        return OtherWork(
            tuple(sorted(busy - known)),
            await self._find_timed(busy | known),
            tuple([one for name in left for one in await self._find_crash(name)]),
        )

    async def _find_timed(self, known: set[str]) -> tuple[str, ...]:
        """Some runs that a timer wakes, the next first; one more than are named, where there are more."""
        timers = await insist(self._engine.clock, partial(self._engine.journal.list_due_timers, math.inf))
        found: list[str] = []
        for name in dict.fromkeys(root_of(timer.run_id) for timer in timers):
            record = None if name in known else await self._tenancy.find_run(name)
            if record is not None and record.row.state == RunState.RUNNING:  # a timer wakes no run that is paused
                found.append(name)
            if len(found) > NAMED:
                break
        return tuple(found)

    async def _find_crash(self, claim: str) -> list[Crash]:
        """The attempt that a claim is about; none where its run has ended, or the claim's name was cut."""
        record = await self._tenancy.find_run(run_of_task(claim))
        if record is None or record.row.ended_at is not None or record.quarantined is not None:
            return []
        state = await self._engine.runs.state_of(record)
        for activation in state.activations.values():
            going = activation.state in (NodeState.QUEUED, NodeState.RUNNING)
            if going and claim_name(state.address(activation).task_id) == claim:
                node = state.pinned(activation)
                return [Crash(state.run_id, state.name(activation.node), activation.crashes + 1, node.max_crashes)]
        return []

    async def warn_of_namesake(self, name: str, version: int, path: str) -> str | None:
        """A warning if a workflow of this name came, or now comes, from another file; None where paths mean nothing."""
        if self._engine.distributed:
            return None
        return await find_namesake(self._engine.journal, self._tenancy.archive, name, version, path)

    async def examine(
        self, progress: Callable[[Report], None], *, repair: bool = False
    ) -> tuple[Report, Repaired | None]:
        """Check every journal against what was derived from it; with `repair`, derive anew what differs."""
        from perdure.doctor import examine
        from perdure.doctor.repair import repair as mend

        engine = self._engine
        report = await examine(engine.journal, engine.library, progress)
        return report, await mend(engine.journal, engine.library, engine.clock, report) if repair else None

    async def collect(
        self,
        *,
        retention_days: float,
        event_days: float,
        session_days: float = 90,
        llm_cache_days: float = 7,
        grace_seconds: float,
        dry_run: bool = False,
    ) -> tuple[int, Collected]:
        """Forget runs that ended long ago, and take away blobs that nothing names; how many runs, and which blobs."""
        from perdure.runtime.collector import Collector
        from perdure.runtime.pruner import DAY, Pruner

        engine = self._engine
        archive = self._tenancy.archive
        days = {"retention_days": retention_days, "event_days": event_days, "session_days": session_days}
        pruner = Pruner(engine.journal, archive, engine.clock, **days)
        forgotten = await (pruner.count() if dry_run else pruner.prune())
        blobs = engine.contents.blobs
        while not dry_run and await blobs.forget(engine.clock.now() - llm_cache_days * DAY):
            pass
        collector = Collector(engine.journal, archive, blobs, engine.library, engine.clock, grace_seconds=grace_seconds)
        return forgotten, await collector.collect(dry_run=dry_run)
