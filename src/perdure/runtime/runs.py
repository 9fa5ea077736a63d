"""The runs of an engine: what is asked of them, what state they are in, and what happens to them.

A request is decided here if this process holds the run, and handed to the process that does otherwise. It must not know
how an engine is put together, nor who asks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from perdure.blobs import INLINE_BYTES
from perdure.budget import Budget
from perdure.clock import Clock
from perdure.contents import Contents
from perdure.errors import NotFound
from perdure.journal import Journal, RunRecord
from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.nodes.registry import Registry
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.ownership.handover import Handover
from perdure.runtime.coordinator.ownership.listener import handle
from perdure.runtime.coordinator.parked import find_mistakes_of
from perdure.runtime.coordinator.quarantine import look
from perdure.runtime.coordinator.requests import Reply, Request, decode_request, encode_request, slim
from perdure.runtime.feed import Feed
from perdure.runtime.parts import Parts

LOOK_SECONDS = 0.05
"""How often to look for the answer of the process that was handed a request."""


class Runs:
    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        registry: Registry,
        *,
        library: Library,
        contents: Contents,
        parts: Parts,
        handover: Handover,
        feed: Feed,
        distributed: bool,
        coordinator: Callable[[], Coordinator | None],
        take_over: Callable[[], Awaitable[bool]],
    ) -> None:
        """`coordinator` gives that of this process, if it decides; `take_over` lets this process decide if no other
        one does."""
        self._journal = journal
        self._clock = clock
        self._registry = registry
        self._library = library
        self._contents = contents
        self._parts = parts
        self._handover = handover
        self._feed = feed
        self._distributed = distributed
        self._coordinator = coordinator
        self._take_over = take_over
        self.own: set[str] = set()
        """Runs that this process was asked to run itself; it has, or should have, the functions they call."""

    def new_id(self) -> str:
        """A new run id, if possible one that this process decides for itself, so that no other process has to be
        asked."""
        coordinator = self._coordinator()
        return self._clock.new_id() if coordinator is None else coordinator.share.draw(self._clock.new_id)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def request(self, request: Request, on_stored: Callable[[], None] = lambda: None) -> Reply:
        """Decide a request here, or hand it to the process that holds its run: `on_stored` is called once it is durable
        that it was asked."""
        if request.kind == "start" and not self._distributed:
            self.own.add(request.run_id)
        # Encoded even where it is decided here, which costs microseconds: what cannot be stored is refused before it is
        # decided, and the decision sees what a replay will see, a copy without tuples and NaN.
        if (reply := await self._refuse_config(request)) is not None:
            return reply
        body = encode_request(request)
        if len(body) > INLINE_BYTES:
            body = encode_request(await slim(request, self._contents, self._journal))
        coordinator = self._coordinator()
        if coordinator is not None and coordinator.share.holds(request.run_id):
            self._parts.check()
            reply = await handle(coordinator, decode_request(body))
            if reply.code != "moved":
                return reply
        return await self._handover.ask(request.run_id, body, self._decides, LOOK_SECONDS, on_stored)

    async def _refuse_config(self, request: Request) -> Reply | None:
        """The refusal of a requeue whose config cannot be used. It is checked here, where its content is at hand: it
        may be stored as a blob by the time it is decided on."""
        if request.kind != "requeue" or request.config is None:
            return None
        record = await self._journal.find_run(request.run_id)
        mistakes = [] if record is None else find_mistakes_of(self._registry, await self.state_of(record), request)
        if not mistakes:
            return None
        message = f"the config for node {request.node} cannot be used: {'; '.join(mistakes)}"
        return Reply(run_id=request.run_id, code="bad_config", message=message, problems=tuple(mistakes))

    async def _decides(self) -> bool:
        """Whether an answer will come: a holder decides, or this process has become the holder because the last one is
        gone."""
        if await self._take_over():
            self._parts.check()
        return not self._distributed

    # -- looking -------------------------------------------------------------------------------------------------------

    async def state(self, run_id: str) -> State:
        """The durable state of a run."""
        record = await self._journal.find_run(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id}; `perdure runs list` shows those there are")
        return await self.state_of(record)

    async def exists(self, run_id: str) -> bool:
        return await self._journal.find_run(run_id) is not None

    async def state_of(self, record: RunRecord) -> State:
        return await look(self._journal, self._library, record)

    async def find_view(self, run_id: str, budget: Budget | None = None) -> dict[str, Any] | None:
        """A run as the API shows it, without its nodes; None if there is none."""
        record = await self._journal.find_run(run_id)
        if record is None:
            return None
        return await self._contents.view(await self.state_of(record), nodes=False, budget=budget)

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[e.Event, None]:
        """The run's events as they become durable, in whichever process they are decided, until it has ended. Raises
        EngineStopped if a part of this engine gives up meanwhile."""
        async with aclosing(self._feed.follow(run_id, after)) as portions:
            async for portion in portions:
                for one in portion:
                    yield e.decode(one.body)
        self._parts.check()
