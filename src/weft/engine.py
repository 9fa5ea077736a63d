"""The composition root: configuration in, running parts out. Only this file turns a URL into an adapter.

An engine either *holds* its journal (it runs the coordinator and workers) or *follows* the process that does: it reads,
hands its requests over and watches. When the holder dies, a follower that wants work done takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from weft import clock as clocks
from weft.clock import Clock
from weft.errors import NotFound, WeftError
from weft.journal import HeldBy, HolderLock, Journal, RunRecord
from weft.journals.sqlite import SqliteJournal
from weft.kernel import events as e
from weft.kernel.state import State
from weft.model import Compiled, DefinitionError
from weft.model import ir as irs
from weft.model.ir import IR
from weft.nodes import builtin
from weft.nodes.registry import Registry
from weft.routing.checks import check_parts
from weft.runtime.claims import Claims
from weft.runtime.coordinator import Coordinator, EngineStopped
from weft.runtime.listener import Listener, handle
from weft.runtime.loaded import Library, load
from weft.runtime.messages import BeginAsked, Reported
from weft.runtime.reclaimer import Reclaimer
from weft.runtime.requests import Reply, Request, decode_reply, decode_request, encode_request
from weft.runtime.timekeeper import Timekeeper
from weft.runtime.waiting import first_of
from weft.runtime.worker import Worker
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
    ) -> None:
        self.journal = journal
        self.clock = clock
        self.registry = registry
        self.library = Library(journal)
        self.own: set[str] = set()
        """Runs this process wants to run itself; it has, or should have, what they call."""
        self.lock: HolderLock | None = None
        self.holder: HeldBy | None = None
        self._claims_path = claims
        self._claims: Claims | None = None
        self._concurrency = concurrency
        self._seconds = (heartbeat_seconds, dead_seconds, sweep_seconds)
        self._tasks: list[asyncio.Task[None]] = []
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
    ) -> Engine:
        file = database_file(database_url)
        journal = await SqliteJournal.open(file, clock=clock)
        return cls(
            journal,
            clock=clock,
            registry=registry or builtin(),
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
        self.transport = LocalTransport(clock=self.clock, one_queue="default")
        self.coordinator = Coordinator(
            self.journal,
            self.transport,
            self.registry,
            self.clock,
            window=2 * self._concurrency,
            on_commit=self._tell,
        )
        self.coordinator.own = self.own
        self._spawn("coordinator", self.coordinator.run())
        self._spawn("results", self._receive(self.transport, self.coordinator))
        self._spawn("begins", self._receive_begins(self.transport, self.coordinator))
        self._spawn("timekeeper", Timekeeper(self.journal, self.coordinator, self.clock).run())
        self._spawn("listener", Listener(self.journal, self.coordinator, self.clock).run())

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
        )
        self._spawn("worker", self.worker.run())
        await self._recover(crashed)

    async def _recover(self, crashed: frozenset[str]) -> None:
        """Go on with what another process left: everything that has tasks out, at once."""
        assert self.coordinator is not None
        after = ""
        while records := await self.journal.list_active_runs(after=after, busy=True):
            for record in records:
                self.coordinator.resume(record.run_id, crashed)
            after = records[-1].run_id

    def _spawn(self, name: str, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"weft-{name}")
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken.set()

    async def _receive(self, transport: LocalTransport, coordinator: Coordinator) -> None:
        while True:
            for delivery in await transport.receive(1000):
                coordinator.put(Reported(delivery))

    async def _receive_begins(self, transport: LocalTransport, coordinator: Coordinator) -> None:
        while True:
            coordinator.put(BeginAsked(await transport.receive_begin()))

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Running work gets its grace, the rest is handed back; nothing is left running or open."""
        if self.worker is not None:
            await self.worker.drain(grace_seconds)
        if self.coordinator is not None:
            await self._settle()
            self.coordinator.stop()
        await self._stop()
        await self.journal.close()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
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

    def _check(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                name, error = task.get_name(), task.exception()
                raise EngineStopped(f"{name} stopped: {type(error).__name__}: {error}") from error

    # -- workflows and runs --------------------------------------------------------------------------------------------

    async def register(self, compiled: Compiled) -> tuple[IR, int]:
        """Store a workflow; the same definition is the same version."""
        ir = compiled.get_ir()
        problems = check_parts(ir)
        if problems:
            raise DefinitionError(problems)
        body = msgspec.json.encode(compiled.definition, order="deterministic")
        await self.journal.put_definition(ir.hash, "ir", irs.encode(ir))
        name = f"definition:{ir.hash}"
        await self.journal.put_definition(name, "definition", body)
        version = await self.journal.register_workflow(ir.name, name, ir_hash=ir.hash)
        self.library.add(ir)
        if self.coordinator is not None:
            self.coordinator.library.add(ir)
        return ir, version

    async def request(self, request: Request) -> Reply:
        """Decide a request here, or let the holder decide it."""
        if request.kind == "start":
            self.own.add(request.run_id)
        body = encode_request(request)  # what cannot be stored is refused here, before it is anybody's
        if self.coordinator is not None:
            self._check()
            return await handle(self.coordinator, decode_request(body))
        command = await self.journal.put_command(request.run_id, body)
        while (answer := await self.journal.find_answer(command)) is None:
            await self.clock.sleep(_FOLLOW_SECONDS)
            if await self.hold(work=False):  # the holder is gone; the listener of this process answers
                self._check()
        return decode_reply(answer)

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
