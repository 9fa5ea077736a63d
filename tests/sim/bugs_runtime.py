"""Bugs around the rules: what is written, sent, acknowledged, rendered, told and swept, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.journal import Accepted, JournalUnavailable, OutcomeUnknown
from perdure.kernel import effects as fx
from perdure.kernel import snapshot
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.outstanding import outstanding
from perdure.runtime.coordinator import children, loaded, projections
from perdure.runtime.coordinator.batch import Batch
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import Reported
from perdure.runtime.coordinator.ownership.incarnation import Incarnation
from perdure.runtime.coordinator.receiver import Receiver
from perdure.runtime.coordinator.tasks import renderer
from perdure.runtime.coordinator.tasks.courier import Courier
from perdure.runtime.coordinator.tasks.fetcher import Fetcher
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.patience import insist
from perdure.runtime.reclaimer import Reclaimer
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.worker.execution import Execution
from perdure.runtime.worker.worker import Worker
from perdure.transport import Task
from tests.sim.planting import bug, focused, method, swapped

N = NodeState

# -- before it is durable ----------------------------------------------------------------------------------------------


@bug("a result is acknowledged before what it led to is appended", "T1")
def _() -> Iterator[None]:
    async def receive(self: Receiver) -> None:
        while True:
            deliveries = await insist(self._clock, lambda: self._transport.receive(1000))
            await Courier(self._transport).acknowledge([delivery.receipt for delivery in deliveries])
            for delivery in deliveries:
                self._put(Reported(delivery))

    with method(Receiver, "run", receive):
        yield


@bug("tasks are published before they are appended", "T3")
def _() -> Iterator[None]:
    real = Coordinator._write

    async def write(self: Coordinator, batch: Batch) -> None:
        for found in batch.runs.values():
            for effect in found.effects:
                if isinstance(effect, fx.Dispatch):
                    self.publisher.queue(found, effect.address)
        await self.publisher.publish()
        await real(self, batch)

    with method(Coordinator, "_write", write):
        yield


@bug("a caller is answered before it is durable", "J1")
def _() -> Iterator[None]:
    real = Coordinator._write

    async def write(self: Coordinator, batch: Batch) -> None:
        for asked, answer in batch.answers:
            if asked.future is not None and not asked.future.done():
                asked.future.set_result(answer)
        await real(self, batch)

    with method(Coordinator, "_write", write):
        yield


@bug("at_most_once begins without asking", "V6")
def _() -> Iterator[None]:
    async def is_granted(self: Execution, attempt: Any) -> bool:
        return True

    with method(Execution, "_is_granted", is_granted):
        yield


# -- when the journal says no, or nothing ------------------------------------------------------------------------------


@bug("decisions of a refused commit are acted upon", "T3 T1 V6")
def _() -> Iterator[None]:
    real = Coordinator._append_all

    async def append_all(self: Coordinator, commits: Any, batch: Batch) -> tuple[set[str], set[str]]:
        await real(self, commits, batch)
        return set(), set()

    with method(Coordinator, "_append_all", append_all):
        yield


@bug("the cache stays dirty after a conflict", "T3 T1 V6")
def _() -> Iterator[None]:
    def drop(self: Memory, run_id: str) -> None:
        if (found := self.runs.get(run_id)) is not None:
            found.committed()

    with method(Memory, "drop", drop):
        yield


@bug("an unknown outcome counts as written", "T1 T3 J1 R2 V6")
def _() -> Iterator[None]:
    async def append(self: Coordinator, commits: Any) -> list[Any]:
        while True:
            try:
                return await self.journal.append(commits)
            except OutcomeUnknown:
                return [Accepted(commit.expected_seq + len(commit.events)) for commit in commits]
            except JournalUnavailable:
                await self.clock.sleep(0.1)

    with method(Coordinator, "_append", append):
        yield


@bug("an unknown outcome counts as refused, and is not decided again", "T1 T3 J1 R2 V6")
def _() -> Iterator[None]:
    async def append(self: Coordinator, commits: Any) -> list[Any]:
        while True:
            try:
                return await self.journal.append(commits)
            except OutcomeUnknown:
                for commit in commits:
                    self.memory.runs.pop(commit.run_id, None)
                return [Accepted(commit.expected_seq) for commit in commits]
            except JournalUnavailable:
                await self.clock.sleep(0.1)

    with method(Coordinator, "_append", append):
        yield


_RESTORED = focused(
    {"id": "a"},
    {"id": "b", "dependencies": ["a"]},
    {"id": "d", "dependencies": ["b"]},
    rates={"journal_rollback": 2.0, "stop_long": 0.5},
    shared=True,
    handler_seconds=10.0,
    fault_seconds=30.0,
)


@bug("a new incarnation is ignored", "R2 J5", _RESTORED)
def _() -> Iterator[None]:
    real = Loaded.commit

    async def check(self: Incarnation) -> None:
        await self.learn()

    def commit(self: Loaded, name: str, incarnation: int | None) -> Any:
        return real(self, name, None)

    with method(Loaded, "commit", commit), method(Incarnation, "check", check):
        yield


# -- recovery ----------------------------------------------------------------------------------------------------------


@bug("nothing is sent again after a start", "R2")
def _() -> Iterator[None]:
    with swapped(outstanding, lambda state: []):
        yield


_LEAVES_A_CHILD = focused(
    {"id": "w", "type": "workflow", "config": {"workflow": "child"}},
    {"id": "a"},
    {"id": "j", "dependencies": ["w", "a"], "join": {"at_least": 1, "cancel_rest": True}},
    {"id": "z", "type": "wait", "config": {"seconds": 900}, "dependencies": ["j"]},
    rates={"journal_crash_after": 0.05},
    child={"id": "n", "type": "wait", "config": {"seconds": 900}},
)


@bug("the stop of a child that was lost with its process is not sent again", "rule-35", _LEAVES_A_CHILD)
def _() -> Iterator[None]:
    def without(run: Any) -> list[fx.Effect]:
        return [
            one
            for one in outstanding(run)
            if not isinstance(one, fx.StopChild) or run.state not in ("running", "paused")
        ]

    with swapped(outstanding, without):
        yield


_ENDS_WITHOUT_ITS_CHILD = focused(
    {"id": "w", "type": "workflow", "config": {"workflow": "child"}},
    {"id": "a"},
    rates={"journal_crash_after": 0.08, "force": 0.5},
    fault_seconds=120.0,
    runs=2,
    inputs=[{}, {}],
    child={"id": "n", "type": "wait", "config": {"seconds": 900}},
)


@bug("who ends without a child stops it by word of mouth", "rule-35", _ENDS_WITHOUT_ITS_CHILD)
def _() -> Iterator[None]:
    with method(Loaded, "_stop_children", lambda self: None):
        yield


@bug("nobody sweeps", "R2")
def _() -> Iterator[None]:
    async def sweep(self: Reclaimer) -> None:
        """Nothing."""

    with method(Reclaimer, "sweep", sweep):
        yield


@bug("dead workers are noticed, lost messages are not", "R2")
def _() -> Iterator[None]:
    with method(Reclaimer, "_send_again", lambda self, name: None):
        yield


@bug("timers are lost on restart", "R2")
def _() -> Iterator[None]:
    real = Timekeeper.__init__

    def begin(self: Timekeeper, *arguments: Any) -> None:
        real(self, *arguments)
        self._next = None

    async def look(self: Timekeeper) -> None:
        self._next = None

    with method(Timekeeper, "__init__", begin), method(Timekeeper, "_look", look):
        yield


@bug("timers fire five seconds early", "W1")
def _() -> Iterator[None]:
    class Ahead:
        def __init__(self, clock: Any) -> None:
            self._clock = clock

        def __getattr__(self, name: str) -> Any:
            return getattr(self._clock, name)

        def now(self) -> float:
            return float(self._clock.now()) + 5.0

    begin = Timekeeper.__init__

    def ahead(self: Timekeeper, journal: Any, coordinator: Any, clock: Any) -> None:
        begin(self, journal, coordinator, Ahead(clock))

    with method(Timekeeper, "__init__", ahead):
        yield


@bug("a stale snapshot hides what came after it", "R2 R7 T1 T3 J5")
def _() -> Iterator[None]:
    real = loaded.load_from

    async def load_from(journal: Any, get_ir: Any, record: Any, kept: Any) -> Any:
        if kept is None:
            return await real(journal, get_ir, record, kept)
        names = snapshot.hashes(kept.body)
        return snapshot.decode(kept.body, {name: await get_ir(name) for name in names})

    with swapped(real, load_from):
        yield


@bug("what is queued is forgotten when a run leaves memory", "R2")
def _() -> Iterator[None]:
    with patch.object(projections, "_is_busy", lambda state: False):
        yield


# -- told and sent -----------------------------------------------------------------------------------------------------


@bug("the end of a child is not told", "R2")
def _() -> Iterator[None]:
    with method(Loaded, "_notice", lambda self, effect: None):
        yield


@bug("a child is started twice under two names", "R6 R2")
def _() -> Iterator[None]:
    real = children.Children._create

    async def create(self: Any, parent: Any, effect: Any) -> None:
        await real(self, parent, effect)
        await real(self, parent, msgspec.structs.replace(effect, child=f"{effect.child}+"))

    with method(children.Children, "_create", create):
        yield


_STOPPED = focused({"id": "a"}, {"id": "b"}, fault_seconds=120.0, rates={"slow": 0.25, "hang": 0.5, "cancel": 1.0})


@bug("a worker does not hear that it should stop", "rule-29", _STOPPED)
def _() -> Iterator[None]:
    with method(Worker, "_stop", lambda self, task_ids: None):
        yield


@bug("the idempotency key contains the attempt", "rule-3")
def _() -> Iterator[None]:
    real = Renderer.task

    def task(self: Renderer, found: Loaded, entry: Any, incarnation: int) -> Any:
        made = real(self, found, entry, incarnation)
        if isinstance(made, Task):
            return msgspec.structs.replace(made, idempotency_key=f"{made.idempotency_key}/{made.attempt}")
        return made

    with method(Renderer, "task", task):
        yield


@bug("the idempotency key leaves out the scope", "rule-3")
def _() -> Iterator[None]:
    real = Renderer.task

    def task(self: Renderer, found: Loaded, entry: Any, incarnation: int) -> Any:
        made = real(self, found, entry, incarnation)
        if isinstance(made, Task):
            return msgspec.structs.replace(made, idempotency_key=f"{made.run_id}/{made.node}#{made.item}{made.undo}")
        return made

    with method(Renderer, "task", task):
        yield


@bug("a node is given the outputs of edges that were not taken", "E3")
def _() -> Iterator[None]:
    real = renderer._inputs

    def inputs(state: Any, activation: Any) -> dict[str, Any]:
        given = real(state, activation)
        for source in activation.edges:
            given.setdefault(state.name(source), None)
        return given

    with swapped(real, inputs):
        yield


@bug("a row shows another counter than its journal", "J5")
def _() -> Iterator[None]:
    real = Loaded.commit

    def commit(self: Loaded, name: str, incarnation: int | None) -> Any:
        made = real(self, name, incarnation)
        return msgspec.structs.replace(made, row=msgspec.structs.replace(made.row, counter=made.row.counter + 1))

    with method(Loaded, "commit", commit):
        yield


@bug("a timer that was set is not written", "R2 J5")
def _() -> Iterator[None]:
    real = Loaded.commit

    def commit(self: Loaded, name: str, incarnation: int | None) -> Any:
        return msgspec.structs.replace(real(self, name, incarnation), timers_set=())

    with method(Loaded, "commit", commit):
        yield


_FETCHED = focused(
    {"id": "a", "branch": {"rules": [{"condition": "output.n >= 0", "next_nodes": ["b"]}]}},
    {"id": "b", "branch": {"rules": [{"condition": "output.n >= 0", "next_nodes": ["d"]}]}},
    {"id": "d", "branch": {"rules": [{"condition": "output.n >= 0", "next_nodes": ["f"]}]}},
    {"id": "f"},
    rates={"task_cancelled": 40.0, "huge": 1.0},
    large_share=1.0,
    blob_seconds=2.0,
    fault_seconds=30.0,
)
"""What is large is fetched while tasks are cancelled."""


@bug("what waits for something is forgotten when the fetching of that is cancelled", "R2", _FETCHED)
def _() -> Iterator[None]:
    def over(self: Fetcher, key: Any, fetching: asyncio.Task[None]) -> None:
        """As if nobody looked how a fetch ended."""

    with method(Fetcher, "_over", over):
        yield
