"""Bugs of patches, reruns and blobs, and of what must be noticed: a transport that is away, a part that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.blobs import ref_of
from perdure.kernel import attempts, guards, patches, reruns
from perdure.kernel import commands as c
from perdure.kernel import events as e
from perdure.runtime.coordinator.tasks.courier import Courier
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.parts import Parts
from perdure.runtime.worker.handler_results import Leaving
from perdure.runtime.worker.worker import Worker
from tests.sim.planting import bug, deciding, focused, method, swapped

# -- patches and reruns ------------------------------------------------------------------------------------------------


@bug("a patch may remove what is under way", "E2 E4 E6 R2 quarantine")
def _() -> Iterator[None]:
    with swapped(patches._places, lambda state, old, new: iter(())):
        yield


_PATCHED = focused(
    {"id": "a", "retry": {"max_attempts": 4, "backoff_ms": 500}},
    {"id": "b", "retry": {"max_attempts": 4, "backoff_ms": 500}},
    rates={"raise": 0.5, "patch": 10.0},
    handler_seconds=10.0,
)


@bug("a patch gives other config to what is activated", "rule-39", _PATCHED)
def _() -> Iterator[None]:
    real = patches.install

    def install(state: Any, ir_hash: str, *, mends: bool = False) -> None:
        real(state, ir_hash, mends=mends)
        for activation in state.activations.values():
            if activation.fired and not activation.scope:
                state.edit(activation).ir = len(state.irs) - 1

    with swapped(real, install):
        yield


_ASKED = focused(
    {"id": "a"},
    {"id": "ask", "type": "human", "config": {}, "dependencies": ["a"], "rejection_path": ["no"]},
    {"id": "no"},
    {"id": "pay", "dependencies": ["ask"]},
    {"id": "x", "dependencies": ["a"]},
    rates={"patch": 12.0},
    handler_seconds=5.0,
)
"""A person is asked, and says no, while the graph is patched."""


@bug("a patch may lead around an approval", "E6", _ASKED)
def _() -> Iterator[None]:
    with swapped(guards.check, lambda state, old, new: iter(())):
        yield


_RACED = focused(
    {"id": "ask", "type": "human", "config": {}},
    {"id": "q", "dependencies": ["ask"]},
    {"id": "r", "dependencies": ["q"]},
    {"id": "s", "dependencies": ["r"]},
    {"id": "pay", "dependencies": ["s"]},
    {"id": "x"},
    {"id": "j", "dependencies": ["pay", "x"], "join": "any"},
    rates={"patch": 4.0, "vote": 2.0},
    handler_seconds=1.0,
    fault_seconds=20.0,
)
"""A person says no when the race is over, while the graph is patched."""


@bug("a patch may lead around an approval by way of a failure", "E6", _RACED)
def _() -> Iterator[None]:
    with swapped(guards._may_break, lambda source, edge, node, repaired: False):
        yield


@bug("a patch may change whom an approval asks", "E6", _ASKED)
def _() -> Iterator[None]:
    with swapped(guards._asks_otherwise, lambda state, old, new, undone: iter(())):
        yield


@bug("a checkpoint is kept as often as it is delivered", "T2")
def _() -> Iterator[None]:
    def keeps(real: Any) -> Any:
        def checkpoint(d: Any, command: c.Checkpoint) -> None:
            activation = d.get(command)
            if command.address.undo or not 0 < command.number <= activation.checkpoints:
                real(d, command)
            elif attempts.fence(d, command) is not None:
                d.emit_for(e.NodeCheckpointed, activation, data=command.data, step=command.step, number=command.number)

        return checkpoint

    with deciding(c.Checkpoint, keeps):
        yield


@bug("a patch is answered and not decided", "J1")
def _() -> Iterator[None]:
    with deciding(c.Patch, lambda real: lambda d, command: None):
        yield


@bug("a rerun begins with outputs nobody gave", "rule-40")
def _() -> Iterator[None]:
    real = reruns.adopt

    def adopt(state: Any, node: str) -> Any:
        return tuple(msgspec.structs.replace(one, output={"ok": 1}, output_ref=None) for one in real(state, node))

    with swapped(real, adopt):
        yield


@bug("a start does not know its own inputs", "rule-21")
def _() -> Iterator[None]:
    real = Renderer.evaluate

    def evaluate(self: Renderer, state: Any, question: c.Question, command: c.Command, budget: Any) -> c.Verdict:
        if isinstance(command, c.Start):
            command = msgspec.structs.replace(command, inputs=None)
        return real(self, state, question, command, budget)

    with method(Renderer, "evaluate", evaluate):
        yield


# -- blobs -------------------------------------------------------------------------------------------------------------


@bug("a result names a blob that nobody waited for", "V7")
def _() -> Iterator[None]:
    async def store(self: Leaving, blobs: Any, task: Any, data: bytes, what: str) -> str:
        return ref_of(data)

    with method(Leaving, "_store", store):
        yield


@bug("a blob that may not have been written counts as written", "V7")
def _() -> Iterator[None]:
    async def store(self: Leaving, blobs: Any, task: Any, data: bytes, what: str) -> str:
        try:
            return str(await blobs.put(task.tenant, data))
        except Exception:  # noqa: BLE001  that is the bug
            return ref_of(data)

    with method(Leaving, "_store", store):
        yield


# -- what must be noticed ----------------------------------------------------------------------------------------------


@bug("a coordinator ends when the transport is away", "exit")
def _() -> Iterator[None]:
    async def publish(self: Courier, tasks: Any) -> None:
        await self._transport.publish(tasks)

    with method(Courier, "publish", publish):
        yield


_CANCELLED = focused(
    {"id": "a"},
    {"id": "b", "type": "wait", "config": {"seconds": 3}},
    {"id": "d", "dependencies": ["a", "b"]},
    rates={"task_cancelled": 3.0},
    fault_seconds=10.0,
)


@bug("a part of the engine that was cancelled is not missed", "R2", _CANCELLED)
def _() -> Iterator[None]:
    def ended(self: Parts, task: Any) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.broken.set()

    with method(Parts, "_ended", ended):
        yield


@bug("a worker lives on without its reporter", "R2", _CANCELLED)
def _() -> Iterator[None]:
    with method(Worker, "_agent_ended", lambda self, agent: None):
        yield


_BLOCKED = focused(
    {"id": "a", "type": "blocking", "timeout_seconds": 2, "retry": {"max_attempts": 4, "backoff_ms": 0}},
    {"id": "b", "type": "blocking", "timeout_seconds": 2, "retry": {"max_attempts": 4, "backoff_ms": 0}},
    rates={"slow": 0.5},
    concurrency=1,
)


@bug("a thread that nobody waits for gives back its slot", "rule-32", _BLOCKED)
def _() -> Iterator[None]:
    real = Worker._release

    def release(self: Worker, attempt: Any) -> None:
        threads, attempt.threads = attempt.threads, 0
        real(self, attempt)
        attempt.threads = threads

    with method(Worker, "_release", release):
        yield


_UNDO = {"compensator": {"type": "task", "config": {"action": "undo"}}}
_LOOPED = focused(
    {"id": "h", **_UNDO},
    {"id": "x", "dependencies": ["h"], "loop": {"condition": "false", "max_iterations": 2, "loop_back_to": "h"}},
    {"id": "z", "dependencies": ["x"]},
    {"id": "f", "dependencies": ["x"], "retry": {"max_attempts": 1}},
    rates={"raise": 0.3, "retry": 6.0, "rerun": 12.0},
    runs=1,
    handler_seconds=1.0,
    fault_seconds=60.0,
    on_failure={"compensate": True},
)
"""Runs that fail behind a loop, are retried, and made anew."""


@bug("a rerun adopts the end of a loop before what a retry has done again in it", "quarantine", _LOOPED)
def _() -> Iterator[None]:
    with swapped(reruns._in_order, lambda ir, kept: sorted(kept.values(), key=lambda found: found.ended_seq)):
        yield
