"""Simulated processes: the real engine, or a real worker, on a host that can die, hang and come back.

The engine's own composition is used; only what touches the machine (files, threads, the network) is replaced. A process has
many lives: each begins with nothing but the store, the claims its last life left on disk, and the broker if it is shared.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, cast

from perdure.blobs import BlobStore
from perdure.engine import Engine, MakeListener
from perdure.errors import StoreUnavailable
from perdure.journal import HolderLock, Journal
from perdure.model import Compiled
from perdure.nodes.registry import NodeType, Registry
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.receiver import Receiver
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.runtime.coordinator.triggers.poll_tasks import QUEUE, TYPE
from perdure.runtime.lost_runs import LostRuns
from perdure.runtime.parts import EngineStopped
from perdure.runtime.reclaimer import Reclaimer
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.topic_reader import TopicReader
from perdure.runtime.worker.claim_file import Claims, claim_name
from perdure.runtime.worker.worker import Worker
from perdure.settings import Settings
from perdure.simulation.blobs import SimBlobs
from perdure.simulation.clock import SimClock
from perdure.simulation.hands import SimWorker
from perdure.simulation.journal import SimJournal
from perdure.simulation.loop import Host, SimTask
from perdure.simulation.transport import Broker, SimTransport
from perdure.transport import SharedTransport, Transport, TransportUnavailable

if TYPE_CHECKING:
    from perdure.simulation.world import World


class SimClaims(Claims):
    """The claims file without a file: a dictionary that survives its process."""

    def __init__(self, left: dict[int, str], slots: int) -> None:
        self.slots = slots
        self._left = left
        left.clear()

    def enter(self, slot: int, task_id: str, since: float = 0.0) -> None:
        self._left[slot] = claim_name(task_id)

    def leave(self, slot: int) -> None:
        self._left.pop(slot, None)

    def close(self) -> None:
        self._left.clear()


class SimEngine(Engine):
    """The engine, with simulated transport, claims and heartbeat."""

    def __init__(self, world: World, process: Process) -> None:
        plan = world.plan
        super().__init__(
            cast(Journal, SimJournal(world, process)),
            Settings(),
            clock=process.clock,
            registry=world.registry,
            concurrency=plan.concurrency,
            blobs=cast(BlobStore, SimBlobs(world, process)),
            remote=self.connect if plan.divided else None,
        )
        self._world = world
        self._process = process
        self.link: SimTransport | None = None

    async def connect(self) -> SharedTransport:
        if self._shared is None:
            self.link = SimTransport(self._world, self._process, self._world.broker, local=False)
            self.transport = self._shared = self.link
        return self._shared

    def _make_transport(self) -> Transport:
        world, shared = self._world, self._world.plan.shared
        broker = world.broker if shared else Broker(self.clock, durable_checkpoints=True)
        self.link = SimTransport(world, self._process, broker, local=not shared)
        return self.link

    def _start(self, transport: Transport, make_listener: MakeListener) -> None:
        world = self._world
        if not world.plan.shared and (streams := world.make_streams(self.clock)) is not None:
            self._streams = streams
        coordinator = self.coordinator = Coordinator(
            self.journal,
            transport,
            self.registry,
            self.clock,
            window=2 * world.plan.concurrency,
            keep_idle=world.plan.keep_idle,
            on_commit=self._tell,
            blobs=self.blobs,
            judge=self._judge,
            limits=transport.limits,
            streams=world.broker.streams if world.plan.shared else self._streams,
        )
        if world.plan.shared and not world.plan.divided:
            world.broker.take_over()
        self.parts.spawn("coordinator", coordinator.run())
        self.parts.spawn("fetcher", coordinator.fetcher.run())
        if world.limited:
            self.parts.spawn("limiter", coordinator.publisher.limiter.run())
        self.receiver = Receiver(transport, coordinator.put, self.clock)
        self.parts.spawn("results", self.receiver.run())
        self.parts.spawn("begins", self.receiver.run_begins())
        self.timekeeper = Timekeeper(self.journal, coordinator, self.clock)
        self.listener = make_listener(self.journal, coordinator, self.clock)
        self.timekeeper.before_moments = self.listener.catch_up
        self.topic_reader = TopicReader(self.journal, coordinator, self.clock, self.runs.find_view)
        self._listeners.append(self.topic_reader.note)
        if world.topics:
            self.parts.spawn("topics", self.topic_reader.run())
        self.parts.spawn("timekeeper", self.timekeeper.run())
        self.parts.spawn("listener", self.listener.run())

    async def _judge(self, job: Any, tenant: str) -> Any:
        """Evaluate in real time, between two virtual moments: a sandbox gives the same answer whenever it is asked."""
        return self._world.sandbox().decide(job)

    async def _work(self) -> None:
        world, process = self._world, self._process
        assert self.transport is not None
        assert self.coordinator is not None
        reclaimer = Reclaimer(self.transport, self.coordinator, self.clock, self._tempo)
        self.parts.spawn("reclaimer", reclaimer.run())
        if world.sweeps:
            lost_runs = LostRuns(self.journal, self.coordinator, self.clock, pause_seconds=20.0)
            self.parts.spawn("lost_runs", lost_runs.run())
        if world.plan.shared:
            await self._recover(frozenset())
        else:
            crashed = frozenset(world.claims.values())
            self._claims = SimClaims(world.claims, world.plan.concurrency)
            await self._recover(crashed)  # before the worker: what it begins did not die with the process before
            self.worker = SimWorker(
                world,
                process,
                self.transport,
                self.registry,
                self.clock,
                worker_id=process.life,
                concurrency=world.plan.concurrency,
                heartbeat_seconds=self._tempo.heartbeat_seconds,
                claims=self._claims,
                blobs=self.blobs,
                streams=self._streams,
            )
            self.parts.spawn("worker", self.worker.run())
            if world.polls:
                self.poller = make_poller(world, process, self.transport)
                self.parts.spawn("poller", self.poller.run())


def make_poller(world: World, process: Process, transport: Transport) -> SimWorker:
    registry = Registry()
    registry.add(NodeType(name=TYPE, description="Reads a list.", handler=world.poll))
    return SimWorker(
        world,
        process,
        transport,
        registry,
        process.clock,
        worker_id=f"{process.life}p",
        queues=(QUEUE,),
        types=(TYPE,),
        concurrency=2,
        blobs=cast(BlobStore, SimBlobs(world, process)),
    )


class Process:
    """One simulated process over all its lives."""

    def __init__(self, world: World, name: str, skew: float = 0.0) -> None:
        self.world = world
        self.name = name
        self.lives = 0
        self.skew = skew
        self.host: Host = world.loop.add_host(name)
        self.clock = SimClock(world.loop, Random(world.random.getrandbits(64)), name, skew)
        self.lock: HolderLock | None = None
        self.engine: SimEngine | None = None
        self.worker: Worker | None = None
        self.link: SimTransport | None = None
        self.main: SimTask | None = None
        self.down = True
        self.closing = False
        self.trapped = False
        """A task of this life was cancelled from outside."""
        self.wanted_down = False
        """The world is being taken down, so the process is not started again."""

    @property
    def life(self) -> str:
        return f"{self.name}.{self.lives}"

    # -- life and death ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.lives += 1
        self.down = self.closing = self.trapped = False
        if self.lives > 1:
            self.host = self.world.loop.add_host(self.life)
        self.clock = SimClock(self.world.loop, Random(self.world.random.getrandbits(64)), self.life, self.skew)
        self.world.trace("starts", self.life)
        self.main = self.world.loop.run_in(self.host, self._main(), "main")

    def crash(self, why: str) -> None:
        """Die as by kill -9: the operating system releases its lock and its connections, nothing else happens."""
        if self.down or self.world.over:
            return
        self.down = True
        self.world.trace("dies", f"{self.life}: {why}")
        self.world.buried.append(self.host)
        self.world.loop.kill(self.host)
        self._released()
        if not self.wanted_down:
            self.world.restart(self)

    def disconnect(self) -> None:
        """Cut the network connection, and with it every wait on it."""
        link = self.link or (self.engine.link if self.engine is not None else None)
        if link is not None:
            link.drop()

    async def die(self) -> None:
        """Kill the calling process in the middle of what it does."""
        self.crash("in a command")
        await self.world.loop.create_future()

    def _released(self) -> None:
        self.disconnect()
        if self.lock is not None:
            self.lock.release()
        self.lock = self.engine = self.worker = self.link = None

    async def shut_down(self, grace_seconds: float) -> None:
        """End as after SIGTERM: in the process's own time, with everything it awaits cancelled."""
        raise NotImplementedError

    async def _main(self) -> None:
        raise NotImplementedError

    def _ended(self, error: BaseException | None) -> None:
        """Record that the process ended by itself."""
        if not self.down:
            self.world.process_ended(self, error)
            self.crash("exits" if error is None else f"exits: {type(error).__name__}: {error}")


