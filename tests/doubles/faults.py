"""A journal that fails on command: the fault seams of the port, for the simulator.

`plan(operation, n)` is asked before each call, `n` counting the calls of that operation from 1; it answers with a fault or None.
What a fault leaves behind is exactly what the port allows: an error that promises nothing was written, or one that does not know.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, cast

import msgspec

from perdure.clock import Clock, system
from perdure.journal import Appended, Commit, Conflict, Journal, JournalUnavailable, OutcomeUnknown


class FaultKind(enum.Enum):
    FAIL_BEFORE = "fail_before"
    """Nothing is written; `JournalUnavailable`."""
    FAIL_AFTER = "fail_after"
    """It is written; the answer is lost: `OutcomeUnknown`."""
    TIME_OUT_APPLIED = "time_out_applied"
    """It is written, `seconds` pass, then `OutcomeUnknown`."""
    TIME_OUT_LOST = "time_out_lost"
    """It is not written, `seconds` pass, then `OutcomeUnknown`."""
    CONFLICT = "conflict"
    """Appends only: the commits of `runs` (None: all) are answered `Conflict` and not written, the others go on."""
    DELAY = "delay"
    """`seconds` pass, then everything is as it should be."""


class Fault(msgspec.Struct, frozen=True):
    kind: FaultKind
    seconds: float = 0.0
    runs: Collection[str] | None = None


Plan = Callable[[str, int], Fault | None]

# Not operations of the store: they cannot be lost on the way.
_UNTOUCHED = {"close", "hold", "partition_count"}


class FaultyJournal:
    """Looks like the journal it wraps. `calls` counts what was asked of it, by operation."""

    def __init__(self, journal: Journal, plan: Plan, clock: Clock = system) -> None:
        self._journal = journal
        self._plan = plan
        self._clock = clock
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._journal, name)
        if name in _UNTOUCHED or not callable(attribute):
            return attribute

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, attribute, arguments, named)

        return call

    async def _call(
        self, name: str, operation: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        self.calls[name] += 1
        fault = self._plan(name, self.calls[name])
        if fault is None:
            return await operation(*arguments, **named)
        where = f"injected: {name} {self.calls[name]}"
        match fault.kind:
            case FaultKind.FAIL_BEFORE:
                raise JournalUnavailable(f"{where} failed before it was done")
            case FaultKind.FAIL_AFTER:
                await operation(*arguments, **named)
                raise OutcomeUnknown(f"{where} was done, its answer lost")
            case FaultKind.TIME_OUT_APPLIED:
                await operation(*arguments, **named)
                await self._clock.sleep(fault.seconds)
                raise OutcomeUnknown(f"{where} timed out, though done")
            case FaultKind.TIME_OUT_LOST:
                await self._clock.sleep(fault.seconds)
                raise OutcomeUnknown(f"{where} timed out, and was not done")
            case FaultKind.DELAY:
                await self._clock.sleep(fault.seconds)
                return await operation(*arguments, **named)
            case FaultKind.CONFLICT:
                if name != "append":
                    return await operation(*arguments, **named)
                return await self._conflict(fault, *arguments, **named)

    async def _conflict(self, fault: Fault, commits: Sequence[Commit]) -> list[Appended]:
        refused = {commit.run_id for commit in commits} if fault.runs is None else set(fault.runs)
        passed = [commit for commit in commits if commit.run_id not in refused]
        answers = iter(await self._journal.append(passed))
        result: list[Appended] = []
        for commit in commits:
            if commit.run_id not in refused:
                result.append(next(answers))
                continue
            last = await self._journal.find_commit(commit.run_id)
            result.append(Conflict(0, "") if last is None else Conflict(last.seq, last.commit_id))
        return result


def with_faults(journal: Journal, plan: Plan, clock: Clock = system) -> Journal:
    """The same, as the type checker wants it."""
    return cast(Journal, FaultyJournal(journal, plan, clock))
