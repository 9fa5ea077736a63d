"""The attempts at one node of a run, as its events tell them: how each began and ended, on which worker, with which
error.

What no event says is left out, never guessed: for instance when an attempt began whose worker died. It must not know
HTTP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.kernel import events as e
from perdure.kernel.state import State
from perdure.service.runs.history import read_stored

if TYPE_CHECKING:
    from perdure.engine import Engine

LOOKED_AT = 50_000
"""How many of a run's newest events are searched: a journal may have millions."""
SHOWN = 200
"""How many of a node's newest attempts are listed."""

Attempt = dict[str, Any]


async def attempts_of(engine: Engine, state: State, node: Mapping[str, Any]) -> list[Attempt]:
    """The attempts of every visit, oldest first. `node` is the node's view, whose visits say what runs now."""
    found = _Attempts()
    async for event in _read(engine, state, node["node"]):
        for about in _places(event, node["node"]):
            found.note(event, about)
    now = {visit["visit"]: visit for visit in node["visits"]}
    return [_finish(one, now.get(one["visit"], {})) for one in found.kept]


async def _read(engine: Engine, state: State, node: str) -> AsyncIterator[e.Event]:
    name, after = msgspec.json.encode(node), max(state.seq - LOOKED_AT, 0)
    async for one in read_stored(engine, state.run_id, after=after, last=state.seq):
        if one.type.startswith("node") and name in one.body:  # decoding every event would take most of the time
            yield e.decode(one.body)


def _places(event: e.Event, node: str) -> Iterator[e.NodeEvent | e.Place]:
    """The places where an event is about the node itself; items of a map have attempts of their own."""
    places = (event,) if isinstance(event, e.NodeEvent) else getattr(event, "places", ())
    return (one for one in places if one.node == node and one.item is None)


class _Attempts:
    def __init__(self) -> None:
        self.kept: deque[Attempt] = deque(maxlen=SHOWN)
        self._open: dict[e.Scope, Attempt] = {}
        self._tries: dict[e.Scope, int] = {}

    def note(self, event: e.Event, about: e.NodeEvent | e.Place) -> None:
        scope = about.scope
        match event:
            case e.NodeScheduled() | e.NodesScheduled():
                self._lose(event, scope)
                self._begin(about)
            case e.NodeHeld() | e.NodesHeld():
                self._lose(event, scope)
            case e.NodeStarted(undo=False) if scope in self._open:
                self._open[scope] |= {"state": "running", "started_at": event.at, "worker": event.worker}
            case e.NodeWaiting() if scope in self._open:
                self._open[scope] |= {"state": "waiting"}
            case e.NodeCompleted(adopted=False):
                self._end(event, scope, "completed")
            case e.NodeRetrying():
                self._end(event, scope, "failed", error=_error(event), retry_at=event.retry_at)
            case e.NodeFailed() | e.NodeParked(undo=False):
                self._end(event, scope, "failed", error=_error(event))
            case e.NodeCancelled() | e.NodesCancelled():
                self._end(event, scope, "cancelled")
            case _:
                return

    def _begin(self, about: e.NodeEvent | e.Place) -> Attempt:
        tries = self._tries[about.scope] = self._tries.get(about.scope, 0) + 1
        made: Attempt = {"visit": about.visit, "attempt": tries, "state": "queued"}
        if about.scope:
            made["scope"] = list(about.scope)
        self._open[about.scope] = made
        self.kept.append(made)
        return made

    def _lose(self, event: Any, scope: e.Scope) -> None:
        """End the open attempt without an outcome. It counts as a try if its worker died, not if it was handed back."""
        lost = self._open.pop(scope, None)
        if lost is None:
            return
        crashed = getattr(event, "after", "") == "crashed"
        lost |= {"state": "crashed" if crashed else "handed_back", "ended_at": event.at}
        if not crashed:
            self._tries[scope] -= 1

    def _end(self, event: Any, scope: e.Scope, state: str, **more: Any) -> None:
        found = self._open.pop(scope, None)
        if found is None:
            return
        for name in ("started_at", "worker"):
            if said := getattr(event, name, None):
                found[name] = said
        found |= {"state": state, "ended_at": event.at, **more}


def _error(event: e.NodeRetrying | e.NodeFailed | e.NodeParked) -> dict[str, Any]:
    """The error without its traceback: the node itself shows the traceback of its last error."""
    return {"code": event.error.code, "message": event.error.message}


def _finish(attempt: Attempt, visit: Mapping[str, Any]) -> Attempt:
    """Complete an attempt that is still open with what is known of its visit now."""
    if "ended_at" not in attempt and attempt["attempt"] == visit.get("attempt"):
        names = ("state", "started_at", "worker")
        attempt |= {name: visit[name] for name in names if name in visit}
    return attempt