class EngineProcess(Process):
    """`perdure dev`: holds the journal if it can, and otherwise follows the process that does."""

    async def _main(self) -> None:
        world = self.world
        engine = self.engine = SimEngine(world, self)
        try:
            if world.plan.divided:
                await engine.coordinate()
            else:
                while not await engine.hold():
                    await self.clock.sleep(2.0)
            await engine.until_broken()
        except asyncio.CancelledError:
            if not self.closing:  # as after Ctrl-C: it ends in its own time
                self.closing = True
                try:
                    await engine.close(1.0)
                finally:  # a second Ctrl-C ends it where it is
                    self._ended(None)
            raise
        except Exception as error:  # noqa: BLE001  the world judges it
            self._ended(error)

    async def request(self, request: Request, compiled: Compiled | None = None) -> Reply:
        """Make a request as a caller of this process would."""
        assert self.engine is not None
        if compiled is not None:
            await self.engine.workflows.keep(compiled)
        return await self.engine.runs.request(request)

    async def shut_down(self, grace_seconds: float) -> None:
        engine = self.engine
        if engine is None or self.down or self.closing:
            return
        self.closing = True
        if self.main is not None:
            self.main.cancel()
        await engine.close(grace_seconds)


class WorkerProcess(Process):
    """`perdure worker`: a worker, connected to the shared transport."""

    _poller: SimWorker | None = None

    async def _main(self) -> None:
        world = self.world
        self.link = SimTransport(world, self, world.broker, local=False)
        worker = self.worker = SimWorker(
            world,
            self,
            self.link,
            world.registry,
            self.clock,
            worker_id=self.life,
            concurrency=world.plan.concurrency,
            blobs=cast(BlobStore, SimBlobs(world, self)),
            streams=world.broker.streams,
        )
        poller = self._poller = make_poller(world, self, self.link) if world.polls else None
        try:
            if poller is None:
                await worker.run()
            else:
                await asyncio.gather(worker.run(), poller.run())
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  the world judges it
            self._ended(error)

    async def shut_down(self, grace_seconds: float) -> None:
        if self.worker is None or self.down or self.closing:
            return
        self.closing = True
        if self._poller is not None:
            await self._poller.drain(0.0)
        await self.worker.drain(grace_seconds)
        if self.main is not None:
            await asyncio.wait([self.main])


class Terminal(Process):
    """`perdure ...` in another terminal: makes one request, and takes over while no other process holds the journal."""

    async def ask(self, request: Request, seconds: float, compiled: Compiled | None = None) -> Reply | None:
        self.wanted_down = True
        self._request = request
        self._compiled = compiled
        self.start()
        main = self.main
        assert main is not None
        try:
            await asyncio.wait([main], timeout=seconds)
        finally:
            self.crash("ends")
        answer: Reply | None = main.result() if main.done() and not main.cancelled() and not main.exception() else None
        return answer

    async def _main(self) -> Reply | None:  # type: ignore[override]
        engine = self.engine = SimEngine(self.world, self)
        try:
            if self._compiled is not None:
                await engine.workflows.keep(self._compiled)
            return await engine.runs.request(self._request)
        except (StoreUnavailable, TransportUnavailable, EngineStopped):
            return None
        finally:
            try:
                await engine.close(1.0)
            except (StoreUnavailable, TransportUnavailable):
                pass
