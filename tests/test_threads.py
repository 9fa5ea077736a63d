"""Threads beside the loop: tenants take turns in them, and nobody has all."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

import perdure
from perdure.model.compilation import compile_text
from perdure.places import Places
from perdure.threads import NUMBER, Threads
from tests.api.helpers import bearer, serving
from tests.attack.marks import attack
from tests.engine.helpers import DEADLINE
from tests.waiting import until_true

SOURCES = Path(perdure.__file__).parent
OTHERWISE = {
    "runtime/worker/attempt_files.py": "files of an attempt, which has a slot of its worker",
    "runtime/worker/asset_previews.py": "a preview for an attempt, which has a slot of its worker",
    "runtime/worker/spooled_content.py": "files of an attempt, which has a slot of its worker",
    "runtime/worker/isolated_process.py": "a process of its own, for one attempt",
    "runtime/worker/isolation.py": "waits for the end of a process, and no longer than half a second",
    "runtime/worker/local_context.py": "a function of the user's own",
    "cli/chat.py": "the terminal of one user",
}
"""Why these do not take turns."""


async def test_one_tenant_leaves_a_thread_to_others_and_tenants_take_turns():
    threads, free = Threads(3), threading.Event()
    begun: list[str] = []

    def hold(who: str) -> str:
        begun.append(who)
        if who == "b":
            free.wait()
        return who

    holding = [asyncio.create_task(threads.call("b", hold, "b")) for _ in range(10)]
    try:
        await until_true(lambda: begun.count("b") == 2, "it has all threads that it may have")
        for _ in range(3):
            assert await asyncio.wait_for(threads.call("a", hold, "a"), DEADLINE) == "a"
        assert begun.count("b") == 2
    finally:
        free.set()
        assert await asyncio.gather(*holding) == ["b"] * 10


async def test_a_caller_who_is_gone_keeps_no_place_whether_it_waited_or_was_served():
    threads, free = Threads(1), threading.Event()
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        free.wait()

    served = asyncio.create_task(threads.call("a", hold))
    waiting = asyncio.create_task(threads.call("a", hold))
    await until_true(begun.is_set, "it is under way")
    for gone in (served, waiting):
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    free.set()
    assert await asyncio.wait_for(threads.call("a", lambda: "mine"), DEADLINE) == "mine"


async def test_no_thread_is_left_behind():
    threads = Threads(2)
    assert await asyncio.gather(*(threads.call("a", lambda: 1) for _ in range(10))) == [1] * 10
    await until_true(lambda: "perdure-aside" not in {one.name for one in threading.enumerate()}, "they have ended")


async def test_an_error_is_raised_where_it_is_awaited_and_leaves_its_place():
    threads = Threads(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await threads.call("a", lambda: 1 / 0)
    assert await threads.call("b", lambda: 1) == 1


async def test_a_thread_that_the_system_does_not_give_leaves_its_place(monkeypatch):
    threads = Threads(1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                await asyncio.wait_for(threads.call("a", lambda: 1), DEADLINE)
    assert await asyncio.wait_for(threads.call("a", lambda: 1), DEADLINE) == 1


def test_a_caller_whose_loop_is_closed_keeps_no_place():
    threads, free = Threads(1), threading.Event()

    async def leave_it() -> None:
        asyncio.ensure_future(threads.call("a", free.wait))  # noqa: RUF006  it is left behind on purpose
        await asyncio.sleep(0)

    asyncio.run(leave_it())
    free.set()
    assert asyncio.run(threads.call("a", lambda: 1)) == 1


def test_everything_that_is_done_beside_the_loop_takes_turns():
    """Otherwise a tenant could fill the threads that all share."""
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"to_thread\(|run_in_executor\(None", path.read_text(encoding="utf-8"))
    }
    assert found == OTHERWISE.keys()


@pytest.mark.slow
@attack("S16", "one tenant has all threads by definitions that take long to compile")
async def test_definitions_of_one_tenant_do_not_keep_another_waiting(tmp_path, monkeypatch):
    free, begun = threading.Event(), []

    def slow(text, **more):
        if b"slow" in text:
            begun.append(1)
            free.wait()
        return compile_text(text, **more)

    monkeypatch.setattr("perdure.runtime.definition_checks.compile_text", slow)

    def definition(name: str) -> dict:
        return {
            "name": name,
            "nodes": [{"id": f"n{n}", "type": "transform", "config": {"value": "x" * 90}} for n in range(500)],
        }

    async with serving(tmp_path, tokens=True) as server:
        eve, ann = bearer("eve", "viewer", tenant="b"), bearer("ann", "viewer", tenant="a")
        async with asyncio.TaskGroup() as group:
            for _ in range(3 * NUMBER):
                group.create_task(server.post("/workflows/validate", definition("slow"), headers=eve, timeout=60))
            try:
                await until_true(lambda: len(begun) >= NUMBER - 1, "one tenant compiles")
                answer = await asyncio.wait_for(
                    server.post("/workflows/validate", definition("quick"), headers=ann), DEADLINE
                )
            finally:
                free.set()
        assert answer.status_code == 200


def test_a_place_for_a_loop_that_is_gone_is_given_to_the_next():
    places = Places(1)
    places.ask("a", lambda: None)
    waiting = places.wait("b")

    async def begin() -> None:
        waiting.send(None)  # by hand: a task that is left pending is complained about when it is collected

    asyncio.run(begin())
    places.leave("a")
    asyncio.run(asyncio.wait_for(places.wait("c"), 30))
    waiting.close()
