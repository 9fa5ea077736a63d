"""A simulated cluster with a trigger: deliveries come twice, while processes die, and each item has one run in the end.

Seeds from 2,000,000 on are such histories. Runs of the plan go on beside; what is promised of them holds here too.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox, Policy, run_of_item
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.model import ir as irs
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.triggers import trigger_id
from perdure.simulation.history_checks import Failed
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import Plan
from perdure.simulation.world import World

TRIGGER_ID = trigger_id("default", "orders")
IDLE_SECONDS = 1_500.0
"""How long after healing a mailbox may take to be empty, and longer where a clock was ahead when a timer was set."""


class TriggerWorld(World):
    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        random = self._chance = Random(f"trigger {plan.seed}")
        self.ids = [f"item{number}" for number in range(random.choice((3, 8, 20)))]
        self.policy = Policy(
            workflow="child",
            overlap=random.choice(("buffer", "buffer", "allow")),
            open=random.choice((1, 2, 10)),
            per_key=random.choice((0, 1)),
        )
        self.long_mailbox = random.choice((20, 200_000))
        self.deleted = False
        """Whether a person has deleted the trigger, with what waited."""
        self.library[TRIGGER.hash] = TRIGGER

    def run(self) -> World:
        long, trigger_commands.LONG_MAILBOX = trigger_commands.LONG_MAILBOX, self.long_mailbox
        try:
            return super().run()
        finally:
            trigger_commands.LONG_MAILBOX = long

    async def _register(self) -> None:
        await super()._register()
        await MemoryJournal(self.store, clock=self.clock).put_definition(TRIGGER.hash, "ir", irs.encode(TRIGGER))
        self.users._call(self._push())

    async def _push(self) -> None:
        """Register the trigger and deliver items, each once or more, as long as there are faults."""
        while not self.chaos.healed:
            await self._make()
            await asyncio.sleep(self._chance.random() * 5)
            await self._deliver(self._chance.sample(self.ids, self._chance.randint(1, min(3, len(self.ids)))))

    async def _make(self) -> None:
        if TRIGGER_ID not in self.store.runs:
            await self.users._ask(Request(kind="start", run_id=TRIGGER_ID, ir=TRIGGER.hash, workflow_version=0))
        fields = {"name": "orders", "kind": "webhook", "policy": msgspec.to_builtins(self.policy)}
        await self._ask("register", fields)

    async def _deliver(self, ids: list[str]) -> None:
        items = [{"id": one, "key": one[-1], "inputs": {"flag": True, "list": [1]}} for one in ids]
        await self._ask("deliver", {"items": items, "revision": 1})

    async def _ask(self, name: str, data: dict[str, Any]) -> Any:
        return await self.users._ask(Request(kind="mailbox", run_id=self._head(), name=name, data=data))

    def _head(self) -> str:
        """The run that the trigger is now, or is about to be."""
        head = TRIGGER_ID
        while head in self.store.runs and (after := self.checks.fold(head).continued_as) is not None:
            head = after
        return head

    async def _finish(self) -> None:
        begun = self.loop.time()
        while not await self._is_idle():
            if self.loop.time() - begun > IDLE_SECONDS + self.furthest_ahead:
                box = self.checks.fold(self._head()).triggers.get(NODE)
                raise Failed("TG10", f"the mailbox is not empty: {box}")
        await super()._finish()
        for one in self.ids:
            if run_of_item(TRIGGER_ID, one) not in self.store.runs:
                raise Failed("TG3", f"{one} was delivered, and has no run")

    async def _is_idle(self) -> bool:
        """Deliver everything once more, help what is open; when all of it has ended, delete the trigger."""
        await self._wait(5.0)
        if self.users.unstarted:
            await self.users.start_rest()
        await self._make()
        await self._deliver(self.ids)
        for run_id in [one for one in self.store.runs if self.is_open(one)]:
            await self.users.help(run_id)
        head = self._head()
        if head not in self.store.runs:
            return False
        state = self.checks.fold(head)
        if state.terminal:  # by a request of the time of faults, which may be answered after it
            if not self._was_deleted(head):
                raise Failed("TG10", f"the trigger is {state.state}, and nobody has deleted it: {state.error}")
            self.deleted, self.ids = True, []
            return True
        box = state.triggers.get(NODE)
        if box is None or box.waiting or box.open or self._unheard() or not self._is_read(box):
            return False
        await self.users._ask(Request(kind="cancel", run_id=head, by="ann"))
        return True

    def _was_deleted(self, head: str) -> bool:
        """Whether a person has ended the trigger: cancelled it, or discarded the poll that it was parked with."""
        events = (e.decode(stored.body) for stored in self.store.events[head])
        return any(isinstance(event, e.RunCancelling | e.RunCancelled | e.NodeDiscarded) for event in events)

    def _is_read(self, box: Mailbox) -> bool:
        """Whether everything has come in."""
        return box.position >= len(self.ids)
