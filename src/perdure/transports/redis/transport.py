"""The transport over Redis (or Valkey): tasks in streams per queue, results in streams per partition of runs.

It owns nothing but the composition: each duty has a file of its own. Whatever Redis loses is sent again from the
journal (T1). Everything runs on the loop that opened it except `beat` and `on_stop`, which a worker's heartbeat thread
may call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from perdure.clock import Clock
from perdure.journal import partition_of
from perdure.tempo import Tempo
from perdure.transport import (
    BeginRequest,
    Delivery,
    QueueSeen,
    Result,
    Task,
    TransportUnavailable,
    WorkerBeat,
    WorkerSeen,
    run_of,
)
from perdure.transports.envelopes import EnvelopeRefused, Keyring
from perdure.transports.redis.begins import Begins
from perdure.transports.redis.blocking_cluster_link import BlockingClusterLink
from perdure.transports.redis.checkpoints import Checkpoints
from perdure.transports.redis.claims import Claims
from perdure.transports.redis.cluster_link import ClusterLink
from perdure.transports.redis.heart import BlockingServerLink, Heart
from perdure.transports.redis.limits import RedisLimits
from perdure.transports.redis.link import Arguments, Link
from perdure.transports.redis.messages import Messages
from perdure.transports.redis.names import Keys
from perdure.transports.redis.redis_streams import RedisStreams
from perdure.transports.redis.results import Results
from perdure.transports.redis.sent_tasks import Tasks
from perdure.transports.redis.server_check import check
from perdure.transports.redis.server_link import ServerLink
from perdure.transports.redis.server_url import Address
from perdure.transports.redis.wakes import Wakes

_log = logging.getLogger(__name__)

LARGEST_BEAT = 4 * 1024 * 1024
"""The most bytes of one worker's beat: as many tasks as it may have, with their names. What says more is no worker."""
LARGEST_BEATS = 32 * 1024 * 1024
"""The most bytes of beats that one look reads, of all workers, the latest first."""
_READ_IN_A_TURN = 1024 * 1024
_BESIDES = 2048
"""What each beat costs beside its bytes, as bytes."""


