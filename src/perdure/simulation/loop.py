"""An event loop without a world: time jumps to the next timer, and chance decides whose turn it is.

It owns virtual time, turns and hosts. A host is a simulated process: every callback belongs to the host whose context it
was made in. Within one host, order is asyncio's own; between hosts it is drawn from the seed. A host can be killed (none of
its callbacks ever runs again, as after kill -9) or stopped for a while (its callbacks pile up, as after SIGSTOP).

Nothing here may depend on addresses or string hashes: tasks and futures, which asyncio keeps in sets, hash by number.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

TURN = 6
"""The most callbacks a host runs before another may have its turn."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: every waiting task would wait for ever."""


class TooManySteps(Exception):
    """The history does not come to an end."""


class Host:
    """A simulated process, as the loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.dead = False
        self.stopped_until = 0.0
        self.trap = 0
        """Callbacks until `sprung` is called; 0: never."""
        self.tasks: list[SimTask] = []
        self.context = contextvars.copy_context()
        self.context.run(HOST.set, self)

    def alive_tasks(self) -> list[SimTask]:
        self.tasks = [task for task in self.tasks if not task.done()]
        return self.tasks


HOST: contextvars.ContextVar[Host] = contextvars.ContextVar("perdure_simulated_host")


class SimHandle(asyncio.Handle):
    """A handle that does not ask its loop about debugging, as asyncio's own does: every turn makes some."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., Any], args: Any, loop: SimLoop, context: contextvars.Context | None
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None


class SimFuture(asyncio.Future[Any]):
    def __init__(self, *, loop: SimLoop) -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[Any]):
    def __init__(self, coro: Any, *, loop: SimLoop, name: str | None, context: contextvars.Context | None) -> None:
        self.number = loop.next_number()
        super().__init__(coro, loop=loop, name=name or "task", context=context)

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.BaseEventLoop):
    _scheduled: list[Any]
    _stopping: bool

    def __init__(self, random: Random, *, max_steps: int = 1_000_000) -> None:
        super().__init__()
        self._random = random
        self._now = 0.0
        self._numbers = 0
        self._max_steps = max_steps
        self.steps = 0
        self.ahead = 0.0
        """Seconds by which every wall clock was advanced while nothing happened: a wait of days costs no turns."""
        self.sprung: Callable[[Host], None] = lambda host: None
        self.world = Host("world")
        self._hosts: list[Host] = [self.world]
        self.set_exception_handler(lambda _loop, _context: None)  # asyncio's own complaints

    # -- hosts ---------------------------------------------------------------------------------------------------------

    def add_host(self, name: str) -> Host:
        host = Host(name)
        self._hosts.append(host)
        return host

    def kill(self, host: Host) -> None:
        """Stop a host at its next await, for ever. Its tasks are kept until the end, so that none is finalised."""
        host.dead = True
        host.ready.clear()
        for task in host.alive_tasks():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._hosts.remove(host)

    def stop_host(self, host: Host, seconds: float) -> None:
        host.stopped_until = self._now + seconds
        self.call_at(host.stopped_until, _nothing, context=self.world.context)

    def run_in(self, host: Host, coroutine: Any, name: str = "task") -> SimTask:
        return self.create_task(coroutine, name=name, context=host.context.copy())

    # -- what asyncio asks of a loop -----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None) -> SimTask:  # type: ignore[override]
        task = SimTask(coro, loop=self, name=name, context=context)
        host = (context or contextvars.copy_context()).get(HOST, self.world)
        if len(host.tasks) > 200:
            host.alive_tasks()
        host.tasks.append(task)
        return task

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = SimHandle(callback, args, self, context)
        self._put(handle)
        return handle

    def _put(self, handle: Any) -> None:
        host = handle._context.get(HOST, self.world)
        if not host.dead:
            host.ready.append(handle)

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function at once: there are no threads here."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the awaiting task sees it
            future.set_exception(error)
        return future

    def _write_to_self(self) -> None:
        """Do nothing: no selector waits."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no events."""

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Take turns until the loop is stopped."""
        random = self._random.random
        while True:
            now = self._now
            able = [host for host in self._hosts if host.ready and host.stopped_until <= now]
            if able:
                host = able[int(random() * len(able))] if len(able) > 1 else able[0]
                self._run_turn(host, 1 + int(random() * TURN))
                if self.steps > self._max_steps:
                    raise TooManySteps(f"{self.steps} steps, and no end")
            elif not self._stopping:
                self._pass_time()
            if self._stopping:
                return

    def _run_turn(self, host: Host, most: int) -> None:
        queue = host.ready
        for _ in range(min(len(queue), most)):
            handle: Any = queue.popleft()
            if handle._cancelled:
                continue
            self.steps += 1
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException:  # noqa: BLE001, S110  a callback's own matter, as in asyncio, which would log it
                pass
            if host.trap:
                host.trap -= 1
                if not host.trap:
                    self.sprung(host)
            if host.dead:
                return

    def _pass_time(self) -> None:
        scheduled = self._scheduled
        while scheduled and (scheduled[0]._cancelled or self._is_dead(scheduled[0])):
            heapq.heappop(scheduled)._scheduled = False
        if not scheduled:
            raise Deadlock("nothing is ready and no timer is set")
        self._now = max(self._now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._put(handle)

    def _is_dead(self, handle: Any) -> bool:
        return bool(handle._context.get(HOST, self.world).dead)

    # -- the end -------------------------------------------------------------------------------------------------------

    def abandon(self, hosts: list[Host]) -> None:
        """Drop what is left, silently: the history is over. A task group waits for its tasks even while it is closed, so
        its coroutine raises that it ignored that; nothing of a process is at fault."""
        asyncio._set_running_loop(self)  # a closing coroutine may ask for it, and would make one that stays open
        try:
            for _ in range(3):  # a closing coroutine may begin something
                for host in [*hosts, *self._hosts]:
                    for task in host.alive_tasks():
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                        _close(task.get_coro())
                    host.tasks.clear()
                    host.ready.clear()
        finally:
            asyncio._set_running_loop(None)
        self._scheduled.clear()

    def __del__(self) -> None:
        """Close nothing: the loop holds nothing that must be closed."""


def _close(coroutine: Any) -> None:
    """Close a coroutine now, whatever it raises, and not when its memory is collected."""
    for _ in range(5):
        try:
            coroutine.close()
        except (Exception, asyncio.CancelledError, BaseExceptionGroup):  # noqa: BLE001, S112  raised while it closes
            continue
        return


def _nothing() -> None:
    """Do nothing, but give the loop a reason to look again."""
