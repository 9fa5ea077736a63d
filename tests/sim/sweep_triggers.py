"""One fault at a time, as `sweep.py` has it, where triggers start the runs: a schedule, a webhook, a source that is polled, and the end of a run.

`python -m tests.sim.sweep_triggers [NAME]` shows it; `test_sweep.py` is the same in CI. Whatever fails once, the same runs are started, each
once, and nothing is left in the mailbox.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.triggers import trigger_commands
from perdure.kernel.triggers.mailbox import Mailbox
from perdure.kernel.triggers.trigger_run import NODE, TRIGGER
from perdure.model import ir as irs
from perdure.runtime.coordinator.heard import topic_of
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.coordinator.triggers.poll_tasks import POLLED, names_of
from perdure.runtime.coordinator.triggers.schedules import policy_of, spec_of
from perdure.simulation.clock import EPOCH
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.worlds.schedule_world import judge_fates
from perdure.simulation.worlds.trigger_world import TRIGGER_ID
from perdure.triggers.declarations import read_data
from tests.sim.sweep import LARGE, Swept, main
from tests.sim.workflows import Reference, task

PAGE = 2
LONG = 8
"""The events after which a trigger of these goes on as a new run."""
FIRST = EPOCH + 60.0
"""The first moment, at which the trigger is registered whatever went wrong."""


class Triggered(Reference, frozen=True, kw_only=True):
    trigger: dict[str, Any]
    ids: tuple[str, ...] = ()
    """What is pushed, or stands in the source."""
    count: int = 3
    """How many runs the trigger starts."""
    long: int = 200_000


def _say(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


WORK = [task("work")]
IDS = ("a1", "b1", "a2")
ONE = {"overlap": "buffer", "limits": {"open": 1}}
TRIGGERED = [
    Triggered(
        name="schedule",
        nodes=WORK,
        child=WORK,
        trigger={"schedule": {"at": [_say(FIRST + 3 * number) for number in range(3)]}, "catchup": "all", **ONE},
    ),
    Triggered(
        name="webhook that goes on as a new run",
        nodes=WORK,
        child=WORK,
        trigger={"webhook": {"verify": {"scheme": "bearer", "secret": "S"}}, "key": "{{ item.key }}"},
        ids=IDS,
        long=LONG,
    ),
    Triggered(
        name="poll",
        nodes=WORK,
        child=WORK,
        trigger={"poll": {"type": "list", "from": "start"}, "inputs": {"order": "{{ item.data }}"}, **ONE},
        ids=IDS,
    ),
    Triggered(
        name="chain of runs",
        nodes=WORK,
        child=WORK,
        trigger={"runs": {"workflow": "flow0"}, "inputs": {"after": "{{ item.run_id }}"}},
        count=1,
    ),
]


class SweptTrigger(Swept):
    runs = 0
    reference: Triggered

    def __init__(self, reference: Reference, at: int = -1, way: str = "error before", *, large: bool = False) -> None:
        assert isinstance(reference, Triggered)
        kind = next(iter(reference.trigger))
        self.runs = 1 if kind == "runs" else 0
        super().__init__(reference, at, way, large=large)
        self.polls, self.topics = kind in POLLED, kind in ("runs", "event")
        written = {"name": "orders", "workflow": "child", **reference.trigger}
        (self.trigger,) = read_data(written, EPOCH).get_triggers()
        self.library[TRIGGER.hash] = TRIGGER

    def run(self) -> Swept:
        long, trigger_commands.LONG_MAILBOX = trigger_commands.LONG_MAILBOX, self.reference.long
        try:
            super().run()
            return self
        finally:
            trigger_commands.LONG_MAILBOX = long

    async def _register(self) -> None:
        await super()._register()
        await MemoryJournal(self.store, clock=self.clock).put_definition(TRIGGER.hash, "ir", irs.encode(TRIGGER))

    async def poll(self, config: Any, ctx: Any) -> Any:
        """Look at the source until there is something behind the cursor."""
        cursor = config["cursor"]
        begin = int(cursor or 0)
        page = self.reference.ids[begin : begin + PAGE]
        if not page:  # nothing more will come, so that it need not look
            await self.loop.create_future()
        items = [{"id": one, "data": {"text": "x" * (LARGE if self.large else 1)}} for one in page]
        return {"items": items, "after": cursor, "cursor": str(begin + len(page)), "more": True}

    # -- what people do ------------------------------------------------------------------------------------------------

    async def _is_over(self) -> bool:
        box = self._box()
        if box is None:
            await self._make()
            return False
        if self.users.unstarted:
            await self.users.start_rest()
            return False
        if self.trigger.kind == "webhook" and (left := [one for one in self.reference.ids if one not in self._came()]):
            await self._deliver(left, box.revision)
            return False
        if box.position < self.reference.count or box.waiting or box.open or box.parked or self._unheard():
            return False
        own = self.chain()
        return not any(self.is_open(run_id) for run_id in self.store.runs if run_id not in own)

    async def _make(self) -> None:
        if TRIGGER_ID not in self.store.runs:
            await self.users._ask(Request(kind="start", run_id=TRIGGER_ID, ir=TRIGGER.hash, workflow_version=0))
        source, manner = names_of(self.trigger)
        fields: dict[str, Any] = {"name": "orders", "kind": self.trigger.kind, "source": source, "manner": manner}
        if topic := topic_of(self.trigger):
            last = await MemoryJournal(self.store, clock=self.clock).last_occurrence()
            fields |= {"topic": topic, "cursor": str(last)}
        policy = msgspec.to_builtins(policy_of(self.trigger))
        await self._ask("register", {**fields, "spec": spec_of(self.trigger), "policy": policy})

    async def _deliver(self, ids: list[str], revision: int) -> None:
        items = [{"id": one, "key": one[0], "inputs": {"n": one}} for one in ids]
        await self._ask("deliver", {"items": items, "revision": revision})

    async def _ask(self, name: str, data: dict[str, Any]) -> None:
        await self.users._ask(Request(kind="mailbox", run_id=self._head(), name=name, data=data))

    # -- what became of it ---------------------------------------------------------------------------------------------

    def chain(self) -> list[str]:
        """The runs that the trigger was, one after the other."""
        found = [TRIGGER_ID]
        while found[-1] in self.store.runs and (after := self.checks.fold(found[-1]).continued_as) is not None:
            found.append(after)
        return found

    def _head(self) -> str:
        return self.chain()[-1]

    def _box(self) -> Mailbox | None:
        head = self._head()
        return self.checks.fold(head).triggers.get(NODE) if head in self.store.runs else None

    def _journal(self) -> list[Any]:
        return [e.decode(one.body) for run_id in self.chain() for one in self.store.events.get(run_id, ())]

    def _came(self) -> set[str]:
        return {item.id for one in self._journal() if isinstance(one, e.TriggerReceived) for item in one.items}

    def _describe(self) -> str:
        return f"the mailbox: {self._box()}; unheard: {self._unheard()}"

    def result(self) -> dict[str, Any]:
        judge_fates(self._journal())
        own = set(self.chain())
        runs = {run_id: str(run.row.state) for run_id, run in self.store.runs.items() if run_id not in own}
        box = self._box()
        assert box is not None
        left = {"waiting": len(box.waiting), "open": len(box.open), "parked": len(box.parked)}
        ended = sorted(runs.values())
        return {"state": ended[-1] if len(set(ended)) == 1 else ended, "runs": runs, "position": box.position, **left}


if __name__ == "__main__":
    sys.exit(main(TRIGGERED, SweptTrigger))
