"""The transport fails or is away: the engine goes on, decides what it can, and sends the rest when it is back (T1)."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import engine as engines
from perdure.errors import StoreUnavailable
from perdure.journal import JournalClosed
from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.tasks.courier import Courier
from perdure.runtime.patience import insist
from perdure.runtime.reclaimer import Reclaimer
from perdure.tempo import Tempo
from perdure.transport import Task, TransportClosed, TransportUnavailable, WorkerBeat
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.transport_faults import Fault, FaultKind, FaultyTransport
from tests.engine import tasks
from tests.engine.helpers import ask, ended, finish, running, start, state_of, task, until, until_true, workflow

R = RunState
FAST = {"worker_heartbeat_seconds": 0.01, "worker_dead_seconds": 0.3, "sweep_seconds": 0.03}
SMALL = workflow(
    task("a", "gate", args={"name": "a"}),
    task("once", "echo", ["a"], effect="at_most_once", retry={"max_attempts": 3, "backoff_ms": 1}),
    task("b", "fail", ["a"], args={"times": 1}, retry={"max_attempts": 3, "backoff_ms": 1}),
    task("end", "echo", ["b", "once"]),
)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def transport(monkeypatch):
    """What goes wrong with the transport of every engine: a function of the operation and how often it was called."""
    trouble = SimpleNamespace(plan=lambda name, n: None, made=[])

    def make(**options: Any) -> FaultyTransport:
        trouble.made.append(FaultyTransport(LocalTransport(**options), lambda name, n: trouble.plan(name, n)))
        return trouble.made[-1]

    monkeypatch.setattr(engines, "LocalTransport", make)
    return trouble


# What the in-process transport would never get over, because nobody waits there with a time limit, is left to the simulation.
BEFORE = "publish receive acknowledge receive_begin find_missing list_workers claim begin report beat".split()
AFTER = "publish acknowledge grant_begin find_missing list_workers report beat".split()
CASES = [(name, FaultKind.FAIL_BEFORE) for name in BEFORE] + [(name, FaultKind.FAIL_AFTER) for name in AFTER]


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "kind"), CASES, ids=lambda case: str(getattr(case, "value", case)))
async def test_whatever_fails_twice_the_run_ends_and_the_engine_lives(tmp_path, transport, operation, kind):
    transport.plan = lambda name, n: Fault(kind) if name == operation and n in (1, 2) else None
    async with running(tmp_path, **FAST) as engine:
        await start(engine, SMALL)
        if operation in ("find_missing", "list_workers"):
            await until_true(lambda: transport.made[0].calls[operation] > 2, "it sweeps")
        tasks.gate_of("a").set()
        assert (await ended(engine)).state is R.COMPLETED
        assert transport.made[0].calls[operation]
        engine.parts.check()


async def test_without_a_transport_requests_are_still_decided(tmp_path, transport):
    async with running(tmp_path, **FAST) as engine:
        await start(engine, workflow(task("g", "gate", args={"name": "g"}), task("z", "echo", ["g"])))
        await until_true(lambda: tasks.seen, "the handler runs")
        transport.plan = lambda name, n: Fault(FaultKind.FAIL_BEFORE) if name != "beat" else None
        assert (await ask(engine, "pause")).state == "paused"
        assert (await ask(engine, "resume")).state == "running"
        await start(engine, workflow(task("q", "echo"), name="other"), "r2")
        assert (await ask(engine, "pause", "r2")).state == "paused", "its task can be neither sent nor recalled"
        assert (await ask(engine, "resume", "r2")).state == "running"
        assert (await ask(engine, "cancel")).state == "cancelling"
        transport.plan = lambda name, n: None
        assert (await ended(engine)).state is R.CANCELLED
        assert tasks.cancelled == ["g"], "the stop arrives when the transport is back"
        assert (await ended(engine, "r2")).state is R.COMPLETED
        engine.parts.check()


async def test_a_recall_nobody_answered_is_asked_again(tmp_path, transport):
    async with running(tmp_path, concurrency=1, **FAST) as engine:
        await start(engine, workflow(task("g", "gate", args={"name": "g"}), task("waits", "echo")))
        await until_true(lambda: tasks.seen, "the handler runs")
        transport.plan = lambda name, n: Fault(FaultKind.FAIL_BEFORE) if name == "recall" else None
        await ask(engine, "pause")
        await until_true(lambda: transport.made[0].calls["recall"] >= 2, "it is asked again, in vain")
        transport.plan = lambda name, n: None
        await until(engine, lambda state: state_of(state, "waits") == "held")
        tasks.gate_of("g").set()
        await ask(engine, "resume")
        assert (await ended(engine)).state is R.COMPLETED


# -- who is dead -------------------------------------------------------------------------------------------------------


class Coordinator:
    def __init__(self, transport: Any) -> None:
        self.transport = Courier(transport)
        self.publisher = SimpleNamespace(dispatcher=SimpleNamespace(out=list, get=lambda name: None))
        self.messages: list[Any] = []

    def put(self, message: Any) -> None:
        self.messages.append(message)


async def test_after_an_outage_a_worker_has_a_full_dead_time_to_be_heard():
    clock, away = FakeClock(), False
    local = LocalTransport(clock)
    transport: Any = FaultyTransport(local, lambda name, n: Fault(FaultKind.FAIL_BEFORE) if away else None)
    reclaimer = Reclaimer(transport, Coordinator(transport), clock, Tempo(sweep_seconds=5))  # type: ignore[arg-type]
    local.beat(WorkerBeat("w"))
    sweeping = asyncio.create_task(reclaimer.run())
    await clock.advance(11)
    away = True
    await clock.advance(60)
    away = False
    await clock.advance(14)
    assert [seen.beat.worker for seen in await local.list_workers()] == ["w"], (
        "silence during the outage proves nothing"
    )
    await clock.advance(12)
    assert await local.list_workers() == []
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)


async def test_a_process_that_stood_still_declares_nobody_dead_at_once():
    clock = FakeClock()
    local = LocalTransport(clock)
    reclaimer = Reclaimer(local, Coordinator(local), clock, Tempo(sweep_seconds=5))  # type: ignore[arg-type]
    local.beat(WorkerBeat("w"))
    await reclaimer.sweep()
    clock._now += 300
    await reclaimer.sweep()
    assert len(await local.list_workers()) == 1
    clock._now += 16
    await reclaimer.sweep()
    assert await local.list_workers() == []


async def test_a_start_that_is_granted_and_not_heard_of_is_not_parked(tmp_path):
    """The transport stood still while the worker waited: it gave up, the start is durable, and nothing has begun."""
    async with running(tmp_path) as engine:
        transport: Any = engine.transport
        real, answers = transport.begin, []

        async def begin(*wish: Any) -> bool:
            answers.append(await real(*wish))
            if len(answers) == 1:
                raise TransportUnavailable("no coordinator answered whether it may begin")
            return bool(answers[-1])

        transport.begin = begin
        state = await finish(engine, workflow(task("once", "echo", effect="at_most_once")))
        assert (state.state, answers) == (RunState.COMPLETED, [True, True])
        assert len(tasks.seen) == 1


# -- what waits for the transport --------------------------------------------------------------------------------------


async def test_stops_and_receipts_are_kept_until_the_transport_takes_them():
    away = True
    local = LocalTransport(FakeClock())
    transport: Any = FaultyTransport(local, lambda name, n: Fault(FaultKind.FAIL_BEFORE) if away else None)
    courier = Courier(transport)
    queued = Task(run_id="r", node="a", type="task", idempotency_key="a")
    claimed = Task(run_id="r", node="b", type="task", idempotency_key="b", priority=1)
    await local.publish([queued, claimed])
    assert await local.claim("w", ["default"], 1) == [claimed]
    await courier.stop([queued.task_id, claimed.task_id])
    await courier.acknowledge(["1"])
    assert await courier.recall("r", queued.task_id) == "later"
    assert await courier.recall("r", queued.task_id) == "later"
    await courier.publish([queued])
    await courier.grant_begin(claimed.task_id, True)
    away = False
    assert await courier.settle() == ["r"]
    assert await courier.settle() == []
    assert local.beat(WorkerBeat("w", (claimed.task_id,))) == (claimed.task_id,)
    assert await local.find_missing([queued.task_id]) == {queued.task_id}, "nobody had it: it is taken back"
    await local.close()
    with pytest.raises(TransportClosed):
        await courier.publish([queued])


async def test_what_is_kept_for_the_transport_is_bounded(monkeypatch):
    monkeypatch.setattr("perdure.runtime.coordinator.tasks.courier.MOST_KEPT", 3)
    transport: Any = FaultyTransport(LocalTransport(FakeClock()), lambda name, n: Fault(FaultKind.FAIL_BEFORE))
    courier = Courier(transport)
    for number in range(10):
        await courier.acknowledge([str(number)])
    assert list(courier._receipts) == ["7", "8", "9"]


@pytest.mark.parametrize("error", [StoreUnavailable, TransportUnavailable])
async def test_who_insists_waits_longer_each_time_and_gets_the_answer(error):
    clock, calls = FakeClock(), 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        if calls < 10:
            raise error("away")
        return "here"

    asking = asyncio.create_task(insist(clock, call))
    waited = []
    while not asking.done():
        await clock.advance(0)
        if clock.sleeping:
            waited.append(clock.sleeping[0])
            await clock.advance(clock.sleeping[0])
    assert await asking == "here"
    assert waited[:3] == pytest.approx([0.05, 0.1, 0.2])
    assert max(waited) == pytest.approx(2.0)


@pytest.mark.parametrize("error", [JournalClosed, TransportClosed, RuntimeError])
async def test_who_insists_gives_up_where_nobody_will_ever_answer(error):
    async def call() -> None:
        raise error("over")

    with pytest.raises(error):
        await insist(FakeClock(), call)
