"""The history of a run, read from its events: its state at any sequence number, and the path it took.

It must not know HTTP, nor print anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from perdure.errors import NotFound
from perdure.journal import RunRecord, StoredEvent
from perdure.kernel import events as e
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State
from perdure.runtime.coordinator.quarantine import explained
from perdure.runtime.portions import in_portions

if TYPE_CHECKING:
    from perdure.engine import Engine

_READ = 2000


async def read_all(engine: Engine, run_id: str, last: int | None = None) -> AsyncIterator[e.Event]:
    """Every event of a run in order, up to the number `last`."""
    async for one in read_stored(engine, run_id, last=last):
        yield e.decode(one.body)


async def read_stored(
    engine: Engine, run_id: str, *, after: int = 0, last: int | None = None
) -> AsyncIterator[StoredEvent]:
    """The events of a run as they are stored, not decoded, from the one behind `after` on. Other tasks have their turn while it is read."""
    while last is None or after < last:
        stored = await engine.journal.read_events(run_id, after, _READ if last is None else min(_READ, last - after))
        async for portion in in_portions(engine.clock, stored):
            for one in portion:
                yield one
        if not stored:
            return
        after = stored[-1].seq


async def last_event_at(engine: Engine, run_id: str, seq: int) -> float:
    return (await engine.journal.read_events(run_id, seq - 1, 1))[0].at


async def state_at(engine: Engine, record: RunRecord, seq: int) -> State:
    """The run as it was when event `seq` had just happened."""
    if seq > record.seq:
        raise NotFound(f"run {record.run_id} has {record.seq} events; there is no event {seq} yet")
    state = State(run_id=record.run_id)
    with explained(record):
        async for event in read_all(engine, record.run_id, seq):
            await _fold(engine, state, event)
        _check_all(state, seq)
    return state


def _check_all(state: State, seq: int) -> None:
    if state.seq != seq:
        raise IntegrityError(f"run {state.run_id} has events up to {state.seq}, and there should be {seq}")


async def _fold(engine: Engine, state: State, event: e.Event) -> None:
    if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
        state.library[event.ir] = await engine.library.get(event.ir)
    evolve(state, event)


async def steps_of(
    engine: Engine, record: RunRecord, after: int, limit: int
) -> tuple[list[dict[str, Any]], int | None]:
    """The decisions about edges, in order: from which node, by which rule, to which nodes; and, if there may be more,
    the number to continue from."""
    found: list[dict[str, Any]] = []
    state = State(run_id=record.run_id)
    with explained(record):
        async for event in read_all(engine, record.run_id, record.seq):
            await _fold(engine, state, event)
            if event.seq <= after or not isinstance(event, e.NodeCompleted | e.NodeFailed | e.NodeRouted):
                continue
            if event.route is None:
                continue
            if len(found) == limit:
                return found, found[-1]["seq"]
            found.append(_step(state, event))
        _check_all(state, record.seq)
    return found, None


def _step(state: State, event: Any) -> dict[str, Any]:
    taken, ir = event.route.taken, state.ir
    index = ir.numbers.get(event.node)
    node = None if index is None else ir.nodes[index]
    if event.route.back:  # the way back is no edge of the graph
        taken = [] if node is None or node.loop is None else [state.name(node.loop.head)]
    elif taken is None:  # None stands for every edge that no routing names
        numbers = () if node is None else node.edges_out
        taken = [state.name(ir.edges[number].target) for number in numbers if not ir.edges[number].named]
    step = {
        "seq": event.seq,
        "at": event.at,
        "node": event.node,
        "scope": list(event.scope),
        "visit": event.visit,
        "rule": event.route.rule,
        "taken": list(taken),
        "back": event.route.back,
    }
    if event.route.reasoning:
        step["reasoning"] = event.route.reasoning
    return step
