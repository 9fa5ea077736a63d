"""Beside a run that is followed: redraw the tree, ask people, and know when only they can go on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from perdure.cli.exits import say, say_error
from perdure.cli.waiting import Ask, Waiting, look
from perdure.kernel.state import NodeState, RunState, State
from perdure.runtime.forms import find_form

if TYPE_CHECKING:
    from perdure.cli.following import Following
    from perdure.cli.tree import Tree
    from perdure.engine import Engine
    from perdure.runtime.requests import Request

CHILDREN_SECONDS = 0.5
"""Children have events of their own, which are not followed; they are looked at this often."""


def make_tree(follower: Following) -> Tree | None:
    """A tree where a person sees it and it can be drawn."""
    if not sys.stderr.isatty():
        return None
    from perdure.cli.output import make_console
    from perdure.cli.tree import Tree

    console = make_console(stderr=True)
    return Tree(console, follower.look) if not console.is_dumb_terminal else None


def may_wait(state: State) -> bool:
    """Whether it is worth looking at every activation for what waits."""
    tally = state.tally
    stopped = state.state in (RunState.PAUSED, RunState.COMPENSATING)
    return stopped or bool(tally.get(NodeState.WAITING) or tally.get(NodeState.PARKED))


class People(Protocol):
    """How what waits for a person is found, and how the answer gets there."""

    async def look(self) -> Waiting: ...
    async def form(self, ask: Ask) -> Any:
        """What whoever approves has to fill in; None: nothing."""
        ...

    async def vote(self, request: Request) -> str:
        """Why it was refused; empty: it was not."""
        ...


class PeopleHere:
    """People who wait for a run of this engine, children included."""

    def __init__(self, engine: Engine, follower: Following) -> None:
        self._engine = engine
        self._follower = follower

    async def look(self) -> Waiting:
        state = self._follower.state
        return await look(self._engine, state) if may_wait(state) else Waiting(busy=True)

    async def form(self, ask: Ask) -> Any:
        return await find_form(self._engine.journal, self._engine.contents, ask.run_id, ask.name)

    async def vote(self, request: Request) -> str:
        reply = await self._engine.request(request)
        return reply.message if reply.refused else ""


class Attendant:
    def __init__(self, follower: Following, people: People, *, no_wait: bool, tree: Tree | None, asks: bool) -> None:
        self._follower = follower
        self._people = people
        self._no_wait = no_wait
        self._tree = tree
        self._asks = asks
        self._asked: set[str] = set()
        self._later = False

    async def run(self, over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            if self._tree is not None:
                group.create_task(self._tree.beat())
            if self._no_wait or self._asks:
                group.create_task(self._attend(over))

    async def _attend(self, over: asyncio.Event) -> None:
        follower = self._follower
        while True:
            follower.changed.clear()
            waiting = await self._people.look()
            follower.asks = waiting.asks
            open_asks = [ask for ask in waiting.asks if ask.kind == "approval" and ask.name not in self._asked]
            if self._asks and open_asks:
                await self._ask(open_asks[0])
                continue
            if (self._no_wait or self._later) and waiting.only_people:
                over.set()
                return
            await self._something(bool(follower.state.children))

    async def _something(self, children: bool) -> None:
        """The next event, or time to look at the children again."""
        try:
            async with asyncio.timeout(CHILDREN_SECONDS if children else None):
                await self._follower.changed.wait()
        except TimeoutError:
            pass

    async def _ask(self, ask: Ask) -> None:
        from perdure.cli.asking import ask_person

        self._asked.add(ask.name)
        if self._tree is not None:
            self._tree.pause()
        try:
            form = await self._people.form(ask)
            request = await self._unless_decided(ask, ask_person(ask, form))
            if request is None:
                return
            refused = await self._people.vote(request)
            if refused:
                say_error(refused)
                self._asked.discard(ask.name)
        finally:
            if self._tree is not None:
                self._tree.go_on()

    async def _unless_decided(self, ask: Ask, question: Coroutine[Any, Any, Request | None]) -> Request | None:
        """The answer, or None when somebody else decided meanwhile or the person wants to leave it."""
        try:
            return await self._unless_gone(ask, question)
        except asyncio.CancelledError:  # the run has ended, or this process is to stop
            approval = self._follower.state.approvals.get(ask.name)
            say("" if approval is None or approval.state == "pending" else "\n  Decided elsewhere.")
            raise

    async def _unless_gone(self, ask: Ask, question: Coroutine[Any, Any, Request | None]) -> Request | None:
        follower = self._follower
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(question)
            while True:
                changed = group.create_task(self._something(True))
                await asyncio.wait({asking, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if asking.done():
                    if asking.result() is None:
                        self._later = True
                    return asking.result()
                follower.changed.clear()
                waiting = await self._people.look()
                if ask.name not in {one.name for one in waiting.asks}:
                    asking.cancel()
                    say("\n  Decided elsewhere.")
                    return None
