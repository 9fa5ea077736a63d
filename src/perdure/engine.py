"""The engine: the composition root, which makes running parts from settings.

Embedded, an engine either *holds* its journal (it runs the coordinator and workers) or *follows* the process that does:
it reads, hands its requests over and watches. When the holder dies, a follower that wants work done takes over.
Distributed, any number of engines `coordinate`, each for its share of the runs, or `work`; all the others follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from perdure import clock as clocks
from perdure import deployment
from perdure.blobs import INLINE_BYTES, BlobStore
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
from perdure.errors import NotFound, SettingsInvalid
from perdure.expressions.at_hand import Lost
from perdure.expressions.python_code import Job
from perdure.journal import HeldBy, HolderLock, Journal, RunRecord
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.model import Compiled, DefinitionError
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.nodes import installed
from perdure.nodes.registry import Registry
from perdure.runtime.checking import Checker
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.handled import Handled, begin_handled
from perdure.runtime.coordinator.handover import Handover
from perdure.runtime.coordinator.leftovers import Others, find_left_alone, list_active
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.listener import Listener, handle
from perdure.runtime.coordinator.parked import find_mistakes_of
from perdure.runtime.coordinator.partitions import Sharing
from perdure.runtime.coordinator.quarantine import look
from perdure.runtime.coordinator.receiver import Receiver
from perdure.runtime.coordinator.requests import Reply, Request, decode_request, encode_request, slim
from perdure.runtime.coordinator.roster import Roster
from perdure.runtime.coordinator.sight import Sight
from perdure.runtime.notifier import Notifier
from perdure.runtime.parts import Parts
from perdure.runtime.patience import first_of, insist
from perdure.runtime.pruner import Pruner
from perdure.runtime.reclaimer import Reclaimer
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.worker import capture
from perdure.runtime.worker.claims import Claims, Owner, describe_process, root_of, this_process
from perdure.runtime.worker.logs import LogKeeper
from perdure.runtime.worker.worker import Worker
from perdure.sandbox import Sandbox
from perdure.secrets.vault import Vault
from perdure.settings import Settings
from perdure.transport import SharedTransport, Transport, WorkerSeen
from perdure.transports.local import LocalTransport

logger = logging.getLogger("perdure.engine")

_FOLLOW_SECONDS = 0.05
_SETTLE_SECONDS = 5.0
"""The most seconds that writing the last results may take at shutdown."""
CommitListener = Callable[[State, list[e.Event]], None]
MakeListener = Callable[[Journal, Coordinator, Clock], Listener]


class Engine:
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
        self._tempo = settings.tempo
        self.archive = journal.archive
        self._remote = remote
        self._retention_days = settings.retention_days
        self._public_url = settings.public_url
        self.vault = vault
        self.clock = clock
        self.registry = registry
        self.blobs = blobs
        self.contents = Contents(blobs)
        self.library = Library(journal, blobs)
        self.own: set[str] = set()
        """Runs that this process was asked to run itself; it has, or should have, the functions they call."""
        self.others: Others = "all"
        self.lock: HolderLock | None = None
        self.holder: HeldBy | None = None
        self._claims_path = claims
        self._claims: Claims | None = None
        self._handled_path = handled
        self._handled: Handled | None = None
        self._concurrency = concurrency
        self._sandbox: Sandbox | None = None
        self.parts = Parts()
        self._listeners: list[CommitListener] = []
        self.coordinator: Coordinator | None = None
        self.sharing: Sharing | None = None
        self.worker: Worker | None = None
        self._works = False
        self.transport: Transport | None = None
        self._shared: SharedTransport | None = None  # the same object in a distributed engine
        self._logs: LogKeeper | None = None
        self.handover = Handover(journal, clock)
        ask_workers = None if remote is None else self._list_workers
        self.sight = Sight(clock, self._tempo.dead_seconds, claims, lambda: self.worker, ask_workers)

    # -- life ----------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        settings: Settings | str,
        *,
        clock: Clock = clocks.system,
        registry: Registry | None = None,
        concurrency: int = 100,
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
            clock = OffsetClock(clock)
        journal = await open_journal(url, clock, **(journal_options or {}))
        try:
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
            self.transport = self._make_transport()
            self._handled = await begin_handled(self._handled_path, self.journal, self.clock)
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
        return LocalTransport(clock=self.clock, one_queue="default", durable_checkpoints=True)

    async def connect(self) -> SharedTransport:
        """Connect to the transport of a distributed engine, which also lets requests be answered sooner."""
        if self._shared is None:
            assert self._remote is not None, "only a distributed engine has something to connect to"
            self.transport = self._shared = await self._remote()
            self.handover.connect(self._shared)
        return self._shared

    async def _list_workers(self) -> list[WorkerSeen]:
        return await (await self.connect()).list_workers()

    async def coordinate(self) -> None:
        """Begin to decide for a share of the runs."""
        transport = await self.connect()
        assert self.journal.leases is not None, "a journal that several processes decide for has leases"
        self._handled = await begin_handled(self._handled_path, self.journal, self.clock)
        self._start(transport, partial(Listener, answered=self.handover.tell_answered))
        assert self.coordinator is not None
        self.sharing = Sharing(
            self.journal.leases,
            self.coordinator,
            transport,
            self.clock,
            holder=self.clock.new_id(),
            recover=self._take_over,
            lease_seconds=self._tempo.lease_seconds,
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
        queues: Sequence[str] = ("default",),
        types: Sequence[str] = (),
        worker_id: str = "",
        concurrency: int | None = None,
    ) -> None:
        """Begin to execute the tasks of these queues whose type and function this process has; with `types`, only those
        types."""
        transport = await self.connect()
        self._concurrency = concurrency or self._concurrency
        known = self.registry.worker_names()
        if unknown := [name for name in types if name not in known]:
            raise SettingsInvalid(f"this worker has no {', '.join(unknown)}; it has: {', '.join(known)}")
        worker_id = worker_id or f"worker-{self.clock.new_id()[-12:]}"
        self._spawn_worker(transport, worker_id, queues, tuple(types) or tuple(known))

    async def _take_over(self, partitions: Collection[int]) -> None:
        """Continue the runs of partitions that another process decided for: those with work under way, at once."""
        assert self.coordinator is not None
        await insist(self.clock, self.coordinator.incarnation.learn)
        self.timekeeper.look_soon()
        self.listener.look_again()
        async for record in list_active(self.journal, self.clock, partitions, busy=True):
            self.coordinator.take_over(record.run_id)

    def _commanded(self, said: str) -> None:
        """Look for commands soon if the partition named is held here; an empty text means that it may be any."""
        assert self.coordinator is not None
        held = self.coordinator.share.partitions or ()
        if not said or said in map(str, held):
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
        )
        self.coordinator.handling.own = self.own
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
        self.parts.spawn("timekeeper", self.timekeeper.run())
        self.parts.spawn("listener", self.listener.run())

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
            self.journal, self.clock, self.others, crashed, self.own
        )
        worker_id = f"local-{self.clock.new_id()[-8:]}"
        if self._claims_path is not None:
            kept = [name for name in crashed if root_of(name) in left]
            self._claims = Claims(self._claims_path, self._concurrency, kept, Owner(worker_id, *this_process()))
        self._sweep(self.transport)
        await self._recover(frozenset(crashed), left)
        # Last: whoever gives up before this, by Ctrl-C perhaps, cuts off no attempt.
        self._spawn_worker(self.transport, worker_id, ("default",), None)
        await self.clock.sleep(0)  # one turn of the loop, in which the worker begins

    async def _recover(self, crashed: frozenset[str], left: frozenset[str] = frozenset()) -> None:
        """Continue the runs that another process left: those with tasks under way, at once."""
        assert self.coordinator is not None
        await insist(self.clock, self.coordinator.incarnation.learn)
        async for record in list_active(self.journal, self.clock, busy=True):
            if root_of(record.run_id) not in left:
                self.coordinator.resume(record.run_id, crashed)

    def read_left_claims(self) -> list[str]:
        """The attempts that were under way when the process before this one died."""
        return [] if self._claims_path is None else Claims.read_left(self._claims_path)

    def _sweep(self, transport: Transport) -> None:
        """Start the parts that find lost work, prune what is past its time, and send notifications."""
        assert self.coordinator is not None
        if self.archive is not None:
            pruner = Pruner(self.journal, self.archive, self.clock, retention_days=self._retention_days)
            self.parts.spawn("pruner", pruner.run())
            if self.vault is not None:
                notifier = Notifier(self.journal, self.archive, self.vault, self.clock, public_url=self._public_url)
                self.listen(notifier.note)
                self.parts.spawn("notifier", notifier.run())
        reclaimer = Reclaimer(transport, self.coordinator, self.clock, self._tempo)
        self.parts.spawn("reclaimer", reclaimer.run())

    def _spawn_worker(
        self, transport: Transport, name: str, queues: Sequence[str], types: Sequence[str] | None
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
        )
        self.parts.spawn("worker", self.worker.run())

    async def until_broken(self) -> None:
        """Wait until a part gives up, and raise its reason. For processes that do nothing else."""
        await self.parts.until_broken()

    async def close(self, grace_seconds: float = 10.0, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Close the engine: running work gets its grace period, the rest is handed back, and nothing is left running or
        open. `last` is called before the journal closes, and may read the outcomes."""
        self.parts.closing = True
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
        for file in (self._claims, self._handled):
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
                if self.worker is not None and not self.distributed:  # else other coordinators receive results too
                    await self.receiver.settled(self.worker.reported)
                await self.coordinator.settled()

    # -- workflows and runs --------------------------------------------------------------------------------------------

    async def register(self, compiled: Compiled, *, tenant: str = "default", checked: bool = False) -> tuple[IR, int]:
        """Store a workflow and return its IR and version; registering the same definition again gives the same
        version."""
        ir = await self.keep(compiled, tenant=tenant, checked=checked)
        body = f"definition:{ir.hash}"
        return ir, await self.journal.register_workflow(ir.name, body, ir_hash=ir.hash, tenant=tenant)

    @property
    def checker(self) -> Checker:
        """The checker that decides whether a definition can be stored here."""
        return Checker(self.registry, self.blobs, self.library.find_workflow)

    async def keep(self, compiled: Compiled, *, tenant: str = "default", checked: bool = False) -> IR:
        """Store a definition without making it a version of its workflow; a patch names it by its hash. With `checked`
        it has passed the checker already."""
        ir = compiled.get_ir()
        problems = () if checked else await self.checker.find_problems(compiled, tenant=tenant)
        if any(problem.severity == "error" for problem in problems):
            raise DefinitionError((*compiled.problems, *problems))
        body = msgspec.json.encode(compiled.definition, order="deterministic")
        await self.library.put(ir.hash, "ir", irs.encode(ir))
        await self.library.put(f"definition:{ir.hash}", "definition", body)
        self.library.add(ir)
        if self.coordinator is not None:
            self.coordinator.library.add(ir)
        return ir

    def new_run_id(self) -> str:
        """A new run id, if possible one that this process decides for itself, so that no other process has to be
        asked."""
        new_id = self.clock.new_id
        return new_id() if self.coordinator is None else self.coordinator.share.draw(new_id)

    async def request(self, request: Request) -> Reply:
        """Decide a request here, or hand it to the process that holds its run."""
        if request.kind == "start" and not self.distributed:
            self.own.add(request.run_id)
        # Encoded even where it is decided here, which costs microseconds: what cannot be stored is refused before it is
        # decided, and the decision sees what a replay will see, a copy without tuples and NaN.
        if (reply := await self._refuse_config(request)) is not None:
            return reply
        body = encode_request(request)
        if len(body) > INLINE_BYTES:
            body = encode_request(await slim(request, self.contents, self.journal))
        if self.coordinator is not None and self.coordinator.share.holds(request.run_id):
            self.parts.check()
            reply = await handle(self.coordinator, decode_request(body))
            if reply.code != "moved":
                return reply
        return await self.handover.ask(request.run_id, body, self._decides, _FOLLOW_SECONDS)

    async def _refuse_config(self, request: Request) -> Reply | None:
        """The refusal of a requeue whose config cannot be used. It is checked here, where its content is at hand: it
        may be stored as a blob by the time it is decided on."""
        if request.kind != "requeue" or request.config is None:
            return None
        record = await self.journal.find_run(request.run_id)
        mistakes = [] if record is None else find_mistakes_of(self.registry, await self.state_of(record), request)
        if not mistakes:
            return None
        message = f"the config for node {request.node} cannot be used: {'; '.join(mistakes)}"
        return Reply(run_id=request.run_id, code="bad_config", message=message, problems=tuple(mistakes))

    async def _decides(self) -> bool:
        """Whether an answer will come: a holder decides, or this process has become the holder because the last one is
        gone."""
        if await self.hold(work=False):
            self.parts.check()
        return not self.distributed

    async def state(self, run_id: str) -> State:
        """The durable state of a run."""
        record = await self.journal.find_run(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id}; `perdure runs list` shows those there are")
        return await self.state_of(record)

    async def state_of(self, record: RunRecord) -> State:
        return await look(self.journal, self.library, record)

    def listen(self, listener: CommitListener) -> Callable[[], None]:
        """Call `listener` for every commit of this process as it becomes durable. Returns a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, state: State, events: list[e.Event]) -> None:
        if state.terminal:
            self.own.discard(state.run_id)
        for listener in list(self._listeners):
            try:
                listener(state, events)
            except Exception:  # whatever a listener does, the runs go on
                logger.exception("a listener failed at run %s", state.run_id)

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[e.Event]:
        """The run's events as they become durable, in whichever process they are decided. Never ends by itself."""
        changed = asyncio.Event()
        stop = self.listen(lambda state, events: changed.set() if state.run_id == run_id else None)
        try:
            while True:
                self.parts.check()
                changed.clear()
                stored = await self.journal.read_events(run_id, after)
                for one in stored:
                    after = one.seq
                    yield e.decode(one.body)
                if not stored:
                    await self._changed(changed)
        finally:
            stop()

    async def _changed(self, changed: asyncio.Event) -> None:
        """Wait until something of the run became durable, a part of the engine gave up, or it is time to look."""
        beat = [self.clock.sleep(_FOLLOW_SECONDS)] if self.coordinator is None or self.distributed else []
        await first_of(changed.wait(), self.parts.broken.wait(), *beat)
