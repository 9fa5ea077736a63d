"""A simulated cluster with a run whose nodes read what others yield, while processes die and chunks are late, lost, torn and doubled.

Seeds from 18,000,000 on are such histories: those below 2,000,000 once more, with this run beside the others. Every chunk says who
yielded it and as which number; whatever a reader is given is judged as it is given (F3), and in the end all sums are right (F4, F9).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from perdure.clock import Clock
from perdure.kernel import events as e
from perdure.outcomes import Failure
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.worker import outflow
from perdure.simulation.chunk_store import SimStreams
from perdure.simulation.handlers import Broken, Handlers
from perdure.simulation.plan import STREAMS_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds import inner_world
from perdure.transports.local_streams import LocalStreams

RUN = "flow"
MOST_RETRIES = 8
BUFFER = 64 * 1024
_RESTARTS = ("anew", "anew", "repeat", "checkpoint")
_SOFT = ("raise", "abort", "garbage", "huge")

Seen = dict[str, list[int]]
"""Of each source that a reader has read: which execution said the last chunk, and its number."""


def draw_flow(random: Random) -> dict[str, Any]:
    """Nodes that yield, nodes that pass on what they read, and nodes that add it up."""
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, str]] = []
    yielding: list[str] = []
    counts = random.choice((1, 1, 2)), random.choice((0, 1, 1, 2, 3)), random.choice((1, 1, 2, 3))
    for kind, count in zip(("source", "stage", "sink"), counts, strict=True):
        for number in range(1, count + 1):
            id = f"{kind}{number}"
            most = min(len(yielding), 2 if kind == "stage" else 3)
            reads = random.sample(yielding, random.randint(1, most)) if kind != "source" else []
            restart = random.choice(_RESTARTS)
            if restart == "repeat" and len(reads) > 1:
                restart = "anew"  # chunks of several come in another order each time
            script = {
                "kind": kind,
                "n": random.randint(1, 30),
                "every": random.randint(2, 7),
                "lies": kind == "source" and random.random() < 0.3,
            }
            node = {
                "id": id,
                "type": "task",
                "config": {"action": "work", "args": script},
                "retry": {"max_attempts": 1000, "backoff_ms": 500},
                "max_crashes": 1000,
            }
            if kind != "sink":
                node["stream"] = {"restart": restart, "collect": "count", "buffer": BUFFER}
                yielding.append(id)
            nodes.append(node)
            edges += [{"from": f"{source}.out", "to": f"{id}.read"} for source in reads]
    return {"name": RUN, "nodes": nodes, "edges": edges}


class StreamingHandlers(Handlers):
    def __init__(self, world: StreamWorld) -> None:
        super().__init__(world)
        self._flow = world

    async def handle(self, config: Any, ctx: Any) -> Any:
        if not (isinstance(config, dict) and "args" in config) or ctx._task.undo:
            return await super().handle(config, ctx)
        fault, _ = self._begin(ctx)
        try:
            args = config["args"]
            if "kind" not in args:  # a rerun with arguments that were made up: it does what the node does
                args = self._flow.script_of(ctx.node)
            script = _Script(self._flow, args, ctx, fault)
            return await (script.add_up() if script.kind == "sink" else ctx.give(script.play()))
        finally:
            self._end()


class _Script:
    """One execution of a node of the flow."""

    def __init__(self, world: StreamWorld, args: dict[str, Any], ctx: Any, fault: str | None) -> None:
        self._world = world
        self._ctx = ctx
        self._fault = fault
        self._trouble_at = world.chance.randint(0, args["n"])
        self.kind = args["kind"]
        self._count, self._every = args["n"], args["every"]
        out = ctx._task.flow.out if ctx._task.flow is not None else None
        self._restart = "anew" if out is None else out.restart
        execution = next(world.executions)
        self._said_by = 0 if self._restart == "repeat" and not args["lies"] else execution
        self._editions = {source.node: source.edition for source in (ctx._task.flow.reads if ctx._task.flow else ())}

    async def play(self) -> AsyncIterator[dict[str, Any]]:
        """Yield: numbers, or the values that are read."""
        state = (self._ctx.last_checkpoint if self._restart == "checkpoint" else None) or {"n": 0, "seen": {}}
        number, seen = state["n"], state["seen"]
        if self.kind == "source":
            values: AsyncIterator[int] = self._numbers(number)
        else:
            values = self._values(seen)
        async for value in values:
            number += 1
            await self._meet(number)
            yield {"by": self._ctx.node, "x": self._said_by, "n": number, "v": value}
            if self._restart == "checkpoint" and number % self._every == 0:
                await self._ctx.checkpoint({"n": number, "seen": seen})
        await self._meet(-1)

    async def add_up(self) -> dict[str, Any]:
        state = self._ctx.last_checkpoint or {"sum": 0, "count": 0, "seen": {}}
        total, count, seen = state["sum"], state["count"], state["seen"]
        async for value in self._values(seen):
            total, count = total + value, count + 1
            await self._meet(count)
            if count % self._every == 0:
                await self._ctx.checkpoint({"sum": total, "count": count, "seen": seen})
        await self._meet(-1)
        return {"sum": total, "count": count}

    async def _numbers(self, after: int) -> AsyncIterator[int]:
        for number in range(after + 1, self._count + 1):
            yield number

    async def _values(self, seen: Seen) -> AsyncIterator[int]:
        stream = self._ctx.streams["read"]
        async for chunk in stream:
            self._judge(chunk, seen, stream.position)
            yield chunk["v"]

    def _judge(self, chunk: dict[str, Any], seen: Seen, position: int) -> None:
        """F3: chunks are 1, 2, 3, …, and of an edition each reader is given the same."""
        by, said_by, number, task = chunk["by"], chunk["x"], chunk["n"], self._ctx._task
        place = f"{task.task_id} reads {by}"
        before = seen.get(by, [said_by, 0])
        if (number, position) != (before[1] + 1, number):
            self._fail(f"{place}: chunk {number} at {position}, after {before[1]}")
        edition = self._editions[by]
        seen[by] = [said_by, number]
        if self._world.lies(by):
            return  # where nobody has kept what it said, nobody can tell that it says something else
        known = self._world.said.setdefault((task.incarnation, task.run_id, by, edition, number), chunk)
        if known != chunk:
            self._fail(f"{place}, edition {edition}: {chunk} is another chunk than {known}")
        if said_by != before[0] and not self._world.goes_on(by):
            self._fail(f"{place}: {chunk} comes after chunks of execution {before[0]}")

    def _fail(self, message: str) -> None:
        if not self._world.rolled_back:  # editions are counted anew in a journal that went back
            self._world.checks.fail("F3", message)

    async def _meet(self, number: int) -> None:
        """Have the fault of this execution, where it is to be; and take some time now and then."""
        world = self._world
        if world.chance.random() < 0.2:
            await asyncio.sleep(world.chance.random() ** 3 * world.plan.handler_seconds)
        if self._fault is None or number not in (self._trouble_at, -1):
            return
        fault, self._fault = self._fault, None
        if fault in _SOFT:
            raise Broken(f"{self._ctx.node} broke")
        if fault == "kill":
            await world.kill_this_process("by a handler that yields or reads")
        elif fault == "hang":
            await world.wait_for_healing()
        elif fault == "cancel_itself":
            raise asyncio.CancelledError
        elif fault in ("slow", "stubborn"):
            await asyncio.sleep(world.random.random() * 60)
        else:
            raise Failure(fault, "busy")


class StreamWorld(World):
    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.chance = Random(f"streams {plan.seed}")
        self.flow = draw_flow(self.chance)
        self._rate = self.chance.choice((0.0, 0.02, 0.1))
        self._small = self.chance.choice((60, 300, 4096)), self.chance.choice((3, 10_000))
        self.executions = itertools.count(1)
        self.said: dict[tuple[str, str, str, int, int], dict[str, Any]] = {}
        """What readers were given, by incarnation, run, node, edition and number."""
        self.handlers = StreamingHandlers(self)
        self.registry = self.handlers.registry()
        self.broker.make_durable()
        self.broker.streams = self.make_streams(self.clock)

    def make_streams(self, clock: Clock) -> LocalStreams:
        return SimStreams(self, clock, self.chance, self._rate, BUFFER)

    def goes_on(self, node: str) -> bool:
        """Whether an edition of it may be made by several executions."""
        return any(one["id"] == node and one["stream"]["restart"] != "anew" for one in self.flow["nodes"])

    def script_of(self, node: str) -> dict[str, Any]:
        """What it does."""
        found = next(one for one in self.flow["nodes"] if one["id"] == node)
        script: dict[str, Any] = found["config"]["args"]
        return script

    def lies(self, node: str) -> bool:
        """Whether it says that it repeats itself, and does not."""
        found = next(one for one in self.flow["nodes"] if one["id"] == node)
        return found["stream"]["restart"] == "repeat" and bool(self.script_of(node)["lies"])

    def run(self) -> World:
        before = outflow.PART_BYTES, outflow.MOST_BEHIND
        outflow.PART_BYTES, outflow.MOST_BEHIND = self._small
        try:
            return super().run()
        finally:
            outflow.PART_BYTES, outflow.MOST_BEHIND = before

    async def _register(self) -> None:
        await super()._register()
        await self._put_workflow(self.flow)
        self.users._call(self._make())

    async def _make(self) -> None:
        if RUN not in self.store.runs:
            ir, version = self.versions[RUN]
            await self.users._ask(Request(kind="start", run_id=RUN, ir=ir, workflow_version=version))

    async def _finish(self) -> None:
        """A run that has failed is retried, until it has streamed to its end."""
        for _ in range(MOST_RETRIES):
            await self._make()
            await super()._finish()
            if RUN not in self.store.runs or self.checks.fold(RUN).state.value == "failed":
                if RUN in self.store.runs:
                    await self.users._ask(Request(kind="retry", run_id=RUN, by="ann"))
                continue
            break
        self._judge()

    def _judge(self) -> None:
        if RUN not in self.store.runs:
            return
        state = self.checks.fold(RUN)
        events = [e.decode(stored.body) for stored in self.store.events[RUN]]
        touched = any(isinstance(event, e.RunPatched | e.NodeDiscarded) for event in events)
        if state.state.value != "completed" or touched:
            return
        count: dict[str, int] = {}
        total: dict[str, int] = {}
        for node in self.flow["nodes"]:  # what each reads stands before it
            id, n = node["id"], node["config"]["args"]["n"]
            sources = [edge["from"].removesuffix(".out") for edge in self.flow["edges"] if edge["to"] == f"{id}.read"]
            count[id] = sum(count[one] for one in sources) if sources else n
            total[id] = sum(total[one] for one in sources) if sources else n * (n + 1) // 2
            done = state.find(id)
            found = None if done is None else done.output
            wanted = count[id] if "stream" in node else {"sum": total[id], "count": count[id]}
            if found != wanted:
                self.checks.fail("F4", f"{id} has come to {found}, and is {wanted}")


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: as before, and from some seed on one with a run that streams."""
    if plan.seed >= STREAMS_FROM:
        return StreamWorld(plan, tracing=tracing)
    return inner_world.make_world(plan, tracing=tracing)
