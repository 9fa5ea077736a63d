"""A simulated cluster with a run that has a trigger inside: a list grows or events are sent, while processes die, people interfere and the run
fails, is retried and goes on as another.

Seeds from 16,000,000 on are such histories: those below 2,000,000 once more, with this run beside the others. What it has taken is in the end
what came, each item once and in order (rule 54).
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec

from perdure.journal import Occurrence
from perdure.kernel import events as e
from perdure.kernel.values import Wait
from perdure.outcomes import Failure
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.topic_names import Sent, event_topic
from perdure.simulation.history_checks import Failed
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import INNER_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds import wait_world

RUN = "consumer"
STOP = "stop"
PAGE = 3
MOST_RETRIES = 8
_LOOK_SECONDS = 2.0
_MOST_LOOKS = 30


def consumer(source: dict[str, Any]) -> dict[str, Any]:
    """Take what comes, until that is `stop`."""
    part = "payload" if "event" in source else "data"
    loop = {"condition": f"ctx.take.output.{part} != '{STOP}'", "loop_back_to": "take", "endless": True}
    take = {"id": "take", "type": "trigger", "config": source}
    return {"name": RUN, "nodes": [take, {"id": "work", "type": "task", "dependencies": ["take"], "loop": loop}]}


class InnerWorld(World):
    topics = True
    polls = True

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self._chance = Random(f"inner {plan.seed}")
        self.polled = self._chance.random() < 0.6
        source: dict[str, Any] = (
            {"poll": {"type": "list", "from": "start"}} if self.polled else {"event": {"name": RUN}}
        )
        self.consumer = consumer({**source, "limits": {"buffer": self._chance.choice((2, 1000))}})
        self.items: list[str] = []
        """What the source has; its cursor is how many of them were read."""

    async def poll(self, config: Any, ctx: Any) -> Any:
        """Look at the list until there is something, as the handler of polls does."""
        cursor = config["cursor"]
        for _ in range(_MOST_LOOKS):
            if not self.chaos.healed and self._chance.random() < 0.1:
                raise Failure("source_failed", "the list is away")
            begin = int(cursor or 0)
            if page := self.items[begin : begin + PAGE]:
                items = [{"id": f"{begin + place}", "data": one} for place, one in enumerate(page)]
                return {"items": items, "after": cursor, "cursor": str(begin + len(page)), "more": True}
            await asyncio.sleep(_LOOK_SECONDS)
        return {"items": [], "after": cursor, "cursor": cursor or "", "more": False}

    async def _register(self) -> None:
        await super()._register()
        await self._put_workflow(self.consumer)
        self.users._call(self._push())

    async def _push(self) -> None:
        while not self.chaos.healed:
            await self._make()
            await asyncio.sleep(self._chance.random() * 5)
            if len(self.items) < 20:
                await self._grow([f"i{len(self.items) + number}" for number in range(self._chance.randint(1, 4))])

    async def _make(self) -> None:
        if RUN not in self.store.runs:
            ir, version = self.versions[RUN]
            await self.users._ask(Request(kind="start", run_id=RUN, ir=ir, workflow_version=version))

    async def _grow(self, names: list[str]) -> None:
        journal = MemoryJournal(self.store, clock=self.clock)
        for name in names:
            self.items.append(name)
            if self.polled:
                continue
            body = msgspec.json.encode(Sent(payload=name))
            happened = Occurrence(topic=event_topic(RUN), id=f"e{len(self.items)}", at=self.clock.now(), body=body)
            for _ in range(self._chance.choice((1, 1, 2))):
                await journal.put_occurrence(happened)

    async def happen(self, wait: Wait) -> None:
        """A run waits for what comes: nothing but the end is to come."""
        if wait.kind == "trigger" and not self.polled:
            await self._grow([STOP])

    async def _finish(self) -> None:
        """The list ends, and so does every run that reads it; a run that has failed is retried."""
        await self._make()
        await self._grow([*(f"j{number}" for number in range(max(0, 8 - len(self.items)))), STOP])
        for _ in range(MOST_RETRIES):
            await super()._finish()
            if RUN not in self.store.runs:
                await self._make()
                continue
            chain = self._chain()
            if self.checks.fold(chain[-1]).state.value != "failed":
                break
            await self.users._ask(Request(kind="retry", run_id=chain[-1], by="ann"))
        self._judge()

    def _chain(self) -> list[str]:
        """The run, and those that it has gone on as."""
        found = [RUN]
        while (after := self.checks.fold(found[-1]).continued_as) is not None and after in self.store.runs:
            found.append(after)
        return found

    def _judge(self) -> None:
        events = [e.decode(stored.body) for run_id in self._chain() for stored in self.store.events[run_id]]
        taken = [
            event.output["payload" if "payload" in event.output else "data"]
            for event in events
            if isinstance(event, e.NodeCompleted) and event.node == "take" and not event.adopted
        ]
        came = self._came(events)
        if taken != came[: len(taken)]:
            raise Failed("rule 54", f"{taken} was taken, and {came} came")
        ended = self.checks.fold(self._chain()[-1])
        whole = ended.state.value == "completed" and len(ended.ir_hashes) == 1
        if whole and taken[-1:] != [STOP] and not any(isinstance(event, e.NodeDiscarded) for event in events):
            raise Failed("rule 54", f"the run is over, and took {taken} of {came}")

    def _came(self, events: list[Any]) -> list[str]:
        if self.polled:
            return self.items
        begun = next((int(str(one.cursor)) for one in events if isinstance(one, e.TriggerRegistered)), 0)
        found = sorted(self.store.occurrences.values(), key=lambda one: one.position)
        return [msgspec.json.decode(one.body, type=Sent).payload for one in found if one.position > begun]


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: as before, and from some seed on one with a run that has a trigger inside."""
    if plan.seed >= INNER_FROM:
        return InnerWorld(plan, tracing=tracing)
    return wait_world.make_world(plan, tracing=tracing)
