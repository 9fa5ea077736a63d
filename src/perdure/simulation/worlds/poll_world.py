"""A simulated cluster with a trigger that polls: a list grows, is read by pollers that die, hang and come back, and is rewound at any moment.

Seeds from 4,000,000 on are such histories: those before once more, with this trigger instead of pushes. In the end each item of the list has one run.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.model.trigger_sources import Poll
from perdure.model.triggers import Trigger
from perdure.outcomes import Failure
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.poll_tasks import names_of
from perdure.runtime.coordinator.triggers.schedules import spec_of
from perdure.simulation.history_checks import Failed
from perdure.simulation.plan import ASKS_FROM, POLLS_FROM, TRIGGERS_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds.ask_world import AskWorld
from perdure.simulation.worlds.trigger_world import TRIGGER_ID, TriggerWorld

PAGE = 3
_LOOK_SECONDS = 2.0
_MOST_LOOKS = 30
"""After so many an idle poll ends: it may be one that the journal has not asked for, since a backup was restored."""


class PollWorld(TriggerWorld):
    polls = True

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        inputs = {"flag": True, "list": [1]}
        self.trigger = Trigger(
            name="orders", workflow="child", source=Poll("list"), inputs=inputs, overlap=self.policy.overlap
        )
        self.items: list[str] = []
        """What the source has; its cursor is how many of them were read."""

    async def poll(self, config: Any, ctx: Any) -> Any:
        """Look at the list until there is something, as the handler of polls does."""
        cursor = config["cursor"]
        for _ in range(_MOST_LOOKS):
            if not self.chaos.healed and self._chance.random() < 0.1:
                raise Failure("source_failed", "the list is away")
            begin = int(cursor or 0)
            page = self.items[begin : begin + PAGE]
            if page:
                items = [{"id": one, "data": None} for one in page]
                return {"items": items, "after": cursor, "cursor": str(begin + len(page)), "more": True}
            await asyncio.sleep(_LOOK_SECONDS)
        return {"items": [], "after": cursor, "cursor": cursor or "", "more": False}

    async def _push(self) -> None:
        """Register the trigger, let the list grow, and rewind, as long as there are faults."""
        while not self.chaos.healed:
            await self._make()
            await asyncio.sleep(self._chance.random() * 5)
            grown = self._chance.randint(1, 4) if len(self.items) < len(self.ids) else 0
            self.items += [f"item{number}" for number in range(len(self.items), len(self.items) + grown)]
            if self._chance.random() < 0.3:
                to = self._chance.randint(0, len(self.items))
                await self._ask("rewind", {"cursor": str(min(to, self._read())), "reason": "a test"})

    def _read(self) -> int:
        """How far the list was read, as the journal says: a rewind must not pass anything over."""
        head = self._head()
        box = self.checks.fold(head).triggers.get(NODE) if head in self.store.runs else None
        return 0 if box is None or not isinstance(box.cursor, str) else int(box.cursor)

    async def _make(self) -> None:
        if TRIGGER_ID not in self.store.runs:
            await self.users._ask(Request(kind="start", run_id=TRIGGER_ID, ir=TRIGGER.hash, workflow_version=0))
        source, manner = names_of(self.trigger)
        fields = {"name": "orders", "kind": "poll", "policy": msgspec.to_builtins(self.policy)}
        await self._ask("register", {**fields, "spec": spec_of(self.trigger), "source": source, "manner": manner})

    async def _finish(self) -> None:
        self.ids = list(self.items)
        await super()._finish()

    async def _deliver(self, ids: list[str]) -> None:
        """Nothing is pushed."""

    def _is_read(self, box: Any) -> bool:
        if int(box.cursor or 0) > len(self.items):
            raise Failed("TG2", f"the cursor {box.cursor} is beyond the list of {len(self.items)}")
        return int(box.cursor or 0) == len(self.items)


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: from some seed on, one with a trigger, later one that polls, and then one whose handlers ask."""
    if plan.seed >= ASKS_FROM:
        return AskWorld(plan, tracing=tracing)
    if plan.seed >= POLLS_FROM:
        return PollWorld(plan, tracing=tracing)
    kind = TriggerWorld if plan.seed >= TRIGGERS_FROM else World
    return kind(plan, tracing=tracing)
