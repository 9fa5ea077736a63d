"""A run on a server, followed here: its state is folded from the events of a stream, as it is from those of a database.

Folding needs the definition that the run follows, which the server is asked for. Without it, events are shown as they
come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.cli.frame.backend import find_run
from perdure.cli.frame.exits import say
from perdure.cli.terminal.lines import Lines
from perdure.cli.terminal.output import hour
from perdure.client import ApiError, AsyncClient
from perdure.clock import system
from perdure.errors import NotFound
from perdure.kernel import events as e
from perdure.kernel.readings.seen import JOURNAL, Seen, Working
from perdure.kernel.run_ids import place
from perdure.kernel.state import Key, State
from perdure.model import compile_definition
from perdure.model.ir import IR
from perdure.sdk.follower import Follower

LOOK_SECONDS = 1.0


class StreamSource:
    look_seconds = 2.0

    def __init__(self, client: AsyncClient, known: Mapping[str, IR] | None = None) -> None:
        """`known` has definitions by their hash, for which the server need not be asked."""
        self._client = client
        self._known = dict(known or {})
        self._run_id = ""
        self._seen = JOURNAL
        self._seen_at: float | None = None

    async def catch_up(self, follower: Follower) -> None:
        state = follower.state
        async for shown in self._client.runs.events(state.run_id, after=state.seq, limit=1000):
            await follower.fold(read_event(dict(shown)))

    async def look(self, state: State, *, blind: bool) -> Seen:
        """What the server says is executed, asked for at most once a second."""
        now = system.monotonic()
        if self._seen_at is None or now - self._seen_at >= LOOK_SECONDS:
            self._seen_at = now
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    told = await self._client.runs.working(state.run_id)
            except (ApiError, TimeoutError) as error:  # the stream itself says when it is over
                self._seen = Seen(blind=str(error) or "the server does not answer")
            else:
                self._seen = Seen({} if blind else _match(state, told["tasks"]))
        return self._seen

    async def stream(self, run_id: str, after: int) -> AsyncIterator[e.Event]:
        async for shown in self._client.runs.stream(run_id, after=after):
            yield read_event(dict(shown))

    async def find_ir(self, event: e.RunCreated | e.RunPatched) -> IR | None:
        """The definition with this hash, if the server keeps it and this Perdure compiles it as the server's does."""
        if isinstance(event, e.RunCreated):
            self._run_id = event.run_id
        if event.ir not in self._known:
            try:
                found = await self._client.runs.definition(self._run_id, at=event.seq)
            except NotFound:  # deleted meanwhile, or an older server
                return None
            compiled = None if found["definition"] is None else compile_definition(found["definition"]).ir
            if compiled is not None:
                self._known[compiled.hash] = compiled
        return self._known.get(event.ir)

    async def find_quarantine(self, run_id: str) -> str | None:
        found = await find_run(self._client, run_id)
        return None if found is None else found.get("quarantined")


def _match(state: State, tasks: Sequence[Mapping[str, Any]]) -> dict[Key, Working]:
    found: dict[Key, Working] = {}
    for task in tasks:
        activation = state.find(task["node"], tuple(task["scope"]), task["item"])
        if activation is not None and activation.attempt == task["attempt"]:
            said = "" if task.get("progress") is None else msgspec.json.encode(task["progress"]).decode()
            found[activation.key] = Working(task["worker"], task["since"], task["host"], task["pid"], progress=said)
    return found


class RemoteLines(Lines):
    """Lines as for a local run; where the definition is not known, the events themselves."""

    def __init__(self, follower: Follower, registry: Any) -> None:
        super().__init__(registry)
        self._follower = follower

    def show(self, state: State, event: e.Event) -> None:
        if not self._follower.blind:
            super().show(state, event)
            return
        subject = place(event.node, event.scope, event.item) if isinstance(event, e.NodeEvent) else "run"
        say(f"{hour(event.at)}  {subject.ljust(12)}  {event.type}")


def read_event(shown: dict[str, Any]) -> e.Event:
    """Turn an event as the API shows it into one of the kernel."""
    data = shown.pop("data", {})
    return e.decode(msgspec.json.encode({**shown, **data}))
