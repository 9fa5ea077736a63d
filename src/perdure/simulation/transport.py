"""The simulated transport: a broker that outlives processes, and each process's unreliable connection to it.

The broker is the in-process transport, plus what a broker reached over a network must do: a claim whose answer got lost
is found by the worker's own beats, a new coordinator is given what its predecessor had received and not acknowledged,
and everything it holds can vanish. With an embedded engine the broker lives and dies with its process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal

from perdure.clock import Clock
from perdure.journal import partition_of
from perdure.simulation.limits import SimLimits
from perdure.simulation.loop import SimTask
from perdure.transport import (
    BeginRequest,
    Delivery,
    QueueSeen,
    Result,
    Task,
    TransportClosed,
    TransportFull,
    TransportUnavailable,
    WorkerBeat,
    WorkerSeen,
)
from perdure.transports.local import LocalTransport, _wake_all
from perdure.transports.local_limits import LocalLimits
from perdure.transports.local_streams import LocalStreams
from perdure.transports.queue import TaskQueue

if TYPE_CHECKING:
    from perdure.simulation.process import Process
    from perdure.simulation.world import World

BEGIN_SECONDS = 20.0
"""How long a worker waits for the answer to `begin`."""
_SENDS = frozenset({"publish", "report"})
_LOSABLE = frozenset({"stop", "acknowledge", "grant_begin", "wake"})
"""Calls that can seem done and have no effect. A call that has an answer loses the answer instead."""
_OF_MESSAGES = frozenset({"transport_duplicate", "transport_late_duplicate", "transport_hold_back"})
UNKNOWN_BEATS = 3
"""Beats that do not list a task their worker has claimed, after which the claim counts as lost."""
STALE_SECONDS = 30.0
"""How long a result that was received may stay unacknowledged before it is delivered again."""
UNKNOWN_SECONDS = 10.0
"""How long after a claim its worker may stay unheard of before the claim counts as lost."""


class Broker(LocalTransport):
    def __init__(self, clock: Clock, *, durable_checkpoints: bool = False) -> None:
        super().__init__(clock, durable_checkpoints=durable_checkpoints)
        self.strays: list[Task] = []
        """Tasks delivered once more than they should be."""
        self._unlisted: dict[str, int] = {}
        self._unknown_since: dict[str, float] = {}
        self.partition_count = 1
        self.partitions: dict[SimTransport, set[int]] = {}
        """The partitions whose results each of several coordinators receives."""
        self._given: dict[str, tuple[SimTransport | None, float]] = {}
        """Which coordinator received each result last, where there are several, and when."""
        self._topics: dict[str, list[Callable[[str], None]]] = {}
        self.streams = LocalStreams(clock)
        self.asks_again = False

    async def wake(self, topic: str, said: str) -> None:
        for handler in list(self._topics.get(topic, ())):
            handler(said)

    def on_wake(self, topic: str, handler: Callable[[str], None]) -> Callable[[], None]:
        handlers = self._topics.setdefault(topic, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    def flush(self) -> None:
        """Lose everything the broker holds."""
        self._kept.clear()
        for name, queue in list(self._queues.items()):
            self._queues[name] = TaskQueue()
            self._queues[name].waiters = queue.waiters  # waiting workers go on waiting
        self._results.clear()
        self._unacknowledged.clear()
        for checkpoint in self._checkpoints.values():
            if not checkpoint.done():
                checkpoint.set_exception(TransportUnavailable("everything is lost"))
                checkpoint.exception()  # who still waits reports again
        self._checkpoints.clear()
        self._begin_requests.clear()
        self._workers.clear()
        self.strays.clear()
        self.limits = LocalLimits(self._clock)
        self.streams.lose()

    def take_over(self) -> None:
        """Let another coordinator read: what the previous one had not acknowledged is read again (PROTOCOL 17)."""
        self.redeliver()
        self._begin_requests.extendleft(
            self._wishes[task_id]
            for task_id in self._begin_answers
            if (held := self._kept.get(task_id)) is not None and held.worker is not None
        )

    async def receive(self, limit: int) -> list[Delivery]:
        received = await super().receive(limit)
        for delivery in received:
            self._given[delivery.receipt] = (None, self._clock.monotonic())
        return received

    def given_of(self, receipts: Collection[str]) -> dict[str, tuple[SimTransport | None, float]]:
        return {receipt: given for receipt in receipts if (given := self._given.get(receipt)) is not None}

    async def deliver_again(self, given: dict[str, tuple[SimTransport | None, float]]) -> None:
        """Let results be received again that are not acknowledged and were not received by any coordinator since."""
        for receipt, before in given.items():
            if self._given[receipt] == before and (delivery := self._unacknowledged.pop(receipt, None)) is not None:
                self._results.append(delivery)
        _wake_all(self._receivers)

    # where several coordinators receive, each for its partitions

    def share_out(self, link: SimTransport, partitions: Collection[int]) -> None:
        """Give these partitions to a coordinator: what the previous one had not acknowledged is received again."""
        self.partitions.setdefault(link, set()).update(partitions)
        for receipt, delivery in list(self._unacknowledged.items()):
            if self._partition(delivery.result.run_id) in partitions:
                del self._unacknowledged[receipt]
                self._results.append(delivery)
        for task_id in list(self._begin_answers):
            held = self._kept.get(task_id)
            if held is not None and held.worker is not None and self._partition(held.task.run_id) in partitions:
                self._begin_requests.append(self._wishes[task_id])
        _wake_all(self._receivers)

    def share_in(self, link: SimTransport, partitions: Collection[int]) -> None:
        self.partitions.setdefault(link, set()).difference_update(partitions)

    def _is_of(self, link: SimTransport, run_id: str) -> bool:
        return self._partition(run_id) in self.partitions.get(link, ())

    def _partition(self, run_id: str) -> int:
        return partition_of(run_id, self.partition_count)

    def make_durable(self) -> None:
        """Let a checkpoint be reported only once it is kept, as every deployment has it."""
        self._durable_checkpoints = self.asks_again = True

    async def report(self, results: Sequence[Result]) -> None:
        reporting = super().report(results)
        if self.asks_again:
            reporting = self._report_until_heard(reporting, results)
        try:
            await reporting
        finally:
            if self.partitions:
                _wake_all(self._receivers)

    async def _report_until_heard(self, reporting: Coroutine[Any, Any, None], results: Sequence[Result]) -> None:
        """The word that a checkpoint is kept may be lost: then its result is delivered again."""
        task = asyncio.ensure_future(reporting)
        try:
            while not (await asyncio.wait([task], timeout=STALE_SECONDS))[0]:
                for receipt, delivery in list(self._unacknowledged.items()):
                    if any(delivery.result is one for one in results):
                        del self._unacknowledged[receipt]
                        self._results.append(delivery)
                _wake_all(self._receivers)
        finally:
            task.cancel()
        task.result()

    async def receive_for(self, link: SimTransport, limit: int) -> list[Delivery]:
        while True:
            found = [one for one in self._results if self._is_of(link, one.result.run_id)][:limit]
            if found:
                for delivery in found:
                    self._results.remove(delivery)
                    self._unacknowledged[delivery.receipt] = delivery
                    self._given[delivery.receipt] = (link, self._clock.monotonic())
                return found
            if not self._take_stale(link):
                try:
                    async with asyncio.timeout(5.0):
                        await self._wait(self._receivers)
                except TimeoutError:
                    continue

    def _take_stale(self, link: SimTransport) -> bool:
        """Take results that another coordinator received and has not acknowledged for long: it may have read on after
        its lease was over. True if there are any."""
        now, found = self._clock.monotonic(), False
        for receipt, delivery in list(self._unacknowledged.items()):
            reader, at = self._given[receipt]
            if reader is not link and now - at > STALE_SECONDS and self._is_of(link, delivery.result.run_id):
                del self._unacknowledged[receipt]
                self._results.append(delivery)
                found = True
        return found

    async def receive_begin_for(self, link: SimTransport) -> BeginRequest:
        while True:
            for request in self._begin_requests:
                if self._is_of(link, request.task.run_id):
                    self._begin_requests.remove(request)
                    return request
            await asyncio.sleep(0.5)

    async def forget_for(self, link: SimTransport, worker: str) -> list[str]:
        """Forget a worker's tasks of this coordinator's runs. The worker stays listed while it has other tasks."""
        claimed = [held for held in self._kept.values() if held.worker == worker and not held.reported]
        lost = [held.task_id for held in claimed if self._is_of(link, held.task.run_id)]
        for task_id in lost:
            del self._kept[task_id]
            await self.grant_begin(task_id, False)
        if len(lost) == len(claimed):
            self._workers.pop(worker, None)
        return lost

    def stray(self, task: Task) -> None:
        self.strays.append(task)
        if (queue := self._queues.get(task.queue)) is not None:
            queue.wake(1)

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        types: Collection[str] | None = None,
        functions: Collection[str] = (),
        lacking: Collection[str] = (),
    ) -> list[Task]:
        self._picky = self._picky or types is not None
        while True:
            if self.strays:
                return [self.strays.pop(0)]
            taken = self._take(queues, limit, types, functions, lacking)
            if taken:
                for held in taken:
                    held.worker = worker
                return [held.task for held in taken]
            await self._wait_for_task(worker, queues, limit)

    def give_back(self, answer: Any) -> None:
        """Put back an answer whose receiver went away before it arrived."""
        match answer:
            case [Task(), *_]:
                for task in answer:
                    held = self._kept.get(task.task_id)
                    if held is not None and not held.reported:
                        held.worker = None
                        self._queue(task.queue).put(held)
                        self._queue(task.queue).wake(1)
            case [Delivery(), *_]:
                for delivery in reversed(answer):
                    if self._unacknowledged.pop(delivery.receipt, None) is not None:
                        self._results.appendleft(delivery)
                for waiter in [one for one in self._receivers if not one.done()][:1]:
                    waiter.set_result(None)
            case BeginRequest():
                self._begin_requests.appendleft(answer)

    async def find_missing(self, task_ids: Collection[str]) -> set[str]:
        """The missing tasks, those included whose worker has been unknown for a while."""
        now = self._clock.monotonic()
        for held in list(self._kept.values()):
            if held.worker is None or held.worker in self._workers or held.reported:
                self._unknown_since.pop(held.task_id, None)
            elif now - self._unknown_since.setdefault(held.task_id, now) > UNKNOWN_SECONDS:
                del self._unknown_since[held.task_id], self._kept[held.task_id]
        return await super().find_missing(task_ids)

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        running = set(beat.running)
        for held in list(self._kept.values()):
            if held.worker != beat.worker:
                continue
            if not held.reported and held.task_id not in running:
                count = self._unlisted[held.task_id] = self._unlisted.get(held.task_id, 0) + 1
                if count > UNKNOWN_BEATS:
                    del self._unlisted[held.task_id], self._kept[held.task_id]
            else:
                self._unlisted.pop(held.task_id, None)
        return super().beat(beat)


class SimTransport:
    """A transport as one life of a process sees it."""

    def __init__(self, world: World, process: Process, broker: Broker, *, local: bool) -> None:
        self._world = world
        self._process = process
        self._broker = broker
        self._local = local
        """True inside one process, where nothing gets lost on the way."""
        self.limits = SimLimits(broker, self._call)
        self.streams = broker.streams
        self._waits: list[SimTask] = []
        self._lost_a_receive = False
        self._divided = world.plan.divided
        self._closed = False

    # coordinator

    async def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._world.checks.published(task, self._process.name)
        await self._send("publish", tasks, self._broker.publish)

    async def recall(self, task_ids: Sequence[str]) -> dict[str, Literal["withdrawn", "claimed", "unknown"]]:
        return await self._call("recall", self._broker.recall, task_ids)  # type: ignore[no-any-return]

    async def stop(self, task_ids: Sequence[str]) -> None:
        await self._call("stop", self._broker.stop, task_ids)

    async def receive(self, limit: int) -> list[Delivery]:
        if self._lost_a_receive:  # as a consumer reads its own pending entries again after an error
            if self._divided:
                self._broker.share_out(self, list(self._broker.partitions.get(self, ())))
            else:
                self._broker.redeliver()
            self._lost_a_receive = False
        receiving = self._broker.receive_for(self, limit) if self._divided else self._broker.receive(limit)
        try:
            return await self._wait("receive", receiving)  # type: ignore[no-any-return]
        except TransportUnavailable:
            self._lost_a_receive = True
            raise

    def on_result(self, hear: Callable[[Delivery], None] | None) -> None:
        """Each result is received: whatever can go wrong with that is to go wrong."""

    async def acknowledge(self, receipts: Sequence[str], refused: Collection[str] = ()) -> None:
        for receipt in receipts:
            if (delivery := self._broker._unacknowledged.get(receipt)) is not None:
                self._world.checks.promises.acknowledged(delivery.result)
        fault = self._draw("acknowledge")
        if fault != "transport_lose":
            await self._do("acknowledge", fault, self._broker.acknowledge, (receipts, refused))
            return
        given = self._broker.given_of(receipts)  # the coordinator is done with these, and will not ask for them again
        self._world.later(STALE_SECONDS, "results arrive again", lambda: self._broker.deliver_again(given))

    async def receive_begin(self) -> BeginRequest:
        receiving = self._broker.receive_begin_for(self) if self._divided else self._broker.receive_begin()
        return await self._wait("receive_begin", receiving)  # type: ignore[no-any-return]

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        if granted:
            self._world.checks.granted(task_id)
        await self._call("grant_begin", self._broker.grant_begin, task_id, granted, ask)

    async def find_missing(self, task_ids: Collection[str]) -> set[str]:
        return await self._call("find_missing", self._broker.find_missing, task_ids)  # type: ignore[no-any-return]

    async def list_workers(self) -> list[WorkerSeen]:
        return await self._call("list_workers", self._broker.list_workers)  # type: ignore[no-any-return]

    async def list_queues(self) -> list[QueueSeen]:
        return await self._call("list_queues", self._broker.list_queues)  # type: ignore[no-any-return]

    async def forget_worker(self, worker: str) -> list[str]:
        if self._divided:
            return await self._call("forget_worker", self._broker.forget_for, self, worker)  # type: ignore[no-any-return]
        return await self._call("forget_worker", self._broker.forget_worker, worker)  # type: ignore[no-any-return]

    def take_over(self, partitions: Collection[int]) -> None:
        self._broker.share_out(self, partitions)

    def hand_back(self, partitions: Collection[int]) -> None:
        self._broker.share_in(self, partitions)

    async def wake(self, topic: str, said: str = "") -> None:
        await self._call("wake", self._broker.wake, topic, said)

    def on_wake(self, topic: str, handler: Callable[[str], None]) -> Callable[[], None]:
        return self._broker.on_wake(topic, lambda said: None if self._closed else handler(said))

    # worker

    def on_task(self, worker: str, queues: Sequence[str], take: Callable[[Task], bool] | None) -> None:
        """Each task is claimed: whatever can go wrong with that is to go wrong."""

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        types: Collection[str] | None = None,
        functions: Collection[str] = (),
        lacking: Collection[str] = (),
    ) -> list[Task]:
        claiming = self._broker.claim(worker, queues, limit, types, functions, lacking)
        return await self._wait("claim", claiming)  # type: ignore[no-any-return]

    async def begin(self, task: Task, worker: str, ask: str = "") -> bool:
        seconds = None if self._local else BEGIN_SECONDS
        return bool(await self._wait("begin", self._broker.begin(task, worker, ask), seconds))

    async def report(self, results: Sequence[Result]) -> None:
        await self._send("report", results, self._broker.report)

    def report_now(self, result: Result) -> bool:
        return False  # as over a network: each report may fail

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        fault = self._draw("beat")
        if fault in {"transport_error", "transport_crash_before"} or self._is_away:
            if fault == "transport_crash_before":
                self._process.crash("before a beat")
            raise TransportUnavailable("injected: beat")
        answer = self._broker.beat(beat)
        if fault == "transport_crash_after":
            self._process.crash("after a beat")
        if fault == "transport_error_after":
            raise TransportUnavailable("injected: the answer to a beat")
        return answer

    def on_stop(self, worker: str, wake: Callable[[], None] | None) -> None:
        self._broker.on_stop(worker, wake)

    async def close(self) -> None:
        self._closed = True
        if self._local:
            await self._broker.close()
        self._broker.partitions.pop(self, None)
        self.drop()

    def drop(self) -> None:
        """Cut the connection, and with it every wait on it."""
        for wait in self._waits:
            wait.cancel()

    # inside

    @property
    def _is_away(self) -> bool:
        return not self._local and self._world.transport_outage_until > self._world.loop.time()

    def _draw(self, name: str) -> str | None:
        if self._closed:
            raise TransportClosed("the transport was closed")
        fault = self._world.chaos.draw("transport_local" if self._local else "transport")
        if fault is None or (fault in _OF_MESSAGES and name not in _SENDS):
            return None
        if fault == "transport_full" and name != "publish":
            fault = "transport_error"
        elif fault == "transport_lose" and name not in _SENDS | _LOSABLE:
            fault = "transport_error_after"
        elif fault == "transport_delay" and name == "beat":
            return None
        self._world.note_fault(fault, f"{self._process.name} {name}")
        return fault

    async def _send(self, name: str, messages: Sequence[Any], send: Any) -> None:
        """Send messages, which can get lost, doubled, late and out of order."""
        world, broker = self._world, self._broker
        fault = self._draw(name)
        if self._is_away:
            raise TransportUnavailable(f"the transport is away: {name}")
        match fault:
            case "transport_full":
                raise TransportFull("injected: none of these was taken")
            case "transport_lose":
                self._miss_answer(name, messages)
                return
            case "transport_hold_back":
                world.later(world.random.random() * 60, f"{name} arrives late", lambda: send(list(messages)))
                self._miss_answer(name, messages)
                return
            case "transport_duplicate" | "transport_late_duplicate":
                seconds = world.random.random() * (2 if fault == "transport_duplicate" else 600)
                if name == "publish":
                    again: Any = lambda: _stray(broker, messages)  # noqa: E731
                else:
                    again = lambda: send(list(messages))  # noqa: E731
                world.later(seconds, f"{name} arrives again", again)
                fault = None
        await self._do(name, fault, send, (messages,))

    def _miss_answer(self, name: str, messages: Sequence[Any]) -> None:
        """Where who reports waits until a checkpoint is kept, one that was lost is reported again."""
        waits = name == "report" and self._broker.asks_again
        if waits and any(result.kind == "checkpointed" for result in messages):
            raise TransportUnavailable("injected: nobody said that it is kept")

    async def _call(self, name: str, operation: Any, *arguments: Any) -> Any:
        fault = self._draw(name)
        if fault == "transport_lose":
            return None
        return await self._do(name, fault, operation, arguments)

    async def _do(self, name: str, fault: str | None, operation: Any, arguments: tuple[Any, ...]) -> Any:
        process, world = self._process, self._world
        if not self._local and world.plan.transport_seconds and world.random.random() < 0.5:
            await process.clock.sleep(world.random.random() * world.plan.transport_seconds)
        if self._is_away:
            raise TransportUnavailable(f"the transport is away: {name}")
        match fault:
            case "transport_crash_before":
                await process.die()
            case "transport_crash_after":
                await operation(*arguments)
                await process.die()
            case "transport_error":
                raise TransportUnavailable(f"injected: {name} failed before it was done")
            case "transport_error_after":
                await operation(*arguments)
                raise TransportUnavailable(f"injected: {name} was done, its answer lost")
            case "transport_delay":
                await process.clock.sleep(world.random.random() * 20)
        return await operation(*arguments)

    async def _wait(self, name: str, operation: Any, seconds: float | None = None) -> Any:
        """Make a call that waits at the broker, as a task of the broker, so that it ends with the connection."""
        loop, world = self._world.loop, self._world
        try:
            fault = self._draw(name)
        except TransportClosed:
            operation.close()
            raise
        if fault in {"transport_error", "transport_crash_before"} or self._is_away:
            operation.close()
            if fault == "transport_crash_before":
                await self._process.die()
            raise TransportUnavailable(f"injected: {name} failed before it was done")
        wait = loop.run_in(loop.world, operation, name)
        self._waits = [*(one for one in self._waits if not one.done()), wait]
        timer = None if seconds is None else loop.call_later(seconds, wait.cancel)
        try:
            answer = await asyncio.shield(wait)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if wait.cancelled() and not (caller is not None and caller.cancelling()):  # both: the caller is to end
                ended = TransportClosed if self._closed else TransportUnavailable
                raise ended(f"{name} was not answered") from None
            if not wait.cancelled() and not wait.cancel() and wait.exception() is None:
                self._broker.give_back(wait.result())  # the caller is gone, and must take nothing along
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if world.chaos.healed:
            return answer
        if fault == "transport_delay":
            await self._process.clock.sleep(world.random.random() * 20)
        if fault == "transport_error_after":
            raise TransportUnavailable(f"injected: {name} was done, its answer lost")
        if fault == "transport_crash_after":
            await self._process.die()
        if not self._local and world.plan.transport_seconds and world.random.random() < 0.5:
            await self._process.clock.sleep(world.random.random() * world.plan.transport_seconds)
        return answer


async def _stray(broker: Broker, tasks: Sequence[Task]) -> None:
    for task in tasks:
        broker.stray(task)
