"""The fetcher: a message that was set aside comes back, whatever becomes of the first try."""

import asyncio
from typing import Any

from perdure.clock import system
from perdure.errors import StoreUnavailable
from perdure.expressions.errors import NeedsStore
from perdure.runtime.coordinator.messages import TimerDue
from perdure.runtime.coordinator.tasks.cache import Cache
from perdure.runtime.coordinator.tasks.fetcher import AT_ONCE, Fetched, Fetcher


async def test_what_waits_for_something_whose_fetching_was_cancelled_is_not_forgotten():
    """R2: a library that cancels what it runs took the fetch with it, and the result of a node was heard by nobody."""
    tries: list[str] = []
    back: asyncio.Queue[Any] = asyncio.Queue()

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        tries.append(tenant)
        if len(tries) == 1:
            raise asyncio.CancelledError
        return Fetched(True)

    fetcher = Fetcher({NeedsStore: store}, Cache(1000), back.put_nowait, system)
    message = TimerDue("r1", "deadline", 0.0)
    fetcher.set_aside(message, NeedsStore("cas://x", b"{}"))
    running = asyncio.create_task(fetcher.run())
    try:
        assert await asyncio.wait_for(back.get(), 10) is message
        assert (len(fetcher), len(tries)) == (0, 2)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_what_waits_for_something_whose_fetching_was_cancelled_before_it_began_is_not_forgotten():
    """R2, seed 126479: a task that is cancelled before its first step runs nothing, so it cannot say what it leaves."""
    back: asyncio.Queue[Any] = asyncio.Queue()

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        return Fetched(True)

    fetcher = Fetcher({NeedsStore: store}, Cache(1000), back.put_nowait, system)
    message = TimerDue("r1", "deadline", 0.0)
    fetcher.set_aside(message, NeedsStore("cas://x", b"{}"))
    before = asyncio.all_tasks()
    running = asyncio.create_task(fetcher.run())
    try:
        await asyncio.sleep(0)  # `run` has made the task of the fetch, which has not begun
        (fetching,) = asyncio.all_tasks() - before - {running}
        fetching.cancel()
        assert await asyncio.wait_for(back.get(), 10) is message
        assert len(fetcher) == 0
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_fetches_that_were_cancelled_in_a_pause_do_not_let_more_run_side_by_side():
    """Each gave back a slot that it did not have."""
    pauses: list[asyncio.Task[None]] = []
    all_pause = asyncio.Event()
    running_now, most = 0, 0
    back: asyncio.Queue[Any] = asyncio.Queue()

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        nonlocal running_now, most
        task = asyncio.current_task()
        assert task is not None
        if len(pauses) < AT_ONCE:
            pauses.append(task)
            if len(pauses) == AT_ONCE:
                all_pause.set()
            raise StoreUnavailable("not now")
        running_now += 1
        most = max(most, running_now)
        for _ in range(20):  # all that may run beside it begins meanwhile
            await asyncio.sleep(0)
        running_now -= 1
        return Fetched(True)

    fetcher = Fetcher({NeedsStore: store}, Cache(1000), back.put_nowait, system)
    for number in range(4 * AT_ONCE):
        fetcher.set_aside(TimerDue(f"r{number}", "deadline", 0.0), NeedsStore(f"cas://{number}", b"{}"))
    running = asyncio.create_task(fetcher.run())
    try:
        await all_pause.wait()
        for task in pauses:
            task.cancel()
        for _ in range(4 * AT_ONCE):
            await asyncio.wait_for(back.get(), 10)
        assert most == AT_ONCE
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_timer_that_is_told_again_waits_once_until_it_has_come_back():
    """The timekeeper tells the same one again and again; with thousands that wait for the same, none may look at all others."""
    back: asyncio.Queue[Any] = asyncio.Queue()
    counts = asyncio.Event()

    async def store(tenant: str, need: NeedsStore) -> Fetched:
        await counts.wait()
        return Fetched(True)

    fetcher = Fetcher({NeedsStore: store}, Cache(1000), back.put_nowait, system)
    timers = [TimerDue(f"r{number}", "trigger:receive", due) for due in (0.0, 1.0) for number in range(100)]
    running = asyncio.create_task(fetcher.run())
    try:
        for turn in range(2):
            for message in timers:
                fetcher.set_aside(message, NeedsStore("cas://x", b"{}"))
            assert len(fetcher) == 100, turn
            counts.set()
            found = [await asyncio.wait_for(back.get(), 10) for _ in range(100)]
            assert [one.run_id for one in found] == [f"r{number}" for number in range(100)]
            counts.clear()
            for message in found:
                fetcher.handled(message)
    finally:
        running.cancel()
        await asyncio.wait([running])
