"""A run as it is durable, folded from its events, whoever decides them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.seen import Seen
from perdure.kernel.state import State

if TYPE_CHECKING:
    from perdure.engine import Engine
    from perdure.sdk.asks import Ask


class Follower:
    """A run as it is durable, event by event."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self.engine = engine
        self.state = State(run_id=run_id)
        self.changed = asyncio.Event()
        """Set after every event; whoever waits for it clears it."""
        self.blind = False
        self.asks: list[Ask] = []
        """What only a person can give, when it was last looked for."""

    async def skip_past(self) -> None:
        """Begin with what the run is now, not with its first event."""
        self.state = await self.engine.state(self.state.run_id)

    async def look(self) -> Seen:
        """What is executed now, which is in no event."""
        return await self.engine.sight.of(self.state)

    async def events(self) -> AsyncIterator[e.Event]:
        state = self.state
        async for event in self.engine.follow(state.run_id, state.seq):
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
                state.library[event.ir] = await self.engine.library.get(event.ir)
            evolve(state, event)
            yield event
            self.changed.set()
