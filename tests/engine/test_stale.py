"""An attempt that is over begins no further step: nothing it keeps counts, and it is told so (V4)."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure.kernel.lifecycle import RunState
from perdure.runtime.coordinator.messages import Reported
from perdure.transport import Delivery, Result
from tests.engine import tasks
from tests.engine.helpers import ask, ended, events, running, start, task, until_true, workflow

done: list[tuple[int, str]] = []
gates: dict[int, asyncio.Event] = {}
locks: dict[int, threading.Event] = {}


@pytest.fixture(autouse=True)
def _clean():
    done.clear()
    gates.clear()
    locks.clear()
    gates.update({1: asyncio.Event(), 2: asyncio.Event()})
    locks.update({1: threading.Event(), 2: threading.Event()})


def step(attempt: int, name: str) -> str:
    done.append((attempt, name))
    return f"{name}{attempt}"


async def stepping(ctx: perdure.Context) -> list[str]:
    first = await ctx.step("one", step, ctx._task.attempt, "one")
    await gates[ctx._task.attempt].wait()
    return [first, *[await ctx.step(name, step, ctx._task.attempt, name) for name in ("two", "three")]]


def stepping_in_thread(ctx: perdure.Context) -> list[str]:
    first = ctx.step("one", step, ctx._task.attempt, "one")
    assert locks[ctx._task.attempt].wait(20)
    return [first, *[ctx.step(name, step, ctx._task.attempt, name) for name in ("two", "three")]]


@pytest.mark.parametrize("function", ["stepping", "stepping_in_thread"])
async def test_the_step_of_a_stale_attempt_is_its_last(tmp_path, function):
    node = {"id": "a", "type": "task", "config": {"function": f"tests.engine.test_stale:{function}"}}
    async with running(tmp_path) as engine:
        coordinator = engine.coordinator
        assert coordinator is not None
        await start(engine, workflow(node))
        await until_true(lambda: (1, "one") in done, "the first attempt keeps its first step")

        async def is_kept():
            return any(event.type == "node.checkpointed" for event in await events(engine.journal))

        await until_true(is_kept, "it is durable")
        given_back = Result(run_id="r1", node="a", attempt=1, kind="handed_back")
        coordinator.put(Reported(Delivery("none", given_back)))
        await coordinator.drained()
        gates[1].set()
        locks[1].set()
        await until_true(lambda: (1, "two") in done, "the first attempt goes on by itself")
        gates[2].set()
        locks[2].set()
        state = await ended(engine)
        assert (state.state, state.outputs) == (RunState.COMPLETED, {"a": ["one1", "two2", "three2"]})
        assert [name for attempt, name in done if attempt == 1] == ["one", "two"], "no further step was begun"


async def test_what_is_cancelled_by_force_and_rolled_back_at_once_is_told_to_stop(tmp_path):
    """The rollback begins a generation; the attempt to be stopped is one of the generation before it."""
    definition = workflow(task("a", "gate", args={"name": "a"}))
    async with running(tmp_path) as engine:
        await start(engine, definition)
        await until_true(lambda: tasks.seen, "it runs")
        cancelled, undone = await asyncio.gather(ask(engine, "cancel", force=True), ask(engine, "rollback"))
        assert (cancelled.state, undone.state) == ("cancelled", "rolled_back")
        await until_true(lambda: tasks.cancelled == ["a"], "its handler was stopped")
