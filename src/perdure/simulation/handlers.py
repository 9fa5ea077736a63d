"""Scripted handlers: their behaviour is drawn from the seed, and every execution is recorded under its key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.blobs import INLINE_BYTES
from perdure.nodes import builtin
from perdure.nodes.registry import NodeType, Registry
from perdure.outcomes import Abort, Chosen, Failure, NotDone, RetryLater
from perdure.simulation.loop import HOST

if TYPE_CHECKING:
    from perdure.simulation.world import World


LARGE = INLINE_BYTES + 1000


class Broken(Exception):
    """The exception of a handler that raises nothing more specific."""


class Handlers:
    palette: Callable[[Any], Any] | None = None
    """What the handlers of tasks may add to their runs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def registry(self) -> Registry:
        """Every built-in type, with `task` played by the script; `blocking` is the same in a thread."""
        registry = Registry()
        for node_type in builtin():
            if node_type.name != "task":
                registry.add(node_type)
        registry.add(NodeType(name="task", description="Scripted.", handler=self.handle, palette=self.palette))
        registry.add(NodeType(name="blocking", description="Scripted, in a thread.", handler=self.block))
        return registry

    def _begin(self, ctx: Any) -> tuple[str | None, float]:
        """The fault of this execution, and how long it takes."""
        world = self._world
        world.checks.executed(ctx)
        world.checks.promises.begun(HOST.get().name)
        fault = world.chaos.draw("handler")
        if fault is not None:
            world.note_fault(fault, f"{ctx.node} attempt {ctx._task.attempt}")
        return fault, world.random.random() ** 3 * world.plan.handler_seconds

    def _end(self) -> None:
        """Count the handler as ended. Handlers of a process that died stay counted under that process's own name."""
        self._world.checks.promises.busy[HOST.get().name] -= 1

    async def handle(self, config: Any, ctx: Any) -> Any:
        """Play a handler on the loop of its worker."""
        fault, seconds = self._begin(ctx)
        try:
            return await self._play(fault, seconds, ctx)
        finally:
            self._end()

    async def isolated(self, config: Any, ctx: Any) -> Any:
        """Play a handler in a process of its own, which dies alone."""
        fault, seconds = self._begin(ctx)
        try:
            if fault == "kill":
                await asyncio.sleep(seconds)
                raise Failure("process_died", "the isolated process was killed by signal 9 (SIGKILL)")
            if fault == "stubborn":
                fault = "slow"  # a process cannot refuse to be killed
            ctx.gave_up = fault == "cancel_itself"
            return await self._play(fault, seconds, ctx)
        finally:
            self._end()

    def block(self, config: Any, ctx: Any) -> Any:
        """Play a handler in a thread, which cannot be stopped, and whose duration the worker does not know."""
        world, random = self._world, self._world.random
        fault, world.blocking_seconds = self._begin(ctx)
        if random.random() < 0.1:
            ctx.heartbeat()
        if fault in ("slow", "stubborn"):
            world.blocking_seconds += random.random() * 60
        elif fault == "hang":
            world.blocking_seconds += max(0.0, world.plan.fault_seconds - world.loop.time()) + random.random() * 10
        return self._outcome(fault, ctx)

    async def _play(self, fault: str | None, seconds: float, ctx: Any) -> Any:
        world = self._world
        random, loop = world.random, world.loop
        await asyncio.sleep(seconds)
        if random.random() < 0.1:
            ctx.heartbeat()
            await ctx.checkpoint({"at": ctx._task.attempt, **self._more()})
        if fault == "hang":
            await world.wait_for_healing()
        elif fault == "slow":
            await asyncio.sleep(random.random() * 60)
        elif fault == "stubborn":
            end = loop.time() + random.random() * 20
            while loop.time() < end:
                try:
                    await asyncio.sleep(end - loop.time())
                except asyncio.CancelledError:
                    continue  # as code that swallows everything does
        elif fault == "kill":
            await world.kill_this_process("by a handler")
        output = self._outcome(fault, ctx)
        if fault not in ("huge", "garbage"):
            world.checks.promises.finished(ctx._task)
        return output

    def _outcome(self, fault: str | None, ctx: Any) -> Any:
        random = self._world.random
        match fault:
            case "raise":
                raise Broken(f"{ctx.node} broke")
            case "abort":
                raise Abort("no use")
            case "not_done":
                raise NotDone("never connected")
            case "retry_later":
                raise RetryLater("busy", after=random.choice((0, 1, 20)))
            case "huge":
                return {"ok": True, "n": 1, "text": "x" * (10_000_000 if random.random() < 0.01 else 50_000)}
            case "garbage":
                return random.choice((object(), float("nan"), {1: {2, 3}, "k": object()}, "\ud800", [[]], None, 7, {}))
            case "cancel_itself":
                raise asyncio.CancelledError
        return self._output(ctx)

    def _output(self, ctx: Any) -> Any:
        random = self._world.random
        output = {"ok": random.random() < 0.5, "n": random.randrange(10), "items": [1] * random.randrange(3)}
        output |= self._more()
        available = self._world.available(ctx.run_id, ctx.node) if ctx.item is None else None
        if available is None:
            return output
        chosen = [name for name in available if random.random() < 0.5]
        if random.random() < 0.05 and not self._world.chaos.healed:
            chosen.append("nowhere")
        return Chosen(output, tuple(chosen), "because")

    def _more(self) -> dict[str, Any]:
        """More output, sometimes enough to make it a blob."""
        world = self._world
        return {"text": "x" * LARGE} if world.random.random() < world.plan.large_share else {}
