"""A simulated cluster and its history: faults first, then healing, then everything must end.

It owns the store, the broker, the processes and the two phases. What is wrong is collected here and ends the history.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

import msgspec

from perdure.blob_stores.memory import MemoryObjects
from perdure.blob_stores.objects import ObjectBlobs
from perdure.blobs import BlobStore, full_ref, key_of, parse_ref, ref_of
from perdure.clock import Clock
from perdure.invariants import Checker
from perdure.journal import Accepted, Appended, Commit
from perdure.kernel import continuations
from perdure.kernel import events as e
from perdure.kernel.values import Wait
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.model.money import Budget
from perdure.runtime import runs as engine_runs
from perdure.runtime.coordinator import loaded
from perdure.runtime.coordinator.ownership import listener
from perdure.runtime.coordinator.ownership.incarnation import LostIncarnation
from perdure.runtime.parts import EngineStopped
from perdure.sandbox import Sandbox
from perdure.simulation import graphs
from perdure.simulation.blocks import Definition
from perdure.simulation.clock import SimClock
from perdure.simulation.faults import Chaos
from perdure.simulation.handlers import Handlers
from perdure.simulation.history_checks import Checks, Failed
from perdure.simulation.loop import HOST, Host, SimLoop
from perdure.simulation.memory_journal import MemoryJournal
from perdure.simulation.plan import Plan
from perdure.simulation.process import EngineProcess, Process, WorkerProcess
from perdure.simulation.store import Store
from perdure.simulation.transport import Broker
from perdure.simulation.troubles import Troubles
from perdure.simulation.users import Users
from perdure.transports.local_streams import LocalStreams

QUIET_SECONDS = 400.0
"""How long a run may stand still after healing, on no person's turn: dead time, sweep and slow handlers fit in."""
LONGEST = 3 * 3600.0
"""How long after healing a run may be open, if no clock was ahead."""
CLOSE_SECONDS = 60.0
IDLE_SECONDS = 15.0
NOTICE_SECONDS = 70.0
"""How long a coordinator that writes nothing may take to notice a restored journal."""
MAX_STEPS = 1_500_000


