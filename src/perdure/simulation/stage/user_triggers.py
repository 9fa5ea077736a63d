"""A user's trigger in a calm world: its moments come in virtual time, or what a test pushes comes when it says.

Time ends at `until`: the trigger is paused then, and runs that are open go on to their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.commands import Delivered
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.kernel.values import Error
from perdure.model import ir as irs
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.schedules import policy_of, spec_of
from perdure.runtime.triggers import trigger_id
from perdure.simulation.clock import EPOCH
from perdure.simulation.history_checks import Failed
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.stage.people import People
from perdure.simulation.stage.user_stage import Setting
from perdure.simulation.stage.user_world import UserWorld, calm_plan
from perdure.triggers.mapping import Filtered, Poison, facts_of_item, map_item

MOST_EVENTS = 20_000
BEFORE_SECONDS = 0.75
"""How long before its end time stops: after the last whole second before it, and before itself."""


class Pushed(msgspec.Struct, frozen=True):
    """An item that is pushed `at` seconds after the start. `id` is what its sender calls it."""

    item: Any
    id: str = ""
    at: float = 0.0


class TriggerPeople(People):
    """A person applies the trigger, pushes items and stops it in the end."""

    _world: TriggerStage

    async def run(self) -> None:
        world, trigger = self._world, self._world.trigger
        await self._must(Request(kind="start", run_id=world.trigger_id, ir=TRIGGER.hash, workflow_version=0))
        fields = {"name": trigger.name, "kind": trigger.kind, "spec": spec_of(trigger)}
        await self._must(world.about("register", {**fields, "policy": msgspec.to_builtins(policy_of(trigger))}))
        for number, pushed in enumerate(world.pushes):
            self._push(number, pushed)
        if world.until is not None:
            left = world.until - BEFORE_SECONDS - world.clock.now()
            self._plan(left, [Request(kind="pause", run_id=world.trigger_id, by="test")])
        world.begun = True

    async def _must(self, request: Request) -> None:
        reply = await self._ask(request)
        if reply is None or reply.refused:
            said = "no answer" if reply is None else reply.message
            self._world.fail(Failed("script", f"trigger {self._world.trigger.name}: {said}"))

    def _push(self, number: int, pushed: Pushed) -> None:
        world = self._world
        facts = facts_of_item(world.clock.now() + pushed.at)
        found = map_item(world.trigger, pushed.item, facts, id=pushed.id)
        if isinstance(found, Filtered):
            world.filtered.append(pushed.item)
            return
        if isinstance(found, Poison):
            error = Error("unmapped", f"{found.part}: {found.message}"[:1000])
            item = Delivered(id=pushed.id or f"pushed{number}", inputs=pushed.item, error=error)
        else:
            given = pushed.item if found.inputs is None else found.inputs  # a window is mapped when it closes
            item = Delivered(id=found.id or f"pushed{number}", key=found.key, inputs=given)
        fields = {"items": [msgspec.to_builtins(item)], "revision": 1}
        self._plan(pushed.at, [world.about("deliver", fields)])


class TriggerStage(UserWorld):
    most_events = MOST_EVENTS

    def __init__(
        self,
        setting: Setting,
        trigger: Trigger,
        *,
        since: float = EPOCH,
        until: float | None = None,
        pushes: Sequence[Pushed] = (),
        seed: int = 0,
    ) -> None:
        plan = msgspec.structs.replace(calm_plan(setting, seed), runs=0, inputs=[])
        super().__init__(setting, plan, tracing=True)
        self.trigger = trigger
        self.trigger_id = trigger_id("default", trigger.name)
        self.until = until
        self.pushes = pushes
        self.filtered: list[Any] = []
        self.begun = False
        self.begins_at = since
        self.loop.ahead = since - EPOCH
        self.library[TRIGGER.hash] = TRIGGER
        self.people = self.users = TriggerPeople(self, setting.stubs, ())

    def trace(self, kind: str, text: str, body: bytes = b"") -> None:
        super().trace(kind, text, body)
        if self.lines:
            at, what, said = self.lines[-1]
            self.lines[-1] = (at, what, said.replace(self.trigger_id, self.trigger.name))

    def about(self, name: str, data: dict[str, Any]) -> Request:
        return Request(kind="mailbox", run_id=self.trigger_id, name=name, data=data, by="test")

    @property
    def mailbox(self) -> Mailbox:
        return self.checks.fold(self.trigger_id).triggers[NODE]

    def events(self) -> list[e.Event]:
        """What the trigger wrote, until it was stopped."""
        found: list[e.Event] = [e.decode(stored.body) for stored in self.store.events[self.trigger_id]]
        return found if self.until is None else [event for event in found if event.at < self.until]

    async def _register(self) -> None:
        await super()._register()
        await MemoryJournal(self.store, clock=self.clock).put_definition(TRIGGER.hash, "ir", irs.encode(TRIGGER))

    def _is_over(self) -> bool:
        if not self.begun or self.people.busy or self.people.next_at() is not None or self.store.notices:
            return False
        if self.until is None and self.mailbox.waiting:
            return False
        return all(run.row.ended_at is not None for name, run in self.store.runs.items() if name != self.trigger_id)

    def _upcoming(self) -> float | None:
        """When the next thing is due by itself. A trigger that was stopped is past that."""
        stopped = self.until is not None and self.clock.now() >= self.until
        times = [due for (owner, _), due in self.store.timers.items() if not (stopped and owner == self.trigger_id)]
        agenda = self.people.next_at()
        return min([*times, agenda] if agenda is not None else times, default=None)
