"""The coordinator: the loop around the kernel.

All waiting messages go into one batch: results, due timers, commands, notices. Each is decided on its run in
memory, the decisions of the whole batch are appended in one transaction, and only then do effects leave the process
(T3). A run whose commit was refused is dropped and loaded again, and its messages are decided anew (PROTOCOL 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec

from perdure import journal as port
from perdure.blobs import BlobStore
from perdure.clock import Clock
from perdure.contents import Contents
from perdure.errors import StoreUnavailable
from perdure.expressions.errors import NotAtHand
from perdure.journal import Accepted, Commit, Exists, Fenced, Journal
from perdure.kernel import commands as c
from perdure.kernel import effects as fx
from perdure.kernel.address import Address
from perdure.kernel.events import UnknownEvent
from perdure.kernel.state import State
from perdure.limits import Bounds, Limits
from perdure.model.garbage import collect_later
from perdure.nodes.registry import Registry
from perdure.runtime.coordinator.agent_memory import memory_sources
from perdure.runtime.coordinator.batch import Answer, Batch
from perdure.runtime.coordinator.children import Children
from perdure.runtime.coordinator.damage import Damaged, append
from perdure.runtime.coordinator.inbox import Handling
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import Asked, BeginAsked, Fetched, Message, Noticed, Reported, Resumed
from perdure.runtime.coordinator.ownership.handled import Blame
from perdure.runtime.coordinator.ownership.incarnation import Incarnation
from perdure.runtime.coordinator.ownership.partition_share import Share
from perdure.runtime.coordinator.ownership.resumptions import Resumptions, resumed
from perdure.runtime.coordinator.pace import FEW, Pace
from perdure.runtime.coordinator.patched_runs import make_message, patch_sources
from perdure.runtime.coordinator.progress import Progress
from perdure.runtime.coordinator.purses import Purses
from perdure.runtime.coordinator.quarantine import Quarantine, Quarantined
from perdure.runtime.coordinator.requests import Reply, encode_reply
from perdure.runtime.coordinator.rulings import Rulings
from perdure.runtime.coordinator.stops import pass_end_on, put_stop
from perdure.runtime.coordinator.tasks.cache import Cache
from perdure.runtime.coordinator.tasks.courier import Courier
from perdure.runtime.coordinator.tasks.fetcher import Fetcher, list_sources, purse_sources
from perdure.runtime.coordinator.tasks.publisher import Publisher
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.coordinator.tasks.stream_ends import tell_store
from perdure.runtime.forms import Forms
from perdure.runtime.parts import EngineStopped
from perdure.runtime.patience import AT_ONCE, beside, insist, side_by_side
from perdure.secrets.vault import Vault
from perdure.streams import Streams
from perdure.transport import Task, Transport

logger = logging.getLogger("perdure.coordinator")

BATCH = 1000
GATHER_TURNS = 8
MOST_WAITING = 10_000
"""Messages in the inbox beyond which a caller of `ask` waits. Results are bounded by the window, timers by a batch."""
_TROUBLE_SECONDS = 0.05
"""How long to pause after a batch in which a run could not be read."""


class Coordinator:
    def __init__(
        self,
        journal: Journal,
        transport: Transport,
        registry: Registry,
        clock: Clock,
        *,
        window: int = 64,
        keep_idle: int = 1000,
        on_commit: Callable[[State, list[Any]], None] | None = None,
        blobs: BlobStore | None = None,
        vault: Vault | None = None,
        judge: Callable[[Any, str], Awaitable[Any]] | None = None,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
        streams: Streams | None = None,
    ) -> None:
        """Without `blobs` every value stays in its event. `judge` runs Python conditions. `window` is that of each queue."""
        self.journal, self.streams = journal, streams
        self.transport = Courier(transport)
        self.registry = registry
        self.clock = clock
        self.library = Library(journal, blobs)
        self.contents = Contents(blobs)
        self.forms = Forms(journal, self.contents)
        self.incarnation = Incarnation(journal)
        self.share = Share(journal.partition_count, clock.monotonic)
        self.blame = Blame(clock)
        self.memory = Memory(journal, self.library, self.blame, keep_idle)
        self._ward = Quarantine(
            journal, clock, check=self.incarnation.check, lose=self.memory.lose, tenants=self.memory.tenants
        )
        sources = list_sources(journal, self.library, blobs, judge)
        sources |= patch_sources(self.library, registry, blobs, bounds or Bounds(), clock)
        cache = Cache()
        self.purses = Purses(journal, clock, cache)
        sources |= purse_sources(self.purses) | memory_sources(journal, blobs)
        self.fetcher = Fetcher(sources, cache, self.put, clock)
        self.renderer = Renderer(registry, cache if blobs is not None else None, vault)
        self.rulings = Rulings(self.renderer, clock, self.put, self.fetcher.set_aside)
        self.publisher = self._make_publisher(window, limits, bounds or Bounds())
        self.handling = self._make_handling()
        self.children = self._make_children()
        self._pace = Pace(clock)
        self._releases: list[tuple[frozenset[int], asyncio.Future[None]]] = []
        self._on_commit = on_commit
        self._inbox: deque[Message] = deque()
        self._again: set[Message] = set()
        """Messages in the inbox that were put back, to be decided again."""
        self._resumptions = Resumptions()
        self._wake = asyncio.Event()
        self._progress = Progress()
        self._stopping = False
        self._ended: EngineStopped | None = None
        self._asking: set[asyncio.Future[Any]] = set()
        self.timer_set: Callable[[float], None] = lambda due_at: None
        """Called with the due time of every timer that became durable; the timekeeper listens."""
        self.notice_written: Callable[[], None] = lambda: None
        """Called when a run left a notice for another run; the listener listens."""

    def _make_publisher(self, window: int, limits: Limits | None, bounds: Bounds) -> Publisher:
        return Publisher(
            self.memory,
            self.renderer,
            self.transport,
            self.fetcher,
            self.clock,
            render=self._render,
            still_holds=self.share.still_holds,
            put=self.put,
            look=self.look,
            quarantine=self._ward.quarantine,
            window=window,
            limits=limits,
            bounds=bounds,
        )

    def _make_handling(self) -> Handling:
        return Handling(
            self.memory,
            self.rulings,
            self.renderer,
            self.publisher,
            self.fetcher,
            self.incarnation,
            self.blame,
            self.clock,
            self.put,
            self.purses,
        )

    def _make_children(self) -> Children:
        return Children(
            self.journal,
            self.library,
            self.memory,
            self.renderer,
            self.fetcher,
            self.clock,
            put=self.put,
            quarantine=self._ward.quarantine,
            bounds=self.publisher.bounds,
        )

    def _render(self, loaded: Loaded, address: Address) -> Task | c.Fail | None:
        self.blame.begin(address.run_id, loaded.durable_seq)
        try:
            return self.renderer.task(loaded, address, self.incarnation.number or 1)
        finally:
            self.blame.end()

    # -- the outside ---------------------------------------------------------------------------------------------------

    def put(self, message: Message) -> None:
        self._inbox.append(message)
        self._wake.set()

    def look(self) -> None:
        """Wake the loop: a task that had to wait may now be published."""
        self._wake.set()

    async def ask(
        self,
        run_id: str,
        make: Callable[[State], c.Command],
        *,
        starts: bool = False,
        key: port.IdempotencyKey | None = None,
        command_id: str = "",
    ) -> Any:
        """Decide a command, wait until the decision is durable, and return the run's state, `Refused` or `Exists`."""
        while len(self._inbox) >= MOST_WAITING and self._ended is None:
            await self.drained()
        if self._ended is not None:
            raise self._ended
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asking.add(future)
        asked = Asked(run_id, make, future, starts=starts, key=key, command_id=command_id)
        self.put(asked)
        try:
            answer = await future
        finally:
            self._asking.discard(future)
        if not asked.proven:
            await self.incarnation.confirm()
        return answer

    async def run(self) -> None:
        try:
            await insist(self.clock, self.incarnation.learn)
            while not self._stopping:
                await self._gather()
                taken = [self._inbox.popleft() for _ in range(min(len(self._inbox), BATCH))]
                self._progress.taken += len(taken)
                self._again.difference_update(taken)
                batch = self._resumptions.put_into(taken)
                told = [one.delivery.result.incarnation for one in batch if isinstance(one, Reported)]
                if max(told, default=0) > (self.incarnation.number or 0):
                    # A result of a later incarnation: this process may have missed that the database was restored.
                    await insist(self.clock, self.incarnation.check)
                divided = self.share.divided  # otherwise every run is this process's
                await self._process([one for one in batch if self._is_ours(one)] if divided else batch)
                self._progress.advance(len(taken))
                self._let_go()
        except Exception as error:
            self._ended = EngineStopped(f"the coordinator stopped: {type(error).__name__}: {error}")
            self._ended.__cause__ = error
            raise
        finally:
            self._ended = self._ended or EngineStopped("the coordinator has stopped; the next start goes on")
            for future in list(self._asking):
                if not future.done():
                    future.set_exception(self._ended)
            self._let_go()
            self._progress.end()

    # -- its share of the runs -----------------------------------------------------------------------------------------

    async def release(self, partitions: Collection[int]) -> None:
        """Stop deciding for these partitions and forget their runs. Takes effect between two batches, before this
        returns."""
        if self._ended is not None:
            return
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._releases.append((frozenset(partitions), released))
        self._wake.set()
        await released

    def _let_go(self) -> None:
        for partitions, released in self._releases:
            self._forget(partitions)
            if not released.done():
                released.set_result(None)
        self._releases.clear()

    def _forget(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self.share.drop(partition)
        self.memory.keep_only(self.share.holds)
        self.publisher.keep_only(self.share.holds)

    def _is_ours(self, message: Message) -> bool:
        """Whether this process decides for the message's run. If not, the message is turned away: a result that is not
        acknowledged here is delivered to the process that holds the run."""
        if self.share.holds(message.run_id):
            return True
        self._turn_away(message)
        return False

    def _turn_away(self, message: Message) -> None:
        if isinstance(message, Asked) and message.future is not None and not message.future.done():
            message.future.set_result(c.Refused("moved", f"another process decides for run {message.run_id} now"))
        self.fetcher.handled(message)

    async def _gather(self) -> None:
        """Wait for a message, then give other ready tasks a few turns of the loop to add theirs, which makes batches
        larger. Where the only attempt that was out has ended, no other is there to add anything."""
        if not self._inbox and not self._resumptions:
            self._let_go()
            self._wake.clear()
            await self._wake.wait()
        if len(self._inbox) == 1 and type(self._inbox[0]) is Reported and self.publisher.dispatcher.count_out() == 1:
            return
        for _ in range(GATHER_TURNS):
            before = len(self._inbox)
            await self.clock.sleep(0)  # one turn of the loop; no time passes
            if len(self._inbox) == before:
                return

    def stop(self) -> None:
        self._stopping = self._ward.stopping = True
        self._wake.set()

    async def drained(self) -> None:
        """Wait until every message put in so far has been decided, and written or put back."""
        await self._progress.reach(self._progress.taken + len(self._inbox))

    async def settled(self) -> None:
        """Wait until every message put in so far has been decided and written, including those put back because the
        journal refused a commit and those that wait for a blob or a sandbox."""
        await self.drained()
        while (self._again or len(self.fetcher)) and self._ended is None:
            await self.fetcher.idle()
            await self.drained()

    def resume(self, run_id: str, crashed: frozenset[str]) -> None:
        """Resume a run after a start: send its queued attempts again, and let those that died with their process
        lapse."""
        self._resume(run_id, crashed)

    def take_over(self, run_id: str) -> None:
        """Take a run over from another process; workers go on with the attempts they have."""
        self._resume(run_id, None)

    def _resume(self, run_id: str, crashed: frozenset[str] | None) -> None:
        if not self._resumptions.put_off(run_id, crashed, len(self._inbox)):
            self.put(resumed(run_id, crashed))

    def send_again(self, address: Address) -> None:
        """Send again a task that the transport lost: it is the same attempt, and does not count as a failure."""
        self.publisher.done(address.task_id)
        self.put(Resumed(address.run_id, None, address))

    # -- one batch -----------------------------------------------------------------------------------------------------

    async def _process(self, messages: list[Message]) -> None:
        batch = Batch(messages, await self._load_missing(messages))
        with collect_later(len(messages)):
            await self._decide(batch)
        await self._write(batch)
        self._pace.start()
        for run_id, loaded in batch.runs.items():
            if self.share.still_holds(run_id):
                await self._act(loaded)
            else:  # written, but the lease may have lapsed since: the process that holds the run now acts
                self.memory.drop(run_id)
        if self.share.divided:  # over a network, both leave in one write
            await beside(self.publisher.publish(), self._acknowledge(batch))
        else:
            await self.publisher.publish()
            await self._acknowledge(batch)
        for asked, answer in batch.answers:
            asked.proven = batch.proven
            if asked.future is not None and not asked.future.done():
                asked.future.set_result(answer)
        for message in messages:
            if isinstance(message, Resumed):
                self.fetcher.handled(message)
        if batch.troubled:
            await self.clock.sleep(_TROUBLE_SECONDS)
        self._again.update(batch.later)
        for message in batch.later:
            self.put(message)

    async def _decide(self, batch: Batch) -> None:
        """Decide each message on its run in memory; whatever one run does, the others go on (X34)."""
        self._pace.start()
        for message in batch.messages:
            if self._pace.is_over():
                await self._pace.rest()
            try:
                loaded = self._find(message, batch.problems)
                if loaded is None:
                    await self._unknown(message, batch)
                    self.fetcher.handled(message)
                    continue
                batch.enter(message, loaded)
                self.handling.handle(loaded, message, batch)
            except NotAtHand as need:  # nothing has changed; the message is decided when what it needs is there
                self._set_aside(message, need, batch)
                continue
            except StoreUnavailable as error:
                about = {"run_id": message.run_id}
                logger.warning("run %s cannot be loaded: %s; trying again", message.run_id, error, extra=about)
                batch.later.append(message)
                batch.troubled = True
            except Exception as error:  # noqa: BLE001
                await self._quarantine(message.run_id, batch, error, message)
            # What was fetched to render a task or start a child stays pinned until it is used.
            if not isinstance(message, (Fetched, Resumed)):
                self.fetcher.handled(message)

    def _set_aside(self, message: Message, need: NotAtHand, batch: Batch) -> None:
        loaded = self.memory.runs.get(message.run_id)
        if loaded is not None:  # None: the run could not be loaded
            batch.take_out(message)
            if loaded.state.seq:
                need.tenant = loaded.state.tenant
            else:  # the message would have created the run, so there is no run yet
                del batch.runs[message.run_id], self.memory.runs[message.run_id]
        self.fetcher.set_aside(message, need)

    async def _acknowledge(self, batch: Batch) -> None:
        """Acknowledge to workers what was decided, now that it is durable."""
        for asked in batch.list_begins():
            if self.share.still_holds(asked.run_id):
                await self.transport.grant_begin(asked.request.task.task_id, asked.granted, asked.request.ask)
        receipts, refused = batch.list_receipts()
        if receipts:
            await self.transport.acknowledge(receipts, refused)

    async def _load_missing(self, batch: list[Message]) -> dict[str, Exception]:
        """Load the runs that are not in memory, and return what went wrong, by run."""
        missing = {
            message.run_id
            for message in batch
            if message.run_id not in self.memory.runs and not (isinstance(message, Asked) and message.starts)
        }
        if not missing:
            return {}
        return await side_by_side(self.memory.find, sorted(missing), 1 if self.blame.careful else AT_ONCE)

    def _find(self, message: Message, problems: dict[str, Exception]) -> Loaded | None:
        loaded = self.memory.runs.get(message.run_id)
        if loaded is None:
            if message.run_id in problems:
                raise problems[message.run_id]
            if isinstance(message, Asked) and message.starts:
                loaded = self.memory.make(message.run_id)
        return loaded

    async def _unknown(self, message: Message, batch: Batch) -> None:
        if isinstance(message, Reported):
            batch.refuse(message)
        if isinstance(message, BeginAsked):
            await self.transport.grant_begin(message.request.task.task_id, False, message.request.ask)
        if isinstance(message, Noticed) and message.notice_id:  # its parent was pruned: no run is left to hear it
            await pass_end_on(self.journal, message.run_id, message.body)
            await self.journal.delete_notices([message.notice_id])
        if isinstance(message, Asked):
            batch.answer(message, c.Refused("not_found", f"there is no run {message.run_id}"))

    # -- writing and acting --------------------------------------------------------------------------------------------

    async def _write(self, batch: Batch) -> None:
        """Make the batch durable. A run that cannot be written leaves the batch: it is decided anew, elsewhere, or
        never."""
        commits = await self._list_commits(batch)
        refused, fenced = await self._append_all(commits, batch) if commits else (set(), set())
        if self.share.divided:  # a decision that led to no append may rest on an outdated state
            unwritten = batch.decided - {commit.run_id for commit in commits}
            fenced |= {run_id for run_id in unwritten if not self.share.still_holds(run_id)}
            if self.share.lapsed:
                batch.receipts.clear()
        for run_id in sorted(fenced):  # another process holds the run: the decision never happened, and is made there
            self.memory.drop(run_id)
            for message in batch.drop(run_id):
                self._turn_away(message)
        for run_id in sorted(refused):  # another process wrote: forget the decision, load the run again, decide again
            self.memory.drop(run_id)
            batch.later.extend(batch.drop(run_id))
            batch.later.append(Resumed(run_id, None))  # its waiting tasks may be dropped before that

    async def _list_commits(self, batch: Batch) -> list[Commit]:
        commits = []
        answers = batch.answers_in_commits()
        for run_id, loaded in list(batch.runs.items()):
            try:
                if loaded.changed:
                    for _ in loaded.encode_in_steps():  # nothing else decides on it meanwhile
                        await self._pace.rest_if_over()
                    await self._pace.rest_if_over()
                    commits.append(self._commit(loaded, answers.get(run_id, ())))
            except Exception as error:  # noqa: BLE001  something in the run cannot be stored
                await self._quarantine(run_id, batch, error)
        return commits

    def _commit(self, loaded: Loaded, answers: Sequence[Answer]) -> Commit:
        commit = loaded.commit(self.clock.new_id(), self.incarnation.number)
        if self.share.divided:
            commit = msgspec.structs.replace(commit, epoch=self.share.fence(loaded.partition))
        for asked, answer in answers:
            if asked.key is not None and loaded.durable_seq == 0:
                commit = msgspec.structs.replace(commit, idempotency=asked.key)
            if asked.command_id and not isinstance(answer, c.Refused):
                # In the commit it led to: a coordinator that takes over after a crash must not decide it again.
                reply = (asked.command_id, encode_reply(Reply.of(asked.run_id, answer)))
                commit = msgspec.structs.replace(commit, command_answers=(*commit.command_answers, reply))
        return commit

    async def _append_all(self, commits: list[Commit], batch: Batch) -> tuple[set[str], set[str]]:
        """Append the commits, and return the runs whose commits were refused and those of partitions that are lost."""
        # Crash here: nothing was promised; results are unacknowledged and come again.
        outcomes = await self._append(commits)
        # Crash here: the commits are durable; their tasks are unsent until the next start sends what is queued (T1).
        refused: set[str] = set()
        fenced: set[str] = set()
        for commit, outcome in zip(commits, outcomes, strict=True):
            loaded = batch.runs[commit.run_id]
            match outcome:
                case Accepted():
                    batch.proven = True
                    self._tell(commit, loaded)
                case Exists():
                    batch.answer_exists(commit.run_id, outcome)
                    self.memory.runs.pop(commit.run_id, None)
                    loaded.events.clear()
                    loaded.effects.clear()
                case Fenced():
                    if outcome.incarnation != self.incarnation.number or commit.epoch is None:
                        raise self.incarnation.lost(outcome.incarnation)
                    fenced.add(commit.run_id)
                case Damaged():
                    await self._quarantine(commit.run_id, batch, outcome)
                case _:
                    refused.add(commit.run_id)
        if fenced:
            lost = {self.share.partition(run_id) for run_id in fenced}
            self._forget(lost)
            for partition in sorted(lost):
                self.share.lost(partition)
        return refused, fenced

    def _tell(self, commit: Commit, loaded: Loaded) -> None:
        """Tell the timekeeper, the listener and `on_commit` of a commit that is durable."""
        for _, due_at in commit.timers_set:
            self.timer_set(due_at)
        if commit.notices:
            self.notice_written()
        if self._on_commit is not None and loaded.events:
            self._on_commit(loaded.state, list(loaded.events))

    async def _append(self, commits: list[Commit]) -> Sequence[Any]:
        return await append(self.journal, self.clock, commits, is_stopping=lambda: self._stopping)

    async def _act(self, loaded: Loaded) -> None:
        """Carry out the effects of durable decisions."""
        effects = list(loaded.effects)
        loaded.committed()
        if not effects:
            self.memory.rest(loaded)
            return
        stops: list[str] = []
        for number, effect in enumerate(effects, 1):
            if not number % FEW and self._pace.is_over():  # one decision may send thousands of nodes
                await self._pace.rest()
            match effect:
                case fx.Dispatch():
                    self.publisher.queue(loaded, effect.address)
                case fx.Stop():
                    stops.append(effect.address.task_id)
                case fx.Recall():
                    await self.publisher.recall(loaded, effect.address)
                case fx.StartChild() | fx.StopChild():
                    self.children.put(loaded, effect)
                case fx.ApplyPatch():
                    self.put(make_message(effect, self.registry, self.renderer.find_at_hand, self.clock))
                case fx.StartMore():
                    self.put(Asked.for_items(effect.address, self.clock.now()))  # behind what waits in the inbox
                case fx.CloseStream() | fx.DropStreams():
                    await tell_store(self.streams, loaded.state, effect, self.incarnation.number or 1)
                case fx.StopRun() if not await put_stop(self.journal, effect):
                    self.put(Resumed(loaded.state.run_id, None))
                case _:
                    pass
        if stops:
            for name in stops:
                self.publisher.done(name, keeps_slots=True)
            for name in await self.transport.stop(stops):
                self.publisher.limiter.done(name)
        if self.children.waiting:
            await self.children.act()
        self.memory.rest(loaded)

    async def _quarantine(self, run_id: str, batch: Batch, error: Exception, at: Message | None = None) -> None:
        """Quarantine a run that cannot be understood, and answer the messages of this batch that concern it. `at` is
        the message at which it failed."""
        messages = batch.drop(run_id)
        if at is not None and at not in messages:  # the run could not even be loaded
            messages.append(at)
        await self._ward.quarantine(run_id, error)
        reason = f"{type(error).__name__}: {error}"
        for message in messages:
            if isinstance(message, Reported):
                self.publisher.done(message.delivery.result.task_id)
                if not isinstance(error, UnknownEvent):  # else kept for a process that can read the run (PROTOCOL 8)
                    batch.receipts.append(message.delivery.receipt)
            elif isinstance(message, BeginAsked):
                await self.transport.grant_begin(message.request.task.task_id, False, message.request.ask)
            elif isinstance(message, Asked) and message.future is not None and not message.future.done():
                message.future.set_result(c.Refused("quarantined", reason))
        known = Quarantined(f"run {run_id} is quarantined: {reason}")
        batch.problems[run_id] = error if isinstance(error, Quarantined) else known
