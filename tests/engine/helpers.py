"""An engine for a test, the workflows it runs, and what must hold of every run afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure import invariants
from perdure.blob_stores.store_url import open_store
from perdure.engine import Engine
from perdure.journal import Journal
from perdure.kernel import events as e
from perdure.kernel import snapshot
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import State
from perdure.model import compile_definition
from perdure.model import ir as irs
from perdure.model.ir import IR
from perdure.runtime.coordinator.library import DEFINITIONS
from perdure.runtime.coordinator.loaded import load
from perdure.runtime.coordinator.projections import row_of
from perdure.runtime.coordinator.requests import Reply, Request
from perdure.runtime.worker import capture
from perdure.settings import NAMES, Settings
from tests.waiting import PATIENCE_SECONDS as DEADLINE
from tests.waiting import until_true

__all__ = ["DEADLINE", "until_true"]
ENDS = {"run.completed", "run.failed", "run.cancelled", "run.rolled_back"}


def task(id: str, function: str = "echo", needs: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A node that calls a function of `tasks.py`; `args` are its arguments."""
    node: dict[str, Any] = {
        "id": id,
        "type": "task",
        "config": {"function": f"tests.engine.tasks:{function}", "args": more.pop("args", {})},
    }
    if needs:
        node["dependencies"] = needs
    return {**node, **more}