class World:
    generated = True
    """The workflows are made by `graphs.py`, so their conditions are known."""

    topics = False
    """Whether something happens on topics, and is read."""
    polls = False
    """Whether there is a source to poll; its polls have a worker of their own in each process that works."""

    limited = False
    """A node of the workflows has `concurrency` or `rate`. Generated workflows have neither, and the loop for them is
    left out so that seeds keep their histories."""

    sweeps = False
    """Whether processes look for lost runs of triggers."""

    def __init__(self, plan: Plan, *, tracing: bool = False) -> None:
        self.plan = plan
        self.random = Random(f"world {plan.seed}")
        self.loop = SimLoop(Random(f"turns {plan.seed}"), max_steps=MAX_STEPS)
        self.chaos = Chaos(Random(f"faults {plan.seed}"), plan.rates)
        self.store = Store(4)
        self.clock = SimClock(self.loop, Random(f"ids {plan.seed}"), "world")
        self.broker = Broker(self.clock)
        self.broker.partition_count = self.store.partition_count
        self.claims: dict[int, str] = {}
        self.blob_objects: dict[str, tuple[bytes, float]] = {}
        """The blob store of all processes, which outlives them."""
        self._sandbox: Sandbox | None = None
        self.library: dict[str, IR] = {}
        self.sources: dict[str, Definition] = {}
        """The definitions that the IRs of the library were compiled from."""
        self.versions: dict[str, tuple[str, int]] = {}
        self.checks = Checks(self)
        self.handlers = Handlers(self)
        self.registry = self.handlers.registry()
        self.blocking_seconds = 0.0
        """How long the thread call that was just made keeps its thread."""
        self.cancelled: Counter[str] = Counter()
        """Tasks of processes that were cancelled from outside, by their coroutine."""
        self.outage_until = self.transport_outage_until = self.blob_outage_until = -1.0
        self.furthest_ahead = max(0.0, *plan.skews)
        """The most seconds by which any clock of a process was ever ahead: what was set by it comes so much later."""
        self.rolled_back = False
        self.rolled_back_at = -NOTICE_SECONDS
        self.over = False
        self.failures: list[Failed] = []
        self.buried: list[Host] = []
        self.backups: list[tuple[Store, dict[str, Checker]]] = []
        self.lines: list[tuple[float, str, str]] | None = [] if tracing else None
        self._hash = hashlib.blake2b(digest_size=16)
        self._healed = asyncio.Event()
        self._failed = asyncio.Event()
        self.engines = [EngineProcess(self, f"engine{n}", plan.skews[n]) for n in range(plan.engines)]
        self.workers = [WorkerProcess(self, f"worker{n}", plan.skews[4 + n]) for n in range(plan.workers)]
        self.users = Users(self)
        self.troubles = Troubles(self)
        self.loop.sprung = self.troubles.cancel_a_task

    async def poll(self, config: Any, ctx: Any) -> Any:
        """Poll a source, where there is one."""
        raise NotImplementedError

    def make_streams(self, clock: Clock) -> LocalStreams | None:
        """The store of streams of a process that works alone, where that is not its own."""
        return None

    def blobs(self, clock: SimClock) -> BlobStore:
        """The blob store as it is, for code that looks from outside."""
        return ObjectBlobs(MemoryObjects(self.blob_objects, clock=clock), clock.new_id)

    def find_blob(self, ref: str) -> bytes | None:
        """The intact content of a blob, or None when the blob store does not have it."""
        key = key_of("default", ref)
        for name, (data, _) in self.blob_objects.items():
            if name.endswith(key) and ref_of(data, refs=parse_ref(ref)[1]) == full_ref(ref):
                return data
        return None

    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return self._sandbox

    @property
    def processes(self) -> list[Process]:
        return [*self.engines, *self.workers]

    # -- history -------------------------------------------------------------------------------------------------------

    def trace(self, kind: str, text: str, body: bytes = b"") -> None:
        if self.over:
            return
        now = self.loop.time()
        self._hash.update(f"{now:.6f} {kind} {text}".encode())
        if body:
            self._hash.update(body)
        if self.lines is not None:
            self.lines.append((now, kind, text))

    def digest(self) -> str:
        return f"{self._hash.hexdigest()}-{self.loop.steps}"

    def note_fault(self, name: str, text: str) -> None:
        self.chaos.happened(name)
        self.trace("fault", f"{name}: {text}")

    def fail(self, failure: Failed) -> None:
        if self.over or failure in self.failures:
            return
        self.trace("FAILED", str(failure))
        self.failures.append(failure)
        self._failed.set()

    # -- what processes ask of the world -------------------------------------------------------------------------------

    async def append(self, journal: MemoryJournal, by: str, commits: Sequence[Commit]) -> list[Appended]:
        before = {commit.run_id: run.seq if (run := self.store.runs.get(commit.run_id)) else 0 for commit in commits}
        answers = await journal.append(commits)
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Accepted) and answer.seq > before[commit.run_id]:
                self.checks.appended(commit, by, journal.now())
        return answers

    def later(self, seconds: float, what: str, do: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something later that the network does by itself."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            self.trace("network", what)
            try:
                await do()
            except Exception as error:  # noqa: BLE001  a message that cannot be delivered is lost
                self.trace("network", f"{what}: {error}")

        self.loop.run_in(self.loop.world, wait(), "later")

    def restart(self, process: Process) -> None:
        seconds = 0.5 if self.chaos.healed else self.random.random() ** 2 * 40
        self.loop.call_later(seconds, self._start_again, process, context=self.loop.world.context)

    def _start_again(self, process: Process) -> None:
        if process.down and not process.wanted_down:
            process.start()

    def process_ended(self, process: Process, error: BaseException | None) -> None:
        """Judge a process that ended by itself: only a journal that went back, or a cancelled task, excuses that."""
        if self.over:
            return
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        name = "nothing" if error is None else type(error).__name__
        self.chaos.happened(f"exit:{name}")
        cause = error
        while isinstance(cause, EngineStopped):
            cause = cause.__cause__
        if process.trapped or (isinstance(cause, LostIncarnation) and self.rolled_back):
            return
        self.fail(Failed("exit", f"{process.life} ended: {name}: {error}"))

    async def kill_this_process(self, why: str) -> None:
        """Kill the process that the caller runs in."""
        host = HOST.get()
        for process in self.processes:
            if process.host is host and not self.chaos.healed:
                process.crash(why)
                await self.loop.create_future()

    async def wait_for_healing(self) -> None:
        await self._healed.wait()

    def available(self, run_id: str, node: str) -> list[str] | None:
        """The nodes that an agent-driven node of this run may choose."""
        record = self.store.runs.get(run_id)
        ir = None if record is None else self.library.get(record.row.ir)
        for one in ir.nodes if ir is not None else ():
            if one is not None and one.id == node and one.branch is not None and one.branch.kind == "agent_driven":
                assert ir is not None
                return [found.id for target in one.branch.available if (found := ir.nodes[target]) is not None]
        return None

    # -- phases --------------------------------------------------------------------------------------------------------

    def run(self) -> World:
        """Play the whole history; `failures` says how it went."""
        disabled, collecting = logging.root.manager.disable, gc.isenabled()
        logging.disable(logging.CRITICAL)
        gc.disable()
        poll, listener._POLL_SECONDS = listener._POLL_SECONDS, self.plan.poll_seconds
        every, loaded.SNAPSHOT_EVERY = loaded.SNAPSHOT_EVERY, self.plan.snapshot_events
        look, engine_runs.LOOK_SECONDS = engine_runs.LOOK_SECONDS, self.plan.poll_seconds / 4
        long, continuations.LONG_JOURNAL = continuations.LONG_JOURNAL, self.plan.long_journal
        try:
            self.loop.run_until_complete(self.loop.run_in(self.loop.world, self._history(), "history"))
        except Exception as error:  # noqa: BLE001  an error of a process or of the simulator is a finding too
            self.fail(error if isinstance(error, Failed) else Failed(type(error).__name__, repr(error)))
        finally:
            listener._POLL_SECONDS = poll
            loaded.SNAPSHOT_EVERY = every
            engine_runs.LOOK_SECONDS = look
            continuations.LONG_JOURNAL = long
            self.over = True
            self.loop.abandon(self.buried)
            if self._sandbox is not None:
                asyncio.run(self._sandbox.close())
            logging.disable(disabled)
            if collecting:
                gc.enable()
        return self

    async def _history(self) -> None:
        await self._register()
        for process in self.processes:
            process.start()
        troubles = self.loop.run_in(self.loop.world, self.troubles.run(), "troubles")
        users = self.loop.run_in(self.loop.world, self.users.run(), "users")
        await self._suffer()
        troubles.cancel()
        users.cancel()
        self._heal()
        await self._finish()
        if not self.failures:
            await self._close()

    async def _suffer(self) -> None:
        """Pass the time of faults; once every run is over, only as long as that may still be disturbed."""
        end, idle = self.loop.time() + self.plan.fault_seconds, 0.0
        while (left := end - self.loop.time()) > 0 and idle < IDLE_SECONDS:
            await self._wait(min(left, 5.0))
            open_runs = any(self.is_open(run_id) for run_id in self.store.runs)
            over = not (self.users.unstarted or open_runs or self._unheard())
            idle = idle + 5.0 if over else 0.0

    async def _wait(self, seconds: float) -> None:
        """Let time pass, unless something has failed."""
        if self.failures:
            raise self.failures[0]
        waits = [asyncio.ensure_future(asyncio.sleep(seconds)), asyncio.ensure_future(self._failed.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.failures:
            raise self.failures[0]

    def know(self, definition: Definition, ir: IR) -> None:
        """Add a definition that a person has written, which the checker must know."""
        self.library[ir.hash] = ir
        self.sources[ir.hash] = definition

    def learn(self, name: str) -> None:
        """Get to know a definition that a handler asked for: a coordinator has stored it."""
        stored = self.store.definitions.get(name)
        if name in self.library or stored is None:
            return
        definition = msgspec.json.decode(self.store.definitions[f"definition:{name}"].body)
        nodes = {node["id"]: node for node in definition["nodes"]}
        for edge in definition.pop("edges"):
            end = {"node": edge["from"], "required": True} if edge.get("required") else edge["from"]
            nodes[edge["to"]].setdefault("dependencies", []).append(end)
        self.know(definition, irs.decode(stored.body))

    async def _register(self) -> None:
        for definition in self.plan.workflows:
            await self._put_workflow(definition)

    async def _put_workflow(self, definition: Definition) -> None:
        journal = MemoryJournal(self.store, clock=self.clock)
        compiled = graphs.compiled(definition)
        ir = compiled.get_ir()
        self.know(definition, ir)
        body = msgspec.json.encode(compiled.definition, order="deterministic")
        await journal.put_definition(ir.hash, "ir", irs.encode(ir))
        await journal.put_definition(f"definition:{ir.hash}", "definition", body)
        version = await journal.register_workflow(ir.name, f"definition:{ir.hash}", ir_hash=ir.hash)
        self.versions[ir.name] = (ir.hash, version)

    def _heal(self) -> None:
        self.trace("world", "heals")
        self.chaos.healed = True
        self.outage_until = self.transport_outage_until = self.blob_outage_until = -1.0
        self._healed.set()
        for process in self.processes:
            process.host.stopped_until, process.host.trap = 0.0, 0
            process.clock.skew = process.skew  # an operator sets a clock that jumped
            if process.down:
                process.start()

    def note_created(self, run_id: str, event: e.RunCreated) -> None:
        """Take note of a run that was made."""

    def is_open(self, run_id: str) -> bool:
        record = self.store.runs.get(run_id)
        return record is not None and record.row.ended_at is None

    def _unheard(self) -> list[str]:
        """The notices and commands that are still to be heard: from one of them a run may begin."""
        store = self.store
        notices = [f"notice {one.notice_id} for {one.run_id}" for one in store.notices.values()]
        commands = [one for one in store.commands.values() if one.command_id not in store.answers]
        return [*notices, *(f"command {one.command_id} for {one.run_id}" for one in commands)]

    def more_money(self, run_id: str) -> Budget | None:
        """What a run that is paused, or failed, for its budget is given when it is resumed or retried."""
        return None

    async def happen(self, wait: Wait) -> None:
        """Let the event happen that a run waits for, unless it has."""

    async def _finish(self) -> None:
        """Let every process and person do their part until nothing is open."""
        progress: dict[str, tuple[int, float]] = {}
        left: dict[str, float] = {}
        begun, longest = self.loop.time(), LONGEST + self.furthest_ahead
        while True:
            await self._wait(5.0)
            now = self.loop.time()
            open_runs = [run_id for run_id in self.store.runs if self.is_open(run_id)]
            if self.users.unstarted:
                await self.users.start_rest()
                continue
            left = {one: left.get(one, now) for one in self._unheard()}
            for one, since in left.items():
                if now - since > QUIET_SECONDS:
                    raise Failed("R2", f"nobody hears {one}")
            self.checks.promises.check_left(open_runs)
            if not open_runs:
                if left:
                    continue
                if now - self.rolled_back_at > NOTICE_SECONDS and not self.users.asking:
                    return
                continue
            for run_id in open_runs:
                seq = self.store.runs[run_id].seq
                if progress.get(run_id, (0, 0.0))[0] != seq or self.users.is_waiting(run_id):
                    progress[run_id] = (seq, now)
                elif now - progress[run_id][1] > QUIET_SECONDS:
                    raise Failed("R2", f"run {run_id} stands still: {self.users.describe(run_id)}")
                await self.users.help(run_id)
            if now - begun > longest:
                raise Failed("R2", f"after {longest:.0f} s still open: {[self.users.describe(r) for r in open_runs]}")

    async def _close(self) -> None:
        await self._wait(1.0)
        self.checks.projections()
        self.checks.live()
        for process in self.processes:
            process.wanted_down = True
            if process.down:
                continue
            closing = self.loop.run_in(process.host, process.shut_down(5.0), "close")
            await asyncio.wait([closing], timeout=CLOSE_SECONDS)
            if not closing.done():
                raise Failed("close", f"{process.life} does not end")
            if closing.exception() is not None:
                raise Failed("close", f"{process.life}: {closing.exception()!r}")
        await self._wait(30.0)
        for process in self.processes:
            left = [task for task in process.host.alive_tasks() if not task.done()]
            if left and not process.host.dead:
                names = sorted(str(task.get_coro()) for task in left)
                raise Failed("leak", f"{process.life} left {len(left)} tasks: {names[:5]}")
