"""One fault at a time: every command of a journal, transport or blob store fails once, in every way there is.

`python -m tests.sim.sweep [NAME]` shows it; `test_sweep.py` is the same in CI. Each workflow is taken through it twice: as it is,
and with outputs so large that they are stored as blobs; then the commands of the blob store are what fails.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from perdure.blobs import INLINE_BYTES
from perdure.nodes import builtin
from perdure.nodes.registry import NodeType, Registry
from perdure.runtime.coordinator.requests import Request
from perdure.simulation import users
from perdure.simulation.blobs import SimBlobs
from perdure.simulation.faults import Chaos
from perdure.simulation.history_checks import Failed
from perdure.simulation.journal import _WRITES, SimJournal
from perdure.simulation.plan import Plan
from perdure.simulation.process import Process
from perdure.simulation.transport import SimTransport
from perdure.simulation.world import World
from tests.sim.workflows import REFERENCES, Reference

WAYS = {
    "error before": ("journal_error", "transport_error", "blob_error"),
    "error after": ("journal_timeout_applied", "transport_error_after", "blob_timeout_applied"),
    "lost without a word": ("journal_timeout_lost", "transport_lose", "blob_timeout_lost"),
    "crash before": ("journal_crash_before", "transport_crash_before", "blob_crash_before"),
    "crash after": ("journal_crash_after", "transport_crash_after", "blob_crash_after"),
}
_GROUPS = {"journal_read": 0, "journal_write": 0, "transport": 1, "blob": 2}
"""A journal cannot fail after it has written but by not answering, so the second is its timeout although applied."""
LARGE = INLINE_BYTES + 1000
LONGEST = 900.0
_WAITS = {"receive", "receive_begin", "claim", "begin"}
"""They may wait for ever, and then nobody dies after they are answered."""
RUN = "run0"


@functools.cache
def _others() -> list[NodeType]:
    return [node_type for node_type in builtin() if node_type.name != "task"]


class OneFault(Chaos):
    """The command number `at` goes wrong."""

    def __init__(self, at: int, way: str) -> None:
        super().__init__(Random(0), {})
        self.at = at
        self.way = way
        self.command = ""
        self.commands: list[tuple[str, str]] = []
        self.over = False

    def draw(self, group: str) -> str | None:
        if self.over or self.healed or group not in _GROUPS:
            return None
        self.commands.append((group, self.command))
        if len(self.commands) - 1 != self.at:
            return None
        return WAYS[self.way][_GROUPS[group]]


class Swept(World):
    """A coordinator and a worker in two processes, one run, one fault."""

    chaos: OneFault
    runs = 1
    """How many runs somebody starts."""

    def __init__(self, reference: Reference, at: int = -1, way: str = "error before", *, large: bool = False) -> None:
        definition = {"name": "flow0", "nodes": reference.nodes, **reference.keys}
        child = {"name": "child", "nodes": reference.child or [_IDLE]}
        super().__init__(
            Plan(
                seed=1,
                shared=True,
                engines=1,
                workers=1,
                concurrency=4,
                keep_idle=0,
                runs=self.runs,
                workflows=[child, definition],
                inputs=[reference.inputs] * self.runs,
                rates={},
                fault_seconds=0.0,
                journal_seconds=0.0,
                transport_seconds=0.0,
                handler_seconds=0.0,
                skews=[0.0] * 8,
                poll_seconds=3.0,
                snapshot_events=5,
            )
        )
        self.reference = reference
        self.large = large
        self.chaos = OneFault(at, way)
        self.executions: Counter[str] = Counter()
        self.registry = Registry()
        for node_type in _others():
            self.registry.add(node_type)
        self.registry.add(NodeType(name="task", description="Does what its config says.", handler=self.handle))

    async def handle(self, config: Any, ctx: Any) -> Any:
        task = ctx._task
        self.checks.executed(ctx)
        self.executions[task.idempotency_key] += 1
        await asyncio.sleep(config.get("seconds", 0.1))
        if task.attempt <= config.get("fails", 0) or task.generation == config.get("fails_in"):
            raise RuntimeError("as its config says")
        give = config["give"]
        value = give[min(task.scope[-1], len(give)) - 1] if isinstance(give, list) and task.scope else give
        if not self.large:
            return value
        return {**(value if isinstance(value, dict) else {"value": value}), "text": "x" * LARGE}

    def restart(self, process: Process) -> None:
        self.loop.call_later(0.5, self._start_again, process, context=self.loop.world.context)

    async def _history(self) -> None:
        await self._register()
        for process in self.processes:
            process.start()
        await self._wait(0.5)
        while not await self._is_over():
            await self._wait(1.0)
            if self.loop.time() > LONGEST:
                raise Failed("R2", self._describe())
        self.chaos.over = True
        await self._wait(20.0)
        self._heal()
        await self._close()

    def _describe(self) -> str:
        return self.users.describe(RUN) if RUN in self.store.runs else "the run was never started"

    async def _is_over(self) -> bool:
        if self.users.unstarted:
            await self.users.start_rest()
            return False
        row = self.store.runs[RUN].row
        if row.ended_at is None:
            await self._send_the_signal()
        elif row.state == "failed" and self.reference.retried and row.generation == 1:
            await self.users._ask(Request(kind="retry", run_id=RUN, by="ann"))
            return False
        return all(run.row.ended_at is not None for run in self.store.runs.values())

    async def _send_the_signal(self) -> None:
        model = self.checks.checkers[RUN].model
        if any(act.wait == "signal" for act in model.acts.values()):
            await self.users._ask(
                Request(kind="signal", run_id=RUN, name="go", signal="once", payload={"n": 1}, by="ann")
            )

    @functools.cached_property
    def wanted(self) -> dict[str, Any]:
        """What the others are compared with."""
        return self.result()

    def result(self) -> dict[str, Any]:
        state = self.checks.fold(RUN)
        nodes = {
            f"{state.name(a.node)}{list(a.scope)}{a.item}": a.state.value
            for a in state.activations.values()
            if not (a.state == "pending" and not a.edges)
        }
        outputs = state.outputs if state.outputs_ref is None else state.outputs_ref
        return {"state": state.state.value, "outputs": outputs, "nodes": nodes}


_IDLE: dict[str, Any] = {"id": "idle", "type": "transform", "config": {"value": 1}}


@contextmanager
def named() -> Iterator[None]:
    """The chaos knows which command it decides about."""
    call, draw, draw_blob = SimJournal._call, SimTransport._draw, SimBlobs._draw

    async def journal(self: Any, name: str, *rest: Any) -> Any:
        self._world.chaos.command = name
        return await call(self, name, *rest)

    def transport(self: Any, name: str) -> Any:
        self._world.chaos.command = name
        return draw(self, name)

    def blob(self: Any, name: str) -> Any:
        self._world.chaos.command = name
        return draw_blob(self, name)

    with (
        patch.object(SimBlobs, "_draw", blob),
        patch.object(SimJournal, "_call", journal),
        patch.object(SimTransport, "_draw", transport),
        patch.object(users, "PATIENCE_SECONDS", 10.0),
    ):
        yield


def faultless(reference: Reference, *, large: bool = False, kind: type[Swept] = Swept) -> Swept:
    with named():
        world = kind(reference, large=large)
        world.run()
    return world


def cases(world: Swept) -> list[tuple[int, str]]:
    """Every command before the end of the run, in every way that means something for it; large: of the blob store."""
    found = []
    for at, (group, name) in enumerate(world.chaos.commands):
        if (group == "blob") is not world.large:
            continue
        for way, faults in WAYS.items():
            read = group != "transport" and name not in _WRITES | {"put"}
            if not (read and "timeout" in faults[_GROUPS[group]]):
                found.append((at, way))
    return found


def sweep(reference: Reference, right: Swept, at: int, way: str) -> str:
    """What is wrong; empty: nothing. As in `simulate`, garbage is collected when all of it is."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _sweep(reference, right, at, way)
    finally:
        gc.collect(0)
        if collecting:
            gc.enable()


