"""The parts of an engine: loops, each a task of its own, that live and end together.

Owns the tasks. A part that ends before the others, for whatever reason, is noticed: otherwise a run would stand still
unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from perdure.errors import PerdureError


class EngineStopped(PerdureError):
    """A part of the engine gave up; the journal is intact, and the next start goes on."""

    code = "engine_stopped"


class Parts:
    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.broken = asyncio.Event()
        """Set when a part has ended too early; callers that wait for the engine should then call `check`."""
        self.on_broken: list[Callable[[], None]] = []
        """Called when `broken` is set, for those who wait for something else."""
        self.closing = False
        """True once the parts may end, because the engine is closing."""

    def spawn(self, name: str, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"perdure-{name}")
        self.tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self.closing:
            self.broken.set()
            for tell in self.on_broken:
                tell()

    def check(self) -> None:
        """Raise EngineStopped if a part has ended."""
        for task in self.tasks:
            if task.done() and not self.closing:
                error = None if task.cancelled() else task.exception()
                why = "it was cancelled" if error is None else f"{type(error).__name__}: {error}"
                raise EngineStopped(f"{task.get_name()} stopped: {why}") from error

    async def until_broken(self) -> None:
        """Wait until a part gives up, and raise its reason."""
        await self.broken.wait()
        self.check()

    async def end(self, name: str) -> None:
        """End one part while the others go on."""
        for task in self.tasks:
            if task.get_name() == f"perdure-{name}":
                task.cancel()
                await asyncio.wait([task])

    async def stop(self) -> None:
        """End all parts; nothing is left running."""
        self.closing = True
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
