"""The composition root: configuration in, running parts out. Only this file turns a URL into an adapter.

An engine either *holds* its journal (it runs the coordinator and workers) or *follows* the process that does: it reads,
hands its requests over and watches. When the holder dies, a follower that wants work done takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from weft import clock as clocks
from weft.blob_stores.urls import open_store
from weft.blobs import INLINE_BYTES, BlobMissing, BlobStore
from weft.clock import Clock
from weft.errors import NotFound, WeftError
from weft.journal import HeldBy, HolderLock, Journal, RunRecord
from weft.journals.sqlite import SqliteJournal
from weft.kernel import events as e
from weft.kernel.segments import pack
from weft.kernel.state import State
from weft.model import Compiled, DefinitionError, Problem
from weft.model import ir as irs
from weft.model.ir import IR
from weft.nodes import installed
from weft.nodes.checks import find_problems
from weft.nodes.registry import Registry
from weft.routing.checks import find_content_refs
from weft.runtime.claims import Claims
from weft.runtime.contents import Contents
from weft.runtime.coordinator import Coordinator, EngineStopped
from weft.runtime.listener import Listener, handle
from weft.runtime.loaded import Library, database_identity, load
from weft.runtime.messages import BeginAsked, Reported
from weft.runtime.reclaimer import Reclaimer
from weft.runtime.requests import VALUES, Reply, Request, decode_reply, decode_request, encode_request
from weft.runtime.timekeeper import Timekeeper
from weft.runtime.waiting import first_of, insist
from weft.runtime.worker import Worker
from weft.sandbox import Sandbox
from weft.secrets.keyring import open_file
from weft.secrets.keyring import parse as parse_keys
from weft.secrets.providers import open_secrets
from weft.secrets.vault import Vault
from weft.settings import Settings, read_secrets
from weft.transports.local import LocalTransport

logger = logging.getLogger("weft.engine")

_FOLLOW_SECONDS = 0.05
_SETTLE_SECONDS = 5.0
"""How long the last results may take to be written at shutdown."""
Listener_ = Callable[[State, list[Any]], None]


def database_file(url: str) -> Path:
    """`sqlite:///weft.db` is relative, `sqlite:////var/weft.db` absolute."""
    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not path:
        raise WeftError(f"database {url}: this version knows sqlite:///path only")
    return Path(path)


def keys_file(url: str) -> Path:
    """Where the keys of sensitive fields are, unless the settings have them."""
    file = database_file(url)
    return file.with_name(file.name + ".keys")


def blob_url_of(database_url: str, blob_url: str) -> str:
    """Where blobs are: what the settings say, else a folder beside the database file."""
    if blob_url:
        return blob_url
    scheme, _, path = database_url.partition(":///")
    return f"file:{path}.blobs" if scheme == "sqlite" and path else "file:.weft/blobs"


def open_vault(settings: Settings) -> Vault:
    """Secrets and keys as the settings say."""
    secrets = open_secrets(read_secrets(), settings.secrets_file, settings.secrets_provider)
    if settings.encryption_keys:
        where = settings.sources.get("encryption_keys", "encryption_keys")
        return Vault(secrets, partial(parse_keys, settings.encryption_keys, where))
    return Vault(secrets, partial(open_file, keys_file(settings.database_url)))


class Engine:
    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock,
        registry: Registry,
        claims: Path | None,
        concurrency: int,
        heartbeat_seconds: float,
        dead_seconds: float,
        sweep_seconds: float,
        blobs: BlobStore | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.journal = journal
        self.vault = vault
        self.clock = clock
        self.registry = registry
        self.blobs = blobs
        self.contents = Contents(blobs)
        self.library = Library(journal, blobs)
        self.own: set[str] = set()
        """Runs this process wants to run itself; it has, or should have, what they call."""
        self.lock: HolderLock | None = None
        self.holder: HeldBy | None = None
        self._claims_path = claims
        self._claims: Claims | None = None
        self._concurrency = concurrency
        self._seconds = (heartbeat_seconds, dead_seconds, sweep_seconds)
        self._sandbox: Sandbox | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._broken = asyncio.Event()
        """A part gave up; whoever waits should look."""
        self._listeners: list[Listener_] = []
        self.coordinator: Coordinator | None = None
        self.worker: Worker | None = None
        self.transport: LocalTransport | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        database_url: str,
        *,
        clock: Clock = clocks.system,
        registry: Registry | None = None,
        concurrency: int = 100,
        heartbeat_seconds: float = 5.0,
        dead_seconds: float = 15.0,
        sweep_seconds: float = 15.0,
        blob_url: str = "",
        vault: Vault | None = None,
    ) -> Engine:
        """Without a vault, secrets come from the environment, and keys from the file beside the database."""
        file = database_file(database_url)
        journal = await SqliteJournal.open(file, clock=clock)
        try:
            owner = partial(database_identity, journal, clock)
            blobs = open_store(blob_url_of(database_url, blob_url), clock=clock, owner=owner)
        except BaseException:
            await journal.close()
            raise
        return cls(
            journal,
            blobs=blobs,
            vault=vault or Vault(open_secrets(read_secrets()), partial(open_file, keys_file(database_url))),
            clock=clock,
            registry=registry or installed(),
            claims=file.with_name(file.name + ".claims"),
            concurrency=concurrency,
            heartbeat_seconds=heartbeat_seconds,
            dead_seconds=dead_seconds,
            sweep_seconds=sweep_seconds,
        )

    @property
    def holds(self) -> bool:
        return self.lock is not None

    async def hold(self, *, work: bool = True) -> bool:
        """Become the holder and begin to work, or learn who holds the journal."""
        if self.lock is None:
            taken = await self.journal.hold()
            if isinstance(taken, HeldBy):
                self.holder = taken
                return False
            self.lock, self.holder = taken, None
            self._start()
        if work and self.worker is None:
            try:
                await self._work()
            except BaseException:
                await self._stop()
                raise
        return True

    def _start(self) -> None:
        """Decide and answer; nothing is executed yet."""
        self.transport = LocalTransport(clock=self.clock, one_queue="default", durable_checkpoints=True)
        self.coordinator = Coordinator(
            self.journal,
            self.transport,
            self.registry,
            self.clock,
            window=2 * self._concurrency,
            on_commit=self._tell,
            blobs=self.blobs,
            vault=self.vault,
            judge=self._judge,
        )
        self.coordinator.own = self.own
        self._spawn("coordinator", self.coordinator.run())
        self._spawn("fetcher", self.coordinator.fetcher.run())
        self._spawn("results", self._receive(self.transport, self.coordinator))
        self._spawn("begins", self._receive_begins(self.transport, self.coordinator))
        self._spawn("timekeeper", Timekeeper(self.journal, self.coordinator, self.clock).run())
        self._spawn("listener", Listener(self.journal, self.coordinator, self.clock).run())

    async def _judge(self, job: Any) -> Any:
        """Run a Python condition; its processes are started by the first one."""
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return await self._sandbox.run(job)

    async def _work(self) -> None:
        """Execute, beginning with what the process before this one left."""
        assert self.transport is not None
        assert self.coordinator is not None
        crashed: frozenset[str] = frozenset()
        if self._claims_path is not None:
            crashed = frozenset(Claims.read_left(self._claims_path))
            self._claims = Claims(self._claims_path, self._concurrency)
        heartbeat, dead, sweep = self._seconds
        reclaimer = Reclaimer(self.transport, self.coordinator, self.clock, dead_seconds=dead, sweep_seconds=sweep)
        self._spawn("reclaimer", reclaimer.run())
        self.worker = Worker(
            self.transport,
            self.registry,
            self.clock,
            worker_id=f"local-{self.clock.new_id()[-8:]}",
            queues=("default",),
            concurrency=self._concurrency,
            heartbeat_seconds=heartbeat,
            claims=self._claims,
            blobs=self.blobs,
            vault=self.vault,
        )
        self._spawn("worker", self.worker.run())
        await self._recover(crashed)

    async def _recover(self, crashed: frozenset[str]) -> None:
        """Go on with what another process left: everything that has tasks out, at once."""
        assert self.coordinator is not None
        after = ""
        while True:
            read = partial(self.journal.list_active_runs, after=after, busy=True)
            if not (records := await insist(self.clock, read)):
                return
            for record in records:
                self.coordinator.resume(record.run_id, crashed)
            after = records[-1].run_id

    def _spawn(self, name: str, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"weft-{name}")
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """No part may end before the others, however that came about: a run would stand still and nobody would know."""
        if not self._closing:
            self._broken.set()

    async def until_broken(self) -> None:
        """Wait for a part to give up, and raise why. For processes that do nothing else."""
        await self._broken.wait()
        self._check()

    async def _receive(self, transport: LocalTransport, coordinator: Coordinator) -> None:
        while True:
            for delivery in await insist(self.clock, partial(transport.receive, 1000)):
                coordinator.put(Reported(delivery))

    async def _receive_begins(self, transport: LocalTransport, coordinator: Coordinator) -> None:
        while True:
            coordinator.put(BeginAsked(await insist(self.clock, transport.receive_begin)))

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Running work gets its grace, the rest is handed back; nothing is left running or open."""
        self._closing = True
        if self.worker is not None:
            await self.worker.drain(grace_seconds)
        if self.coordinator is not None:
            await self._settle()
            self.coordinator.stop()
        await self._stop()
        if self.blobs is not None:
            await self.blobs.close()
        if self.vault is not None:
            self.vault.close()
        await self.journal.close()

    async def _stop(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()
        if self.transport is not None:
            await self.transport.close()
        if self._claims is not None:
            self._claims.close()
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    async def _settle(self) -> None:
        """What workers reported last is written before the loops stop."""
        assert self.coordinator is not None
        alive = [task for task in self._tasks if task.get_name() == "weft-coordinator" and not task.done()]
        if alive:
            for _ in range(3):  # the receiver must have run once after the last report
                await self.clock.sleep(0)
            # A journal that takes nothing must not keep the process: what is not written is done again.
            for _ in range(2):  # twice: what was refused is decided again
                await first_of(self.coordinator.drained(), self.clock.sleep(_SETTLE_SECONDS))
            if len(self.coordinator.fetcher):
                await first_of(self._fetch_rest(), self.clock.sleep(_SETTLE_SECONDS))

    async def _fetch_rest(self) -> None:
        """What waits for a blob or a sandbox is decided, as far as that takes no longer than anybody can wait."""
        assert self.coordinator is not None
        while len(self.coordinator.fetcher):
            await self.coordinator.fetcher.idle()
            await self.coordinator.drained()

    def _check(self) -> None:
        for task in self._tasks:
            if task.done() and not self._closing:
                error = None if task.cancelled() else task.exception()
                why = "it was cancelled" if error is None else f"{type(error).__name__}: {error}"
                raise EngineStopped(f"{task.get_name()} stopped: {why}") from error

    # -- workflows and runs --------------------------------------------------------------------------------------------

    async def register(self, compiled: Compiled) -> tuple[IR, int]:
        """Store a workflow; the same definition is the same version."""
        ir = await self.keep(compiled)
        version = await self.journal.register_workflow(ir.name, f"definition:{ir.hash}", ir_hash=ir.hash)
        return ir, version

    async def keep(self, compiled: Compiled) -> IR:
        """Store a definition without making it a version of its workflow: what a patch names by its hash."""
        ir = compiled.get_ir()
        problems = (*find_problems(ir, self.registry), *await self._check_refs(ir))
        if any(problem.severity == "error" for problem in problems):
            raise DefinitionError(problems)
        body = msgspec.json.encode(compiled.definition, order="deterministic")
        await self.library.put(ir.hash, "ir", irs.encode(ir))
        await self.library.put(f"definition:{ir.hash}", "definition", body)
        self.library.add(ir)
        if self.coordinator is not None:
            self.coordinator.library.add(ir)
        return ir

    async def _check_refs(self, ir: IR) -> list[Problem]:
        """What a definition keeps as blobs must be there before it is stored."""
        problems: list[Problem] = []
        if self.blobs is not None:
            for path, ref in find_content_refs(ir):
                try:
                    await self.blobs.stat("default", ref)
                except BlobMissing as error:
                    message = f"{error.message}; put it with `weft blobs put FILE`"
                    problems.append(Problem(path, None, None, "missing_blob", message))
        return problems

    async def request(self, request: Request) -> Reply:
        """Decide a request here, or let the holder decide it."""
        if request.kind == "start":
            self.own.add(request.run_id)
        body = encode_request(request)  # what cannot be stored is refused here, before it is anybody's
        if len(body) > INLINE_BYTES:
            body = encode_request(await self._slim(request))
        if self.coordinator is not None:
            self._check()
            return await handle(self.coordinator, decode_request(body))
        command = await self.journal.put_command(request.run_id, body)
        while (answer := await self.journal.find_answer(command)) is None:
            await self.clock.sleep(_FOLLOW_SECONDS)
            if await self.hold(work=False):  # the holder is gone; the listener of this process answers
                self._check()
        return decode_reply(answer)

    async def _slim(self, request: Request) -> Request:
        """Large values of a request are stored first; the request names them."""
        about = await self.journal.find_run(request.source or request.run_id) if request.kind != "start" else None
        tenant = "default" if about is None else about.row.tenant
        kept = {name: await self.contents.keep(tenant, getattr(request, name)) for name in VALUES}
        if request.kind == "rerun" and request.node and isinstance(request.inputs, dict):  # by node, and looked at so
            kept["inputs"] = {name: await self.contents.keep(tenant, one) for name, one in request.inputs.items()}
        return msgspec.structs.replace(request, refs=True, **{name: pack(value) for name, value in kept.items()})

    async def state(self, run_id: str) -> State:
        """The run as it is durable now."""
        record = await self.journal.find_run(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id}; `weft runs list` shows those there are")
        return await self.state_of(record)

    async def state_of(self, record: RunRecord) -> State:
        return await load(self.journal, self.library, record)

    def listen(self, listener: Listener_) -> Callable[[], None]:
        """Hear of every commit of this process, as it becomes durable."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, state: State, events: list[Any]) -> None:
        for listener in list(self._listeners):
            try:
                listener(state, events)
            except Exception:  # whoever listens, the runs go on
                logger.exception("a listener failed at run %s", state.run_id)

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[e.Event]:
        """The run's events as they become durable, wherever they are decided. Never ends by itself."""
        changed = asyncio.Event()
        stop = self.listen(lambda state, events: changed.set() if state.run_id == run_id else None)
        try:
            while True:
                self._check()
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
        """Something of the run became durable, a part of the engine gave up, or it is time to look."""
        waits = [changed.wait(), self._broken.wait()]
        if self.coordinator is None:
            await first_of(*waits, self.clock.sleep(_FOLLOW_SECONDS))
        else:
            await first_of(*waits)
