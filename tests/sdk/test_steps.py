"""Durable steps through `perdure.run`: each result kept before the next step begins, none done twice once it has returned."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.engine import Engine
from tests.engine.helpers import events

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh():
    DONE.clear()


def do(name: str, result: Any = None) -> Any:
    DONE.append(name)
    return name.upper() if result is None else result


async def do_async(name: str) -> str:
    await asyncio.sleep(0)
    return do(name)


def fast(**options: Any) -> Any:
    return perdure.task(retry={"max_attempts": 3, "backoff_ms": 1}, **options)


async def journal(path: Path, run_id: str) -> list[Any]:
    engine = await Engine.open(f"sqlite:////{str(path).lstrip('/')}")
    try:
        return await events(engine.journal, run_id)
    finally:
        await engine.close()


def test_steps_are_done_once_over_the_attempts_of_a_sync_task(tmp_path):
    @fast()
    def work(ctx: perdure.Context, n: int) -> list[Any]:
        found = [ctx.step("a", do, "a"), ctx.step("b", do, "b", result={"n": n})]
        if ctx.attempt < 3:
            raise RuntimeError("again")
        return [*found, ctx.step("c", do, "c"), ctx.attempt]

    run = perdure.run(work, n=7, run_id="r", db=tmp_path / "perdure.db")
    assert run.result() == ["A", {"n": 7}, "C", 3]
    assert DONE == ["a", "b", "c"]
    kept = [event for event in asyncio.run(journal(tmp_path / "perdure.db", "r")) if event.type == "node.checkpointed"]
    assert [(event.step, event.data, event.attempt) for event in kept] == [
        ("a", "A", 1),
        ("b", {"n": 7}, 1),
        ("c", "C", 3),
    ]


def test_steps_of_an_async_task_may_be_sync_or_async_and_side_by_side():
    @fast()
    async def work(ctx: perdure.Context) -> list[Any]:
        both = await asyncio.gather(ctx.step("a", do, "a"), ctx.step("b", do_async, "b"))
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return [*both, await ctx.step("c", do_async, "c")]

    assert perdure.run(work, db=":memory:").result() == ["A", "B", "C"]
    assert sorted(DONE) == ["a", "b", "c"]


def test_a_step_may_be_a_task():
    @perdure.task
    async def inner(name: str) -> str:
        return await do_async(name)

    @perdure.task
    async def outer(ctx: perdure.Context) -> Any:
        return [await ctx.step("one", inner, "one"), await ctx.step("two", perdure.task(_plain), 2)]

    assert perdure.run(outer, db=":memory:").result() == ["ONE", 4]


def _plain(n: int) -> int:
    return n * 2


def test_what_a_step_gives_is_the_same_the_first_time_and_later():
    seen: list[Any] = []

    @fast()
    def work(ctx: perdure.Context) -> None:
        seen.append(ctx.step("a", lambda: {"tuple": (1, 2), 3: "key"}))
        if ctx.attempt == 1:
            raise RuntimeError("again")

    perdure.run(work, db=":memory:")
    assert seen == [{"tuple": [1, 2], "3": "key"}] * 2


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (lambda ctx: [ctx.step("a", int), ctx.step("a", int)], "error", "step 'a' was used before"),
        (lambda ctx: ctx.step("a", object), "bad_output", "step 'a' is not JSON: $ is of type object"),
        (lambda ctx: ctx.step("a", lambda: {"x": [object()]}), "bad_output", "step 'a' is not JSON: $.x[0]"),
        (lambda ctx: ctx.step("a", do_async, "a"), "error", "make the handler async"),
        (lambda ctx: ctx.step("a", do("x")), "error", "step 'a' got a str, not a function"),
        (lambda ctx: ctx.step("", int), "error", "a step needs a name"),
    ],
)
def test_a_step_that_cannot_be_kept_says_why(body, code, words):
    @perdure.task(retry=1)
    def work(ctx: perdure.Context) -> None:
        body(ctx)

    run = perdure.run(work, db=":memory:")
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", code)
    assert words in run.error["message"]


def test_a_failed_run_that_is_tried_again_keeps_its_steps(tmp_path):
    @perdure.task(retry=1)
    def work(ctx: perdure.Context) -> str:
        ctx.step("a", do, "a")
        if len(DONE) < 2:
            do("failing")
            raise RuntimeError("no")
        return "done"

    assert perdure.run(work, run_id="r", db=tmp_path / "perdure.db").state == "failed"
    assert perdure.run(work, run_id="r", db=tmp_path / "perdure.db", retry_failed=True).result() == "done"
    assert DONE == ["a", "failing"]


def test_what_was_compensated_does_its_steps_again(tmp_path):
    @perdure.task
    def undo(output: Any) -> None:
        do("undo")

    @perdure.task(compensator=undo)
    def book(ctx: perdure.Context) -> str:
        return str(ctx.step("book", do, "book"))

    @perdure.task
    def pay(booking: str) -> str:
        if DONE.count("pay") == 0:
            do("pay")
            raise perdure.Abort("no money")
        return booking

    @perdure.workflow(on_failure="compensate")
    def trip():
        return pay(book())

    assert perdure.run(trip, run_id="r", db=tmp_path / "perdure.db").state == "failed"
    assert DONE == ["book", "pay", "undo"]
    assert perdure.run(trip, run_id="r", db=tmp_path / "perdure.db", retry_failed=True).result() == "BOOK"
    assert DONE == ["book", "pay", "undo", "book"]


@pytest.mark.slow
def test_a_thousand_steps_take_room_for_a_thousand_results(tmp_path):
    @perdure.task
    def work(ctx: perdure.Context) -> int:
        return sum(len(ctx.step(f"step {number}", lambda: "x" * 100)) for number in range(1000))

    assert perdure.run(work, db=tmp_path / "perdure.db").result() == 100_000
    with sqlite3.connect(tmp_path / "perdure.db") as database:
        [(size,)] = database.execute("SELECT sum(length(body)) FROM events").fetchall()
    database.close()
    assert size < 1_000_000


@pytest.mark.slow
def test_every_step_is_durable_before_the_next_begins(tmp_path):
    """Read from outside, by another connection, in the middle of the task."""

    def kept() -> int:
        database = sqlite3.connect(f"file:{tmp_path / 'perdure.db'}?mode=ro", uri=True)
        try:
            [(count,)] = database.execute("SELECT count(*) FROM events WHERE type = 'node.checkpointed'").fetchall()
        finally:
            database.close()
        return int(count)

    @perdure.task
    def work(ctx: perdure.Context) -> list[int]:
        return [ctx.step(f"step {number}", kept) for number in range(50)]

    @perdure.task
    async def work_async(ctx: perdure.Context) -> list[int]:
        return [await ctx.step(f"step {number}", kept) for number in range(50)]

    assert perdure.run(work, db=tmp_path / "perdure.db").result() == list(range(50))
    assert perdure.run(work_async, db=tmp_path / "perdure.db").result() == list(range(50, 100))
