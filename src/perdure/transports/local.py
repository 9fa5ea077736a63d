"""The transport inside one process: dictionaries and queues on one event loop, nothing else.

It owns who holds which task and which results are not yet acknowledged. It does not own durability: it dies with its
process, and what it held is sent again from the journal (T1).

Bounds: `capacity` tasks held at once (`publish` refuses more with `TransportFull`, and the sweep sends them later);
`max_results` results not yet received (`report` waits, which stops the worker from claiming). Results received and not
acknowledged are at most as many as tasks held, plus checkpoints. Begin requests are at most one per claimed task.
Workers are kept until `forget_worker`.

Everything runs on the loop except `beat` and `on_stop`, which a worker's heartbeat thread may call. They only read the
table of held tasks (single dictionary operations) and share the table of workers under a lock.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from perdure.clock import Clock, system
from perdure.transport import (
    BeginRequest,
    CheckpointsRefused,
    Delivery,
    QueueSeen,
    Result,
    Task,
    TransportClosed,
    TransportFull,
    WorkerBeat,
    WorkerSeen,
    fits,
)
from perdure.transports.local_limits import LocalLimits
from perdure.transports.queue import KeptTask, TaskQueue

CAPACITY = 1_000_000
MAX_RESULTS = 100_000


class _Claim:
    """A claim that waits, and for how many tasks."""

    __slots__ = ("left", "waiter")

    def __init__(self, waiter: asyncio.Future[None], left: int) -> None:
        self.waiter = waiter
        self.left = left


class LocalTransport:
    def __init__(
        self,
        clock: Clock = system,
        *,
        capacity: int = CAPACITY,
        max_results: int = MAX_RESULTS,
        one_queue: str | None = None,
        apart: Collection[str] = (),
        durable_checkpoints: bool = False,
    ) -> None:
        """With `one_queue`, one worker serves every queue, so all tasks go to this one, but those of the types `apart`. With `durable_checkpoints`, a
        checkpoint counts as reported only once it is acknowledged, so that a step begins only after the one before it
        is durable."""
        self._one_queue = one_queue
        self._apart = frozenset(apart)
        self._durable_checkpoints = durable_checkpoints
        self._checkpoints: dict[str, asyncio.Future[bool]] = {}
        self._clock = clock
        self.limits = LocalLimits(clock)
        self._capacity = capacity
        self._max_results = max_results
        self._closed = False
        self._kept: dict[str, KeptTask] = {}
        self._queues: dict[str, TaskQueue] = {}
        self._picky = False
        """True once a worker claims only tasks that fit: from then on the waiter that is woken may not be able to take
        the task, so all are woken."""
        self._numbers = itertools.count()
        self._receipts = itertools.count(1)
        self._results: deque[Delivery] = deque()
        self._unacknowledged: dict[str, Delivery] = {}
        self._receivers: deque[asyncio.Future[None]] = deque()
        self._hear: Callable[[Delivery], None] | None = None
        """Who hears of results as they are reported; None: they wait to be received."""
        self._takers: dict[str, tuple[str, Callable[[Task], bool]]] = {}
        """By queue, the worker that is offered each task as it is published."""
        self._claims: dict[str, _Claim] = {}
        """By worker, its claim that waits."""
        self._reporters: deque[asyncio.Future[None]] = deque()
        self._begin_requests: deque[BeginRequest] = deque()
        self._wishes: dict[str, BeginRequest] = {}
        """The requests that wait for their answer, by task."""
        self._begin_receivers: deque[asyncio.Future[None]] = deque()
        self._begin_answers: dict[str, asyncio.Future[bool]] = {}
        self._lock = threading.Lock()
        self._workers: dict[str, tuple[WorkerBeat, float]] = {}
        """Each worker's last beat, and when it came by the monotonic clock."""
        self._wakes: dict[str, Callable[[], None]] = {}

    # coordinator

    async def publish(self, tasks: Sequence[Task]) -> None:
        self._check_open()
        held = self._kept
        if len(held) + len(tasks) > self._capacity:
            raise TransportFull(
                f"the transport holds {len(held)} tasks and may hold {self._capacity}; {len(tasks)} more were not taken"
            )
        added: dict[str, int] = {}
        for task in tasks:
            task_id = task.task_id
            if task_id in held:
                continue
            entry = held[task_id] = KeptTask(task, task_id, next(self._numbers))
            name = self._queue_name(task)
            if not self._offer(entry, name):
                self._queue(name).put(entry)
                added[name] = added.get(name, 0) + 1
        for name, number in added.items():
            self._wake_queue(self._queues[name], number)

    async def recall(self, task_ids: Sequence[str]) -> dict[str, Literal["withdrawn", "claimed", "unknown"]]:
        self._check_open()
        answers: dict[str, Literal["withdrawn", "claimed", "unknown"]] = {}
        for task_id in task_ids:
            held = self._kept.get(task_id)
            if held is None:
                answers[task_id] = "unknown"
            elif held.worker is not None:
                answers[task_id] = "claimed"
            else:
                self._queues[self._queue_name(held.task)].withdraw(held)
                del self._kept[task_id]
                answers[task_id] = "withdrawn"
        return answers

    async def stop(self, task_ids: Sequence[str]) -> None:
        """Mark tasks as stopping. A queued one is claimed with that mark, so that a worker reports its end."""
        self._check_open()
        workers = set()
        for task_id in task_ids:
            held = self._kept.get(task_id)
            if held is not None:
                held.stopping = True
                if held.worker is not None:
                    workers.add(held.worker)
        self._wake_workers(workers)

    async def receive(self, limit: int) -> list[Delivery]:
        self._check_open()
        results = self._results
        while not results:
            await self._wait(self._receivers)
        received = [results.popleft() for _ in range(min(limit, len(results)))]
        for delivery in received:
            self._unacknowledged[delivery.receipt] = delivery
        if results:
            _wake_one(self._receivers)
        if self._reporters and len(results) < self._max_results:
            _wake_all(self._reporters)
        return received

    def on_result(self, hear: Callable[[Delivery], None] | None) -> None:
        self._hear = hear

    async def acknowledge(self, receipts: Sequence[str], refused: Collection[str] = ()) -> None:
        self._check_open()
        for receipt in receipts:
            delivery = self._unacknowledged.pop(receipt, None)
            if receipt in self._checkpoints:
                self._release(self._checkpoints.pop(receipt), kept=receipt not in refused)
            if delivery is not None and delivery.result.kind != "checkpointed":
                task_id = delivery.result.task_id
                held = self._kept.get(task_id)
                if held is not None and held.reported:
                    del self._kept[task_id]

    async def receive_begin(self) -> BeginRequest:
        self._check_open()
        while not self._begin_requests:
            await self._wait(self._begin_receivers)
        return self._begin_requests.popleft()

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        self._check_open()
        if ask and task_id in self._wishes and self._wishes[task_id].ask != ask:
            return  # that wish was given up
        answer = self._begin_answers.pop(task_id, None)
        if answer is not None and not answer.done():
            answer.set_result(granted)

    async def find_missing(self, task_ids: Collection[str]) -> set[str]:
        """A task whose result waits to be acknowledged is not missing: it is on its way back."""
        self._check_open()
        return {task_id for task_id in task_ids if task_id not in self._kept}

    async def list_workers(self) -> list[WorkerSeen]:
        self._check_open()
        now = self._clock.monotonic()
        with self._lock:
            return [WorkerSeen(beat, now - seen_at) for beat, seen_at in self._workers.values()]

    async def list_queues(self) -> list[QueueSeen]:
        self._check_open()
        counts: dict[str, list[int]] = {}
        for held in self._kept.values():
            if not held.reported:
                counts.setdefault(self._queue_name(held.task), [0, 0])[held.worker is not None] += 1
        return [QueueSeen(name, *counts[name]) for name in sorted(counts)]

    async def forget_worker(self, worker: str) -> list[str]:
        self._check_open()
        with self._lock:
            self._workers.pop(worker, None)
        self.on_task(worker, tuple(self._takers), None)
        claimed = [held.task_id for held in self._kept.values() if held.worker == worker and not held.reported]
        for task_id in claimed:
            del self._kept[task_id]
            await self.grant_begin(task_id, False)
        return claimed

    def redeliver(self) -> None:
        """A seam for tests: results received and not acknowledged can be received again, in the same order."""
        self._results.extendleft(reversed(self._unacknowledged.values()))
        self._unacknowledged.clear()
        _wake_one(self._receivers)

    # worker

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        types: Collection[str] | None = None,
        functions: Collection[str] = (),
        lacking: Collection[str] = (),
    ) -> list[Task]:
        self._check_open()
        self._picky = self._picky or types is not None
        while True:
            taken = self._take(queues, limit, types, functions, lacking)
            if taken:
                stopping = False
                for held in taken:
                    held.worker = worker
                    stopping = stopping or held.stopping
                if stopping:  # only after the claimer knows of the task, or its beat would not name it
                    asyncio.get_running_loop().call_soon(self._wake_workers, [worker])
                return [held.task for held in taken]
            limit = await self._wait_for_task(worker, queues, limit)
            if not limit:
                return []

    async def begin(self, task: Task, worker: str, ask: str = "") -> bool:
        self._check_open()
        task_id = task.task_id
        held = self._kept.get(task_id)
        if held is None or held.worker != worker or task_id in self._begin_answers:
            return False
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._begin_answers[task_id] = answer
        self._wishes[task_id] = BeginRequest(task, worker, ask)
        self._begin_requests.append(self._wishes[task_id])
        _wake_one(self._begin_receivers)
        try:
            return await answer
        finally:
            self._begin_answers.pop(task_id, None)
            self._wishes.pop(task_id, None)

    async def report(self, results: Sequence[Result]) -> None:
        self._check_open()
        while len(self._results) >= self._max_results:
            await self._wait(self._reporters)
        waits: list[tuple[str, asyncio.Future[bool]]] = []
        for result in results:
            receipt = self._deliver(result)
            if self._durable_checkpoints and result.kind == "checkpointed":
                self._checkpoints[receipt] = asyncio.get_running_loop().create_future()
                waits.append((result.answers_to, self._checkpoints[receipt]))
        if self._results:
            _wake_one(self._receivers)
        refused = [name for name, wait in waits if not await wait]
        if waits:
            self._check_open()
        if refused:
            raise CheckpointsRefused(refused)

    def report_now(self, result: Result) -> bool:
        durably = self._durable_checkpoints and result.kind == "checkpointed"
        if durably or self._closed or len(self._results) >= self._max_results:
            return False
        self._deliver(result)
        if self._results:
            _wake_one(self._receivers)
        return True

    def _deliver(self, result: Result) -> str:
        """Let a result be heard or, behind those that wait already, be received; its receipt."""
        if result.kind != "checkpointed":
            held = self._kept.get(result.task_id)
            if held is not None:
                held.reported = True
        delivery = Delivery(str(next(self._receipts)), result)
        if self._hear is None or self._results:
            self._results.append(delivery)
        else:
            self._unacknowledged[delivery.receipt] = delivery
            self._hear(delivery)
        return delivery.receipt

    def on_task(self, worker: str, queues: Sequence[str], take: Callable[[Task], bool] | None) -> None:
        for name in queues:
            if take is not None:
                self._takers[name] = worker, take
            elif name in self._takers and self._takers[name][0] == worker:
                del self._takers[name]

    def _offer(self, held: KeptTask, name: str) -> bool:
        """Whether a worker takes the task at once: it must not come before any that waits."""
        worker, take = self._takers.get(name, ("", None))
        claim = self._claims.get(worker)
        if take is None or claim is None or claim.waiter.done() or self._queue(name).count or not take(held.task):
            return False
        held.worker = worker
        claim.left -= 1
        if not claim.left:
            claim.waiter.set_result(None)
        return True

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        with self._lock:
            self._workers[beat.worker] = (beat, self._clock.monotonic())
        return tuple(task_id for task_id in beat.running if self._should_stop(task_id, beat.worker))

    def on_stop(self, worker: str, wake: Callable[[], None] | None) -> None:
        with self._lock:
            if wake is None:
                self._wakes.pop(worker, None)
            else:
                self._wakes[worker] = wake

    async def close(self) -> None:
        """Close the transport: every waiting caller is woken with `TransportClosed`."""
        self._closed = True
        for waiters in (self._receivers, self._reporters, self._begin_receivers):
            _wake_all(waiters)
        for queue in self._queues.values():
            _wake_all(queue.waiters)
        for checkpoint in self._checkpoints.values():
            self._release(checkpoint)
        for answer in self._begin_answers.values():
            if not answer.done():
                answer.set_exception(TransportClosed("the transport was closed"))

    # inside

    def _check_open(self) -> None:
        if self._closed:
            raise TransportClosed("the transport was closed")

    def _release(self, checkpoint: asyncio.Future[bool] | None, *, kept: bool = True) -> None:
        if checkpoint is not None and not checkpoint.done():
            checkpoint.set_result(kept)

    def _queue_name(self, task: Task) -> str:
        return task.queue if task.type in self._apart else self._one_queue or task.queue

    def _queue(self, name: str) -> TaskQueue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = TaskQueue()
        return queue

    def _take(
        self,
        names: Sequence[str],
        limit: int,
        types: Collection[str] | None = None,
        functions: Collection[str] = (),
        lacking: Collection[str] = (),
    ) -> list[KeptTask]:
        if types is not None:
            return self._take_fitting(
                names, limit, lambda task: fits(task.type, task.function, types, functions, lacking)
            )
        if len(names) == 1:
            queue = self._queues.get(names[0])
            return queue.take(limit) if queue is not None and queue.count else []
        queues = [queue for name in names if (queue := self._queues.get(name)) is not None and queue.count]
        if len(queues) == 1:
            return queues[0].take(limit)
        taken: list[KeptTask] = []
        while len(taken) < limit:
            heads = [(-head.task.priority, head.number, queue) for queue in queues if (head := queue.head())]
            if not heads:
                break
            taken += min(heads, key=lambda head: head[:2])[2].take(1)
        return taken

    def _take_fitting(self, names: Sequence[str], limit: int, fitting: Callable[[Task], bool]) -> list[KeptTask]:
        queues = [queue for name in names if (queue := self._queues.get(name)) is not None and queue.count]
        if len(queues) == 1:
            return queues[0].take_fitting(limit, fitting)
        taken: list[KeptTask] = []
        while len(taken) < limit:
            heads = [(-head.task.priority, head.number, queue) for queue in queues if (head := queue.head(fitting))]
            if not heads:
                break
            taken += min(heads, key=lambda head: head[:2])[2].take_fitting(1, fitting)
        return taken

    def _wake_queue(self, queue: TaskQueue, number: int) -> None:
        queue.wake(len(queue.waiters) if self._picky else number)

    async def _wait_for_task(self, worker: str, names: Sequence[str], limit: int) -> int:
        """Wait until there may be one; for how many of the claim none was given meanwhile."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        claim = self._claims[worker] = _Claim(waiter, limit)
        queues = [self._queue(name) for name in names]
        for queue in queues:
            queue.waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # woken for a task that another waiter must take now
                for queue in queues:
                    self._wake_queue(queue, 1)
            raise
        finally:
            for queue in queues:
                if waiter in queue.waiters:
                    queue.waiters.remove(waiter)
            if self._claims.get(worker) is claim:
                del self._claims[worker]
        self._check_open()
        return claim.left

    async def _wait(self, waiters: deque[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                _wake_one(waiters)
            elif waiter in waiters:
                waiters.remove(waiter)
            raise
        self._check_open()

    def _should_stop(self, task_id: str, worker: str) -> bool:
        """Whether the task should stop, also because it is no longer this worker's: the worker was declared dead, and
        another one may have the next attempt (PROTOCOL 16)."""
        held = self._kept.get(task_id)
        return held is None or held.stopping or held.worker != worker

    def _wake_workers(self, workers: Iterable[str]) -> None:
        with self._lock:
            wakes = [wake for worker in workers if (wake := self._wakes.get(worker)) is not None]
        for wake in wakes:
            wake()


def _wake_one(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return


def _wake_all(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        _wake_one(waiters)
