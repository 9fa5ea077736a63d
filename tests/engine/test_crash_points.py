"""The process dies exactly before or exactly after its n-th append, for every n: nobody has to help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.kernel.lifecycle import RunState
from tests.engine import tasks
from tests.engine.helpers import (
    DEADLINE,
    ask,
    check,
    compiled,
    crash,
    ended,
    events,
    opened,
    start,
    state_of,
    task,
    transform,
    until,
    until_true,
    workflow,
)

pytestmark = pytest.mark.slow

INNER = {"type": "task", "config": {"function": "tests.engine.tasks:crowd", "args": {"item": "{{ item }}"}}}
CHILD = workflow(
    task("inner", "add", args={"a": "{{ inputs.n }}", "b": 1}), name="child", outputs={"n": "{{ inner.sum }}"}
)
EVERYTHING = workflow(
    task("begin"),
    task("left", "echo", ["begin"]),
    task("right", "fail", ["begin"], args={"times": 1}, retry={"max_attempts": 9, "backoff_ms": 1, "jitter": False}),
    {"id": "call", "type": "workflow", "config": {"workflow": "child", "inputs": {"n": 1}}, "dependencies": ["left"]},
    {
        "id": "each",
        "type": "map",
        "config": {"over": [1, 2, 3], "node": INNER, "max_concurrency": 2},
        "dependencies": ["right"],
    },
    {"id": "nap", "type": "wait", "config": {"seconds": 0.01}, "dependencies": ["call", "each"]},
    task("again", "count", ["nap"], args={"upto": 2}, loop={"condition": "!output.done", "max_iterations": 5}),
    transform("end", ["{{ call.n }}", "{{ each }}", "{{ again.at }}"], ["again"]),
    outputs={"all": "{{ end }}"},
)
LAST = 60
"""More appends than a run of this workflow needs."""


class Dying:
    """A journal whose process is gone at the n-th append: nothing comes back from there."""

    def __init__(self, journal: Any, number: int, after: bool) -> None:
        self._journal = journal
        self._left = number
        self._after = after
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, commits: Any) -> Any:
        self._left -= 1
        if self._left != 0:
            return await self._journal.append(commits)
        if self._after:
            await self._journal.append(commits)
        self.died.set()
        return await asyncio.Event().wait()


async def dies_at(path: Any, number: int, after: bool, definition: dict[str, Any], then: Callable[..., Any]) -> bool:
    """Whether the run was not over by then."""
    dying: list[Dying] = []

    def wrap(journal: Any) -> Any:
        dying.append(Dying(journal, number, after))
        return dying[0]

    engine = await opened(path, wrap=wrap)
    await engine.hold()
    await engine.workflows.register(compiled(CHILD))
    work = asyncio.create_task(then(engine, definition))
    died = asyncio.create_task(dying[0].died.wait())
    await asyncio.wait({work, died}, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE)
    over = work.done()
    for one in (work, died):
        one.cancel()
    await asyncio.gather(work, died, return_exceptions=True)
    await crash(engine)
    return not over


async def is_heard(journal: Any) -> bool:
    return not await journal.read_notices()


async def run_to_the_end(engine: Any, definition: dict[str, Any]) -> None:
    if await engine.journal.find_run("r1") is None:
        await start(engine, definition)
    await ended(engine)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", range(4))
async def test_a_crash_at_any_append_costs_nothing_but_time(tmp_path, after, part):
    for number in range(1 + part, LAST, 4):
        folder = tmp_path / str(number)
        folder.mkdir()
        tasks.reset()
        if not await dies_at(folder, number, after, EVERYTHING, run_to_the_end):
            assert number > 8
            return
        engine = await opened(folder)
        try:
            await engine.hold()
            await run_to_the_end(engine, EVERYTHING)
            state = await engine.runs.state("r1")
            assert state.state is RunState.COMPLETED
            assert state.outputs == {"all": [2, [2, 4, 6], 2]}, number
            await check(engine.journal, state.find("call").child)
            assert await engine.journal.read_notices() == []
            await until_true(lambda runs=engine.coordinator.memory.runs: not runs, "no run is in memory")
        finally:
            await engine.close(0.5)
    raise AssertionError(f"a run took more than {LAST} appends")


@pytest.mark.parametrize("force", [False, True], ids=["", "by force"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_while_a_parent_and_its_child_are_cancelled(tmp_path, after, force):
    """Also in the append that ends the parent: of a run that has ended, nothing is sent again (rule 35)."""
    child = workflow(task("only", "gate", args={"name": "never"}), name="child")
    parent = workflow({"id": "call", "type": "workflow", "config": {"workflow": "child"}}, name="parent")

    async def begin_and_cancel(engine: Any, definition: dict[str, Any]) -> None:
        await engine.workflows.register(compiled(child))
        if await engine.journal.find_run("r1") is None:
            await start(engine, definition)
        if force:  # and not before there is a child to be left
            await until(engine, lambda state: state.terminal or state_of(state, "call") == "waiting")
            await until_true(lambda: tasks.seen, "the child works")
        await ask(engine, "cancel", force=force)
        await ended(engine)

    for number in range(1, LAST):
        folder = tmp_path / str(number)
        folder.mkdir()
        tasks.reset()
        if not await dies_at(folder, number, after, parent, begin_and_cancel):
            assert number > 3
            return
        engine = await opened(folder)
        try:
            await engine.hold()
            await begin_and_cancel(engine, parent)
            state = await engine.runs.state("r1")
            assert state.state is RunState.CANCELLED
            name = state.find("call").child
            if await engine.journal.find_run(name) is not None:
                assert (await ended(engine, name)).state is RunState.CANCELLED
            await until_true(lambda journal=engine.journal: is_heard(journal), "every notice is heard")
        finally:
            await engine.close(0.5)
    raise AssertionError("it never ended")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_while_a_run_is_rolled_back(tmp_path, after):
    undo = {"type": "task", "config": {"function": "tests.engine.tasks:undo", "args": {}}}
    definition = workflow(
        task("a", compensator=undo), task("b", "echo", ["a"], compensator=undo), task("c", "echo", ["b"])
    )

    async def run_and_roll_back(engine: Any, definition: dict[str, Any]) -> None:
        if await engine.journal.find_run("r1") is None:
            await start(engine, definition)
        await ended(engine)
        await ask(engine, "rollback")
        await until(engine, lambda state: state.state is RunState.ROLLED_BACK)

    for number in range(1, LAST):
        folder = tmp_path / str(number)
        folder.mkdir()
        if not await dies_at(folder, number, after, definition, run_and_roll_back):
            assert number > 5
            return
        engine = await opened(folder)
        try:
            await engine.hold()
            await asyncio.wait_for(run_and_roll_back(engine, definition), DEADLINE)
            await check(engine.journal)
            undone = [event.node for event in await events(engine.journal) if event.type == "node.compensated"]
            assert undone == ["b", "a"]
        finally:
            await engine.close(0.5)
    raise AssertionError("it never ended")
