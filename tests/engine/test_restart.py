"""What the next process does with what the last one left: queued, running, waiting, due."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, cast

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import (
    ask,
    check,
    compiled,
    crash,
    ended,
    events,
    opened,
    running,
    start,
    state_of,
    task,
    until,
    until_true,
    workflow,
)
from tests.engine.runner import Folder

pytestmark = pytest.mark.slow

R = RunState


async def test_what_was_queued_and_not_running_is_sent_again_as_the_same_attempt(tmp_path):
    nodes = [task(f"n{number}", "gate", args={"name": "x"}) for number in range(10)]
    engine = await opened(tmp_path, concurrency=3)
    await engine.hold()
    await start(engine, workflow(*nodes))
    await until_true(lambda: len(tasks.seen) == 3, "three of ten run")
    await crash(engine)
    ran = {key for key, _ in tasks.seen}
    tasks.seen.clear()
    tasks.gates.clear()
    tasks.gate_of("x").set()
    async with running(tmp_path) as engine:
        state = await ended(engine)
        assert state.state is R.COMPLETED
        for key, attempt in tasks.seen:
            assert attempt == (2 if key in ran else 1)
        assert len(tasks.seen) == 10
        crashes = {name: state.find(name).crashes for name in (f"n{number}" for number in range(10))}
        assert sum(crashes.values()) == 3
        found = [event for event in await events(engine.journal) if getattr(event, "after", "") == "crashed"]
        assert len(found) == 3


def test_a_handler_that_kills_its_process_every_time_is_parked(tmp_path):
    folder = Folder(tmp_path)
    folder.add("poison", workflow(task("a"), task("killer", "die", ["a"], max_crashes=2), name="poison"))
    folder.add("good", workflow(task("b"), name="good"))
    folder.spec["stay"] = True
    for expected in (-signal.SIGKILL, -signal.SIGKILL):
        with folder.process() as process:
            assert process.wait(30) == expected, folder.errors()
    with folder.process() as process:
        folder.say(process, "started")

        async def parked() -> None:
            engine = await opened(tmp_path)
            try:
                await until(engine, lambda state: state_of(state, "killer") == "parked", "poison")
                state = await engine.runs.state("poison")
                assert state.find("killer").error.code == "poison"
                assert state.find("killer").attempt == 2
                assert (await ended(engine, "good")).state is R.COMPLETED
                letters = (await engine.journal.list_dead_letters(state="pending")).items
                assert [letter.node for letter in letters] == ["killer"]
                config = {"function": "tests.engine.tasks:echo", "args": {}}
                assert not (await ask(engine, "requeue", "poison", node="killer", config=config)).refused
                assert (await ended(engine, "poison")).state is R.COMPLETED
            finally:
                await engine.close()

        asyncio.run(parked())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert [(key, attempt) for _, key, attempt, *_ in folder.effects() if "killer" in key][:2] == [
        ("poison/killer/do", 1),
        ("poison/killer/do", 2),
    ]


def test_what_may_happen_once_and_had_begun_is_parked_and_never_run_again(tmp_path):
    folder = Folder(tmp_path)
    folder.add("r1", workflow(task("once", "die", effect="at_most_once"), task("after", "echo", ["once"])))
    with folder.process() as process:
        assert process.wait(30) == -signal.SIGKILL

    async def look() -> None:
        async with running(tmp_path) as engine:
            state = await until(engine, lambda state: state_of(state, "once") == "parked")
            assert state.find("once").error.code == "worker_lost"
            assert not (await ask(engine, "discard", node="once", as_="continue")).refused
            assert (await ended(engine)).state is R.COMPLETED

    asyncio.run(look())
    assert len([key for _, key, *_ in folder.effects() if "once" in key]) == 1


async def test_what_had_begun_is_over_also_when_the_claims_are_lost(tmp_path):
    once = task("once", "gate", args={"name": "x"}, effect="at_most_once")
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(once, task("other", "gate", args={"name": "x"})))
    await until_true(lambda: len(tasks.seen) == 2, "both run")
    await ask(engine, "pause")
    await until(engine, lambda state: state_of(state, "other") == "running")
    await crash(engine)
    (tmp_path / "perdure.db.claims").unlink()
    tasks.gates.clear()
    tasks.gate_of("x").set()
    async with running(tmp_path) as engine:
        await until(engine, lambda state: state_of(state, "once") == "parked")
        await ask(engine, "resume")
        await until(engine, lambda state: state_of(state, "other") == "completed")
        await ask(engine, "discard", node="once")
        assert (await ended(engine)).state is R.COMPLETED


async def test_timers_that_became_due_while_nobody_ran_fire_at_the_next_start(tmp_path):
    nap = {"id": "nap", "type": "wait", "config": {"seconds": 0.3}, "dependencies": ["a"]}
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(task("a"), nap, task("b", "echo", ["nap"])))
    state = await until(engine, lambda state: state_of(state, "nap") == "waiting")
    due = state.find("nap").wait.until
    await crash(engine)
    await until_true(lambda: engine.clock.now() > due, "the timer is due")
    async with running(tmp_path) as engine:
        assert (await ended(engine)).state is R.COMPLETED
        fired = next(event for event in await events(engine.journal) if event.type == "timer.fired")
        assert fired.at >= due


async def test_a_retry_that_was_waiting_for_its_backoff_goes_on(tmp_path):
    retry = {"max_attempts": 3, "backoff_ms": 200, "multiplier": 1.0, "jitter": False}
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(task("a", "fail", args={"times": 1}, retry=retry)))
    await until(engine, lambda state: state_of(state, "a") == "retrying")
    await crash(engine)
    async with running(tmp_path) as engine:
        assert (await ended(engine)).state is R.COMPLETED
        assert [attempt for _, attempt in tasks.seen] == [1, 2]


async def test_waits_approvals_and_children_survive(tmp_path):
    child = workflow({"id": "w", "type": "wait", "config": {"signal": "go"}}, name="child")
    definition = workflow(
        {"id": "call", "type": "workflow", "config": {"workflow": "child"}},
        {"id": "sign", "type": "wait", "config": {"signal": "sign"}},
        {"id": "ok", "type": "human", "config": {"approvers": ["x"]}},
        task("end", "echo", ["call", "sign", "ok"]),
    )
    engine = await opened(tmp_path)
    await engine.hold()
    await engine.workflows.register(compiled(child))
    await start(engine, definition)
    state = await until(engine, lambda state: all(state_of(state, one) == "waiting" for one in ("call", "sign", "ok")))
    name = state.find("call").child
    await until_true(lambda: name in engine.coordinator.memory.runs, "the child is started")
    await ask(engine, "signal", name="other", payload=1)
    await crash(engine)
    async with running(tmp_path) as engine:
        await ask(engine, "signal", name, name="go", payload={"x": 1})
        await ask(engine, "signal", name="sign")
        approval = (await engine.journal.list_approvals(state="pending")).items[0].approval_id
        await ask(engine, "vote", approval=approval, by="x")
        state = await ended(engine)
        assert state.state is R.COMPLETED
        await check(engine.journal, name)
        assert len(tasks.seen) == 1


async def test_a_cancelled_run_whose_work_died_is_cancelled_at_the_next_start(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await start(engine, workflow(task("a", "gate", args={"name": "x"}), task("b", "echo", ["a"])))
    await until_true(lambda: tasks.seen, "a runs")
    await ask(engine, "pause")
    await until(engine, lambda state: state_of(state, "a") == "running")
    await crash(engine)
    engine = await opened(tmp_path)
    await engine.hold(work=False)
    await ask(engine, "cancel")
    assert await engine.hold(), "who already holds it can begin to work"
    assert (await ended(engine)).state is R.CANCELLED
    await engine.close()


async def test_a_paused_run_stays_paused(tmp_path):
    engine = await opened(tmp_path, concurrency=1)
    await engine.hold()
    await start(engine, workflow(task("a", "gate", args={"name": "x"}), task("b", "gate", args={"name": "x"})))
    await until_true(lambda: tasks.seen, "a runs")
    await ask(engine, "pause")
    await crash(engine)
    tasks.gates.clear()
    tasks.gate_of("x").set()
    async with running(tmp_path) as engine:
        await until(engine, lambda state: state_of(state, "a") == state_of(state, "b") == "held")
        assert len(tasks.seen) == 1
        await ask(engine, "resume")
        assert (await ended(engine)).state is R.COMPLETED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_work_gets_its_grace_at_shutdown_and_its_result_is_kept(tmp_path, number):
    folder = Folder(tmp_path)
    flag = tmp_path / "flag"
    folder.add("r1", workflow(task("a", "wait_for_file", args={"path": str(flag)}), task("b", "echo", ["a"])))
    folder.spec["grace"] = 20.0
    with folder.process() as process:
        folder.wait(process, folder.effects, "a runs")
        process.send_signal(number)
        _until_draining(folder, process)
        flag.touch()
        assert process.wait(30) == 0, folder.errors()

    async def look() -> None:
        async with running(tmp_path) as engine:
            assert (await ended(engine)).state is R.COMPLETED
            assert (await engine.runs.state("r1")).find("a").attempt == 1

    asyncio.run(look())
    effects = [(what, key) for what, key, *_ in folder.effects()]
    assert effects[:2] == [("begin", "r1/a/do"), ("end", "r1/a/do")]


def _until_draining(folder: Folder, process: object) -> None:
    """Nothing tells from outside that it drains; that it took the signal does: it is no longer pending."""
    status = f"/proc/{process.pid}/status"  # type: ignore[attr-defined]

    def taken() -> bool:
        with open(status) as file:
            pending = [line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))]
        return all(int(mask, 16) == 0 for mask in pending)

    folder.wait(process, taken, "the signal was taken")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_does_not_finish_in_its_grace_is_handed_back_and_counts_as_no_failure(tmp_path, number):
    folder = Folder(tmp_path)
    flag = tmp_path / "flag"
    folder.add(
        "r1",
        workflow(
            task("a", "wait_for_file", args={"path": str(flag)}, max_crashes=1, retry={"max_attempts": 1}),
            task("b", "echo", ["a"]),
        ),
    )
    folder.spec["grace"] = 0.05
    with folder.process() as process:
        folder.wait(process, folder.effects, "a runs")
        process.send_signal(number)
        assert process.wait(30) == 0, folder.errors()
    flag.touch()
    assert not (tmp_path / "perdure.db.claims").exists()

    async def look() -> None:
        os.environ["PERDURE_TEST_EFFECTS"] = str(folder.effects_file)
        try:
            async with running(tmp_path) as engine:
                state = await ended(engine)
                assert state.state is R.COMPLETED
                assert (state.find("a").crashes, state.find("a").failures) == (0, 0)
                assert state.find("a").attempt == 2
        finally:
            del os.environ["PERDURE_TEST_EFFECTS"]

    asyncio.run(look())
    assert [(what, attempt) for what, key, attempt, *_ in folder.effects() if "/a/" in key] == [
        ("begin", 1),
        ("begin", 1),
        ("end", 1),
    ], "the function is told the attempt as people count it"


async def test_close_hands_back_what_waits_to_be_claimed_and_the_next_start_runs_it(tmp_path):
    nodes = [task(f"n{number}", "gate", args={"name": "x"}) for number in range(6)]
    async with running(tmp_path, concurrency=2) as engine:
        await start(engine, workflow(*nodes))
        await until_true(lambda: len(tasks.seen) == 2, "two run")
    tasks.gates.clear()
    tasks.gate_of("x").set()
    async with running(tmp_path, concurrency=2) as engine:
        state = await ended(engine)
        assert state.state is R.COMPLETED
        assert all(state.find(f"n{number}").crashes == 0 for number in range(6))
        assert len(tasks.seen) == 8


async def test_closing_twice_and_asking_a_closed_engine(tmp_path):
    engine = await opened(tmp_path)
    await engine.hold()
    await engine.close()
    await engine.close()
    with pytest.raises(Exception, match=r"(?i)clos|stopp"):
        await asyncio.wait_for(ask(engine, "pause"), 5)


async def test_nothing_is_executed_before_it_is_known_what_others_left(tmp_path):
    """Who gives up meanwhile, by Ctrl-C perhaps, cuts off no attempt: there is none yet that would need its grace."""
    workers: list[Any] = []

    class Watched:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def list_active_runs(self, *arguments: Any, **named: Any) -> Any:
            workers.append(engine.worker)
            return await self._inner.list_active_runs(*arguments, **named)

    engine = await opened(tmp_path, wrap=lambda journal: cast(Any, Watched(journal)))
    try:
        await engine.hold(work=False)
        await start(engine, workflow(task("a")))
        await engine.hold()
        assert workers, "what others left was looked for"
        assert set(workers) == {None}
        assert (await ended(engine)).state is R.COMPLETED
    finally:
        await engine.close(0.5)


async def test_new_work_has_its_turn_while_many_runs_resume(tmp_path):
    """Results and requests do not wait behind every run that another process left."""
    count = 600
    engine = await opened(tmp_path)
    await engine.hold(work=False)
    for number in range(count):
        await start(engine, workflow(task("a"), name="left"), f"left-{number:04}")
    await crash(engine)
    engine = await opened(tmp_path)
    try:
        await engine.hold(work=False)
        assert engine.coordinator is not None
        rulings, resumed = engine.coordinator.rulings, []
        resume = rulings.resume

        def note(loaded: Any, crashed: Any) -> None:
            resumed.append(loaded.state.run_id)
            resume(loaded, crashed)

        rulings.resume = note  # type: ignore[method-assign]
        await engine.hold()
        await ask(engine, "pause", f"left-{count - 1:04}")
        assert len(resumed) < count, "the request waited for all of them"
        assert resumed.count(f"left-{count - 1:04}") == 1, "a run is resumed before anything else happens to it"
        await until_true(lambda: len(tasks.seen) == count - 1, "all others go on")
        assert sorted(resumed) == [f"left-{number:04}" for number in range(count)]
    finally:
        await engine.close(0.5)
