"""One attempt, executed: on the loop, in a thread, or in a process of its own.

It owns the way from a task to the value or error of its handler, and the context the handler sees. It must not know
slots, claiming or shutdown.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from weft.clock import Clock
from weft.nodes.registry import Handler
from weft.outcomes import Failure
from weft.runtime.attempt import Attempt
from weft.runtime.claims import Claims
from weft.runtime.context import Context, running_loop
from weft.runtime.isolation import ProcessPool
from weft.runtime.reporter import Reporter
from weft.runtime.threads import ThreadPool
from weft.runtime.watch import Watch
from weft.transport import Result, Transport, TransportUnavailable

_log = logging.getLogger(__name__)


class Execution:
    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        handlers: Mapping[str, tuple[Handler, bool]],
        *,
        worker_id: str,
        threads: ThreadPool,
        processes: ProcessPool,
        reporter: Reporter,
        watch: Watch,
        claims: Claims | None,
        release: Callable[[Attempt], None],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._handlers = handlers
        self.worker_id = worker_id
        self.threads = threads
        self._processes = processes
        self._reporter = reporter
        self._watch = watch
        self._claims = claims
        self._release = release
        self.loop = asyncio.get_running_loop()
        self._contexts: dict[str, WorkerContext] = {}

    async def execute(self, attempt: Attempt) -> Result:
        """Its result; raises only when cancelled."""
        task = attempt.task
        try:
            found = self._handlers.get(task.type)
            if found is None:
                raise _unknown_type(task.type, self._handlers)
            if task.effect == "at_most_once" and not await self._is_granted(attempt):
                return attempt.handed_back(self.worker_id)
            value = await self._call(attempt, *found)
            return attempt.completed(value, self.worker_id)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  a handler may raise anything, SystemExit too: it is its failure
            return attempt.failed(error, self.worker_id)
        finally:
            self._contexts.pop(attempt.task_id, None)

    def tell(self, attempt: Attempt) -> None:
        """Let the handler know that it should stop."""
        context = self._contexts.get(attempt.task_id)
        if context is not None:
            context.cancelled = True

    def checkpoint(self, attempt: Attempt, data: Any) -> asyncio.Future[None]:
        if attempt.reported:
            raise asyncio.CancelledError(f"{attempt.task_id} is over")
        return self._reporter.add_and_wait(attempt.checkpointed(data, self.worker_id))

    def thread_ended(self, attempt: Attempt) -> None:
        attempt.threads -= 1
        self._release(attempt)

    async def _is_granted(self, attempt: Attempt) -> bool:
        try:
            return await self._transport.begin(attempt.task, self.worker_id)
        except TransportUnavailable as error:
            # Perhaps the start is in the journal; it is certain that nothing was started, and the result says so.
            _log.warning("worker %s cannot ask to begin %s: %s", self.worker_id, attempt.task_id, error)
            return False

    async def _call(self, attempt: Attempt, handler: Handler, is_async: bool) -> Any:
        task = attempt.task
        if task.isolation == "process":
            async with self._processes.process() as process:
                self._begin(attempt)
                return await process.call(
                    handler,
                    task,
                    heartbeat=functools.partial(self.heartbeat, attempt),
                    checkpoint=functools.partial(self.checkpoint, attempt),
                )
        context = self._contexts[attempt.task_id] = WorkerContext(self, attempt)
        # The handler may change what it is given; the coordinator's own data must not change with it.
        config = msgspec.to_builtins(task.config)
        self._begin(attempt)
        if is_async:
            return await handler(config, context)
        return await context.run_in_thread(handler, config, context)

    def _begin(self, attempt: Attempt) -> None:
        if self._claims is not None:
            self._claims.enter(attempt.slot, attempt.task_id)
        attempt.started = attempt.last_heartbeat = self._clock.monotonic()
        attempt.started_at = self._clock.now()
        task = attempt.task
        if task.timeout_seconds is not None or task.heartbeat_timeout_seconds is not None:
            self._watch.add(attempt)

    def heartbeat(self, attempt: Attempt) -> None:
        attempt.last_heartbeat = self._clock.monotonic()


class WorkerContext(Context):
    """The context of a handler in this process, on the loop or in a thread."""

    __slots__ = ("_attempt", "_execution")

    def __init__(self, execution: Execution, attempt: Attempt) -> None:
        super().__init__(attempt.task)
        self._execution = execution
        self._attempt = attempt

    def heartbeat(self) -> None:
        """In a thread whose attempt is over, this raises, so that the slot becomes free."""
        if self._attempt.reported:
            raise asyncio.CancelledError(f"{self._attempt.task_id} is over")
        self._execution.heartbeat(self._attempt)

    async def run_in_thread(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        execution, attempt = self._execution, self._attempt
        attempt.threads += 1
        call = functools.partial(function, *args, **kwargs)
        answer = execution.threads.submit(call, functools.partial(execution.thread_ended, attempt))
        try:
            returned, value = await answer
        except asyncio.CancelledError:
            if not attempt.ending or answer.cancelled() or not answer.done():
                raise
            # The function had returned when it was told to stop: what it did is done, and must be said to be.
            returned, value = answer.result()
            attempt.handle.uncancel()
        if returned:
            return value
        if isinstance(value, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
            raise RuntimeError(f"the function raised {type(value).__name__}") from value
        raise value

    def _save(self, checkpoint: Any) -> Any:
        if self._on_loop():
            return self._execution.checkpoint(self._attempt, checkpoint)
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._execution.loop.call_soon_threadsafe(self._save_from_thread, checkpoint, done)
        return done.result()

    def _save_from_thread(self, checkpoint: Any, done: concurrent.futures.Future[None]) -> None:
        try:
            saved = self._execution.checkpoint(self._attempt, checkpoint)
        except asyncio.CancelledError as error:
            done.set_exception(error)
            return
        saved.add_done_callback(functools.partial(_pass_on, done))

    def _on_loop(self) -> bool:
        return running_loop() is self._execution.loop


def _pass_on(done: concurrent.futures.Future[None], saved: asyncio.Future[None]) -> None:
    if saved.cancelled():
        done.set_exception(asyncio.CancelledError("the worker has ended"))
    else:
        done.set_result(None)


def _unknown_type(name: str, handlers: Mapping[str, Any]) -> Failure:
    known = ", ".join(sorted(handlers)) or "none"
    return Failure(
        "unknown_type",
        f"this worker has no node type {name!r} (it has: {known}); install it where the worker runs, or give the node a "
        "queue whose workers have it",
    )
