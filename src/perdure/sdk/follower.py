"""A run as it is durable, folded from its events whichever process decides them; and taking it over when that process
is gone.

A source knows where events and definitions come from: the journal of an engine here, or the stream of a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.seen import Seen
from perdure.kernel.state import RunState, State

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.model.ir import IR
    from perdure.sdk.asks import Ask

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


class JournalSource:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def catch_up(self, follower: Follower) -> None:
        follower.state = await self._engine.runs.state(follower.state.run_id)

    def stream(self, run_id: str, after: int) -> AsyncIterator[e.Event]:
        return self._engine.runs.follow(run_id, after)

    async def find_ir(self, event: e.RunCreated | e.RunPatched) -> IR | None:
        return await self._engine.library.get(event.ir)

    async def look(self, state: State, *, blind: bool) -> Seen:
        return await self._engine.work_reports.of(state)


async def take_over(engine: Engine, *, work: bool = True) -> None:
    """Wait until this process holds the database: the operating system releases the hold the moment its holder dies."""
    while not await engine.hold(work=work):
        await engine.clock.sleep(TAKE_OVER_SECONDS)
