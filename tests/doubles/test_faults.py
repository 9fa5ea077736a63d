"""The fault seams do what they promise: refused means not written, unknown means perhaps, and the rest passes."""

import pytest

from perdure.journal import Accepted, Conflict, JournalUnavailable, OutcomeUnknown
from tests.conformance.journal.commits import append, commit
from tests.doubles.faults import Fault, FaultKind, FaultyJournal
from tests.doubles.memory_journal import MemoryJournal


class Clock:
    """Only counts."""

    def __init__(self) -> None:
        self.slept = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


def faulty(kind: FaultKind, at: int = 1, **fields) -> tuple[FaultyJournal, MemoryJournal, Clock]:
    memory, clock = MemoryJournal(), Clock()

    def plan(operation: str, number: int) -> Fault | None:
        return Fault(kind, **fields) if (operation, number) == ("append", at) else None

    return FaultyJournal(memory, plan, clock), memory, clock  # type: ignore[arg-type]


async def test_fail_before_writes_nothing():
    journal, memory, _ = faulty(FaultKind.FAIL_BEFORE)
    with pytest.raises(JournalUnavailable):
        await journal.append([commit("r1")])
    assert await memory.find_run("r1") is None


@pytest.mark.parametrize("kind", [FaultKind.FAIL_AFTER, FaultKind.TIME_OUT_APPLIED])
async def test_an_unknown_outcome_may_be_written(kind):
    journal, memory, clock = faulty(kind, seconds=3.0)
    with pytest.raises(OutcomeUnknown):
        await journal.append([commit("r1")])
    assert await memory.find_run("r1") is not None
    assert clock.slept == (3.0 if kind is FaultKind.TIME_OUT_APPLIED else 0.0)
    assert await append(journal, commit("r1")) == Accepted(1)


async def test_an_unknown_outcome_may_be_lost():
    journal, memory, clock = faulty(FaultKind.TIME_OUT_LOST, seconds=3.0)
    with pytest.raises(OutcomeUnknown):
        await journal.append([commit("r1")])
    assert await memory.find_run("r1") is None
    assert clock.slept == 3.0


async def test_an_injected_conflict_leaves_the_others_alone():
    journal, memory, _ = faulty(FaultKind.CONFLICT, at=2, runs=["r1"])
    await journal.append([commit("r1")])
    answers = await journal.append([commit("r1", 1), commit("r2"), commit("r3")])
    assert answers == [Conflict(1, "r1@0"), Accepted(1), Accepted(1)]
    assert (await memory.get_run("r1")).seq == 1


async def test_a_delay_only_delays():
    journal, _, clock = faulty(FaultKind.DELAY, seconds=2.0)
    assert await journal.append([commit("r1")]) == [Accepted(1)]
    assert clock.slept == 2.0


async def test_the_plan_counts_calls_by_operation():
    journal, _, _ = faulty(FaultKind.FAIL_BEFORE, at=3)
    await journal.append([commit("r1")])
    await journal.find_run("r1")
    await journal.append([commit("r1", 1)])
    with pytest.raises(JournalUnavailable):
        await journal.append([commit("r1", 2)])
    assert journal.calls == {"append": 3, "find_run": 1}
