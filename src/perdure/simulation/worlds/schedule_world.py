"""A simulated cluster with a schedule, or with items that are put together: seeds from 8,000,000 on.

People change the trigger, pause it, fire it and fill in its past while processes die, clocks jump and the journal goes back. In the end every
moment is accounted for, and what was started has its run.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.triggers.mailbox import Mailbox, sort, strip
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.model.triggers import Trigger
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.runtime.coordinator.triggers.schedules import policy_of, spec_of
from perdure.simulation.history_checks import Failed
from perdure.simulation.plan import SCHEDULES_FROM, Plan
from perdure.simulation.world import World
from perdure.simulation.worlds import poll_world
from perdure.simulation.worlds.trigger_world import IDLE_SECONDS, TRIGGER_ID, TriggerWorld
from perdure.triggers.declarations import read_data

OVERLAPS = ("skip", "buffer_one", "buffer", "cancel", "terminate", "allow")
SECRET = {"verify": {"scheme": "bearer", "secret": "S"}}
INPUTS = {"flag": True, "list": [1]}


class ScheduleWorld(TriggerWorld):
    sweeps = True

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(plan, tracing=tracing)
        random = self._chance
        self.scheduled = random.random() < 0.6
        self.variants = [self._draw(number) for number in range(3)]
        self.calm = self._declare(schedule={"every": "1d"}) if self.scheduled else self.variants[0]
        """What the trigger becomes when the time of faults is over: nothing comes of itself."""
        self._fired = 0
        self._runs_of: dict[str, str] = {}
        """Each item that has had a run, in whichever past of the journal, and the run."""

    def _declare(self, **keys: Any) -> Trigger:
        (trigger,) = read_data({"name": "orders", "workflow": "child", "inputs": INPUTS, **keys}, 0.0).get_triggers()
        return trigger

    def _draw(self, number: int) -> Trigger:
        random = self._chance
        limits: dict[str, Any] = {"open": random.choice((1, 1, 2, 5)), "buffer": random.choice((3, 1000))}
        if random.random() < 0.3:
            limits["rate"] = {"limit": random.choice((1, 3)), "per": random.choice((1, 20))}
        if not self.scheduled:
            how: dict[str, Any] = {"batch": {"items": random.choice((2, 3, 50)), "within": random.choice((1, 15))}}
            if random.random() < 0.5:
                keep = random.choice(("all", "all", "last"))
                how = {"debounce": {"quiet": random.choice((1, 8)), "at_most": 30, "keep": keep}}
            limits["buffer"] = 1000
            return self._declare(webhook=SECRET, key="{{ item.key }}", limits=limits, description=f"{number}", **how)
        schedule: dict[str, Any] = {"every": random.choice((2, 5, 11, 30))}
        if random.random() < 0.3:
            schedule["jitter"] = 1
        catchup = {"mode": random.choice(("none", "latest", "all")), "within": random.choice((20, 86_400))}
        return self._declare(schedule=schedule, overlap=random.choice(OVERLAPS), catchup=catchup, limits=limits)

    # -- in the time of faults -----------------------------------------------------------------------------------------

    async def _push(self) -> None:
        random = self._chance
        while not self.chaos.healed:
            await self._make()
            await asyncio.sleep(random.random() * 6)
            for _ in range(random.choice((0, 1, 1, 2))):
                await self._do_something()

    async def _do_something(self) -> None:
        random, box = self._chance, self._box()
        if box is None:
            return
        if not self.scheduled and random.random() < 0.7:
            await self._deliver(random.sample(self.ids, random.randint(1, min(3, len(self.ids)))))
            return
        match random.choice(("fire", "fire", "change", "pause", "resume", "resume", "backfill")):
            case "fire":
                self._fired += random.random() < 0.8
                fields = {"firing": f"f{self._fired}", "revision": box.revision, "inputs": INPUTS}
                await self._ask("fire", {**fields, "overlap": random.choice((None, "buffer", "allow"))})
            case "change":
                await self._register_as(random.choice(self.variants))
            case "pause":
                await self.users._ask(Request(kind="pause", run_id=self._head(), by="ann"))
            case "resume":
                await self.users._ask(Request(kind="resume", run_id=self._head(), by="ann"))
            case _ if isinstance(box.cursor, float):
                until = box.cursor - random.choice((0.0, 10.0))
                fields = {"since": until - random.choice((5.0, 60.0)), "until": until}
                await self._ask("backfill", {**fields, "again": random.random() < 0.2, "open": random.choice((1, 3))})
            case _:
                pass

    def _box(self) -> Mailbox | None:
        head = self._head()
        return self.checks.fold(head).triggers.get(NODE) if head in self.store.runs else None

    async def _make(self) -> None:
        """Make the trigger if it is not there: the journal may have gone back before its beginning."""
        if TRIGGER_ID not in self.store.runs:
            await self.users._ask(Request(kind="start", run_id=TRIGGER_ID, ir=TRIGGER.hash, workflow_version=0))
        if self._box() is None:
            await self._register_as(self.variants[0])

    async def _register_as(self, trigger: Trigger) -> Reply | None:
        fields = {"name": "orders", "kind": trigger.kind, "spec": spec_of(trigger)}
        found: Reply | None = await self._ask("register", {**fields, "policy": msgspec.to_builtins(policy_of(trigger))})
        return found

    async def _deliver(self, ids: list[str]) -> None:
        box = self._box()
        if box is not None and not self.scheduled:
            items = [{"id": one, "key": one[-1], "inputs": {"n": one}} for one in ids]
            await self._ask("deliver", {"items": items, "revision": box.revision})

    # -- as it happens -------------------------------------------------------------------------------------------------

    def note_created(self, run_id: str, event: e.RunCreated) -> None:
        """TG4 over all that the journal ever was, TG12: an item has one run, and that has the tenant of its trigger."""
        if event.trigger is None or "~2" in run_id or "~w" in run_id:  # what is in a window may come to be in another
            return
        item = f"{event.tags['trigger_item']} {run_id.partition('.')[2]}"
        if self._runs_of.setdefault(item, run_id) != run_id:
            self.checks.fail("TG4", f"item {item} has two runs: {self._runs_of[item]} and {run_id}")
        if event.tenant != "default":
            self.checks.fail("TG12", f"run {run_id} is of tenant {event.tenant}")

    # -- in the end ----------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        begun = self.loop.time()
        while not await self._is_idle():
            if self.loop.time() - begun > IDLE_SECONDS + self.furthest_ahead:
                raise Failed("TG10", f"the mailbox is not empty: {self._box()}")
        await World._finish(self)
        journal = self._read_chain()
        self._judge_starts(journal)
        judge_fates(journal)
        if self.scheduled:
            judge_moments(journal)
        for one in self.ids:
            if not self.scheduled and not any(one in ids for ids in _ids_received(journal)):
                raise Failed("TG10", f"{one} was delivered, and was not received")

    async def _is_idle(self) -> bool:
        await self._wait(5.0)
        if self.users.unstarted:
            await self.users.start_rest()
        await self._make()
        head = self._head()
        if head not in self.store.runs:
            return False
        state = self.checks.fold(head)
        if state.terminal:  # it was deleted in the time of faults, with what waited
            self.ids = []
            return True
        if self._box() is None or state.state.value == "paused":
            await self.users._ask(Request(kind="resume", run_id=head, by="ann"))
            return False
        await self._register_as(self.calm)
        await self._deliver(self.ids)
        for run_id in [one for one in self.store.runs if self.is_open(one)]:
            await self.users.help(run_id)
        box = self._box()
        if box is None or box.waiting or box.open or self._unheard() or not self._is_calm(box):
            return False
        if self._head() != head:  # it has gone on as another run meanwhile
            return False
        if any(lane.cursor < lane.until for lane in box.lanes.values()):
            return False
        await self.users._ask(Request(kind="cancel", run_id=head, by="ann"))
        return True

    def _is_calm(self, box: Mailbox) -> bool:
        return msgspec.json.encode(box.spec) == msgspec.json.encode(spec_of(self.calm))

    def _read_chain(self) -> list[Any]:
        """The events of all runs that the trigger was, one after the other."""
        found: list[Any] = []
        head: str | None = TRIGGER_ID
        before: Mailbox | None = None
        while head is not None and head in self.store.runs:
            events = [e.decode(stored.body) for stored in self.store.events[head]]
            carried = [event.mailbox for event in events if isinstance(event, e.TriggerCarried)]
            if before is not None and carried != [strip(sort(before))]:
                raise Failed("TG1", f"{head} does not have the mailbox that the run before it had")
            found += events
            state = self.checks.fold(head)
            before, head = state.triggers.get(NODE), state.continued_as
        return found

    def _judge_starts(self, journal: list[Any]) -> None:
        """TG3: what was started has its run, and none is given up that could have been made."""
        lost = {end.run_id: end.state for one in journal if isinstance(one, e.TriggerEnded) for end in one.ends}
        for event in journal:
            for begun in event.starts if isinstance(event, e.TriggerStarted) else ():
                if begun.run_id not in self.store.runs or lost.get(begun.run_id) == "lost":
                    raise Failed("TG3", f"{begun.run_id} was started, and is {lost.get(begun.run_id, 'not there')}")


def _ids_received(journal: list[Any]) -> list[set[str]]:
    return [{item.id for item in one.items} for one in journal if isinstance(one, e.TriggerReceived)]


def judge_fates(journal: list[Any]) -> None:
    """TG1 over the whole chain: nothing that was received is forgotten where the trigger goes on as a new run."""
    received: set[int] = set()
    decided: set[int] = set()
    for event in journal:
        match event:
            case e.TriggerReceived():
                received |= {item.number for item in event.items}
            case e.TriggerSkipped():
                decided |= set(event.numbers)
            case e.TriggerStarted():
                decided |= {number for begun in event.starts for number in begun.numbers}
            case e.TriggerParked():
                decided.add(event.number)
            case _:
                pass
    if received != decided:
        raise Failed("TG1", f"items {sorted(received ^ decided)} were received, and have no fate")


def judge_moments(journal: list[Any]) -> None:
    """TG7: every moment that the cursor passed came in or is counted as skipped, by what `every` says."""
    every, expected, seen, left = 1.0, 0, 0, 0
    for event in journal:
        match event:
            case e.TriggerRegistered():
                every = float(event.spec["source"]["every"])
            case e.TriggerCarried():
                every = float(event.mailbox.spec["source"]["every"])
            case e.TriggerSkipped(lane=0, count=count) if count:
                left += count
            case (
                e.TriggerReceived(lane=0, after=after, cursor=cursor)
                | e.TriggerAdvanced(lane=0, after=after, cursor=cursor)
            ) if after != cursor:
                assert isinstance(cursor, float)
                assert isinstance(after, float)
                expected += int(cursor // every - after // every)
                seen += len(getattr(event, "items", ()))
                if expected != seen + left:
                    passed = f"{seen} came in and {left} were left out up to {cursor}"
                    raise Failed("TG7", f"{expected} moments have passed; {passed}")
            case _:
                pass


def make_world(plan: Plan, *, tracing: bool = False) -> World:
    """The world of a plan: from some seed on, one with a trigger, later one that polls, and later one with a schedule."""
    if plan.seed >= SCHEDULES_FROM:
        return ScheduleWorld(plan, tracing=tracing)
    return poll_world.make_world(plan, tracing=tracing)
