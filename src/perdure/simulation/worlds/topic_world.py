"""A simulated cluster with a trigger that listens: events are sent, some twice, while processes die, and each has one run in the end.

Seeds from 12,000,000 on are such histories: the first ones once more, with this trigger instead of pushes.
"""

from __future__ import annotations

import asyncio

import msgspec

from perdure.journal import Occurrence
from perdure.kernel import events as e
from perdure.kernel.triggers.mailbox import Mailbox, run_of_item
from perdure.kernel.triggers.trigger_run import TRIGGER
from perdure.model.trigger_sources import Event
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.schedules import spec_of
from perdure.runtime.coordinator.triggers.topic_names import Sent, event_topic
from perdure.simulation.history_checks import Failed
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import TOPICS_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds import money_world
from perdure.simulation.worlds.trigger_world import TRIGGER_ID, TriggerWorld

TOPIC = event_topic("paid")


class TopicWorld(TriggerWorld):
    topics = True

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        self.policy = msgspec.structs.replace(self.policy, buffer=self._chance.choice((2, 1000)))
        inputs = {"flag": True, "list": [1]}
        self.trigger = Trigger(
            name="orders",
            workflow="child",
            source=Event("paid"),
            inputs=inputs,
            overlap=self.policy.overlap,
            key="{{ item.key }}",
        )

    async def _push(self) -> None:
        """Register the trigger, send events, and now and then pause it, as long as there are faults."""
        while not self.chaos.healed:
            await self._make()
            await asyncio.sleep(self._chance.random() * 5)
            await self._deliver(self._chance.sample(self.ids, self._chance.randint(1, min(3, len(self.ids)))))
            if self._chance.random() < 0.2:
                await self.users._ask(Request(kind="pause", run_id=self._head(), by="ann"))
                await asyncio.sleep(self._chance.random() * 5)
                await self.users._ask(Request(kind="resume", run_id=self._head(), by="ann"))

    async def _make(self) -> None:
        if TRIGGER_ID not in self.store.runs:
            await self.users._ask(Request(kind="start", run_id=TRIGGER_ID, ir=TRIGGER.hash, workflow_version=0))
        last = await MemoryJournal(self.store, clock=self.clock).last_occurrence()
        fields = {"name": "orders", "kind": "event", "policy": msgspec.to_builtins(self.policy), "topic": TOPIC}
        await self._ask("register", {**fields, "spec": spec_of(self.trigger), "cursor": str(last)})

    async def _deliver(self, ids: list[str]) -> None:
        journal = MemoryJournal(self.store, clock=self.clock)
        for one in ids:
            body = msgspec.json.encode(Sent(payload={"id": one}))
            happened = Occurrence(topic=TOPIC, id=one, key=one[-1], at=self.clock.now(), body=body)
            await journal.put_occurrence(happened)

    async def _finish(self) -> None:
        ids, self.ids = self.ids, []
        await self._deliver(ids)
        await super()._finish()
        begun = self._find_begin()
        for one in self.store.occurrences.values():
            if begun is not None and one.position > begun and run_of_item(TRIGGER_ID, one.id) not in self.store.runs:
                raise Failed("TG3", f"{one.id} has happened behind {begun}, and has no run")

    def _find_begin(self) -> int | None:
        """The position that the trigger reads behind since it was registered; none, if it was deleted with what waited."""
        if self.deleted:
            return None
        for stored in self.store.events.get(TRIGGER_ID, ()):
            event = e.decode(stored.body)
            if isinstance(event, e.TriggerRegistered):
                return int(str(event.cursor))
        return None

    async def _is_idle(self) -> bool:
        head = self._head()
        if head in self.store.runs and self.checks.fold(head).state.value == "paused":
            await self.users._ask(Request(kind="resume", run_id=head, by="ann"))
        return await super()._is_idle()

    def _is_read(self, box: Mailbox) -> bool:
        return int(str(box.cursor)) >= max(self.store.occurrences, default=0)


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: as before, and from some seed on one with a trigger that listens."""
    if plan.seed >= TOPICS_FROM:
        return TopicWorld(plan, tracing=tracing)
    return money_world.make_world(plan, tracing=tracing)
