"""Following a run: its state folded from its events as they become durable, whichever process decides them.

When this process holds the database, it also works. When another process does, that one works; should it die, a
follower that was asked to work takes over at once (PROTOCOL 26, 27).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from perdure.cli.exits import ExitCode, say
from perdure.cli.others import look_around, tell
from perdure.kernel import events as e
from perdure.kernel.run_ids import root_of
from perdure.kernel.state import State
from perdure.sdk.follower import Follower, take_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.backend import Backend
    from perdure.engine import Engine

__all__ = ["Screen", "Silent", "Stop", "follow", "stopping"]


class Screen(Protocol):
    """The place where a person sees the run."""

    def begin(self, state: State) -> None: ...
    def show(self, state: State, event: e.Event) -> None: ...
    def end(self) -> None: ...


class Silent:
    def begin(self, state: State) -> None:
        pass

    def show(self, state: State, event: e.Event) -> None:
        pass

    def end(self) -> None:
        pass


class Stop:
    """The wish of a person or the system that this process ends."""

    def __init__(self) -> None:
        self.code: ExitCode | None = None
        self.asked = asyncio.Event()
        self._on_second: Callable[[], None] = lambda: None

    def __call__(self, number: int) -> None:
        if self.code is not None:
            self._on_second()
            return
        self.code = ExitCode.TERMINATED if number == signal.SIGTERM else ExitCode.INTERRUPTED
        self.asked.set()

    def on_second(self, act: Callable[[], None]) -> None:
        self._on_second = act


@contextmanager
def stopping() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop; a second one may do more."""
    stop, loop = Stop(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in numbers:
            loop.add_signal_handler(number, stop, number)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread: Ctrl-C raises there
        numbers = ()  # type: ignore[assignment]
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def followed(backend: Backend, run_id: str) -> tuple[Follower, Screen]:
    """A follower of the run, and a screen that shows it line by line."""
    from perdure.service import Service

    if isinstance(backend, Service):
        from perdure.cli.terminal.lines import Lines
        from perdure.sdk.follower import JournalSource

        engine = backend.tenancy.engine
        return Follower(JournalSource(engine), run_id), Lines(engine.registry)
    from perdure.cli.terminal.remote_follow import RemoteLines, StreamSource
    from perdure.nodes import installed

    follower = Follower(StreamSource(backend), run_id)
    return follower, RemoteLines(follower, installed())


async def follow(
    follower: Follower,
    screen: Screen,
    stop: Stop,
    *,
    work: Engine | None,
    beside: Callable[[asyncio.Event], Any] | None = None,
) -> None:
    """Follow a run until it has ended, this process is told to stop, or what runs `beside` it sets the event it is
    given. `work` is the engine that takes over when the process that works dies."""
    over = asyncio.Event()
    screen.begin(follower.state)
    try:
        async with asyncio.TaskGroup() as group:
            shown = asyncio.Event()
            tasks = [
                group.create_task(_watch(follower, screen, shown, over)),
                group.create_task(_when(stop.asked, over)),
            ]
            if work is not None:
                tasks.append(group.create_task(_take_over(work, follower, shown)))
            if beside is not None:
                tasks.append(group.create_task(beside(over)))
            await over.wait()
            for task in tasks:
                task.cancel()
    finally:
        screen.end()


async def _watch(follower: Follower, screen: Screen, shown: asyncio.Event, over: asyncio.Event) -> None:
    if follower.state.seq:  # the run is known from before
        shown.set()
    if not _ended(follower):
        async for event in follower.events():
            screen.show(follower.state, event)
            shown.set()
            if _ended(follower):
                break
    over.set()


def _ended(follower: Follower) -> bool:
    return follower.state.terminal


async def _when(asked: asyncio.Event, over: asyncio.Event) -> None:
    await asked.wait()
    over.set()


async def _take_over(engine: Engine, follower: Follower, shown: asyncio.Event) -> None:
    """Keep asking for the hold: the operating system releases it the moment its holder dies."""
    if engine.worker is not None:
        return
    if engine.holds:  # a new run, which this process has begun and no worker executes yet
        await shown.wait()
        await engine.hold()
        return
    await take_over(engine, work=False)
    run_id = root_of(follower.state.run_id)
    others = await look_around(engine, run_id)
    await engine.hold()
    say("The process that ran this database is gone; going on here.")
    for line in tell(others, run_id, only=engine.others == "none"):
        say(line)