def _sweep(reference: Reference, right: Swept, at: int, way: str) -> str:
    with named():
        world = type(right)(reference, at, way, large=right.large)
        world.run()
    command = " ".join(world.chaos.commands[at]) if at < len(world.chaos.commands) else "nothing"
    problem = str(world.failures[0]) if world.failures else _difference(world, right)
    unanswered = way == "crash after" and world.chaos.commands[at][1] in _WAITS
    if "crash" in way and not unanswered and all(process.lives == 1 for process in world.processes):
        problem = problem or "nobody crashed"
    what = f"{reference.name}{', large' if right.large else ''}"
    return f"{what}: {way} at command {at} ({command}): {problem}" if problem else ""


def _difference(world: Swept, right: Swept) -> str:
    found, wanted = world.result(), right.wanted
    if found != wanted:
        return f"ends as {found}, not as {wanted}"
    if set(world.executions) != set(right.executions):
        return f"executed {sorted(world.executions)}, not {sorted(right.executions)}"
    often = {key: count for key, count in world.executions.items() if count > right.executions[key] + 1}
    return f"one fault, and more than one more execution: {often}" if often else ""


def main(references: Sequence[Reference] = REFERENCES, kind: type[Swept] = Swept) -> int:
    wrong = total = 0
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for reference in references:
        if only not in reference.name:
            continue
        for large in (False, True):
            right = faultless(reference, large=large, kind=kind)
            everything = cases(right)
            total += len(everything)
            for at, way in everything:
                if problem := sweep(reference, right, at, way):
                    wrong += 1
                    sys.stdout.write(f"{problem}\n")
            name = f"{reference.name}{', large' if large else ''}"
            sys.stdout.write(f"{name}: {len(right.chaos.commands)} commands, {len(everything)} faults\n")
            sys.stdout.flush()
    sys.stdout.write(f"{total} faults, {wrong} wrong ends\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
