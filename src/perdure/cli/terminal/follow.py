"""Following a run at the terminal, until it ends or a signal ends this process; and what is said when this process takes
over from one that died.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from perdure.cli.frame.exits import ExitCode, say
from perdure.cli.frame.others import tell
from perdure.kernel.run_ids import root_of
from perdure.sdk.follower import Beside, Follower, Screen, Silent
from perdure.sdk.follower import follow as follow_to_the_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.cli.frame.backend import Backend
    from perdure.engine import Engine

__all__ = ["Screen", "Silent", "Stop", "follow", "stopping"]


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

    async def wait(self, over: asyncio.Event) -> None:
        await self.asked.wait()
        over.set()

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

        return Follower(JournalSource(backend), run_id), Lines(backend.tenancy.engine.registry)
    from perdure.cli.terminal.remote_follow import RemoteLines, StreamSource
    from perdure.nodes import installed

    follower = Follower(StreamSource(backend), run_id)
    return follower, RemoteLines(follower, installed())


async def follow(
    follower: Follower, screen: Screen, stop: Stop, *, work: Engine | None, beside: Iterable[Beside] = ()
) -> None:
    """Follow a run, also until this process is told to stop. Says so when it takes over."""
    go_on = None if work is None else partial(_go_on, work, follower)
    await follow_to_the_end(follower, screen, work=work, go_on=go_on, beside=[stop.wait, *beside])


async def _go_on(engine: Engine, follower: Follower) -> None:
    from perdure.service import Service

    run_id = root_of(follower.state.run_id)
    others = await Service.of_owner(engine).upkeep.other_work(run_id)
    await engine.hold()
    say("The process that ran this database is gone; going on here.")
    for line in tell(others, run_id, only=engine.others == "none"):
        say(line)
