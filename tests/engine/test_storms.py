"""Many things at once, twice, late or lost: commands that cross each other, messages that come again, memory that is taken."""

from __future__ import annotations

import asyncio
import random

import pytest

from perdure.journal import Exists, IdempotencyKey
from perdure.kernel import commands as c
from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator import loaded as loaded_module
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.messages import Asked, BeginAsked, Message
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    finish,
    opened,
    running,
    start,
    state_of,
    task,
    until,
    until_true,
    workflow,
)
from tests.engine.test_crash_points import CHILD, EVERYTHING

pytestmark = pytest.mark.slow

R = RunState


@pytest.mark.parametrize("seed", range(6))
async def test_commands_that_cross_each_other_and_the_work_leave_every_run_sound(tmp_path, seed):
    rng = random.Random(seed)
    definition = workflow(
        task("begin", "slowly", args={"most": 0.003}),
        *[task(f"n{number}", "slowly", ["begin"], args={"most": 0.005}) for number in range(6)],
        task(
            "again",
            "slowly",
            [f"n{number}" for number in range(6)],
            args={"most": 0.002},
            loop={"condition": "!output.done", "max_iterations": 5},
        ),
        {
            "id": "call",
            "type": "workflow",
            "config": {"workflow": "child", "inputs": {"n": 1}},
            "dependencies": ["begin"],
        },
        task("end", "slowly", ["again", "call"]),
        name="stormy",
    )
    async with running(tmp_path, concurrency=4, worker_heartbeat_seconds=0.2) as engine:
        engine.coordinator.memory._keep_idle = rng.choice((0, 1, 1000))
        await engine.workflows.register(compiled(CHILD))
        for number in range(6):
            await start(engine, definition, f"r{number}")
        kinds = ["pause", "resume", "pause", "resume", "signal", "retry", "cancel", "rollback"]

        async def storm(run_id: str) -> None:
            for _ in range(rng.randint(5, 25)):
                await ask(engine, rng.choice(kinds[: 6 if rng.random() < 0.9 else 8]), run_id, name="x")
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.random() * 0.01)

        await asyncio.gather(*(storm(f"r{number % 6}") for number in range(12)))
        for number in range(6):
            await ask(engine, "resume", f"r{number}")
        ends = [(await ended(engine, f"r{number}", 40)).state for number in range(6)]
        assert set(ends) <= {R.COMPLETED, R.CANCELLED, R.ROLLED_BACK}
        children = [one.run_id for one in (await engine.journal.list_runs()).items if one.row.parent]
        for name in children:
            await ended(engine, name, 40)
        await until_true(lambda: len(engine.coordinator.publisher.dispatcher) == 0, "nothing is out any more")
        await engine.coordinator.drained()
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


@pytest.mark.parametrize("times", [2, 3])
async def test_every_message_that_comes_again_changes_nothing(tmp_path, times, monkeypatch):
    """T2: results, timers, notices and dispatches of trivial nodes."""
    put = Coordinator.put

    def again(self: Coordinator, message: Message) -> None:
        for _ in range(1 if isinstance(message, Asked | BeginAsked) else times):
            put(self, message)

    monkeypatch.setattr(Coordinator, "put", again)
    async with running(tmp_path) as engine:
        await engine.workflows.register(compiled(CHILD))
        state = await finish(engine, EVERYTHING)
        assert state.outputs == {"all": [2, [2, 4, 6], 2]}
        assert len(tasks.seen) == len(set(tasks.seen)) == 10
        await check(engine.journal, state.find("call").child)
        await engine.coordinator.drained()
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


async def test_runs_that_leave_memory_whenever_they_can(tmp_path):
    async with running(tmp_path) as engine:
        engine.coordinator.memory._keep_idle = 0
        await engine.workflows.register(compiled(CHILD))
        for number in range(5):
            await start(engine, EVERYTHING, f"r{number}")
        for number in range(5):
            assert (await ended(engine, f"r{number}")).outputs == {"all": [2, [2, 4, 6], 2]}
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")


@pytest.mark.parametrize("every", [1, 3, 7])
async def test_snapshots_at_any_distance_say_what_the_events_say(tmp_path, monkeypatch, every):
    monkeypatch.setattr(loaded_module, "SNAPSHOT_EVERY", every)
    engine = await opened(tmp_path)
    await engine.hold()
    engine.coordinator.memory._keep_idle = 0
    await engine.workflows.register(compiled(CHILD))
    await start(engine, EVERYTHING)
    await until(engine, lambda state: state_of(state, "nap") == "waiting")
    await crash(engine)
    async with running(tmp_path) as engine:
        engine.coordinator.memory._keep_idle = 0
        assert (await ended(engine)).outputs == {"all": [2, [2, 4, 6], 2]}


async def test_tasks_that_vanish_from_the_transport_are_sent_again_as_the_same_attempt(tmp_path):
    nodes = [task(f"n{number}", "gate", args={"name": "x"}) for number in range(5)]
    async with running(tmp_path, concurrency=1, sweep_seconds=0.05) as engine:
        await start(engine, workflow(*nodes))
        await until_true(lambda: tasks.seen, "one runs")
        waiting = [name for name, held in engine.transport._kept.items() if held.worker is None]
        assert waiting
        answers = await engine.transport.recall(waiting)
        assert set(answers.values()) == {"withdrawn"}
        tasks.gate_of("x").set()
        assert (await ended(engine)).state is R.COMPLETED
        assert sorted(attempt for _, attempt in tasks.seen) == [1] * 5


