"""What a commit says of a run's approvals: those that changed, however many are open; what loading a run reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.decide import advance
from perdure.kernel.state import State
from perdure.kernel.values import Wait
from perdure.model import compile_definition
from perdure.runtime.coordinator.loaded import SNAPSHOT_EVERY, Loaded, find_kept

OPEN = 300


class Counted(dict[str, Any]):
    """A mapping that counts how often it was asked."""

    asked = 0

    def __getitem__(self, key: str) -> Any:
        self.asked += 1
        return super().__getitem__(key)


def do(loaded: Loaded, command: c.Command) -> None:
    ruling = advance(loaded.state, command, {})
    assert isinstance(ruling, c.Ruling), ruling
    loaded.adopt(ruling)


def waiting() -> Loaded:
    """A run with many approvals, all pending and all durable."""
    nodes = [{"id": f"n{i}", "type": "human", "config": {"approvers": ["ann"]}} for i in range(OPEN)]
    loaded = Loaded(State(run_id="run"), 1)
    do(loaded, c.Start(at=0.0, run_id="run", ir=compile_definition({"name": "many", "nodes": nodes}).get_ir()))
    for i in range(OPEN):
        wait = Wait(kind="approval")
        do(loaded, c.Suspend(at=1.0, address=Address("run", f"n{i}"), wait=wait, approvers=("ann",)))
    assert len(loaded.commit("first", None).approvals) == OPEN
    loaded.committed()
    return loaded


def test_a_vote_looks_at_its_own_approval_alone():
    loaded = waiting()
    name = Address("run", "n7").approval_id
    do(loaded, c.Vote(at=2.0, approval=name, decision="approve", by="ann"))
    loaded.state.approvals = counted = Counted(loaded.state.approvals)
    rows = loaded.commit("second", None).approvals
    assert [(row.approval_id, row.state) for row in rows] == [(name, "decided")]
    assert counted.asked < 10


def test_a_commit_without_approvals_writes_none():
    loaded = waiting()
    do(loaded, c.Pause(at=2.0))
    assert loaded.commit("second", None).approvals == ()


def test_approvals_that_end_with_their_run_are_written_once():
    loaded = waiting()
    do(loaded, c.Cancel(at=2.0))
    assert {row.state for row in loaded.commit("second", None).approvals} == {"decided"}
    assert len(loaded.state.closed_approvals) == 0
    loaded.committed()
    assert loaded.commit("third", None).approvals == ()


async def test_only_a_run_that_is_long_enough_for_a_snapshot_is_asked_for_one() -> None:
    asked: list[str] = []

    class Asked:
        async def find_snapshot(self, run_id: str) -> None:
            asked.append(run_id)

    for seq in (1, SNAPSHOT_EVERY - 1, SNAPSHOT_EVERY):
        record = SimpleNamespace(run_id=f"r{seq}", seq=seq)
        assert await find_kept(cast(Any, Asked()), cast(Any, record)) is None
    assert asked == [f"r{SNAPSHOT_EVERY}"]
