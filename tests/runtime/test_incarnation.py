"""Nothing that was read before the incarnation was known is gone on with: it may be of a database that was restored since, and
no fence would tell (PROTOCOL 2)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from perdure.journal import Journal
from perdure.kernel import commands as c
from perdure.model import Compiled, compile_definition
from perdure.model import ir as irs
from perdure.nodes import installed
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.ownership.incarnation import LostIncarnation
from perdure.runtime.coordinator.ownership.listener import Listener, handle
from perdure.runtime.coordinator.ownership.partitions import Sharing
from perdure.runtime.coordinator.requests import Request
from perdure.runtime.parts import EngineStopped
from perdure.runtime.timekeeper import Timekeeper
from perdure.runtime.workflows import Workflows
from perdure.simulation.leases import MemoryLeases
from perdure.transports.local import LocalTransport
from tests.doubles.fake_clock import FakeClock
from tests.doubles.memory_journal import MemoryJournal, Store


class Ordered:
    """What it wraps, with a list of what was asked of it."""

    def __init__(self, inner: Any, asked: list[str]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if inspect.iscoroutinefunction(attribute):
            self._asked.append(name)
        return attribute


def flow(*names: str) -> Compiled:
    nodes = [{"id": name, "type": "wait", "config": {"signal": "go"}} for name in names]
    return compile_definition({"name": "flow", "nodes": nodes})


def coordinator_of(journal: Any, clock: FakeClock) -> Coordinator:
    return Coordinator(cast(Journal, journal), LocalTransport(clock=clock), installed(), clock)


async def ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_patch_is_not_decided_with_a_definition_that_a_restore_took_away() -> None:
    """Seed 396619: the run went on by a definition that the database did not have, and was quarantined when it was next loaded."""
    clock, store = FakeClock(), Store(4)
    journal, first = MemoryJournal(store, clock=clock), flow("a").get_ir()
    await journal.put_definition(first.hash, "ir", irs.encode(first))
    before = coordinator_of(journal, clock)
    deciding = asyncio.create_task(before.run())
    start = c.Start(at=clock.now(), run_id="r", ir=first)
    await before.ask("r", lambda state: start, starts=True)
    await ended(deciding)
    backup, seq = store.copy(), store.runs["r"].seq
    patched = flow("a", "b").get_ir()
    await journal.put_definition(patched.hash, "ir", irs.encode(patched))

    after = coordinator_of(journal, clock)
    asking = asyncio.create_task(handle(after, Request(kind="patch", run_id="r", ir=patched.hash)))
    await clock.advance(0)
    store.restore(backup)
    deciding = asyncio.create_task(after.run())
    with pytest.raises(EngineStopped) as raised:
        await asking
    assert isinstance(raised.value.__cause__, LostIncarnation)
    assert store.runs["r"].seq == seq
    await ended(deciding)


async def test_an_answer_that_wrote_nothing_does_not_rest_on_what_a_restore_took_back() -> None:
    """Seed 472645: a patch that memory had already was acknowledged, and the restored journal did not have it (J1)."""
    clock, store = FakeClock(), Store(4)
    journal, first, patched = MemoryJournal(store, clock=clock), flow("a").get_ir(), flow("a", "b").get_ir()
    for ir in (first, patched):
        await journal.put_definition(ir.hash, "ir", irs.encode(ir))
    coordinator = coordinator_of(journal, clock)
    deciding = asyncio.create_task(coordinator.run())
    start = c.Start(at=clock.now(), run_id="r", ir=first)
    await coordinator.ask("r", lambda state: start, starts=True)
    backup = store.copy()
    patch = Request(kind="patch", run_id="r", ir=patched.hash)
    assert not (await handle(coordinator, patch)).refused
    assert not (await handle(coordinator, patch)).refused, "the same again writes nothing, and is no error"
    store.restore(backup)
    with pytest.raises(EngineStopped) as raised:
        await handle(coordinator, patch)
    assert isinstance(raised.value.__cause__, LostIncarnation)
    await ended(deciding)


async def _asks(coordinator: Coordinator, store: Store, asked: list[str]) -> None:
    await handle(coordinator, Request(kind="start", run_id="r", ir=flow("a").get_ir().hash))


async def _listens(coordinator: Coordinator, store: Store, asked: list[str]) -> None:
    await Listener(coordinator.journal, coordinator, coordinator.clock).listen()


async def _keeps_time(coordinator: Coordinator, store: Store, asked: list[str]) -> None:
    await Timekeeper(coordinator.journal, coordinator, coordinator.clock).run()


async def _leases(coordinator: Coordinator, store: Store, asked: list[str]) -> None:
    """An epoch of before a restore may be given to another process after it."""
    leases = Ordered(MemoryLeases(store, clock=coordinator.clock), asked)

    async def recover(partitions: Any) -> None: ...

    receiver: Any = coordinator.transport
    sharing = Sharing(
        cast(Any, leases), coordinator, receiver, coordinator.clock, holder="h", recover=recover, lease_seconds=30
    )
    sharing._take_over = lambda epochs: None  # type: ignore[method-assign]
    await sharing.renew()


async def _keeps(coordinator: Coordinator, store: Store, asked: list[str]) -> None:
    workflows = Workflows(
        coordinator.journal, Library(coordinator.journal), coordinator.registry, None, coordinator=lambda: coordinator
    )
    await workflows.keep(flow("a"), checked=True)


@pytest.mark.parametrize("part", [_asks, _listens, _keeps_time, _leases, _keeps])
async def test_the_incarnation_is_the_first_thing_read(
    part: Callable[[Coordinator, Store, list[str]], Awaitable[None]],
) -> None:
    clock, store, asked = FakeClock(), Store(4), list[str]()
    coordinator = coordinator_of(Ordered(MemoryJournal(store, clock=clock), asked), clock)
    doing = asyncio.ensure_future(part(coordinator, store, asked))
    await clock.advance(1)
    await ended(cast(Any, doing))
    assert asked[:1] == ["incarnation"]
    assert len(asked) > 1
    assert coordinator.incarnation.number == 1


async def test_a_definition_is_not_given_to_a_coordinator_that_began_after_it_was_stored() -> None:
    """It reads what it needs, or finds that a restore took it away."""
    clock, store = FakeClock(), Store(4)
    journal = MemoryJournal(store, clock=clock)
    there: list[Coordinator] = []

    async def put_definition(*about: Any) -> None:
        await MemoryJournal.put_definition(journal, *about)
        there[:] = [coordinator_of(journal, clock)]

    journal.put_definition = put_definition  # type: ignore[method-assign, assignment]
    workflows = Workflows(journal, Library(journal), installed(), None, coordinator=lambda: there[0] if there else None)
    await workflows.keep(flow("a"), checked=True)
    assert there[0].library._irs == {}
