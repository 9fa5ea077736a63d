"""The terminal beside a followed run: the tree is drawn, and the person there is asked what the run needs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Literal

from perdure.cli.frame.exits import say, say_error
from perdure.errors import PerdureError
from perdure.kernel.lifecycle import NodeState, RunState
from perdure.kernel.state import State
from perdure.sdk.asks import Ask, Decision, Waiting, approve_command, look
from perdure.sdk.attendant import Answer, Attendant, Vote, something

if TYPE_CHECKING:
    from perdure.cli.frame.backend import Backend
    from perdure.cli.terminal.tree import Tree
    from perdure.sdk.follower import Follower

Question = Coroutine[Any, Any, "Decision | None"]


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
        from perdure.service import Service

        if isinstance(self._backend, Service):
            return await look(self._backend, state)
        found: Any = await self._backend.approvals.list(state="pending", run_id=state.run_id).first()
        # Other work on the server is not seen from here, so the run always counts as busy.
        return Waiting([_ask(one) for one in found["items"]], busy=True)

    async def form(self, ask: Ask) -> Any:
        """The form that the approver has to fill in; None: there is none."""
        return (await self._backend.approvals.get(ask.name))["form"]

    async def vote(self, ask: Ask, vote: Decision) -> None:
        """Vote. The owner of the API key decides; where the server asks for no key, the person at the terminal."""
        me = await self._backend.system.me()
        by = (vote.by or None) if me["kind"] == "local" else None
        about: dict[str, Any] = {"comments": vote.comments, "data": vote.data}
        await self._backend.approvals.decide(ask.name, vote.decision, by=by, **about)


def _ask(view: dict[str, Any]) -> Ask:
    approvers = tuple(view["approvers"])
    free = tuple(name for name in approvers if name not in view["votes"])
    command = approve_command(view["approval_id"], free, view.get("form"))
    return Ask("approval", view["approval_id"], view["run_id"], view["node"], command, approvers, view["shown"])


class Terminal:
    """Asks the person at the terminal, each question once."""

    repeats = False

    def __init__(self, follower: Follower, people: People, tree: Tree | None) -> None:
        self._follower = follower
        self._people = people
        self._tree = tree

    async def ask(self, ask: Ask, vote: Vote) -> Answer:
        from perdure.cli.terminal.prompt import ask_person

        if self._tree is not None:
            self._tree.pause()
        try:
            form = await self._people.form(ask)
            answer = await self._unless_decided(ask, ask_person(ask, form))
            if isinstance(answer, str):
                return answer
            try:
                await vote(answer)
            except PerdureError as error:
                say_error(error.message)
                return "refused"
            return "voted"
        finally:
            if self._tree is not None:
                self._tree.go_on()

    async def _unless_decided(self, ask: Ask, question: Question) -> Decision | Literal["later", "gone"]:
        try:
            return await self._unless_gone(ask, question)
        except asyncio.CancelledError:  # the run has ended, or this process is to stop
            approval = self._follower.state.approvals.get(ask.name)
            say("" if approval is None or approval.state == "pending" else "\n  Decided elsewhere.")
            raise

    async def _unless_gone(self, ask: Ask, question: Question) -> Decision | Literal["later", "gone"]:
        follower = self._follower
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(question)
            while True:
                changed = group.create_task(something(follower, looks=True))
                await asyncio.wait({asking, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if asking.done():
                    return asking.result() or "later"
                follower.changed.clear()
                waiting = await self._people.look()
                if ask.name not in {one.name for one in waiting.asks}:
                    asking.cancel()
                    say("\n  Decided elsewhere.")
                    return "gone"


async def attend(attendant: Attendant | None, tree: Tree | None, over: asyncio.Event) -> None:
    """Draw the run and attend to it, and set `over` once it waits for people alone. Without an attendant, only draw."""
    async with asyncio.TaskGroup() as group:
        if tree is not None:
            group.create_task(tree.beat())
        if attendant is not None:
            await attendant.run()
            if tree is not None:
                tree.for_people = True
            over.set()
