"""A run as it is durable, folded from its events whichever process decides them; followed to its end, and taken over when
that process is gone (PROTOCOL 26, 27).

It is the same for `perdure run`, `perdure runs watch` and `perdure.run`. A source knows where events and definitions come
from: the journal of an engine here, or the stream of a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from perdure.clock import system
from perdure.errors import PerdureError
from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import RunState
from perdure.kernel.readings.seen import Seen
from perdure.kernel.state import State

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.ir import IR
    from perdure.sdk.asks import Ask
    from perdure.service import Service

Beside = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""What goes on beside a followed run. It sets the event when the run need not be followed any more."""

TAKE_OVER_SECONDS = 0.1
_STATES = {
    "run.created": RunState.RUNNING,
    "run.retried": RunState.RUNNING,
    "run.completed": RunState.COMPLETED,
    "run.failed": RunState.FAILED,
    "run.cancelled": RunState.CANCELLED,
    "run.rolled_back": RunState.ROLLED_BACK,
}


class Source(Protocol):
    """The place from which a run is followed."""

    look_seconds: float
    """How often to look whether a run is quarantined, which no event says."""

    async def catch_up(self, follower: Follower) -> None:
        """Bring the follower's state to what the run is now."""
        ...

    def stream(self, run_id: str, after: int) -> AsyncIterator[e.Event]:
        """The events as they become durable."""
        ...

    async def find_ir(self, event: e.RunCreated | e.RunPatched) -> IR | None:
        """The definition that the run follows from this event on; None: it is not available."""
        ...

    async def look(self, state: State, *, blind: bool) -> Seen:
        """What is executed of the run now, which no event says."""
        ...

    async def find_quarantine(self, run_id: str) -> str | None:
        """Why the run is quarantined; None: it is not."""
        ...


class Follower:
    """A run as it is durable, event by event."""

    def __init__(self, source: Source, run_id: str) -> None:
        self._source = source
        self.state = State(run_id=run_id)
        self.changed = asyncio.Event()
        """Set after every event; the task that waits for it clears it."""
        self.asks: list[Ask] = []
        """What the run needed from a person at the last look."""
        self.blind = False
        """The definition is not available: of the state, only what events say by themselves is true."""
        self.quarantined: str | None = None
        """Why nothing more will come; None: more may come."""

    async def skip_past(self) -> None:
        """Begin with the run as it is now, not with its first event."""
        await self._source.catch_up(self)

    async def look(self) -> Seen:
        """What is executed of the run now, which no event says."""
        return await self._source.look(self.state, blind=self.blind)

    async def events(self) -> AsyncIterator[e.Event]:
        async for event in self._source.stream(self.state.run_id, self.state.seq):
            await self.fold(event)
            yield event
            self.changed.set()

    async def fold(self, event: e.Event) -> None:
        state = self.state
        if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library and not self.blind:
            ir = await self._source.find_ir(event)
            if ir is None:
                self.blind = True
            else:
                state.library[event.ir] = ir
        if self.blind:
            state.seq = event.seq
            state.state = _STATES.get(event.type, state.state)
        else:
            evolve(state, event)

    async def look_for_quarantine(self) -> None:
        """Wait until the run is quarantined."""
        while self.quarantined is None:
            seq = self.state.seq
            await system.sleep(self._source.look_seconds)
            try:
                found = await self._source.find_quarantine(self.state.run_id)
            except PerdureError:
                continue  # the server or the database does not answer: the reader of the events is more patient
            if self.state.seq == seq:
                self.quarantined = found


class JournalSource:
    look_seconds = 0.5

    def __init__(self, service: Service) -> None:
        self._service = service
        self._engine = service.tenancy.engine

    async def catch_up(self, follower: Follower) -> None:
        follower.state = await self._engine.runs.state(follower.state.run_id)

    def stream(self, run_id: str, after: int) -> AsyncIterator[e.Event]:
        return self._engine.runs.follow(run_id, after)

    async def find_ir(self, event: e.RunCreated | e.RunPatched) -> IR | None:
        return await self._engine.library.get(event.ir)

    async def look(self, state: State, *, blind: bool) -> Seen:
        return await self._engine.work_reports.of(state)

    async def find_quarantine(self, run_id: str) -> str | None:
        record = await self._service.tenancy.find_run(run_id)
        return None if record is None else record.quarantined


# -- to the end --------------------------------------------------------------------------------------------------------


class Screen(Protocol):
    """The place where a person sees the run."""

    def begin(self, state: State) -> None: ...
    def show(self, state: State, event: e.Event) -> None: ...
    def end(self) -> None: ...


class Silent:
    def begin(self, state: State) -> None:
        pass

    def show(self, state: State, event: e.Event) -> None:
        pass

    def end(self) -> None:
        pass


async def follow(
    follower: Follower,
    screen: Screen,
    *,
    work: Engine | None,
    go_on: Callable[[], Awaitable[Any]] | None = None,
    beside: Iterable[Beside] = (),
) -> None:
    """Follow a run until it has ended, is quarantined, or what goes on beside it says that this is enough. `work` is the
    engine that takes over when the process that works dies; `go_on` then makes it work."""
    over = asyncio.Event()
    screen.begin(follower.state)
    try:
        async with asyncio.TaskGroup() as group:
            shown = asyncio.Event()
            tasks = [
                group.create_task(_watch(follower, screen, shown, over)),
                group.create_task(_stop_at_quarantine(follower, over)),
                *[group.create_task(one(over)) for one in beside],
            ]
            if work is not None:
                tasks.append(group.create_task(_take_over(work, shown, go_on or work.hold)))
            await over.wait()
            for task in tasks:  # no answer of a person changes any more what has ended
                task.cancel()
    finally:
        screen.end()


async def _watch(follower: Follower, screen: Screen, shown: asyncio.Event, over: asyncio.Event) -> None:
    if follower.state.seq:  # the run is known from before
        shown.set()
    if not _ended(follower):
        async for event in follower.events():
            screen.show(follower.state, event)
            shown.set()
            if _ended(follower):
                break
    over.set()


def _ended(follower: Follower) -> bool:
    return follower.state.terminal


async def _stop_at_quarantine(follower: Follower, over: asyncio.Event) -> None:
    await follower.look_for_quarantine()
    over.set()


async def _take_over(engine: Engine, shown: asyncio.Event, go_on: Callable[[], Awaitable[Any]]) -> None:
    """Keep asking for the hold: the operating system releases it the moment its holder dies."""
    if engine.worker is not None:
        return
    if engine.holds:  # a new run, which this process has begun and no worker executes yet
        await shown.wait()
        await engine.hold()
        return
    while not await engine.hold(work=False):
        await engine.clock.sleep(TAKE_OVER_SECONDS)
    await go_on()