def transform(id: str, value: Any, needs: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    node = {"id": id, "type": "transform", "config": {"value": value}, **more}
    return {**node, "dependencies": needs} if needs else node


def workflow(*nodes: dict[str, Any], name: str = "tested", **more: Any) -> dict[str, Any]:
    return {"name": name, "nodes": list(nodes), **more}


@asynccontextmanager
async def running(
    path: Path, *, wrap: Callable[[Journal], Journal] | None = None, **options: Any
) -> AsyncIterator[Engine]:
    engine = await opened(path, wrap=wrap, **options)
    try:
        await engine.hold()
        yield engine
    finally:
        await asyncio.wait_for(engine.close(0.5), DEADLINE)


async def open_engine(database_url: str, **options: Any) -> Engine:
    """Options that are settings, and others that `Engine.open` takes."""
    settings = {name: options.pop(name) for name in list(options) if name in NAMES}
    return await Engine.open(Settings(database_url=database_url, **settings), **options)


async def opened(path: Path, *, wrap: Callable[[Journal], Journal] | None = None, **options: Any) -> Engine:
    engine = await open_engine(f"sqlite:///{path / 'perdure.db'}", **options)
    if wrap is not None:
        use_journal(engine, wrap(engine.journal))
    return engine


def use_journal(engine: Engine, journal: Journal) -> None:
    """Put another journal under the engine. Before `hold`."""
    engine.journal = journal
    for one in (engine.library, engine.workflows, engine.runs, engine.feed):
        one._journal = journal


async def crash(engine: Engine) -> None:
    """As if the process had been killed: nothing is settled, nothing handed back, the claims stay."""
    if engine.worker is not None:
        engine.worker._claims = None
        engine.worker._execution._claims = None
    for one in engine.parts.tasks:
        one.cancel()
    await asyncio.gather(*engine.parts.tasks, return_exceptions=True)
    if engine.transport is not None:
        await engine.transport.close()
    if engine._claims is not None:
        engine._claims._map.close()  # the file stays
        engine._claims.unlock()
    if engine._handled is not None:
        engine._handled._map.close()
        engine._handled.unlock()
    if engine._lifelines is not None:
        engine._lifelines.let_go()  # the files stay, unlocked
    if engine._logs is not None:
        engine._logs = None
        capture.end()
    if engine.lock is not None:
        engine.lock.release()
    await engine.blobs.close()
    await engine.journal.close()


def compiled(definition: dict[str, Any]) -> Any:
    result = compile_definition(definition)
    assert result.ir is not None, [problem.message for problem in result.problems]
    return result


async def start(
    engine: Engine, definition: dict[str, Any] | IR, run_id: str = "r1", inputs: Any = None, **more: Any
) -> Reply:
    ir = definition if isinstance(definition, IR) else (await engine.workflows.register(compiled(definition)))[0]
    request = Request(kind="start", run_id=run_id, ir=ir.hash, inputs=inputs, **more)
    return await asyncio.wait_for(engine.runs.request(request), DEADLINE)


async def ask(engine: Engine, kind: Any, run_id: str = "r1", **more: Any) -> Reply:
    return await asyncio.wait_for(engine.runs.request(Request(kind=kind, run_id=run_id, **more)), DEADLINE)


async def events(journal: Journal, run_id: str = "r1") -> list[e.Event]:
    return [e.decode(one.body) for one in await journal.read_events(run_id, 0, 10**6)]


async def until(
    engine: Engine, wanted: Callable[[State], bool], run_id: str = "r1", seconds: float = DEADLINE
) -> State:
    """The durable state, as soon as it is as wanted."""

    async def look() -> State:
        await until_true(lambda: engine.journal.find_run(run_id), f"{run_id} has begun", seconds)
        while True:
            async for _ in engine.runs.follow(run_id):
                state = await engine.runs.state(run_id)
                if wanted(state):
                    return state
            await asyncio.sleep(
                0.01
            )  # it has ended, and may go on: a parent's retry, a rollback, what was not delivered

    try:
        return await asyncio.wait_for(look(), seconds)
    except TimeoutError:
        state = await engine.runs.state(run_id)
        nodes = {name: state_of(state, name) for name in (node.id for node in state.ir.nodes)}
        raise AssertionError(f"{run_id} is {state.state.value} and stays so: {nodes}, {state.error}") from None


async def ended(engine: Engine, run_id: str = "r1", seconds: float = DEADLINE) -> State:
    """The run at its end, all invariants checked."""
    state = await until(engine, lambda state: state.terminal, run_id, seconds)
    await check(engine.journal, run_id)
    return state


async def finish(engine: Engine, definition: dict[str, Any], run_id: str = "r1", inputs: Any = None) -> State:
    reply = await start(engine, definition, run_id, inputs)
    assert not reply.refused, reply
    return await ended(engine, run_id)


async def check(journal: Journal, run_id: str = "r1") -> list[e.Event]:
    """No invariant is broken, and the run row is what the journal folds to (J5)."""
    library: dict[str, IR] = {}
    while True:  # audit facts may follow an end (J4), here between one reading and the next
        record = await journal.get_run(run_id)
        found = await events(journal, run_id)
        for event in found:
            if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in library:
                library[event.ir] = irs.decode(await _definition(journal, event.ir))
        state = await load(journal, _Library(library), record)  # type: ignore[arg-type]
        if (await journal.get_run(run_id)).seq == record.seq:
            break
    violations = invariants.check(found, library)
    assert not violations, f"{run_id}: {violations}"
    assert record.quarantined is None
    assert state.seq == record.seq == len(found)
    folded = State(run_id=run_id)
    folded.library.update(library)
    for event in found:
        evolve(folded, event)
    assert snapshot.encode(state) == snapshot.encode(folded), f"{run_id}: its snapshot is not what its events say"
    row = row_of(state, record.row.partition)
    assert row == record.row, f"{run_id}: the row {record.row} is not the fold {row}"
    return found


async def _definition(journal: Journal, name: str) -> bytes:
    """Large ones are blobs beside the database."""
    found = await journal.get_definition(name)
    if not found.kind.endswith(":blob"):
        return found.body
    while not hasattr(journal, "_options"):
        journal = journal._journal  # a double around the real one
    store = open_store(f"file:{journal._options.path}.blobs")
    try:
        return await store.get(DEFINITIONS, found.body.decode())
    finally:
        await store.close()


class _Library:
    def __init__(self, known: dict[str, IR]) -> None:
        self._irs = known

    async def get(self, name: str) -> IR:
        return self._irs[name]


def state_of(state: State, node: str, scope: tuple[int, ...] = (), item: int | None = None) -> str:
    found = state.find(node, scope, item)
    return "pending" if found is None else NodeState(found.state).value


def output_of(state: State, node: str, scope: tuple[int, ...] = ()) -> Any:
    found = state.find(node, scope)
    assert found is not None, node
    return found.output
