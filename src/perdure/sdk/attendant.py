"""The attendant of a followed run: it finds what the run needs from people, has them asked, and notices when the run
waits for people alone.

It is the same for `perdure run` and `perdure.run`. A desk knows where questions are found and answered, a database or a
server; an asker knows whom to ask, a person at the terminal or a callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from perdure.sdk.asks import Ask, Decision, Waiting
    from perdure.sdk.follower import Follower

CHILDREN_SECONDS = 0.5
"""How often the children of a run are looked at: their own events are not followed."""

Vote = Callable[["Decision"], Awaitable[None]]
"""Delivers a decision; raises PerdureError when it is refused."""
Answer = Literal["voted", "refused", "later", "gone"]
"""What became of a question. `refused`: it is asked again; `later`: the person leaves it open; `gone`: another approver
answered it meanwhile."""


class Desk(Protocol):
    async def look(self) -> Waiting:
        """What the run needs from people now."""
        ...

    async def vote(self, ask: Ask, decision: Decision) -> None:
        """Deliver a decision; raises PerdureError when it is refused."""
        ...


class Asker(Protocol):
    @property
    def repeats(self) -> bool:
        """Whether a question is asked again that waits for further approvers after the vote."""
        ...

    async def ask(self, ask: Ask, vote: Vote) -> Answer:
        """Ask about one approval, and deliver the decision."""
        ...


class Attendant:
    def __init__(self, follower: Follower, desk: Desk, asker: Asker | None, *, leaves: bool) -> None:
        """Without an asker, no question is asked. `leaves`: to end as soon as the run waits for people alone; otherwise
        only after a person has left a question open."""
        self._follower = follower
        self._desk = desk
        self._asker = asker
        self._leaves = leaves
        self._settled: set[str] = set()
        """Approvals that are not asked about any more."""

    async def run(self) -> Waiting:
        """Attend to the run until it waits for people alone and none of them is to be asked here. Gives what it waits
        for. The caller cancels this when the run has ended."""
        follower = self._follower
        while True:
            follower.changed.clear()
            waiting = await self._desk.look()
            follower.asks = waiting.asks
            questions = [ask for ask in waiting.asks if ask.kind == "approval" and ask.name not in self._settled]
            if self._asker is not None and questions:
                answer = await self._ask(self._asker, questions[0])
                if answer != "voted" or questions[0].run_id != follower.state.run_id:
                    continue  # no event will come: a child's are not followed
            elif self._leaves and waiting.only_people:
                return waiting
            listens = any(ask.kind == "event" for ask in waiting.asks)  # that one has been looked for is no event
            await something(follower, looks=listens or bool(follower.state.children))

    async def _ask(self, asker: Asker, ask: Ask) -> Answer:
        answer = await asker.ask(ask, lambda decision: self._desk.vote(ask, decision))
        if answer == "later":
            self._leaves = True
        if answer in ("later", "gone") or (answer == "voted" and not asker.repeats):
            self._settled.add(ask.name)
        return answer


async def something(follower: Follower, *, looks: bool) -> None:
    """Wait for the next event; with `looks`, at most until it is time to look again."""
    try:
        async with asyncio.timeout(CHILDREN_SECONDS if looks else None):
            await follower.changed.wait()
    except TimeoutError:
        pass
