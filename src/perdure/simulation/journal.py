"""A simulated process's connection to the journal: latency, and everything that can go wrong with a command.

What a fault leaves behind is exactly what the port allows: an error that promises nothing was written, one that does not
know, or a process that died before or after. The store itself is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from perdure.journal import Appended, Commit, Conflict, HeldBy, HolderLock, JournalUnavailable, OutcomeUnknown
from perdure.leases import Leased, Leases
from perdure.simulation.leases import MemoryLeases
from perdure.simulation.memory_journal import MemoryJournal

if TYPE_CHECKING:
    from perdure.simulation.process import Process
    from perdure.simulation.world import World

_WRITES = {
    "append",
    "put_command",
    "put_occurrence",
    "answer_command",
    "delete_notices",
    "mark_quarantined",
    "put_definition",
    "register_workflow",
    "lease",
    "give_back",
    "leave",
}
_OUTSIDE = {"hold", "close", "partition_count", "store"}
"""Methods that are no commands of the store."""


class SimLeases:
    """The leases of a journal, through the same connection."""

    def __init__(self, journal: SimJournal, inner: MemoryLeases) -> None:
        self._journal = journal
        self._inner = inner

    async def lease(self, holder: str, lease_seconds: float) -> Leased:
        return await self._journal._call("lease", self._inner.lease, (holder, lease_seconds), {})  # type: ignore[no-any-return]

    async def give_back(self, holder: str, partitions: Collection[int]) -> None:
        await self._journal._call("give_back", self._inner.give_back, (holder, partitions), {})

    async def now(self) -> float:
        return await self._journal._call("now", self._inner.now, (), {})  # type: ignore[no-any-return]

    async def leave(self, holder: str) -> None:
        await self._journal._call("leave", self._inner.leave, (holder,), {})


class SimJournal:
    """A journal as one life of a process sees it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._inner = MemoryJournal(world.store, clock=process.clock)
        self.leases: Leases | None = SimLeases(self, MemoryLeases(world.store, clock=world.clock))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name in _OUTSIDE or not callable(attribute):
            return attribute

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, attribute, arguments, named)

        self.__dict__[name] = call
        return call

    async def hold(self) -> HolderLock | HeldBy:
        taken = await self._inner.hold()
        if not isinstance(taken, HeldBy):
            self._process.lock = taken
        return taken

    async def mark_quarantined(self, run_id: str, reason: str) -> None:
        """Report the quarantine: nothing in a simulated journal is so broken that a run needs it."""
        self._world.checks.fail("quarantine", f"run {run_id}: {reason} (by {self._process.name})")
        await self._call("mark_quarantined", self._inner.mark_quarantined, (run_id, reason), {})

    async def append(self, commits: Sequence[Commit]) -> list[Appended]:
        answers: list[Appended] = await self._call("append", self._append, (commits,), {})
        return answers

    async def _append(self, commits: Sequence[Commit]) -> list[Appended]:
        return await self._world.append(self._inner, self._process.name, commits)

    async def _call(self, name: str, operation: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        world = self._world
        await self._pass(world.plan.journal_seconds)
        if world.outage_until > world.loop.time():
            raise JournalUnavailable("the journal is away for a while")
        fault = world.chaos.draw("journal_write" if name in _WRITES else "journal_read")
        if fault is None:
            answer = await operation(*arguments, **named)
            await self._pass(world.plan.journal_seconds)
            return answer
        if fault == "journal_conflict" and name != "append":
            fault = "journal_error"
        world.note_fault(fault, f"{self._process.name} {name}")
        match fault:
            case "journal_crash_before":
                await self._process.die()
            case "journal_crash_after":
                await operation(*arguments, **named)
                await self._process.die()
            case "journal_error":
                raise JournalUnavailable(f"injected: {name} failed before it was done")
            case "journal_timeout_applied":
                await operation(*arguments, **named)
                await self._process.clock.sleep(world.random.random() * 10)
                raise OutcomeUnknown(f"injected: {name} timed out, though done")
            case "journal_timeout_lost":
                await self._process.clock.sleep(world.random.random() * 10)
                raise OutcomeUnknown(f"injected: {name} timed out, and was not done")
            case "journal_delay":
                await self._process.clock.sleep(world.random.random() * 20)
                return await operation(*arguments, **named)
            case "journal_conflict":
                return await self._conflict(*arguments)
        raise AssertionError(fault)

    async def _conflict(self, commits: Sequence[Commit]) -> list[Appended]:
        """Refuse some of the commits as if another process had written; the others go on."""
        refused = {commit.run_id for commit in commits if self._world.random.random() < 0.6}
        passed = iter(await self._append([commit for commit in commits if commit.run_id not in refused]))
        result: list[Appended] = []
        for commit in commits:
            if commit.run_id not in refused:
                result.append(next(passed))
                continue
            run = self._world.store.runs.get(commit.run_id)
            result.append(Conflict(0, "") if run is None else Conflict(run.seq, run.commit_id))
        return result

    async def _pass(self, seconds: float) -> None:
        if seconds and self._world.random.random() < 0.5:
            await self._process.clock.sleep(self._world.random.random() * seconds)