class RedisTransport:
    """Made by `perdure.transports.redis.open_redis`."""

    def __init__(
        self,
        address: Address,
        *,
        clock: Clock,
        keys: Keys,
        keyring: Keyring | None,
        partition_count: int,
        tempo: Tempo,
        seconds: float,
        durable_checkpoints: bool,
        is_cluster: bool,
    ) -> None:
        self.process = clock.new_id()
        self._clock = clock
        """The name of this process to others, for as long as it lives."""
        self._loop = asyncio.get_running_loop()
        self._keys = keys
        self._count = partition_count
        self._messages = Messages(keyring)
        name = f"perdure-{self.process[-8:]}"
        kind = ClusterLink if is_cluster else ServerLink
        self._link: Link = kind(address, keys, clock, seconds=seconds, name=name)
        self._wakes = Wakes(self._link, clock, seconds=seconds, name=f"{name}-wakes")
        self.limits = RedisLimits(self._link, self._wakes, keys, process=self.process)
        """How many attempts may be out under one key, over all processes."""
        self.streams = RedisStreams(self._link, self._wakes, keys, self._messages, clock, process=self.process)
        """Chunks on their way between attempts."""
        heart_link = BlockingClusterLink if is_cluster else BlockingServerLink
        blocking = heart_link(address, clock, seconds=seconds, name=f"{name}-heart")
        self._heart = Heart(blocking, keys, self._messages)
        self._tasks = Tasks(self._link, keys, self._messages, clock, tempo)
        self._claims = Claims(self._link, self._wakes, keys, self._messages, self._tasks, clock)
        self._results = Results(
            self._link,
            self._wakes,
            keys,
            self._messages,
            self._tasks,
            self._claims,
            Checkpoints(
                self._link,
                self._wakes,
                keys,
                self._messages,
                clock,
                process=self.process,
                durable=durable_checkpoints,
            ),
            clock,
            tempo,
            consumer=self.process,
            partition_count=partition_count,
        )
        self._begins = Begins(
            self._link,
            self._wakes,
            keys,
            self._messages,
            clock,
            process=self.process,
            partition_count=partition_count,
        )
        self._beating: set[str] = set()
        self._on_stop: dict[str, Callable[[], None]] = {}
        self._agents: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Reach the server, or raise `TransportUnavailable`."""
        self._agents = [
            self._loop.create_task(agent, name=f"perdure-redis-{what}")
            for what, agent in {
                "watch": self._link.watch(),
                "scripts": self._link.load_when_wanted(),
                "wakes": self._wakes.run(),
            }.items()
        ]
        await self._link.connected()
        await check(self._link)
        await self._link.load_scripts()
        if self._link.may_load:
            self._wakes.on([self._keys.wake_scripts], self._script_missed)

    # what a coordinator is told of its share

    def take_over(self, partitions: Collection[int]) -> None:
        self._results.take_over(partitions)
        self._begins.take_over(partitions)

    def hand_back(self, partitions: Collection[int]) -> None:
        self._results.hand_back(partitions)
        self._begins.hand_back(partitions)

    @property
    def refused(self) -> dict[str, int]:
        """How many messages were not believed or not understood, by kind."""
        return dict(self._messages.refused)

    # hints

    async def wake(self, topic: str, said: str = "") -> None:
        await self._open._link.call("PUBLISH", self._keys.wake_topic(topic), said)

    def on_wake(self, topic: str, handler: Callable[[str], None]) -> Callable[[], None]:
        channel = self._keys.wake_topic(topic)
        ended = self._wakes.on([channel], handler)

        def end() -> None:
            ended()
            self._wakes.leave_idle(channel)

        return end

    # coordinator

    async def publish(self, tasks: Sequence[Task]) -> None:
        await self._open._tasks.publish(tasks)

    async def recall(self, task_ids: Sequence[str]) -> dict[str, Literal["withdrawn", "claimed", "unknown"]]:
        return await self._open._tasks.recall(task_ids)

    async def stop(self, task_ids: Sequence[str]) -> None:
        """Mark tasks as stopping. A queued one is claimed with that mark, so that a worker reports its end."""
        elsewhere: list[Arguments] = []
        for worker in await self._open._tasks.stop(task_ids):
            wake = self._on_stop.get(worker)
            if wake is not None:
                wake()
            else:
                elsewhere.append(["PUBLISH", self._keys.wake_worker(worker), "stop"])
        if elsewhere:
            await self._link.call_all(elsewhere)

    async def receive(self, limit: int) -> list[Delivery]:
        return await self._open._results.receive(limit)

    def on_task(self, worker: str, queues: Sequence[str], take: Callable[[Task], bool] | None) -> None:
        """Tasks come from the server, to `claim`."""

    def on_result(self, hear: Callable[[Delivery], None] | None) -> None:
        """Results come from the server, to `receive`."""

    async def acknowledge(self, receipts: Sequence[str], refused: Collection[str] = ()) -> None:
        await self._open._results.acknowledge(receipts, refused)

    async def receive_begin(self) -> BeginRequest:
        return await self._open._begins.receive_begin()

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        await self._open._begins.grant_begin(task_id, granted, ask)

    async def find_missing(self, task_ids: Collection[str]) -> set[str]:
        return await self._open._tasks.find_missing(task_ids, self.list_workers, self._results.find_reported)

    async def list_workers(self) -> list[WorkerSeen]:
        keys = [self._keys.workers_seen, self._keys.workers_beats]
        reply = await self._open._link.run("list_workers", keys, [LARGEST_BEAT, LARGEST_BEATS])
        seen: list[WorkerSeen] = []
        read = 0
        for milliseconds, said in zip(reply[::2], reply[1::2], strict=True):
            read += len(said) + _BESIDES
            if read > _READ_IN_A_TURN:
                read = 0
                await self._clock.sleep(0)  # no time passes, but other tasks have their turn
            try:
                seen.append(WorkerSeen(self._messages.decode_lines("beat", said), milliseconds / 1000))
            except EnvelopeRefused:
                continue
        return seen

    async def list_queues(self) -> list[QueueSeen]:
        return await self._open._tasks.list_queues()

    async def forget_worker(self, worker: str) -> list[str]:
        """Forget a dead worker's tasks of the runs this process holds. The worker stays listed while it has tasks of
        other runs, which their holders must forget."""
        lost, has_others = await self._open._tasks.forget(worker, self._is_ours, self._results.find_reported)
        for task_id in lost:
            await self._begins.grant_begin(task_id, False)
        if not has_others:
            await self._link.run("leave", [self._keys.workers_seen, self._keys.workers_beats], [worker])
        return lost

    def _is_ours(self, task_id: str) -> bool:
        return partition_of(run_of(task_id), self._count) in self._results.partitions

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
        return await self._open._claims.claim(worker, queues, limit, types, functions, lacking)

    async def begin(self, task: Task, worker: str, ask: str = "") -> bool:
        return await self._open._begins.begin(task, worker, ask)

    async def report(self, results: Sequence[Result]) -> None:
        await self._open._results.report(results)

    def report_now(self, result: Result) -> bool:
        return False  # a server lies between

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        self._link.check_open()
        self._beating.add(beat.worker)
        return self._heart.beat(beat, self._claims.running)

    def on_stop(self, worker: str, wake: Callable[[], None] | None) -> None:
        if wake is None:
            self._on_stop.pop(worker, None)
        else:
            self._on_stop[worker] = wake
        if not self._link.closed:
            self._loop.call_soon_threadsafe(self._listen_for, worker)

    def _listen_for(self, worker: str) -> None:
        channel = self._keys.wake_worker(worker)
        self._wakes.leave([channel])
        wake = self._on_stop.get(worker)
        if wake is not None:
            self._wakes.on([channel], lambda said: wake() if said else None)

    async def close(self) -> None:
        """Close the transport: every waiting caller is woken with `TransportClosed`."""
        if self._link.closed:
            return
        await self._leave()
        self._link.close()
        self._results.wake()
        self._begins.wake()
        self._wakes.wake_all()
        for agent in self._agents:
            agent.cancel()
        await asyncio.gather(*self._agents, return_exceptions=True)
        self._heart.close()

    async def _leave(self) -> None:
        """Remove empty streams, and take idle workers of this process off the list: they need not be found dead."""
        busy = {claim.worker for claim in self._claims.running.values()}
        try:
            await self._results.tidy()
            for worker in self._beating - busy:
                await self._tasks.forget(worker, lambda task_id: True, self._results.find_reported)
                await self._link.run("leave", [self._keys.workers_seen, self._keys.workers_beats], [worker])
        except TransportUnavailable as error:
            _log.info("the workers of this process stay listed until they count as dead: %s", error)

    # inside

    @property
    def _open(self) -> RedisTransport:
        """The transport itself; raises if it was closed."""
        self._link.check_open()
        return self

    def _script_missed(self, said: str) -> None:
        if said:
            self._link.load_soon()
