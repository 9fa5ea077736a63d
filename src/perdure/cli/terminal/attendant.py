"""Work beside a followed run: redraw the tree, ask people, and notice when the run waits for people alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from perdure.cli.backend import engine_of
from perdure.cli.exits import say, say_error
from perdure.errors import PerdureError
from perdure.kernel.state import NodeState, RunState, State
from perdure.sdk.asks import Ask, Waiting, approve_command, look

if TYPE_CHECKING:
    from perdure.cli.backend import Backend
    from perdure.cli.terminal.tree import Tree
    from perdure.sdk.follower import Follower
    from perdure.sdk.runner import Decision

CHILDREN_SECONDS = 0.5
"""How often the children of a run are looked at: their own events are not followed."""


def make_tree(follower: Follower) -> Tree | None:
    """A tree of the run, if standard error is a terminal on which it can be drawn."""
    if not sys.stderr.isatty():
        return None
    from perdure.cli.terminal.output import make_console
    from perdure.cli.terminal.tree import Tree

    console = make_console(stderr=True)
    return Tree(console, follower.look) if not console.is_dumb_terminal else None


def may_wait(state: State) -> bool:
    """Whether a run may wait for a person, so that it is worth looking at every activation."""
    tally = state.tally
    stopped = state.state in (RunState.PAUSED, RunState.COMPENSATING)
    return stopped or bool(tally.get(NodeState.WAITING) or tally.get(NodeState.PARKED))


class People:
    """The people a run waits for: finds their questions and delivers their answers, on a database or a server."""

    def __init__(self, backend: Backend, follower: Follower) -> None:
        self._backend = backend
        self._follower = follower

    async def look(self) -> Waiting:
        state = self._follower.state
        if not (self._follower.blind or may_wait(state)):
            return Waiting(busy=True)
        engine = engine_of(self._backend)
        if engine is not None:
            return await look(engine, state)
        found: Any = await self._backend.approvals.list(state="pending", run_id=state.run_id).first()
        # Other work on the server is not seen from here, so the run always counts as busy.
        return Waiting([_ask(one) for one in found["items"]], busy=True)

    async def form(self, ask: Ask) -> Any:
        """The form that the approver has to fill in; None: there is none."""
        return (await self._backend.approvals.get(ask.name))["form"]

    async def vote(self, ask: Ask, vote: Decision) -> str:
        """Vote, and give the reason of a refusal, or an empty text. The owner of the API key decides; where the server
        asks for no key, the person at the terminal."""
        me = await self._backend.system.me()
        by = (vote.by or None) if me["kind"] == "local" else None
        about: dict[str, Any] = {"comments": vote.comments, "data": vote.data}
        try:
            await self._backend.approvals.decide(ask.name, vote.decision, by=by, **about)
        except PerdureError as error:
            return error.message
        return ""


def _ask(view: dict[str, Any]) -> Ask:
    approvers = tuple(view["approvers"])
    command = approve_command(view["approval_id"], approvers, view.get("form"))
    return Ask("approval", view["approval_id"], view["run_id"], view["node"], command, approvers, view["shown"])


class Attendant:
    def __init__(self, follower: Follower, people: People, *, no_wait: bool, tree: Tree | None, asks: bool) -> None:
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
                if self._tree is not None:
                    self._tree.for_people = True
                over.set()
                return
            await self._something(bool(follower.state.children))

    async def _something(self, children: bool) -> None:
        """Wait for the next event, or until it is time to look at the children again."""
        try:
            async with asyncio.timeout(CHILDREN_SECONDS if children else None):
                await self._follower.changed.wait()
        except TimeoutError:
            pass

    async def _ask(self, ask: Ask) -> None:
        from perdure.cli.terminal.prompt import ask_person

        self._asked.add(ask.name)
        if self._tree is not None:
            self._tree.pause()
        try:
            form = await self._people.form(ask)
            vote = await self._unless_decided(ask, ask_person(ask, form))
            if vote is None:
                return
            refused = await self._people.vote(ask, vote)
            if refused:
                say_error(refused)
                self._asked.discard(ask.name)
        finally:
            if self._tree is not None:
                self._tree.go_on()

    async def _unless_decided(self, ask: Ask, question: Coroutine[Any, Any, Decision | None]) -> Decision | None:
        """The answer, or None when another approver decided meanwhile or the person leaves the question open."""
        try:
            return await self._unless_gone(ask, question)
        except asyncio.CancelledError:  # the run has ended, or this process is to stop
            approval = self._follower.state.approvals.get(ask.name)
            say("" if approval is None or approval.state == "pending" else "\n  Decided elsewhere.")
            raise

    async def _unless_gone(self, ask: Ask, question: Coroutine[Any, Any, Decision | None]) -> Decision | None:
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
