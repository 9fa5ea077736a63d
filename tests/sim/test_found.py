"""What the simulation has found, each by itself and without a seed. The histories that found them are in `regressions.py`."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from perdure.errors import StoreUnavailable
from perdure.invariants import Checker
from perdure.journal import Command, DueTimer, Notice
from perdure.kernel import commands as c
from perdure.kernel.lifecycle import RunState
from perdure.kernel.state import State
from perdure.model import compile_definition
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.messages import Reported, TimerDue
from perdure.runtime.coordinator.ownership.incarnation import LostIncarnation
from perdure.runtime.coordinator.ownership.partition_share import Share
from perdure.runtime.coordinator.quarantine import Quarantine
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.worker.isolation import IsolatedProcess
from perdure.simulation import hands
from perdure.simulation.history_checks import Checks, Failed
from perdure.simulation.plan import Plan, make_plan
from perdure.simulation.promises import Promises
from perdure.simulation.report import simulate
from perdure.simulation.transport import SimTransport
from perdure.simulation.world import World
from perdure.simulation.worlds.ask_world import AskWorld
from perdure.transport import Delivery, Result, Task
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store
from tests.engine import tasks
from tests.engine.helpers import ask, compiled, ended, running, start, task, until, until_true, workflow
from tests.kernel.rules.graphs import UNDO, node
from tests.kernel.rules.graphs import start as begin

R = RunState
PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_a_plan_that_was_made_shorter_breaks_no_promise(file: Path) -> None:
    outcome = simulate(msgspec.json.decode(file.read_bytes(), type=Plan))
    assert not outcome.rule, outcome.message


# -- the checker -------------------------------------------------------------------------------------------------------


def test_what_a_join_is_given_is_judged_by_the_join_it_fired_with() -> None:
    """A patch that makes an `all` of it afterwards does not change what it was activated with (rule 39)."""
    nodes = (node("a"), node("b"))
    run = begin(*nodes, node("j", "a", "b", join="any"))
    run.complete("a")
    run.complete("b")
    patched = compile_definition({"name": "test", "nodes": [*nodes, node("j", "a", "b")]}).get_ir()
    run.tell(c.Patch, ir=patched)
    checker = Checker({run.state.irs[0].hash: run.state.irs[0], patched.hash: patched})
    assert [violation for event in run.journal for violation in checker.feed(event)] == []
    said: list[str] = []
    world: Any = SimpleNamespace(checks=SimpleNamespace(fail=lambda rule, message: said.append(message)))
    given = Task(run_id="r", node="j", type="task", idempotency_key="k", inputs={"a": {}})
    Promises(world).executed(given, checker.model)
    assert said == []


def test_a_late_task_of_an_earlier_attempt_may_ask_again_and_a_later_one_may_not() -> None:
    """Seed 10000186: a worker that was cut off went on with the first attempt after the third had been answered (V9)."""
    said: list[str] = []
    checks = SimpleNamespace(fail=lambda rule, message: said.append(message), answers=0)
    world: Any = SimpleNamespace(checks=checks, rolled_back=False, _answers={})

    def look(attempt: int, steps: dict[str, Any], generation: int = 1) -> int:
        made = Task(run_id="r", node="n", type="task", idempotency_key="k", attempt=attempt, generation=generation)
        context: Any = SimpleNamespace(_task=made, _steps=steps, idempotency_key="k")
        AskWorld.look(world, context, {"ok": cast(Any, None)})
        return len(said)

    assert look(2, {}) == 0
    assert look(3, {"ok": "yes"}) == 0
    assert look(1, {}) == 0
    assert look(4, {}) == 1
    assert look(1, {}, generation=2) == 2
    assert look(1, {"ok": "no"}) == 3
    assert look(5, {"ok": "yes"}) == 3


# -- the simulator -----------------------------------------------------------------------------------------------------


def test_a_result_whose_acknowledgement_got_lost_is_delivered_again_to_the_same_coordinator() -> None:
    world = World(make_plan(0))
    link = SimTransport(world, world.engines[0], world.broker, local=False)
    link._draw = lambda name: "transport_lose" if name == "acknowledge" else None  # type: ignore[method-assign]
    link._divided = False

    async def lose() -> None:
        result = Result(run_id="r", node="a", kind="completed")
        await world.broker.report([result])
        [first] = await link.receive(10)
        await link.acknowledge([first.receipt])
        async with asyncio.timeout(100):
            assert await link.receive(10) == [first]

    world.loop.run_until_complete(world.loop.run_in(world.loop.world, lose()))


@pytest.mark.slow
def test_a_run_whose_timer_was_set_by_a_clock_hours_ahead_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = {"id": "a", "type": "wait", "config": {"seconds": 45}}
    drawn = make_plan(0)
    calm: dict[str, Any] = {"rates": {}, "skews": [0.0] * len(drawn.skews), "poll_seconds": 60.0, "fault_seconds": 10.0}
    alone: dict[str, Any] = {"engines": 1, "workers": 0, "shared": False, "runs": 1, "inputs": drawn.inputs[:1]}
    workflows = [drawn.workflows[0], {"name": "flow0", "nodes": [wait]}]
    world = World(msgspec.structs.replace(drawn, workflows=workflows, **calm, **alone))
    monkeypatch.setattr(world.chaos.random, "choice", lambda options: options[-1])

    async def jump() -> None:
        for _ in range(4):
            world.troubles.cause("clock_jump")

    monkeypatch.setattr(world.troubles, "run", jump)
    assert world.run().failures == []
    assert world.loop.time() > 4 * 3600


def test_a_run_on_its_way_to_the_journal_is_not_missed_there() -> None:
    """And one that was there is."""
    told: list[str] = []
    made, written = Loaded(State(run_id="r"), 4), Loaded(State(run_id="r"), 4)
    written.durable_seq = 3
    for loaded in (made, written):
        memory = SimpleNamespace(runs={"r": loaded})
        coordinator = SimpleNamespace(memory=memory, share=Share(4, FakeClock().monotonic))
        process = SimpleNamespace(name="engine0", down=False, engine=SimpleNamespace(coordinator=coordinator))
        world: Any = SimpleNamespace(engines=[process], store=Store(4), fail=lambda failed: told.append(str(failed)))
        Checks(world).live()
    assert told == ["J5: engine0 has run r in memory, the journal does not"]


def test_what_is_left_at_the_end_of_a_history_is_dropped_and_does_nothing_more() -> None:
    """Its workers were said to end by an error: "coroutine ignored GeneratorExit"."""
    drawn = make_plan(0)
    few: dict[str, Any] = {"rates": {}, "shared": True, "divided": False, "workers": 2, "runs": 0, "inputs": []}
    world = World(msgspec.structs.replace(drawn, **few), tracing=True)

    async def break_off() -> None:
        await asyncio.sleep(1)
        world.fail(Failed("R2", "as a test wants"))

    world.loop.run_in(world.loop.world, break_off())
    lines = world.run().lines
    assert lines is not None
    assert [text for _, kind, text in lines if kind == "dies"] == []


def _wait_with(world: World, *, hear_at: float) -> float:
    """How long a history goes on whose runs are over, with a continuation and a command that are heard then."""
    store = world.store
    world.users.unstarted.clear()
    store.notices[1] = Notice(1, "r~2", "r", b"{}")
    store.commands["c"] = Command(1, "c", "r~2", 0.0, b"{}")
    world.loop.call_later(hear_at, store.notices.clear)
    world.loop.call_later(2 * hear_at, store.answers.setdefault, "c", (b"{}", 0.0))
    world.loop.run_until_complete(world.loop.run_in(world.loop.world, world._finish()))
    return world.loop.time()


def test_a_history_does_not_end_while_a_continuation_or_a_command_waits_to_be_heard() -> None:
    assert _wait_with(World(make_plan(0)), hear_at=100.0) >= 200.0


def test_a_continuation_that_is_never_heard_is_a_finding() -> None:
    with pytest.raises(Failed, match="R2: nobody hears notice 1 for r~2"):
        _wait_with(World(make_plan(0)), hear_at=1000.0)


# -- the kernel --------------------------------------------------------------------------------------------------------


def test_the_result_of_a_compensator_is_not_heard_after_a_forced_end() -> None:
    run = begin(node("a", compensator=UNDO), node("b", "a"), on_failure={"compensate": True})
    run.complete("a")
    run.fail("b")
    run.begin("a", undo=True)
    run.tell(c.Cancel, force=True)
    assert run.status == "cancelled"
    before = len(run.journal)
    run.complete("a", undo=True)
    assert [event.type for event in run.journal[before:]] in ([], ["result.ignored"])


# -- what a coordinator hears ------------------------------------------------------------------------------------------


def test_a_stop_nobody_asked_for_is_no_failure() -> None:
    """The transport was flushed, or delivered twice: the worker was told to stop, and the run goes on."""
    result = Result(run_id="r", node="a", kind="failed", code="cancelled", retryable=False, stopped=True)
    said = Reported(Delivery("1", result))
    going_on, ending = State(run_id="r", state=R.RUNNING), State(run_id="r", state=R.CANCELLING)
    assert isinstance(said.command(FakeClock(), going_on), c.Lapse)
    assert isinstance(said.command(FakeClock(), ending), c.Fail)


async def test_a_run_that_changed_because_the_journal_went_back_is_not_quarantined() -> None:
    marked: list[str] = []

    async def mark(run_id: str, reason: str) -> None:
        marked.append(run_id)

    async def check() -> None:
        raise LostIncarnation("it is another one now")

    journal: Any = SimpleNamespace(mark_quarantined=mark)
    ward = Quarantine(journal, FakeClock(), check=check, lose=marked.append, tenants=())
    with pytest.raises(LostIncarnation):
        await ward.mark("r", "it is not as it was")
    assert marked == []


# -- time --------------------------------------------------------------------------------------------------------------


class Jumping(FakeClock):
    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Listening:
    """What a timekeeper needs of a coordinator."""

    def __init__(self) -> None:
        self.told: list[TimerDue] = []
        self.lost = False
        self.timer_set: Any = None
        self.incarnation = self
        self.share = Share(1, FakeClock().monotonic)

    def put(self, message: TimerDue) -> None:
        self.told.append(message)

    async def drained(self) -> None:
        pass

    async def learn(self) -> None:
        pass

    async def check(self) -> None:
        if self.lost:
            raise LostIncarnation("it is another one now")


async def test_a_coordinator_with_nothing_to_write_hears_within_a_minute_that_its_journal_went_back() -> None:
    clock, coordinator = FakeClock(), Listening()
    keeping = asyncio.create_task(Timekeeper(MemoryJournal(clock=clock), coordinator, clock).run())  # type: ignore[arg-type]
    await clock.advance(40)
    coordinator.timer_set(clock.now() + 15)  # it wakes for this too, and must look in time all the same
    coordinator.lost = True
    await clock.advance(21)
    assert keeping.done()
    assert isinstance(keeping.exception(), LostIncarnation)


async def test_timers_go_on_after_the_journal_was_away_while_the_clock_was_ahead() -> None:
    clock, coordinator, away = Jumping(), Listening(), True
    due = clock.now() + 10

    async def list_due_timers(now: float, limit: int, partitions: Any = None) -> list[DueTimer]:
        if away:
            raise StoreUnavailable("away")
        return [DueTimer("r", "t", due)] if now >= due and not coordinator.told else []

    async def next_timer(partitions: Any = None) -> float | None:
        if away:
            raise StoreUnavailable("away")
        return None if coordinator.told else due

    journal: Any = SimpleNamespace(list_due_timers=list_due_timers, next_timer=next_timer)
    keeper = Timekeeper(journal, coordinator, clock)  # type: ignore[arg-type]
    keeping = asyncio.create_task(keeper.run())
    await clock.advance(1)
    clock.ahead = 3600.0
    await clock.advance(1)
    clock.ahead, away = 0.0, False
    await clock.advance(20)
    assert [(one.run_id, one.timer) for one in coordinator.told] == [("r", "t")]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


# -- the engine --------------------------------------------------------------------------------------------------------


async def test_a_parent_that_tries_a_cancelled_child_again_does_not_wait_for_ever(tmp_path: Path) -> None:
    tasks.reset()
    child = workflow(task("inner", "gate", args={"name": "x"}), name="child")
    call = {"id": "call", "type": "workflow", "config": {"workflow": "child"}}
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(child))
        await start(engine, workflow(call))
        await until_true(lambda: tasks.seen, "the child works")
        await ask(engine, "cancel", "r1:call", force=True)
        assert (await ended(engine)).error.code == "child_cancelled"  # type: ignore[union-attr]
        await ask(engine, "retry")
        again = await until(engine, lambda state: state.terminal and state.generation == 2)
        assert (again.state, again.error.code) == (R.FAILED, "child_cancelled")  # type: ignore[union-attr]


async def test_an_attempt_that_has_begun_and_whose_task_the_transport_lost_is_tried_again(tmp_path: Path) -> None:
    tasks.reset()
    async with running(tmp_path, concurrency=2, sweep_seconds=0.05) as engine:
        await start(engine, workflow(task("a", "gate", args={"name": "x"})))
        await until_true(lambda: tasks.seen, "it runs")
        await ask(engine, "pause")
        await until(engine, lambda state: bool(state.find("a").begun))  # type: ignore[union-attr]
        cast(LocalTransport, engine.transport)._kept.clear()
        await ask(engine, "resume")
        await until_true(lambda: len(tasks.seen) == 2, "it runs again")
        tasks.gate_of("x").set()
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert state.find("a").attempt == 2  # type: ignore[union-attr]


def test_the_stand_in_for_an_isolated_process_is_called_as_the_process_is() -> None:
    """It did not know a new argument, and every handler of a process failed in every history."""
    real, played = inspect.signature(IsolatedProcess.call), inspect.signature(hands._Isolated.call)
    assert set(played.parameters) == set(real.parameters)