async def test_a_worker_that_falls_silent_loses_its_work_to_the_next_attempt(tmp_path):
    async with running(tmp_path, worker_heartbeat_seconds=0.05, worker_dead_seconds=0.4, sweep_seconds=0.1) as engine:
        beat = engine.transport.beat
        engine.transport.beat = lambda one: ()
        await start(engine, workflow(task("a", "gate", args={"name": "x"})))
        await until(engine, lambda state: state.find("a").attempt == 2)
        engine.transport.beat = beat
        tasks.gate_of("x").set()
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert state.find("a").crashes >= 1


async def test_the_same_idempotency_key_is_the_same_run(tmp_path):
    async with running(tmp_path) as engine:
        ir, _ = await engine.workflows.register(compiled(workflow(task("a"))))

        def begin(run_id: str, body: str) -> object:
            start = c.Start(at=engine.clock.now(), run_id=run_id, ir=ir)
            key = IdempotencyKey("default", "order-7", body)
            return engine.coordinator.ask(run_id, lambda state: start, starts=True, key=key)

        first, second = await asyncio.gather(begin("x1", "body"), begin("x2", "body"))
        assert first == "running"
        assert second == Exists("x1", True)
        assert await begin("x3", "another body") == Exists("x1", False)
        await ended(engine, "x1")
        assert await engine.journal.find_run("x2") is None
        assert len(tasks.seen) == 1
        await until_true(lambda: not engine.coordinator.memory.runs, "no run is in memory")
        assert engine.coordinator.memory._resting == {}


async def test_a_hold_that_cannot_begin_gives_the_journal_back(tmp_path):
    (tmp_path / "perdure.db.claims").mkdir()
    engine = await opened(tmp_path)
    with pytest.raises(OSError, match="claims"):
        await engine.hold()
    (tmp_path / "perdure.db.claims").rmdir()
    async with running(tmp_path) as other:
        assert other.holds
        assert (await finish(other, workflow(task("a")))).state is R.COMPLETED
    await engine.close()


async def test_five_thousand_at_once_join_once(tmp_path):
    inner = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
    definition = workflow(
        {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": inner}},
        task("size", "size", ["m"], args={"value": "{{ m }}"}),
    )
    async with running(tmp_path, concurrency=50) as engine:
        await start(engine, definition, inputs={"list": list(range(5000))})

        async def is_over() -> bool:
            return (await engine.journal.get_run("r1")).row.ended_at is not None

        await until_true(is_over, "it is over")
        state = await ended(engine)
        assert state.find("size").output == {"size": 5000}


ONCE = workflow(task("once", "gate", args={"name": "x"}, effect="at_most_once"), name="once")


@pytest.fixture
def kept(monkeypatch):
    """Requests to begin, kept from the coordinator until a test puts them in."""
    messages: list[Message] = []
    put = Coordinator.put

    def keep(self: Coordinator, message: Message) -> None:
        if isinstance(message, BeginAsked) and message not in messages:
            messages.append(message)
        else:
            put(self, message)

    monkeypatch.setattr(Coordinator, "put", keep)
    return messages


async def test_what_may_happen_once_does_not_begin_when_its_run_was_cancelled_just_before(tmp_path, kept):
    async with running(tmp_path, worker_heartbeat_seconds=0.2) as engine:
        await start(engine, ONCE)
        await until_true(lambda: kept, "its worker asks")
        engine.coordinator.put(Asked("r1", lambda state: c.Cancel(at=engine.clock.now())))
        engine.coordinator.put(kept[0])  # right behind it, in the same batch
        assert (await ended(engine)).state is R.CANCELLED
        assert tasks.seen == []


@pytest.mark.parametrize("late", [False, True])
async def test_what_may_happen_once_is_not_lost_by_a_pause_before_it_begins(tmp_path, kept, late):
    async with running(tmp_path) as engine:
        tasks.gate_of("x").set()
        await start(engine, ONCE)
        await until_true(lambda: kept, "its worker asks")
        await ask(engine, "pause")
        await engine.coordinator.drained()
        if late:
            await ask(engine, "resume")
        engine.coordinator.put(kept[0])
        await ask(engine, "resume")
        state = await ended(engine)
        assert state.state is R.COMPLETED, state.find("once").error
        assert len(tasks.seen) == 1


async def test_what_may_happen_once_and_is_handed_back_at_shutdown_waits_for_a_person(tmp_path):
    async with running(tmp_path) as engine:
        await start(engine, ONCE)
        await until_true(lambda: tasks.seen, "it runs")
    tasks.gates.clear()
    tasks.gate_of("x").set()
    async with running(tmp_path) as engine:
        assert state_of(await engine.runs.state("r1"), "once") == "parked"
        await ask(engine, "requeue", node="once")
        assert (await ended(engine)).state is R.COMPLETED
        assert len(tasks.seen) == 2
