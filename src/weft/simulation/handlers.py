"""Scripted handlers: what they do is drawn from the seed, and every execution is written down under its key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from weft.nodes import builtin
from weft.nodes.registry import NodeType, Registry
from weft.outcomes import Abort, Chosen, NotDone, RetryLater

if TYPE_CHECKING:
    from weft.simulation.world import World


class Broken(Exception):
    """What a handler raises that does not know better."""


class Handlers:
    def __init__(self, world: World) -> None:
        self._world = world

    def registry(self) -> Registry:
        """Every built-in type, with `task` played by the script."""
        registry = Registry()
        for node_type in builtin():
            if node_type.name != "task":
                registry.add(node_type)
        registry.add(NodeType(name="task", description="Scripted.", handler=self.handle))
        return registry

    async def handle(self, config: Any, ctx: Any) -> Any:
        world = self._world
        random, loop = world.random, world.loop
        world.checks.executed(ctx)
        fault = world.chaos.draw("handler")
        if fault is not None:
            world.note_fault(fault, f"{ctx.node} attempt {ctx.attempt}")
        seconds = random.random() ** 3 * world.plan.handler_seconds
        await asyncio.sleep(seconds)
        if random.random() < 0.1:
            ctx.heartbeat()
            await ctx.checkpoint({"at": ctx.attempt})
        match fault:
            case "raise":
                raise Broken(f"{ctx.node} broke")
            case "abort":
                raise Abort("no use")
            case "not_done":
                raise NotDone("never connected")
            case "retry_later":
                raise RetryLater("busy", after=random.choice((0, 1, 20)))
            case "hang":
                await world.wait_for_healing()
            case "slow":
                await asyncio.sleep(random.random() * 60)
            case "stubborn":
                end = loop.time() + random.random() * 20
                while loop.time() < end:
                    try:
                        await asyncio.sleep(end - loop.time())
                    except asyncio.CancelledError:
                        continue  # as code that swallows everything does
            case "huge":
                return {"ok": True, "n": 1, "text": "x" * (10_000_000 if random.random() < 0.01 else 50_000)}
            case "garbage":
                return random.choice((object(), float("nan"), {1: {2, 3}, "k": object()}, "\ud800", [[]], None, 7, {}))
            case "cancel_itself":
                raise asyncio.CancelledError
        world.checks.promises.finished(ctx._task)
        return self._output(ctx)

    def _output(self, ctx: Any) -> Any:
        random = self._world.random
        output = {"ok": random.random() < 0.5, "n": random.randrange(10), "items": [1] * random.randrange(3)}
        available = self._world.available(ctx.run_id, ctx.node) if ctx.item is None else None
        if available is None:
            return output
        chosen = [name for name in available if random.random() < 0.5]
        if random.random() < 0.05 and not self._world.chaos.healed:
            chosen.append("nowhere")
        return Chosen(output, tuple(chosen), "because")
