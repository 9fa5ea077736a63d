"""A simulated cluster whose handlers ask: for people, children, times, signals and patches, in rounds, while processes die.

Seeds from 6,000,000 on are such histories, those from 7,000,000 on with several coordinators. What a handler asks for
depends on its key alone, so that each attempt asks the same; what it was answered it must find again (V9).
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from perdure.agents.run_patches import Palette
from perdure.asks import Approval, Ask, Child, Patch, Signal, Sleep
from perdure.simulation.handlers import Handlers
from perdure.simulation.plan import Plan
from perdure.simulation.world import World

PALETTE = Palette(("transform",), 2)


class AskingHandlers(Handlers):
    palette = staticmethod(lambda config: PALETTE)

    def __init__(self, world: AskWorld) -> None:
        super().__init__(world)
        self._asking = world

    async def handle(self, config: Any, ctx: Any) -> Any:
        """Play a handler that asks, and then does what any other does."""
        task = ctx._task
        if not task.undo and task.effect != "at_most_once":
            await self._ask(ctx)
        return await super().handle(config, ctx)

    async def _ask(self, ctx: Any) -> None:
        world = self._asking
        random = Random(f"asks {world.plan.seed} {ctx.idempotency_key}")
        for turn in range(random.choice((0, 0, 1, 1, 2))):
            asks = {f"t{turn}.{number}": self._choose(random, ctx) for number in range(random.choice((1, 1, 2, 3)))}
            world.look(ctx, asks)
            await ctx.ask(asks)

    def _choose(self, random: Random, ctx: Any) -> Ask:
        match random.randrange(5):
            case 0:
                policy: Any = random.choice(("reject", "approve", "fail", "escalate"))
                seconds = random.choice((None, 5.0, 60.0))
                return Approval(
                    show={"n": 1},
                    approvers=["ann", "bob"],
                    on_timeout=policy,
                    timeout_seconds=seconds,
                    escalate_to=["eve"],
                )
            case 1 if ":" not in ctx.run_id:
                return Child("child", {"flag": random.random() < 0.5, "list": [1]})
            case 2 | 3 if random.random() < 0.6:
                return Patch(self._operations(random, ctx), "more to do")
            case 2:
                return Signal(random.choice(("go", "stop")), random.choice((None, 5.0, 60.0)))
            case _:
                return Sleep(random.choice((0.0, 1.0, 20.0)))

    def _operations(self, random: Random, ctx: Any) -> list[Any]:
        """Additions that are mostly allowed: some lead to nodes that are there, or begin at them, or are nothing at all."""
        name = f"x{random.getrandbits(24):06x}"
        node = {
            "id": name,
            "type": "transform",
            "config": {"value": random.choice((1, "{{ inputs }}", "{{ nowhere }}"))},
        }
        ends = [(ctx.node, name)]
        other = random.choice(sorted(self._asking.nodes_of(ctx.run_id)))
        match random.randrange(6):
            case 0:
                ends.append((name, other))
            case 1:
                ends = [(other, name)]
            case 2:
                ends = []
            case 3:
                node["type"] = "human"
            case _:
                ends += [(name, one) for one in self._asking.available(ctx.run_id, ctx.node) or ()][:1]
        edges = [{"op": "add", "path": "/edges/-", "value": {"from": source, "to": to}} for source, to in ends]
        return [{"op": "add", "path": "/nodes/-", "value": node}, *edges]


class AskWorld(World):
    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.handlers = AskingHandlers(self)
        self.registry = self.handlers.registry()
        self._answers: dict[tuple[str, str], tuple[bytes, tuple[int, int]]] = {}
        """What handlers were given as the answer, and the first attempt that was, by idempotency key and name."""

    def nodes_of(self, run_id: str) -> set[str]:
        """The nodes that the run began with: what a handler asks for must not depend on when it is asked."""
        return set(self.checks.checkers[run_id].model.graphs[0].nodes)

    def look(self, ctx: Any, asks: dict[str, Ask]) -> None:
        """V9: what was answered stays answered, and with the same, over all attempts and generations.

        A task of an earlier attempt that comes late was made before the answer: it asks again, and nobody listens.
        """
        if self.rolled_back:
            return
        now = (ctx._task.generation, ctx._task.attempt)
        for name in asks:
            found = msgspec.json.encode(ctx._steps[name], order="deterministic") if name in ctx._steps else b""
            before, since = self._answers.get((ctx.idempotency_key, name), (found, now))
            if before != found and (found or now >= since):
                self.checks.fail("V9", f"{ctx._task.task_id} asks for {name} again, or has another answer: {found!r}")
            if found:
                self._answers[ctx.idempotency_key, name] = (before, min(now, since))
                self.checks.answers += 1
