"""A user's workflow in a simulated cluster: the real engine, stubs for handlers, and virtual time that skips what is dull.

A *calm* world has one process and no faults, and does what the script says. A *lenient* one has faults, and the seed
plays every person and node that the script does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import msgspec

from perdure.contents import Contents
from perdure.kernel import events as e
from perdure.kernel.lifecycle import OPEN
from perdure.kernel.readings.explain import explain
from perdure.kernel.state import State
from perdure.model import ir as irs
from perdure.simulation import faults
from perdure.simulation.clock import EPOCH
from perdure.simulation.history_checks import Failed
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import Plan
from perdure.simulation.stage import stubs as s
from perdure.simulation.stage.people import RUN, People
from perdure.simulation.stage.user_handlers import Player
from perdure.simulation.stage.user_stage import Setting, UserStage
from perdure.simulation.story import describe

TICK = 0.5
LOOK_SECONDS = 61.0
"""How long before the next due time skipped time ends: the timekeeper looks at least once a minute."""
QUIET_SECONDS = 200.0
"""How long nothing may happen after healing: a dead time, a sweep and the longest pauses fit in."""
LONGEST_CALL = 86_400.0
"""Virtual seconds that a function may take in a calm world before it counts as one that never returns."""
MAX_EVENTS = 3000
"""The most events of all runs together, those of map items aside. More count as endless."""
_FAULTS = (
    *(name for name in faults.JOURNAL),
    *(name for name in faults.TRANSPORT),
    *(name for name in faults.BLOB if name != "blob_missing"),
    "crash",
    "shutdown",
    "stop_short",
    "stop_long",
    "journal_outage",
    "transport_flush",
    "transport_outage",
    "blob_outage",
)
"""Faults that a workflow must survive. Those that would rightly make it fail (a cancelled task of a handler,
missing content) are left out."""


def calm_plan(setting: Setting, seed: int = 0) -> Plan:
    return Plan(
        seed=seed,
        shared=False,
        engines=1,
        workers=0,
        concurrency=100,
        keep_idle=1000,
        runs=1,
        workflows=[],
        inputs=[setting.inputs],
        rates={},
        fault_seconds=0.0,
        journal_seconds=0.0,
        transport_seconds=0.0,
        handler_seconds=0.0,
        skews=[0.0] * 8,
        poll_seconds=30.0,
    )


def rough_plan(setting: Setting, seed: int) -> Plan:
    random = Random(f"plan {seed}")
    calm = random.random() < 0.05
    drawn = {} if calm else faults.draw_rates(random)
    shared = random.random() < 0.5
    return msgspec.structs.replace(
        calm_plan(setting, seed),
        shared=shared,
        engines=random.choice((1, 1, 2)),
        workers=random.choice((1, 2, 3)) if shared else 0,
        concurrency=random.choice((1, 2, 8)),
        keep_idle=random.choice((0, 1000)),
        rates={name: rate for name, rate in drawn.items() if name in _FAULTS},
        fault_seconds=random.choice((10.0, 30.0, 120.0)),
        journal_seconds=random.choice((0.0, 0.0, 0.01, 0.2)),
        transport_seconds=random.choice((0.0, 0.01, 0.3)),
        poll_seconds=random.choice((0.5, 1.0, 3.0)),
    )


class UserWorld(UserStage):
    def __init__(self, setting: Setting, plan: Plan, *, tracing: bool = False) -> None:
        super().__init__(setting, plan, tracing=tracing)
        if any(ir.streams for ir in setting.workflows):  # what covers a stream must be kept before it is shown
            self.broker.make_durable()
        self.registry = Player(self, setting.stubs, setting.real).registry(setting.workflows)
        self.people = self.users = People(self, setting.stubs, setting.signals)
        self.begins_at = EPOCH

    # -- what others ask -----------------------------------------------------------------------------------------------

    def trace(self, kind: str, text: str, body: bytes = b"") -> None:
        if self.over or (kind == "world" and not self.plan.rates):
            return  # nothing happens after the end, and a calm world has nothing to heal from
        super().trace(kind, text, body)
        if self.lines:
            shown = describe(e.decode(body)) if kind == "event" else _say_asked(text) if kind == "user" else text
            run = f"{text.partition(' ')[0]}: " if kind == "event" and not text.startswith(f"{RUN} ") else ""
            self.lines[-1] = (self.clock.now() - self.begins_at, kind, f"{run}{shown}")

    def view(self, state: State) -> dict[str, Any]:
        """A run as it is shown, large values included."""
        view: dict[str, Any] = _at_once(self._view(state))
        return view

    async def _view(self, state: State) -> dict[str, Any]:
        contents = Contents(self.blobs(self.clock))
        view = await contents.view(state)
        for node in view["nodes"].values():
            if "size" in node:
                node["output"] = await contents.load(state.tenant, node["output"]["$ref"])
        return view

    def last(self) -> State:
        """The run, or the last of those that continue it."""
        state = self.checks.fold(RUN)
        while state.continued_as is not None and state.continued_as in self.store.runs:
            state = self.checks.fold(state.continued_as)
        return state

    # -- the history ---------------------------------------------------------------------------------------------------

    most_events = MAX_EVENTS

    async def _register(self) -> None:
        journal = MemoryJournal(self.store, clock=self.clock)
        for ir in self.setting.workflows:
            ready = self.library[ir.hash] = s.prepare(ir, self.setting.stubs)
            await journal.put_definition(ir.hash, "ir", irs.encode(ready))
            version = await journal.register_workflow(ir.name, ir.hash, ir_hash=ir.hash)
            self.versions[ir.name] = (ir.hash, version)

    async def _history(self) -> None:
        await self._register()
        for process in self.processes:
            process.start()
        troubles = self.loop.run_in(self.loop.world, self.troubles.run(), "troubles")
        self.loop.run_in(self.loop.world, self.people.run(), "people")
        heals_at = self.loop.time() + self.plan.fault_seconds
        seen: tuple[int, float] = (0, 0.0)
        while True:
            await self._wait(TICK)
            now = self.loop.time()
            if not self.chaos.healed and now >= heals_at:
                troubles.cancel()
                self._heal()
            if self._is_over():
                break
            self.people.look()
            self.people.act()
            seen = self._judge(seen, now)
            if seen[1] < 0:
                return
            self._skip()
        if not self.chaos.healed:
            troubles.cancel()
            self._heal()
        self.checks.projections()
        if self.lenient and not self.failures:
            await self._close()

    def _is_over(self) -> bool:
        store = self.store
        if self.people.unstarted or store.notices or not store.runs:
            return False
        return all(run.row.ended_at is not None for run in store.runs.values())

    def _judge(self, seen: tuple[int, float], now: float) -> tuple[int, float]:
        """The number of events and since when it has not changed, with a time below 0 when nothing more will happen."""
        events = sum(run.seq for run in self.store.runs.values())
        types = self.checks.event_types
        if events - types["item.completed"] - types["item.failed"] > self.most_events:
            raise Failed("endless", f"{events} events in {self._passed()}, and no end")
        if (
            events != seen[0]
            or not self.chaos.healed
            or self.people.busy
            or self._upcoming() is not None
            or self._is_limited()
        ):
            return events, now
        quiet = QUIET_SECONDS if self.lenient else LONGEST_CALL if self.calling else LOOK_SECONDS * 2
        if now - max(seen[1], self.slept_until) < quiet:
            return seen
        if self.lenient:
            raise Failed("stuck", " ".join(self.waits()) or "nothing happens any more")
        return events, -1.0

    def waits(self, root: str = "") -> list[str]:
        """What the open runs wait for, a sentence each; with `root`, of that run and what it started."""
        sentences = []
        for run_id, run in self.store.runs.items():
            if run.row.ended_at is not None or (root and not belongs(run_id, root)):
                continue
            state = self.checks.fold(run_id)
            open_nodes = {state.name(a.node): None for a in state.activations.values() if a.state in OPEN}
            sentences += [explain(state, name) for name in open_nodes]
        return sentences

    def _upcoming(self) -> float | None:
        """When the next thing is due by itself."""
        times = [*self.store.timers.values()]
        agenda = self.people.next_at()
        return min([*times, agenda] if agenda is not None else times, default=None)

    def _is_limited(self) -> bool:
        """Whether a task waits for room in a rate. No clock skips that, since it is counted in time that passes."""
        running = [process.engine.coordinator for process in self.engines if process.engine is not None]
        return any(one is not None and one.publisher.limiter.next_room() is not None for one in running)

    def _skip(self) -> None:
        """Advance the wall clocks, and nothing else, towards the next timer when nothing is to be done before it."""
        due = self._upcoming()
        now = self.clock.now()
        if due is not None and due - now > LOOK_SECONDS + 1 and not self._is_busy():
            passed = due - now - LOOK_SECONDS
            self.loop.ahead += passed
            self.trace("time", f"nothing happens for {duration(passed)}")

    def _is_busy(self) -> bool:
        store = self.store
        if self.people.busy or self.people.unstarted or store.notices or len(store.commands) > len(store.answers):
            return True
        for run_id, run in store.runs.items():
            if run.row.ended_at is None:
                model = self.checks.checkers[run_id].model
                if model.state not in ("running", "paused"):
                    return True
                if any(act.state in ("held", "queued", "running") for act in model.acts.values()):
                    return True
        return False

    def _passed(self) -> str:
        return duration(self.clock.now() - self.begins_at)

    async def _wait(self, seconds: float) -> None:
        """Let time pass as in every world, but leave nothing behind, since this is called often."""
        if not self.failures:
            await asyncio.wait([self._failing], timeout=seconds)
        if self.failures:
            raise self.failures[0]

    @property
    def _failing(self) -> asyncio.Future[Any]:
        if self._failing_task is None:
            self._failing_task = self.loop.run_in(self.loop.world, self._failed.wait(), "failing")
        return self._failing_task

    _failing_task: asyncio.Future[Any] | None = None


def belongs(run_id: str, root: str) -> bool:
    """Whether a run is this one, a child of it, or one that it went on as."""
    return run_id == root or run_id.startswith((f"{root}:", f"{root}~"))


def _at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing, and so needs no loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def _say_asked(text: str) -> str:
    kind, _, rest = text.partition(" ")
    about, _, decision = rest.partition(" ")[2].rpartition(" ")
    return f"{decision} {about}" if kind == "vote" else f"{kind} {about}".rstrip()


def duration(seconds: float) -> str:
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
