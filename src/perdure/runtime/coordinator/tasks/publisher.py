"""The publisher: takes an attempt from a durable decision to the transport.

Owns what is queued here, the order in which it is sent, and that limits are entered first. Decides nothing about runs:
a task that cannot be rendered becomes a command for its run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from perdure.clock import Clock
from perdure.expressions.errors import NotAtHand, TemplateError
from perdure.kernel import commands as c
from perdure.kernel.address import Address
from perdure.kernel.lifecycle import N, R
from perdure.kernel.readings.explain import find_latest
from perdure.kernel.state import State
from perdure.kernel.values import Error
from perdure.limits import Bounds, Limit, Limits
from perdure.runtime.coordinator.agent_memory import has_session, is_session
from perdure.runtime.coordinator.loaded import Loaded
from perdure.runtime.coordinator.loaded_runs import Memory
from perdure.runtime.coordinator.messages import Asked, Fetched, Message
from perdure.runtime.coordinator.pace import Pace
from perdure.runtime.coordinator.tasks.courier import Courier
from perdure.runtime.coordinator.tasks.dispatcher import Dispatcher, Entry
from perdure.runtime.coordinator.tasks.fetcher import Fetcher
from perdure.runtime.coordinator.tasks.limiter import Limiter
from perdure.runtime.coordinator.tasks.renderer import Renderer
from perdure.runtime.coordinator.triggers.firings import is_mailbox
from perdure.runtime.coordinator.triggers.poll_tasks import QUEUE, queue_of
from perdure.runtime.worker.claim_file import root_of
from perdure.transport import Task, TasksTooLarge

_INHERITED = "inherited"
"""Limited attempts of a run that was taken over stand aside until it is known whether a worker has them."""
_RECALLED = 1000


class Publisher:
    def __init__(
        self,
        memory: Memory,
        renderer: Renderer,
        transport: Courier,
        fetcher: Fetcher,
        clock: Clock,
        *,
        render: Callable[[Loaded, Address], Task | c.Fail | None],
        still_holds: Callable[[str], bool],
        put: Callable[[Message], None],
        look: Callable[[], None],
        quarantine: Callable[[str, Exception], Awaitable[None]],
        window: int,
        limits: Limits | None,
        bounds: Bounds,
    ) -> None:
        """`render` makes the task of an attempt. `look` is called when a task that had to wait may be published."""
        self._memory = memory
        self._renderer = renderer
        self._transport = transport
        self._fetcher = fetcher
        self._clock = clock
        self._make = render
        self._still_holds = still_holds
        self._put = put
        self._quarantine = quarantine
        self.dispatcher = Dispatcher(window)
        self.polls: Callable[[], None] = lambda: None
        """Called before a poll is sent: an embedded engine begins to poll only then."""
        self.leaves_triggers = False
        """Whether triggers are left to another process; those inside of runs are not."""
        self.limiter = Limiter(limits, self.dispatcher, clock, look, bounds.queues)
        self.bounds = bounds
        self._pace = Pace(clock)
        self.fetched: dict[str, Fetched] = {}
        """By task in the dispatcher, the message that keeps what was fetched for it."""
        self.left: frozenset[str] = frozenset()
        """Root runs whose work, with that of their children, is left to another process."""

    def why(self, state: State, node: str) -> str | None:
        """Why the newest activation of a node, or the first of its items that waits, is not with a worker. None: it is
        with one, or this process does not know."""
        index = state.ir.numbers.get(node)
        found = None if index is None else find_latest(state, index)
        if found is None:
            return None
        for item in (None, *range(found.items_started)):
            activation = found if item is None else state.find(node, found.scope, item)
            if activation is not None and activation.state is N.QUEUED:
                if (why := self.dispatcher.why(state.address(activation).task_id)) is not None:
                    return why
        return None

    @property
    def room(self) -> int:
        """How many more tasks may wait here."""
        return max(0, self.bounds.max_backlog - self.dispatcher.backlog)

    def explain_overload(self) -> str:
        """Why no new run is accepted now; empty if one is. Existing runs go on either way."""
        if self.room:
            return ""
        waiting, most = self.dispatcher.backlog, self.bounds.max_backlog
        return f"{waiting:,} tasks wait here already, and max_backlog is {most:,}; try again later, or add workers"

    # -- in and out ----------------------------------------------------------------------------------------------------

    def queue(self, loaded: Loaded, address: Address) -> None:
        if self.left and root_of(address.run_id) in self.left:
            return  # the attempt stays queued in the journal, for the process that looks after its run
        entry = self._entry(loaded, address)
        if entry.queue == QUEUE:
            if self.leaves_triggers and is_mailbox(address.run_id):
                return  # so does a poll, for a process that drives triggers
            self.polls()
        if loaded.inherited and entry.limited:
            added = self.dispatcher.add_aside(entry, _INHERITED, "it is not known yet whether a worker has it")
        else:
            added = self.dispatcher.add(entry)
        if added:
            loaded.pins += 1

    def adopt(self, loaded: Loaded, address: Address) -> None:
        """Count an attempt as out that a worker has; otherwise it would not be missed if its worker died."""
        entry = self._entry(loaded, address)
        if self.dispatcher.adopt(entry):
            loaded.pins += 1
            self._occupy(loaded, entry)

    def queue_fetched(self, loaded: Loaded, message: Fetched) -> None:
        """Queue an attempt whose contents were fetched; they stay at hand until its task is rendered."""
        self.queue(loaded, message.address)
        self.fetched[message.address.task_id] = message

    def done(self, name: str, *, keeps_slots: bool = False) -> None:
        """Forget an attempt that is over. With `keeps_slots` it is over for this process only, and may still be with a
        worker."""
        if self.fetched:
            self.rendered(name)
        self.limiter.done(name, keep=keeps_slots)
        entry = self.dispatcher.done(name)
        if entry is not None:
            self._memory.unpin(entry.address.run_id)

    def keep_only(self, holds: Callable[[str], bool]) -> None:
        """Forget the attempts of runs this process no longer holds: other processes decide for them, and enter the same
        slots."""
        for address in [entry.address for entry in self.dispatcher.entries()]:
            if not holds(address.run_id):
                self.done(address.task_id, keeps_slots=True)

    def rendered(self, name: str) -> None:
        """Release what was fetched for a task that has been rendered, or never will be."""
        if self.fetched and (message := self.fetched.pop(name, None)) is not None:
            self._fetcher.handled(message)

    def _entry(self, loaded: Loaded, address: Address) -> Entry:
        node = self._renderer.node(loaded.state, address)
        limited = not address.undo and (node.concurrency is not None or node.rate is not None)
        queue = queue_of(loaded.state, address, node.queue)
        limited = limited or self.limiter.is_limited(queue) or has_session(node)
        return Entry(address, queue, loaded.state.tenant, node.priority, limited)

    async def recall(self, loaded: Loaded, address: Address) -> None:
        """Take an attempt back if no worker has it, and tell its run; if a worker has it, tell the run that it has
        begun."""
        state, name = loaded.state, address.task_id
        if self.dispatcher.withdraw(name):
            self.rendered(name)
            loaded.pins -= 1
            claimed = False
        else:
            answer = await self._transport.recall(state.run_id, name)
            claimed = answer == "claimed"
            if answer == "later":
                return
            if not claimed:
                self.done(name)
            else:
                self.adopt(loaded, address)
                if state.terminal or state.state is R.CANCELLING or _is_late(state):
                    # The attempt has begun, though the journal did not know (rules 29, 31).
                    await self._transport.stop([name])
                if self._renderer.is_once(state, address):
                    return  # its worker asks before it begins; a second start would mean that the first was lost

        def say(state: State) -> c.Command:
            # Its result may have come first: then no worker has the attempt any more, and its loss would go unnoticed.
            begun = claimed and self.dispatcher.find(name) is not None
            at = self._clock.now()
            return c.Begin(at=at, address=address) if begun else c.Withdraw(at=at, address=address)

        self._put(Asked(state.run_id, say, None))

    # -- sending -------------------------------------------------------------------------------------------------------

    async def publish(self) -> None:
        """Send the tasks that the windows and limits have room for."""
        while True:
            await self.limiter.flush()
            if self.dispatcher.has_aside(_INHERITED):
                await self._rebuild_slots()
            tasks: list[Task] = []
            asks: list[tuple[str, Entry, tuple[Limit, ...]]] = []
            limited: list[Task] = []
            self._pace.start()
            for name, entry in self.dispatcher.take():
                if self._pace.is_over():
                    await self._pace.rest()
                if not entry.limited:
                    task = await self._render(name, entry)
                    if task is not None:
                        tasks.append(task)
                    continue
                limits = await self._limits(name, entry)
                if limits is None:
                    continue
                if not self.limiter.admits(name, entry, limits):
                    if any(is_session(limit) for limit in limits):
                        self.rendered(name)  # who has its session now will leave more there
                    continue
                task = await self._render(name, entry)
                if task is None:
                    self.limiter.forgo(limits)
                else:
                    asks.append((name, entry, limits))
                    limited.append(task)
            if asks:
                entered = await self.limiter.enter(asks)
                tasks += [task for task, may in zip(limited, entered, strict=True) if may]
            # Entering limits may have taken long: a run lost meanwhile is sent by the process that holds it now.
            tasks = [task for task in tasks if self._still_holds(task.run_id)]
            if tasks:
                # Crash here: slots are taken, nothing is sent; the process that takes the run over enters them again.
                try:
                    await self._transport.publish(tasks)
                except TasksTooLarge as refused:
                    self._refuse(tasks, refused)
            if not asks:
                return

    async def _render(self, name: str, entry: Entry) -> Task | None:
        """The task of an attempt. None: the attempt has left the dispatcher, and the fetcher or its run deals with
        it."""
        loaded = self._memory.runs.get(entry.address.run_id)
        if loaded is None:
            self.done(name)
            return None
        try:
            rendered = self._make(loaded, entry.address)
        except NotAtHand as need:
            self._fetch(name, entry, loaded, need)
            return None
        except Exception as error:  # noqa: BLE001  whatever one run does, the others go on (X34)
            self.done(name)
            await self._quarantine(entry.address.run_id, error)
            return None
        if rendered is None:
            self.done(name)
            self._memory.rest(loaded)
        elif isinstance(rendered, c.Command):
            self._fail(name, rendered)
        else:
            self.rendered(name)
            return rendered
        return None

    def _fetch(self, name: str, entry: Entry, loaded: Loaded, need: NotAtHand) -> None:
        need.tenant = loaded.state.tenant
        waited = self.fetched.pop(name, None)
        self._fetcher.set_aside(Fetched(entry.address) if waited is None else waited, need)
        self.done(name)

    def _refuse(self, tasks: Sequence[Task], refused: TasksTooLarge) -> None:
        """Fail the attempts whose tasks can never be sent, and no others."""
        for task in tasks:
            if (size := refused.sizes.get(task.task_id)) is not None:
                message = (
                    f"the task of {task.node} has {size:,} bytes, and at most {refused.most:,} are sent: let the nodes "
                    "before it return less, or values above 32 KiB, which travel as references"
                )
                problem = Error("limit_exceeded", message)
                self._fail(task.task_id, c.Fail(at=0.0, address=task.address, error=problem, retryable=False))

    def _fail(self, name: str, command: c.Fail) -> None:
        self.done(name)
        command = msgspec.structs.replace(command, at=self._clock.now())
        self._put(Asked(command.address.run_id, lambda state: command, None))

    # -- limits --------------------------------------------------------------------------------------------------------

    async def _limits(self, name: str, entry: Entry) -> tuple[Limit, ...] | None:
        """The limits that an attempt must enter. None: it has left the dispatcher."""
        loaded = self._memory.runs.get(entry.address.run_id)
        if loaded is None or not self._renderer.wants(loaded.state, entry.address):
            self.done(name)
            if loaded is not None:
                self._memory.rest(loaded)
            return None
        try:
            return self.limiter.add_queue(entry, self._renderer.limits(loaded, entry.address))
        except NotAtHand as need:
            self._fetch(name, entry, loaded, need)
        except TemplateError as error:
            problem = Error(error.code, str(error))
            self._fail(name, c.Fail(at=0.0, address=entry.address, error=problem, retryable=False))
        except Exception as error:  # noqa: BLE001  whatever one run does, the others go on (X34)
            self.done(name)
            await self._quarantine(entry.address.run_id, error)
        return None

    async def _rebuild_slots(self) -> None:
        """Rebuild the slots of inherited attempts: one that a worker has keeps its own, an unclaimed one is taken back
        (PROTOCOL 23)."""
        names = self.dispatcher.list_aside(_INHERITED)
        for first in range(0, len(names), _RECALLED):
            found = await self._transport.recall_many(names[first : first + _RECALLED])
            if found is None:  # the transport is away; nothing could be published either
                self.limiter.look_later()
                return
            for name in (name for name, answer in found.items() if answer == "claimed"):
                entry = self.dispatcher.find(name)
                loaded = None if entry is None else self._memory.runs.get(entry.address.run_id)
                if entry is not None and loaded is not None:
                    self.dispatcher.send(name)
                    self._occupy(loaded, entry)
        self.dispatcher.call_up(_INHERITED, len(names))

    def _occupy(self, loaded: Loaded, entry: Entry) -> None:
        if not entry.limited:
            return
        try:
            limits = self.limiter.add_queue(entry, self._renderer.limits(loaded, entry.address))
        except (NotAtHand, TemplateError):  # the key was rendered when the task was sent; its contents are not here now
            limits = self.limiter.add_queue(entry, ())
        self.limiter.occupy(entry.address.task_id, limits)


def _is_late(state: State) -> bool:
    """Whether the run is failing because of its deadline. No node may have failed: a handler's error may have any code,
    this one too."""
    if state.state is not R.FAILING or state.failed_node is not None or state.error is None:
        return False
    return state.error.code == "deadline_exceeded"
