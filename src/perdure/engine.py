"""The engine: the composition root, which makes running parts from settings.

Embedded, an engine either *holds* its journal (it runs the coordinator and workers) or *follows* the process that does:
it reads, hands its requests over and watches. When the holder dies, a follower that wants work done takes over.
Distributed, any number of engines `coordinate`, each for its share of the runs, or `work`; all the others follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from perdure import clock as clocks
from perdure import deployment
from perdure.blobs import BlobStore
from perdure.capacity import CONCURRENCY
from perdure.clock import Clock, OffsetClock
from perdure.contents import Contents
from perdure.deployment import (
    bounds_of,
    database_file,
    is_postgres,
    open_blobs,
    open_journal,
    open_transport,
    open_vault,
)
from perdure.errors import SettingsInvalid
from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import Job
from perdure.journal import HeldBy, HolderLock, Journal
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.nodes import installed
from perdure.nodes.registry import Registry
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.ownership.handled import Handled, begin_handled
from perdure.runtime.coordinator.ownership.handover import Handover
from perdure.runtime.coordinator.ownership.leftovers import Others, find_left_alone, list_active
from perdure.runtime.coordinator.ownership.listener import Listener
from perdure.runtime.coordinator.ownership.partitions import Sharing
from perdure.runtime.coordinator.receiver import Receiver
from perdure.runtime.coordinator.tasks.roster import Roster
from perdure.runtime.coordinator.triggers import poll_tasks
from perdure.runtime.coordinator.work_reports import WorkReports
from perdure.runtime.event_room import EventRoom
from perdure.runtime.feed import Feed
from perdure.runtime.lifelines import Kind, Lifelines, open_lifelines, watch
from perdure.runtime.lost_runs import LostRuns
from perdure.runtime.notifier import Notifier
from perdure.runtime.parts import Parts
from perdure.runtime.patience import first_of, insist
from perdure.runtime.poll_handler import PollHandler
from perdure.runtime.pruner import DAY, DAYS, Pruner
from perdure.runtime.reclaimer import Reclaimer
from perdure.runtime.runs import Runs
from perdure.runtime.server_time import ServerTime
from perdure.runtime.source_kinds import SourceKinds, list_sources
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.topic_reader import TopicReader
from perdure.runtime.triggers import Triggers
from perdure.runtime.worker import capture
from perdure.runtime.worker.claim_file import Claims, Owner, describe_process, root_of, this_process
from perdure.runtime.worker.logs import LogKeeper
from perdure.runtime.worker.worker import Worker
from perdure.runtime.workflows import Workflows
from perdure.sandbox import Sandbox
from perdure.secrets.vault import Vault
from perdure.settings import Settings
from perdure.streams import Readable, Streams
from perdure.tempo import GRACE_SECONDS
from perdure.transport import MOST_SLOTS, SharedTransport, Transport, WorkerSeen
from perdure.transports.chunk_window import ShownStreams, Window, window_path
from perdure.transports.local import LocalTransport

logger = logging.getLogger("perdure.engine")

_SETTLE_SECONDS = 5.0
"""The most seconds that writing the last results may take at shutdown."""
CommitListener = Callable[[State, list[e.Event]], None]
MakeListener = Callable[[Journal, Coordinator, Clock], Listener]


def _server_time(clock: Clock, journal: Journal) -> ServerTime | None:
    """What sets this clock by the database, if the database has one of its own."""
    if not isinstance(clock, OffsetClock) or journal.leases is None:
        return None
    return ServerTime(clock, journal.leases)


class Engine:
    _streams: Streams | None = None
    """Chunks between the attempts of this process, if it holds the journal."""
    poller: Worker | None = None
    """The worker that polls the sources of triggers."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        *,
        clock: Clock,
        registry: Registry,
        concurrency: int,
        claims: Path | None = None,
        handled: Path | None = None,
        blobs: BlobStore | None = None,
        vault: Vault | None = None,
        remote: Callable[[], Awaitable[SharedTransport]] | None = None,
    ) -> None:
        """`remote` opens the transport of a distributed engine when it is first needed."""
        self.journal = journal
        self._bounds = bounds_of(settings)
        self._tempo, self.settings = settings.tempo, settings
        self.archive = journal.archive
        self._remote = remote
        self._public_url = settings.public_url
        self.vault = vault
        self.clock = clock
        self.registry = registry
        self.blobs, self.contents = blobs, Contents(blobs)
        self.library = Library(journal, blobs)
        self.others: Others = "all"
        self.drives_triggers = settings.triggers
        """Whether schedules fire here, and triggers start runs; asked when the engine begins to decide."""
        self.lock: HolderLock | None = None
        self.holder: HeldBy | None = None
        self._claims_path, self._handled_path, self._window = claims, handled, window_path(claims)
        self._claims: Claims | None = None
        self._handled: Handled | None = None
        self._lifelines: Lifelines | None = None
        self._concurrency = concurrency
        self._sandbox: Sandbox | None = None
        self.parts = Parts()
        self.feed = Feed(journal, clock, self.parts, self._decides)
        self._listeners: list[CommitListener] = [self.feed.hear]
        self.coordinator: Coordinator | None = None
        self.sharing: Sharing | None = None
        self.worker: Worker | None = None
        self._works = False
        self.transport: Transport | None = None
        self._shared: SharedTransport | None = None  # the same object in a distributed engine
        self._logs: LogKeeper | None = None
        self.handover = Handover(journal, clock)
        self.workflows = Workflows(
            journal, self.library, registry, blobs, coordinator=lambda: self.coordinator, bounds=self._bounds
        )
        self.runs = Runs(
            journal,
            clock,
            registry,
            library=self.library,
            contents=self.contents,
            parts=self.parts,
            handover=self.handover,
            feed=self.feed,
            distributed=self.distributed,
            coordinator=lambda: self.coordinator,
            take_over=lambda: self.hold(work=False),
        )
        self.triggers = Triggers(self.runs, self.library, journal, clock, settings)
        self.event_room = EventRoom(journal, clock, settings.max_events, settings.event_days * DAY)
        ask_workers = None if remote is None else self._list_workers
        self.roster: Roster | None = None
        """Who is there to work; None where this process decides nothing, or is all there is."""
        self.work_reports = WorkReports(clock, self._tempo.dead_seconds, claims, lambda: self.worker, ask_workers)

    # -- life ----------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        settings: Settings | str,
        *,
        clock: Clock = clocks.system,
        registry: Registry | None = None,
        concurrency: int = CONCURRENCY,
        vault: Vault | None = None,
        journal_options: Mapping[str, object] | None = None,
    ) -> Engine:
        """Open an engine on a database. Instead of settings, the URL of a database is enough; all else is then the
        default. With `redis_url` the engine is distributed. `vault` replaces the secrets and keys that the settings
        name."""
        settings = Settings(database_url=settings) if isinstance(settings, str) else settings
        url = settings.database_url
        vault = vault or open_vault(settings)
        bounds_of(settings)  # invalid bounds are refused before anything is opened
        if settings.redis_url:
            if not is_postgres(url):
                raise SettingsInvalid(
                    "redis_url is set and database_url is not postgresql://…; processes that share runs need both"
                )
        if is_postgres(url):
            clock = OffsetClock(clock)
        journal = await open_journal(url, clock, **(journal_options or {}))
        try:
            if (time := _server_time(clock, journal)) is not None:
                await time.ask()
            blobs = open_blobs(journal, url, settings.blob_url, clock)
        except BaseException:
            await journal.close()
            raise
        file = None if is_postgres(url) else database_file(url)
        return cls(
            journal,
            settings,
            clock=clock,
            registry=registry or installed(),
            concurrency=concurrency,
            claims=None if file is None else file.with_name(file.name + ".claims"),
            handled=deployment.handled_file(url),
            blobs=blobs,
            vault=vault,
            remote=partial(open_transport, settings, journal, clock) if settings.redis_url else None,
        )

    @property
    def holds(self) -> bool:
        """Whether this engine decides for runs: for all of them, or for a share."""
        return self.lock is not None or self.sharing is not None

    def _decides(self, run_id: str) -> bool:
        return self.coordinator is not None and self.coordinator.share.holds(run_id)

    @property
    def distributed(self) -> bool:
        """Whether any number of processes decide, each for its share of the runs; none holds the journal as a whole."""
        return self._remote is not None

    async def hold(self, *, work: bool = True) -> bool:
        """Become the holder and begin to work, or learn which process holds the journal (False). A distributed journal
        is never held."""
        if self.distributed:
            return False
        if self.lock is None:
            taken = await self.journal.hold()
            if isinstance(taken, HeldBy):
                self.holder = taken
                return False
            self.lock, self.holder = taken, None
            shown = ShownStreams(self.clock, self._window)
            self.transport, self._streams = self._make_transport(), shown
            self.parts.spawn("chunks", shown.show())
            self._handled = await begin_handled(self._handled_path, self.journal, self.clock)
            self._keep_time()
            self._start(self.transport, Listener)
        if work and not self._works:
            self._works = True
            try:
                await self._work()
            except BaseException:
                self._works = False
                await self._stop()
                raise
        return True

    def _make_transport(self) -> Transport:
        """The transport between the parts of this process."""
        return LocalTransport(clock=self.clock, one_queue="default", apart=(poll_tasks.TYPE,), durable_checkpoints=True)

    async def connect(self) -> SharedTransport:
        """Connect to the transport of a distributed engine, which also lets requests be answered sooner."""
        if self._shared is None:
            assert self._remote is not None, "only a distributed engine has something to connect to"
            self.transport = self._shared = await self._remote()
            self._streams = self._shared.streams
            self.handover.connect(self._shared)
            self._keep_time()
        return self._shared

    def _keep_time(self) -> None:
        if (time := _server_time(self.clock, self.journal)) is not None:
            self.parts.spawn("clock", time.run())

    async def find_streams(self) -> Readable | None:
        """Where chunks are on their way; None: in another process, which cannot be looked into."""
        elsewhere = None if self._window is None else Window(self._window)
        return (await self.connect()).streams if self.distributed else self._streams or elsewhere

    async def _list_workers(self) -> list[WorkerSeen]:
        return await (await self.connect()).list_workers()

    async def coordinate(self) -> None:
        """Begin to decide for a share of the runs."""
        transport = await self.connect()
        assert self.journal.leases is not None, "a journal that several processes decide for has leases"
        self._handled = await begin_handled(self._handled_path, self.journal, self.clock)
        self._start(transport, partial(Listener, answered=self.handover.tell_answered))
        assert self.coordinator is not None
        holder = self.clock.new_id()
        self._live("coordinator", holder)
        self.sharing = Sharing(
            self.journal.leases,
            self.coordinator,
            transport,
            self.clock,
            holder=holder,
            recover=self._take_over,
            lease_seconds=self._tempo.lease_seconds,
            lifelines=self._lifelines,
        )
        self.roster = Roster(transport, self.coordinator, self.clock, dead_seconds=self._tempo.dead_seconds)
        self.listen(self.roster.note)
        transport.on_wake("commands", self._commanded)
        self._sweep(transport)
        self.parts.spawn("roster", self.roster.run())
        self.parts.spawn("sharing", self.sharing.run())
        self.parts.spawn("leases", self.sharing.watch())
        self.parts.spawn("recovery", self.sharing.recover())

    async def work(
        self,
        *,
        queues: Sequence[str] = ("default", poll_tasks.QUEUE),
        types: Sequence[str] = (),
        worker_id: str = "",
        concurrency: int | None = None,
        device: str = "",
    ) -> None:
        """Begin to execute the tasks of these queues whose type and function this process has; with `types`, only those
        types."""
        transport = await self.connect()
        self._concurrency = concurrency or self._concurrency
        known = self.registry.worker_names()
        if unknown := [name for name in types if name not in known and name != poll_tasks.TYPE]:
            raise SettingsInvalid(f"this worker has no {', '.join(unknown)}; it has: {', '.join(known)}")
        if not worker_id:  # a name that was given may be that of several workers
            worker_id = f"worker-{self.clock.new_id()[-12:]}"
            self._live("worker", worker_id)
        others = [queue for queue in queues if queue != poll_tasks.QUEUE]
        if others:
            self._spawn_worker(transport, worker_id, others, tuple(types) or tuple(known), device)
        if poll_tasks.QUEUE in queues and (not others or not types or poll_tasks.TYPE in types):
            self._spawn_poller(transport, worker_id if not others else f"{worker_id}-polls")

    def _live(self, kind: Kind, name: str) -> None:
        """Hold a lifeline, where one can be held: others in this folder see at once when this process dies."""
        if self._lifelines is None and self._handled_path is not None:
            self._lifelines = open_lifelines(self._handled_path.with_suffix(".alive"))
        if self._lifelines is not None:
            self._lifelines.tie(kind, name)

    async def _take_over(self, partitions: Collection[int]) -> None:
        """Continue the runs of partitions that another process decided for: those with work under way, at once."""
        assert self.coordinator is not None
        await insist(self.clock, self.coordinator.incarnation.learn)
        self.timekeeper.look_soon()
        self.listener.look_again()
        self.topic_reader.look_again()
        async for record in list_active(self.journal, self.clock, partitions, busy=True):
            self.coordinator.take_over(record.run_id)

    def _commanded(self, said: str) -> None:
        """Look for commands soon if the partition named is held here; an empty text means that it may be any."""
        assert self.coordinator is not None
        if not said or (len(said) < 10 and said.isdecimal() and self.coordinator.share.has(int(said))):
            self.listener.look_soon()

    def _start(self, transport: Transport, make_listener: MakeListener) -> None:
        """Start the parts that decide and answer; nothing is executed yet."""
        self.coordinator = Coordinator(
            self.journal,
            transport,
            self.registry,
            self.clock,
            window=2 * self._concurrency,
            on_commit=self._tell,
            blobs=self.blobs,
            vault=self.vault,
            judge=self._judge,
            limits=transport.limits,
            bounds=self._bounds,
            streams=self._streams,
        )
        self.coordinator.renderer.doubts_sizes = self.blobs is not None and transport is self._shared
        self.coordinator.handling.own = self.runs.own
        self.coordinator.handling.where = describe_process()
        self.coordinator.blame.write_to(self._handled)
        self.parts.spawn("coordinator", self.coordinator.run())
        self.parts.spawn("fetcher", self.coordinator.fetcher.run())
        self.parts.spawn("limiter", self.coordinator.publisher.limiter.run())
        self.receiver = Receiver(transport, self.coordinator.put, self.clock)
        self.parts.spawn("results", self.receiver.run())
        self.parts.spawn("begins", self.receiver.run_begins())
        self.timekeeper = Timekeeper(self.journal, self.coordinator, self.clock)
        self.listener = make_listener(self.journal, self.coordinator, self.clock)
        self.topic_reader = TopicReader(self.journal, self.coordinator, self.clock, self.runs.find_view)
        self._listeners.append(self.topic_reader.note)
        self.timekeeper.before_moments = self.listener.catch_up
        leaves = not self.drives_triggers
        self.timekeeper.leaves_triggers = self.listener.leaves_triggers = self.topic_reader.leaves_triggers = leaves
        self.coordinator.publisher.leaves_triggers = leaves
        self.parts.spawn("topics", self.topic_reader.run())
        self.parts.spawn("timekeeper", self.timekeeper.run())
        self.parts.spawn("listener", self.listener.run())

    def look_at_topics(self) -> None:
        """Something has happened: this process, if it decides, need not wait for its next look."""
        if self.coordinator is not None:
            self.topic_reader.look_soon()

    async def _judge(self, job: Job, tenant: str) -> bool | Lost:
        """Run a Python condition in the sandbox, whose processes are started with the first one."""
        if self._sandbox is None:
            self._sandbox = Sandbox(memory_mb=self._bounds.sandbox_memory_mb)
        return await self._sandbox.run(job, tenant)

    async def _work(self) -> None:
        """Begin to execute, first what the process before this one left."""
        assert self.coordinator is not None
        assert self.transport is not None
        crashed = self.read_left_claims()
        left = self.coordinator.publisher.left = await find_left_alone(
            self.journal, self.clock, self.others, crashed, self.runs.own
        )
        worker_id = f"local-{self.clock.new_id()[-8:]}"
        if self._claims_path is not None:
            kept = [name for name in crashed if root_of(name) in left]
            self._claims = Claims(self._claims_path, self._concurrency, kept, Owner(worker_id, *this_process()))
        self._sweep(self.transport)
        await self._recover(frozenset(crashed), left)
        # Last: a person who gives up before this, by Ctrl-C perhaps, cuts off no attempt.
        self._spawn_worker(self.transport, worker_id, ("default",), None)
        publisher = self.coordinator.publisher
        publisher.polls = partial(self._spawn_poller, self.transport, f"{worker_id}-polls")
        if publisher.dispatcher.count_backlog().get(poll_tasks.QUEUE):
            publisher.polls()
        await self.clock.sleep(0)  # one turn of the loop, in which the worker begins

    async def _recover(self, crashed: frozenset[str], left: frozenset[str] = frozenset()) -> None:
        """Continue the runs that another process left: those with tasks under way, at once."""
        assert self.coordinator is not None
        await insist(self.clock, self.coordinator.incarnation.learn)
        # All are listed before the first is resumed: those resumed meanwhile would keep new work waiting for the list.
        names = [record.run_id async for record in list_active(self.journal, self.clock, busy=True)]
        for name in names:
            if not left or root_of(name) not in left:
                self.coordinator.resume(name, crashed)

    def read_left_claims(self) -> list[str]:
        """The attempts that were under way when the process before this one died."""
        return [] if self._claims_path is None else Claims.read_left(self._claims_path)

    def _sweep(self, transport: Transport) -> None:
        """Start the parts that find lost work, prune what is past its time, and send notifications."""
        assert self.coordinator is not None
        if self.archive is not None:
            days = {name: getattr(self.settings, name) for name in DAYS}
            pruner = Pruner(self.journal, self.archive, self.clock, **days)
            self.parts.spawn("pruner", pruner.run())
            if self.vault is not None:
                notifier = Notifier(self.journal, self.archive, self.vault, self.clock, public_url=self._public_url)
                self.listen(notifier.note)
                self.parts.spawn("notifier", notifier.run())
        if self.drives_triggers:
            self.parts.spawn("lost_runs", LostRuns(self.journal, self.coordinator, self.clock).run())
        reclaimer = Reclaimer(transport, self.coordinator, self.clock, self._tempo, self._lifelines)
        self.parts.spawn("reclaimer", reclaimer.run())
        if self._lifelines is not None:
            self.parts.spawn("lifelines", watch(self._lifelines, self.clock, partial(self._mourn, reclaimer)))

    async def _mourn(self, reclaimer: Reclaimer) -> None:
        """Take over at once what a process had that died beside this one."""
        if self.sharing is not None:
            self.sharing.look()
        await reclaimer.sweep()

    def _spawn_worker(
        self, transport: Transport, name: str, queues: Sequence[str], types: Sequence[str] | None, device: str = ""
    ) -> None:
        if self.archive is not None:
            self._logs = LogKeeper(self.archive, self.clock)
            capture.begin()
            self.parts.spawn("logs", self._logs.run())
        self.worker = Worker(
            transport,
            self.registry,
            self.clock,
            worker_id=name,
            queues=queues,
            types=types,
            concurrency=self._concurrency,
            heartbeat_seconds=self._tempo.heartbeat_seconds,
            claims=self._claims,
            blobs=self.blobs,
            vault=self.vault,
            keep_line=None if self._logs is None else self._logs.add,
            tells_starts=self.distributed,
            process=this_process(),
            device=device,
            streams=self._streams,
            asset_max_bytes=self.settings.asset_max_bytes,
        )
        self.parts.spawn("worker", self.worker.run())

    def _spawn_poller(self, transport: Transport, name: str) -> None:
        """Begin to poll sources: in slots of their own, since a poll sleeps most of its time. Embedded, with the first poll. The worker
        takes as many polls as any may: those that sleep have no slot (`PollHandler`)."""
        if self.poller is not None or self.parts.closing:
            return
        if self.coordinator is not None and not self.distributed:
            self.coordinator.publisher.dispatcher.set_window(poll_tasks.QUEUE, 2 * MOST_SLOTS, MOST_SLOTS)
        roots = tuple(root for root in self.settings.folder_roots.split(":") if root)
        polling = PollHandler(SourceKinds(roots, self.clock).open, self.clock, self.settings.trigger_slots)
        self.poller = Worker(
            transport,
            polling.registry(),
            self.clock,
            worker_id=name,
            queues=(poll_tasks.QUEUE,),
            # The only worker there is says itself what it lacks.
            types=(poll_tasks.TYPE,) if self.distributed else None,
            list_functions=list_sources,
            concurrency=MOST_SLOTS,
            heartbeat_seconds=self._tempo.heartbeat_seconds,
            blobs=self.blobs,
            vault=self.vault,
            process=this_process(),
        )
        self.parts.spawn("poller", self.poller.run())

    async def until_broken(self) -> None:
        """Wait until a part gives up, and raise its reason. For processes that do nothing else."""
        await self.parts.until_broken()

    async def close(
        self, grace_seconds: float = GRACE_SECONDS, last: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Close the engine: running work gets its grace period, the rest is handed back, and nothing is left running or
        open. `last` is called before the journal closes, and may read the outcomes."""
        self.parts.closing = True
        if self.poller is not None and self.distributed:
            await self.poller.drain(0.0)  # another worker polls on; here, the next process does
        if self.worker is not None:
            await self.worker.drain(grace_seconds)
        if self._logs is not None:
            logs, self._logs = self._logs, None
            capture.end()
            await first_of(logs.flush_last(), self.clock.sleep(_SETTLE_SECONDS))
        if self.coordinator is not None:
            await self._settle()
            if self.sharing is not None:
                await self.parts.end("sharing")  # otherwise it would lease again what it hands over
                await first_of(self.sharing.leave(), self.clock.sleep(_SETTLE_SECONDS))
            self.coordinator.stop()
        self.feed.close()
        await self._stop()
        if last is not None:
            await last()
        if self.blobs is not None:
            await self.blobs.close()
        if self.vault is not None:
            self.vault.close()
        await self.journal.close()

    async def _stop(self) -> None:
        await self.parts.stop()
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()
        if self.transport is not None:
            await self.transport.close()
        for file in (self._claims, self._handled, self._lifelines):
            if file is not None:
                file.close()
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    async def _settle(self) -> None:
        """Wait until the last results of workers are written, before the loops stop. A journal that does not answer
        must not keep the process alive: what is not written is done again."""
        assert self.coordinator is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                if not self.distributed:  # else other coordinators receive results too
                    workers = [one for one in (self.worker, self.poller) if one is not None]
                    await self.receiver.settled(sum(one.reported for one in workers))
                await self.coordinator.settled()

    # -- commits -------------------------------------------------------------------------------------------------------

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        """Call `listener` for every commit of this process as it becomes durable. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, state: State, events: list[e.Event]) -> None:
        if state.terminal:
            self.runs.own.discard(state.run_id)
        for listener in list(self._listeners):
            try:
                listener(state, events)
            except Exception:  # whatever a listener does, the runs go on
                logger.exception("run %s: a listener of its events failed", state.run_id)
