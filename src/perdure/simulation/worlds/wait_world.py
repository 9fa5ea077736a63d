"""A simulated cluster whose runs wait for events: these come before the wait, during it or late, some twice, while processes die.

Seeds from 14,000,000 on are such histories: those of several coordinators once more, with events instead of signals. None is missed: an event is sent to a
run that waits only if there is none that it could take, so a run that has missed one stands still in the end (R2).
"""

from __future__ import annotations

import asyncio
import copy
from random import Random
from typing import Any

import msgspec

from perdure.journal import Occurrence
from perdure.kernel import events as e
from perdure.kernel.values import Wait
from perdure.runtime.coordinator.triggers.topic_names import Sent, event_topic
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import WAITS_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds import topic_world

NAMES = ("go", "stop")


class WaitWorld(World):
    topics = True

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        self._events = Random(f"events {plan.seed}")
        self._sent = 0
        workflows = [_listening(one, self._events) for one in plan.workflows]
        super().__init__(msgspec.structs.replace(plan, workflows=workflows), tracing=tracing)

    def note_created(self, run_id: str, event: e.RunCreated) -> None:
        super().note_created(run_id, event)
        if not self.chaos.healed:
            self.loop.run_in(self.loop.world, self._send_some(run_id), "events")

    async def _send_some(self, run_id: str) -> None:
        """Events for a run, of which it may take the first ones before it waits for them."""
        for _ in range(self._events.choice((0, 1, 1, 3))):
            await asyncio.sleep(self._events.random() ** 3 * 20)
            await self._send(self._events.choice(NAMES), run_id, self._events.choice((1, 1, 5)))

    async def happen(self, wait: Wait) -> None:
        journal = MemoryJournal(self.store, clock=self.clock)
        found = await journal.read_occurrences(
            "default", event_topic(wait.name), key=wait.key or None, after=wait.since, since=wait.since_at
        )
        if not any(_payload(one) > 3 or not wait.match for one in found):
            await self._send(wait.name, wait.key, 5)

    async def _send(self, name: str, key: str, payload: int) -> None:
        self._sent += 1
        self.trace("user", f"event {name} {self._sent} for {key}: {payload}")
        body = msgspec.json.encode(Sent(payload={"n": payload, "ok": True}))
        happened = Occurrence(topic=event_topic(name), id=f"e{self._sent}", key=key, at=self.clock.now(), body=body)
        journal = MemoryJournal(self.store, clock=self.clock)
        for _ in range(self._events.choice((1, 1, 2))):
            await journal.put_occurrence(happened)


def _payload(one: Occurrence) -> int:
    payload = msgspec.json.decode(one.body, type=Sent).payload
    return int(payload["n"])


def _listening(definition: dict[str, Any], random: Random) -> dict[str, Any]:
    """The workflow with waits for events, instead of those for signals and times, and of steps that only pass something on."""
    definition = copy.deepcopy(definition)
    for node in definition["nodes"]:
        config = node.get("config", {})
        if node.get("type") in ("wait", "transform"):
            config = {name: value for name, value in config.items() if name == "seconds" and random.random() < 0.3}
            config |= {"event": random.choice(NAMES), "key": "{{ run.id }}"}
            node |= {"type": "wait", "config": config}
            if random.random() < 0.3:
                config |= {"match": "event.n > given", "given": 3}
            if random.random() < 0.1:
                config["since"] = "now"
    return definition


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: as before, and from some seed on one whose runs wait for events."""
    if plan.seed >= WAITS_FROM:
        return WaitWorld(plan, tracing=tracing)
    return topic_world.make_world(plan, tracing=tracing)
