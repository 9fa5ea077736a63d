"""What executes handlers in a simulated process: threads and isolated processes without an operating system.

A *thread* does its work at once and is busy for as long as the script says; nothing can end it before, so its slot stays taken
(rule 32). An *isolated process* can be killed at any moment, may die by itself, and speaks JSON only. Both belong to the
host of their worker, and are gone when that dies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, cast

from perdure.model.money import Usage
from perdure.nodes.shared_values import Opener
from perdure.outcomes import Chosen, Failure
from perdure.runtime.failures import describe
from perdure.runtime.worker.context import Context
from perdure.runtime.worker.isolation import Duties, IsolatedProcess, ProcessPool
from perdure.runtime.worker.outputs import check_output
from perdure.runtime.worker.threads import Answer, ThreadPool
from perdure.runtime.worker.worker import Worker
from perdure.simulation.loop import HOST
from perdure.transport import Task

if TYPE_CHECKING:
    from perdure.simulation.process import Process
    from perdure.simulation.world import World


class SimWorker(Worker):
    """The worker, with simulated threads and processes."""

    def __init__(self, world: World, process: Process, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options, heartbeat_in_thread=False)
        self._world = world
        self._host_process = process

    def _functions(self) -> tuple[str, ...]:
        """The functions that the workflows of the simulator call, and the source that its trigger polls."""
        return ("work", "list")

    def _make_threads(self, loop: asyncio.AbstractEventLoop) -> ThreadPool:
        return SimThreads(self._world, loop, self._concurrency, self.worker_id)

    def _make_processes(self) -> ProcessPool:
        return SimProcesses(self._world, self._host_process)


class SimThreads(ThreadPool):
    def __init__(self, world: World, loop: asyncio.AbstractEventLoop, size: int, name: str) -> None:
        super().__init__(loop, size, name)
        self._world = world

    def submit(self, call: Callable[[], Any], ended: Callable[[], None]) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._open += 1
        self._loop.call_soon(self._begin, call, ended, future)
        return future

    def _begin(self, call: Callable[[], Any], ended: Callable[[], None], future: asyncio.Future[Answer]) -> None:
        self._world.blocking_seconds = 0.0
        answer: Answer = (False, None)
        began = not future.cancelled()
        if began:
            try:
                answer = (True, call())
            except BaseException as error:  # noqa: BLE001  a handler may raise anything, the attempt decides what it means
                answer = (False, error)
        self._loop.call_later(self._world.blocking_seconds, self._end, answer, ended, future, began)

    def _end(self, answer: Answer, ended: Callable[[], None], future: asyncio.Future[Answer], began: bool) -> None:
        self._open -= 1
        if began:
            self._world.checks.promises.busy[HOST.get().name] -= 1
        if not future.done():
            future.set_result(answer)
        ended()


class SimProcesses(ProcessPool):
    def __init__(self, world: World, process: Process) -> None:
        super().__init__(process.clock)
        self._world = world
        self._process = process
        self._warm = False

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[IsolatedProcess]:
        world = self._world
        if not self._warm:
            await self._process.clock.sleep(world.random.random())
        self._warm = True
        try:
            yield cast(IsolatedProcess, _Isolated(world))
        except Failure:
            raise
        except BaseException:
            self._warm = False  # killed
            raise

    async def close(self) -> None:
        """Close nothing: the processes are gone with the loop they run on."""


class _Isolated:
    def __init__(self, world: World) -> None:
        self._world = world

    async def call(
        self, handler: Callable[..., Any], task: Task, duties: Duties, opener: Opener | None = None, device: str = ""
    ) -> Any:
        """Call it on the loop. No handler of the simulation opens anything."""
        context = _IsolatedContext(task, duties)
        try:
            value = await self._world.handlers.isolated(task.config, context)
            if isinstance(value, Chosen):
                return Chosen(check_output(value.output).value, value.next_nodes, value.reasoning)
            return check_output(value).value
        except asyncio.CancelledError:
            if context.gave_up:
                raise Failure("error", "the handler cancelled itself") from None
            raise
        except Exception as error:
            fields = describe(error)
            raise Failure(fields.pop("code"), fields.pop("message"), **fields) from error


class _IsolatedContext(Context):
    __slots__ = ("_duties", "gave_up")

    def __init__(self, task: Task, duties: Duties) -> None:
        super().__init__(task)
        self._duties = duties
        self.gave_up = False

    def heartbeat(self) -> None:
        self._duties.heartbeat()

    def _tell_progress(self, said: str) -> None:
        self._duties.progress(said)

    def _save(self, checkpoint: Any, step: str = "", usage: Usage | None = None) -> Any:
        if usage is not None:
            self._new_wish()
        return self._duties.checkpoint(checkpoint, step)

    def _on_loop(self) -> bool:
        return True
