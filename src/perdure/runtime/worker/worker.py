"""The worker: takes tasks, executes handlers, reports results.

It owns its slots and what runs in them. It must not know graphs, journals or what a result leads to. One attempt is one
asyncio task, which reports its result; however it ends, `_settle` frees its slot, and reports what it could not.

Bounds: at most `concurrency` attempts, threads and isolated processes; results not yet delivered are at most one per
slot, plus one checkpoint per running attempt, and nothing is claimed while delivery fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from perdure import functions
from perdure.archive.stored_lines import LogLine
from perdure.blobs import BlobStore
from perdure.capacity import CONCURRENCY
from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.kernel.readings.seen import Working
from perdure.nodes.registry import Registry, opener_name
from perdure.nodes.shared_values import SharedValues
from perdure.runtime.coordinator.tasks.renderer import named_function
from perdure.runtime.patience import wait_at_most
from perdure.runtime.worker.attempt import Attempt, End
from perdure.runtime.worker.claim_file import Claims
from perdure.runtime.worker.deadline_watch import Watch
from perdure.runtime.worker.execution import Execution
from perdure.runtime.worker.handler_inputs import Filling
from perdure.runtime.worker.handler_results import Leaving
from perdure.runtime.worker.handlers import Handlers
from perdure.runtime.worker.heartbeat import Heartbeat, LoopLag
from perdure.runtime.worker.isolation import ProcessPool
from perdure.runtime.worker.reporter import Reporter
from perdure.runtime.worker.streamed import Streamed
from perdure.runtime.worker.threads import ThreadPool
from perdure.secrets.vault import Vault
from perdure.settings import DEFAULTS
from perdure.streams import Streams
from perdure.tempo import GRACE_SECONDS, TEMPO
from perdure.transport import (
    MOST_PROGRESS,
    MOST_SLOTS,
    Result,
    Task,
    Transport,
    TransportClosed,
    TransportUnavailable,
    WorkerBeat,
)

UNWIND_SECONDS = 5.0
"""How long a cancelled async handler may take to end before the worker reports its end without waiting for it."""
FLUSH_SECONDS = 5.0
"""How long the last results may take to be delivered at shutdown."""
LONGEST_PAUSE_SECONDS = 5.0
MOST_LACKING = 1000
_OPENING = 4
"""How many things that handlers share are opened at once in threads."""
TOLD_SECONDS = 0.1
"""How long an attempt has run before a beat names it as begun; a faster one is over before a person could look."""

_log = logging.getLogger(__name__)


class WorkerStopped(PerdureError):
    """A part of the worker gave up; the tasks it had claimed lapse and are tried again."""

    code = "worker_stopped"


class Worker:
    def __init__(
        self,
        transport: Transport,
        registry: Registry,
        clock: Clock,
        *,
        worker_id: str,
        queues: Sequence[str] = ("default",),
        types: Sequence[str] | None = None,
        concurrency: int = CONCURRENCY,
        heartbeat_seconds: float = TEMPO.heartbeat_seconds,
        claims: Claims | None = None,
        blobs: BlobStore | None = None,
        vault: Vault | None = None,
        keep_line: Callable[[LogLine], None] | None = None,
        grace_seconds: float = GRACE_SECONDS,
        unwind_seconds: float = UNWIND_SECONDS,
        heartbeat_in_thread: bool = True,
        tells_starts: bool = False,
        process: tuple[str, int] = ("", 0),
        device: str = "",
        streams: Streams | None = None,
        list_functions: Callable[[], tuple[str, ...]] = functions.names,
        asset_max_bytes: int = DEFAULTS.asset_max_bytes,
    ) -> None:
        """`types`: the node types this worker takes, of `task` only the functions this process has; None takes every
        task, for the only worker there is. `heartbeat_in_thread=False` beats on the loop and by the clock, for
        simulation. `tells_starts`: an attempt that has run for a moment is told before the next beat is due. `process`:
        host and process id, for people. `device`: what handlers find as `ctx.device`. Without `streams` tasks that stream fail.
        `list_functions`: what this worker has, by the names that tasks ask for."""
        if not 1 <= concurrency <= MOST_SLOTS:
            raise ValueError(f"expected concurrency between 1 and {MOST_SLOTS:,}, got {concurrency}")
        if claims is not None and claims.slots < concurrency:
            raise ValueError(f"expected claims for {concurrency} slots, got {claims.slots}")
        self.worker_id = worker_id
        self._transport, self._registry = transport, registry
        self._clock = clock
        self._queues = tuple(queues)
        self._types = None if types is None else tuple(types)
        self._concurrency = concurrency
        self._heartbeat_seconds = heartbeat_seconds
        self._claims = claims
        self._blobs, self._vault, self._asset_max_bytes = blobs, vault, asset_max_bytes
        self._keep_line, self._heartbeat_in_thread = keep_line, heartbeat_in_thread
        self._grace_seconds, self._unwind_seconds = grace_seconds, unwind_seconds
        self._tells_starts, self._list_functions = tells_starts, list_functions
        self._process, self._device, self._streams = process, device, streams
        self.streamed = Streamed()
        self._shared: SharedValues | None = None
        self._lacking: dict[str, None] = {}
        """Functions this process cannot import, oldest first: it is given none while another worker may have them."""
        self._told: tuple[frozenset[str], dict[str, str]] = frozenset(), {}
        """The tasks that the last beat named as begun, and how far some said they are."""
        self._handlers = Handlers(registry)
        self._free = list(range(concurrency - 1, -1, -1))
        self._running: dict[str, Attempt] = {}
        """The attempts that are claimed and not yet reported, by task id."""
        self._reporter = Reporter(transport, clock, worker_id)
        self._reporter.changed = self._wake
        self._room: asyncio.Future[None] | None = None
        self._all_ended: asyncio.Event = asyncio.Event()
        self._drained = asyncio.Event()
        self._claiming: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None
        """Set when `run` has ended and everything it opened is closed; None until `run` begins."""
        self._draining = False
        self._dropping = False
        self._lag: LoopLag | None = None
        self._seen = asyncio.Event()
        self._was_seen = False

    # life

    async def run(self) -> None:
        """Work until `drain`, until the transport is closed, or until cancelled, which drops all attempts at once."""
        loop = self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._lag = LoopLag(loop, self._clock)
        self._threads = self._make_threads(loop)
        self._processes = self._make_processes()
        openers = ThreadPool(loop, _OPENING, f"{self.worker_id}-opens")
        shared = self._shared = SharedValues(self._clock, openers.call)
        self._watch = Watch(self._running, self._clock, self._expire)
        self._execution = Execution(
            self._transport,
            self._clock,
            self._handlers,
            worker_id=self.worker_id,
            threads=self._threads,
            processes=self._processes,
            reporter=self._reporter,
            watch=self._watch,
            claims=self._claims,
            filling=Filling(self._blobs, self._clock, self._vault),
            leaving=Leaving(self._blobs, self._clock, self._vault, self._asset_max_bytes),
            release=self._release,
            shared=shared,
            keep_line=self._keep_line,
            device=self._device,
            streams=self._streams,
            streamed=self.streamed,
        )
        has_news = self._has_news if self._tells_starts else None
        heartbeat = Heartbeat(self.beat, self._heartbeat_seconds, self.worker_id, has_news=has_news)
        try:
            async with asyncio.TaskGroup() as group:
                agents = [group.create_task(self._reporter.run()), group.create_task(self._watch.run())]
                if self._heartbeat_in_thread:
                    heartbeat.start()
                    self._transport.on_stop(self.worker_id, heartbeat.wake)
                else:
                    agents.append(group.create_task(self._beat_on_loop()))
                self._claiming = group.create_task(self._claim())
                for agent in (*agents, self._claiming):
                    agent.add_done_callback(self._agent_ended)
                await self._drained.wait()
                for agent in agents:
                    agent.cancel()
                if not self._draining:
                    raise WorkerStopped(f"a part of worker {self.worker_id} ended; what it has claimed is tried again")
        except* TransportClosed:
            _log.info("worker %s ends: the transport was closed", self.worker_id)
        finally:
            self._draining = True
            self._transport.on_task(self.worker_id, self._queues, None)
            if self._heartbeat_in_thread:
                self._transport.on_stop(self.worker_id, None)
                heartbeat.stop()
            self._drop()
            self._threads.close()
            try:
                await self._processes.close()
                await shared.close()
                await self._handlers.close()
            finally:
                openers.close()
                self._drained.set()
                self._all_ended.set()
                self._over.set()

    def _agent_ended(self, agent: asyncio.Task[None]) -> None:
        """End the worker when a part of it ends: without its reporter or claims it would look alive and do nothing."""
        if not self._draining:
            self._drained.set()

    def _make_threads(self, loop: asyncio.AbstractEventLoop) -> ThreadPool:
        return ThreadPool(loop, self._concurrency, self.worker_id)

    def _make_processes(self) -> ProcessPool:
        return ProcessPool(self._clock, Leaving(self._blobs, self._clock, self._vault).clean_text)

    @property
    def reported(self) -> int:
        """Results that the transport has been given."""
        return self._reporter.delivered

    async def drain(self, grace_seconds: float | None = None) -> None:
        """Claim nothing more; attempts that still run after the grace period are cancelled and handed back."""
        grace = self._grace_seconds if grace_seconds is None else grace_seconds
        self._draining = True
        if self._claiming is not None:
            self._claiming.cancel()
        for attempt in list(self._running.values()):
            if attempt.started is None:
                self._end(attempt, "handed_back")
        if not await self._wait_until_ended(grace):
            for attempt in list(self._running.values()):
                self._end(attempt, "handed_back")
            await self._wait_until_ended(self._unwind_seconds + 1.0)
        if self._reporter.count and not self._drained.is_set():
            if not await wait_at_most(self._clock, FLUSH_SECONDS, self._reporter.flushed):
                # These results are lost: the attempts lapse when this worker is found dead, and are tried again.
                _log.warning("worker %s ends with %d results undelivered", self.worker_id, self._reporter.count)
        self._drained.set()
        if self._over is not None:  # a caller that cancels `run` next must not interrupt its closing
            await self._over.wait()

    def beat(self) -> None:
        """Say that this worker lives, and stop the tasks the answer names. From the heartbeat thread or on the loop."""
        running = tuple(self._running)  # one operation, and so consistent also from another thread
        started = self._list_started(TOLD_SECONDS)
        progress = self._list_progress(started)
        self._told = frozenset(started), progress
        answer = self._transport.beat(
            WorkerBeat(
                self.worker_id,
                running,
                self._concurrency,
                self._queues,
                self._list_types(),
                self._functions(),
                self._lag.measure() if self._lag is not None else 0.0,
                started,
                *self._process,
                tuple(self._lacking),
                progress,
            )
        )
        if not self._was_seen:
            self._was_seen = True
            self._loop.call_soon_threadsafe(self._seen.set)
        if answer:
            self._loop.call_soon_threadsafe(self._stop, answer)

    def _list_types(self) -> tuple[str, ...]:
        """The types this worker can execute, without those that could not be opened a moment ago."""
        types = tuple(self._handlers) if self._types is None else self._types
        shared = self._shared
        return types if shared is None else tuple(name for name in types if not shared.is_failing(opener_name(name)))

    def _functions(self) -> tuple[str, ...]:
        return self._list_functions()

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self._running)

    def list_working(self) -> dict[str, Working]:
        """The tasks whose handlers run now, each with this worker, its process, and since when."""
        started = self._list_started(0.0)
        said = self._list_progress(started)
        return {
            name: Working(self.worker_id, since, *self._process, progress=said.get(name, ""))
            for name, since in started.items()
        }

    def _list_started(self, seconds: float) -> dict[str, float]:
        """The tasks whose handlers have run for at least so long, and since when. May be called from any thread."""
        latest = self._clock.monotonic() - seconds
        attempts = list(self._running.values())
        return {
            one.task_id: one.started_at
            for one in attempts
            if one.started_at is not None and one.started is not None and one.started <= latest
        }

    def _list_progress(self, started: Iterable[str]) -> dict[str, str]:
        """How far some of these tasks say they are: no more than a beat carries. May be called from any thread."""
        attempts = [one for name in started if (one := self._running.get(name)) is not None and one.progress]
        return {one.task_id: one.progress for one in attempts[:MOST_PROGRESS]}

    def _has_news(self) -> bool:
        started = self._list_started(TOLD_SECONDS)
        return self._told != (frozenset(started), self._list_progress(started))

    @property
    def free_slots(self) -> int:
        return len(self._free)

    # claiming

    async def _claim(self) -> None:
        pause = 0.05
        await self._seen.wait()  # a worker must be known before it holds tasks, so that its death would be noticed
        if self._types is None:
            self._transport.on_task(self.worker_id, self._queues, self._receive)
        while not self._draining:
            while not self._free or self._reporter.failing:
                self._room = self._loop.create_future()
                await self._room
            try:
                able = () if self._types is None else self._functions()
                tasks = await self._transport.claim(
                    self.worker_id, self._queues, len(self._free), self._types, able, self._lacking
                )
            except TransportClosed:
                raise
            except Exception as error:  # noqa: BLE001  whatever an adapter raises, the worker goes on
                _log.warning("worker %s cannot claim, trying again: %r", self.worker_id, error)
                await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            pause = 0.05
            for task in tasks:
                self._start(task)

    def _receive(self, task: Task) -> bool:
        """Execute a task without a claim, and a turn of the loop earlier, if there is a slot for it."""
        if not self._free or self._draining or self._reporter.failing:
            return False
        self._start(task)
        return True

    def _start(self, task: Task) -> None:
        attempt = Attempt(task, self._free.pop())
        if attempt.task_id in self._running:  # a repeated delivery: the attempt that runs will report
            self._free.append(attempt.slot)
            return
        self._running[attempt.task_id] = attempt
        # Not in a task group, which would wait for a handler that ignores its cancellation.
        attempt.handle = self._loop.create_task(self._work(attempt))
        attempt.leave = partial(self._leave, attempt)
        attempt.handle.add_done_callback(attempt.leave)  # it may be cancelled before it begins

    async def _work(self, attempt: Attempt) -> None:
        """Execute an attempt, report its result and free its slot: at once, and not a turn of the loop later, when the
        task is done."""
        attempt.handle.remove_done_callback(attempt.leave)  # from here on it leaves by itself, a turn earlier
        del attempt.leave
        try:
            result = await self._execution.execute(attempt)
            if not attempt.reported and not self._dropping:
                self._report(attempt, result)
        except Exception as error:  # noqa: BLE001  a mistake of ours costs one attempt, not the worker
            _log.exception("worker %s: the attempt %s failed inside Perdure", self.worker_id, attempt.task_id)
            if not attempt.reported and not self._dropping:
                self._report(attempt, attempt.failed(error, self.worker_id))
        finally:
            self._leave(attempt)

    def _wake(self) -> None:
        room = self._room
        if room is not None and not room.done():
            room.set_result(None)

    # ending

    def _leave(self, attempt: Attempt, handle: asyncio.Task[None] | None = None) -> None:
        """Free the slot of an attempt whose asyncio task is done. One that was cancelled is reported here."""
        attempt.left = True
        if not attempt.reported and not self._dropping:
            self._report(attempt, attempt.ended(self.worker_id))
        self._release(attempt)

    def _report(self, attempt: Attempt, result: Result) -> None:
        attempt.reported = True
        if result.code == "function_not_found" and (name := named_function(attempt.task.type, attempt.task.config)):
            self._lacking[name] = None
            if len(self._lacking) > MOST_LACKING:
                del self._lacking[next(iter(self._lacking))]
        self._running.pop(attempt.task_id, None)
        self._reporter.add(result)
        if not self._running:
            self._all_ended.set()

    def _release(self, attempt: Attempt) -> None:
        """Free the slot once nothing of the attempt runs any more, neither its asyncio task nor a thread of it."""
        if attempt.released or attempt.threads or not attempt.left:
            return
        attempt.released = True
        if self._claims is not None and attempt.started is not None:
            self._claims.leave(attempt.slot)
        self._free.append(attempt.slot)
        if self._room is not None:
            self._wake()

    def _stop(self, task_ids: Iterable[str]) -> None:
        for task_id in task_ids:
            attempt = self._running.get(task_id)
            if attempt is not None:
                self._end(attempt, "cancelled")

    def _expire(self, attempt: Attempt, now: float) -> None:
        """End an attempt whose deadline has passed: a timeout, or the time its handler had to clean up."""
        if attempt.ending and attempt.unwind_by is not None:
            _log.warning(
                "worker %s: %s ignores its cancellation; its slot stays taken", self.worker_id, attempt.task_id
            )
            self._report(attempt, attempt.ended(self.worker_id))
        elif reason := attempt.overdue(now):
            self._end(attempt, reason)

    def _end(self, attempt: Attempt, reason: End) -> None:
        if not attempt.ending:
            attempt.ending = reason
        self._execution.tell(attempt)
        if reason == "cancelled" and (attempt.threads or attempt.returned):
            return  # the handler has been told; a thread cannot be interrupted, and its own result is the true one
        if attempt.unwind_by is None:  # told again by the next beat, a handler is not interrupted in its clean-up
            attempt.unwind_by = self._clock.monotonic() + self._unwind_seconds
            self._watch.add(attempt)
            attempt.handle.cancel()

    def _drop(self) -> None:
        """Cancel what still runs; its results are not reported."""
        self._dropping = True
        for attempt in self._running.values():
            attempt.handle.cancel()

    async def _wait_until_ended(self, seconds: float) -> bool:
        if not self._running:
            return True
        self._all_ended.clear()
        return await wait_at_most(self._clock, seconds, self._all_ended.wait)

    async def _beat_on_loop(self) -> None:
        while True:
            try:
                self.beat()
            except TransportUnavailable as error:  # as in the thread: the transport may come back
                _log.warning("worker %s cannot send its heartbeat: %s", self.worker_id, error)
            await self._clock.sleep(self._heartbeat_seconds)
