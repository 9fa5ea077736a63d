"""The other work in a database when `perdure run` becomes the process that runs it, and the lines that say so."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perdure.kernel.address import run_of_task
from perdure.kernel.state import NodeState, RunState
from perdure.runtime.coordinator.leftovers import list_active
from perdure.runtime.patience import insist
from perdure.runtime.worker.claim_file import claim_name, root_of

if TYPE_CHECKING:
    from perdure.cli.source import Source
    from perdure.engine import Engine

_NAMED = 3


class Crash(msgspec.Struct, frozen=True):
    """An attempt that was under way when its process died."""

    run_id: str
    node: str
    times: int
    most: int


class Others(msgspec.Struct, frozen=True):
    going: tuple[str, ...] = ()
    """Other runs that have work to do."""
    timed: tuple[str, ...] = ()
    """Other runs that have work to do once a time has come: the end of a wait, the next attempt. Not more of them are
    looked for than are named."""
    crashes: tuple[Crash, ...] = ()


async def look_around(engine: Engine, run_id: str) -> Others:
    """The other runs and crashes in the database, looked for before this process works and may end them."""
    if engine.distributed:
        return Others()
    left = engine.read_left_claims()
    busy = {root_of(record.run_id) async for record in list_active(engine.journal, engine.clock, busy=True)}
    known = {root_of(name) for name in left} | {run_id}
    return Others(
        tuple(sorted(busy - known)),
        await _find_timed(engine, busy | known),
        tuple([one for name in left for one in await _find(engine, name)]),
    )


async def _find_timed(engine: Engine, known: set[str]) -> tuple[str, ...]:
    """Some runs that a timer wakes, the next first; one more than are named, where there are more."""
    timers = await insist(engine.clock, partial(engine.journal.list_due_timers, math.inf))
    found: list[str] = []
    for name in dict.fromkeys(root_of(timer.run_id) for timer in timers):
        record = None if name in known else await engine.journal.find_run(name)
        if record is not None and record.row.state == RunState.RUNNING:  # a timer wakes no run that is paused
            found.append(name)
        if len(found) > _NAMED:
            break
    return tuple(found)


async def _find(engine: Engine, claim: str) -> list[Crash]:
    """The attempt that a claim is about; none where its run has ended, or the claim's name was cut."""
    record = await engine.journal.find_run(run_of_task(claim))
    if record is None or record.row.ended_at is not None or record.quarantined is not None:
        return []
    state = await engine.runs.state_of(record)
    for activation in state.activations.values():
        going = activation.state in (NodeState.QUEUED, NodeState.RUNNING)
        if going and claim_name(state.address(activation).task_id) == claim:
            node = state.pinned(activation)
            return [Crash(state.run_id, state.name(activation.node), activation.crashes + 1, node.max_crashes)]
    return []


def tell(others: Others, run_id: str, *, only: bool) -> list[str]:
    """The lines about other work for a person, once this process works."""
    lines = []
    if others.going:
        many = len(others.going) > 1
        count = f"{len(others.going):,} other run{'s' if many else ''} here: {_some(others.going)}"
        if only:
            lines.append(f"Leaving alone {count}.")
        else:
            lines.append(f"Also going on with {count} (--only leaves {'them' if many else 'it'} alone).")
    if others.timed:
        names = ", ".join(others.timed[:_NAMED]) + (" and more" if len(others.timed) > _NAMED else "")
        if only:
            lines.append(f"Leaving alone what waits for a time here: {names}.")
        else:
            lines.append(
                f"Also going on here, when the time that it waits for comes: {names} (--only leaves it alone)."
            )
    for crash in others.crashes:
        own = root_of(crash.run_id) == run_id
        if own and crash.times == 1:
            continue  # one kill is no pattern, and the line of its node says that its worker died
        times = "" if crash.times == 1 else f", {crash.times} times now"
        lines.append(f"Run {crash.run_id} was being executed (node {crash.node}) when its process died{times}.")
        if own:
            lines.append(
                f"  After {crash.most} times it is parked. Does {crash.node} kill it? `isolation: process` contains that."
            )
        else:
            lines.append("  It is left alone here; `perdure dev`, or `perdure run FILE --run-id …`, goes on with it.")
            lines.append(f"  If {crash.node} kills its process, give it `isolation: process`.")
    return lines


def tell_newer(source: Source, db: str | None) -> list[str]:
    """Lines about files of this workflow that changed after the process that runs the database took it."""
    from perdure.cli.database import load_settings
    from perdure.deployment import database_file

    file = database_file(load_settings(db).database_url)
    try:
        since = file.with_name(f"{file.name}.lock").stat().st_mtime
    except OSError:
        return []
    newer = sorted(path.name for path in _files(source) if path.stat().st_mtime > since)
    if not newer:
        return []
    return [
        f"  {_some(tuple(newer))} changed after that process began. `perdure dev` loads changed code anew; another process",
        "  has the code from before: stop it to run what you see.",
    ]


def _files(source: Source) -> set[Path]:
    """The files with the functions of a definition, as far as they are in its folder or in the working directory."""
    folder = Path(source.name.partition(".py:")[0]).parent if source.name != "<stdin>" else Path()
    own = Path(source.name.rpartition(":")[0] if ".py:" in source.name else source.name)
    found = {own} if own.suffix == ".py" else set()
    for node in source.compiled.ir.nodes:
        config = node.config if node is not None and isinstance(node.config, dict) else {}
        name = str(config.get("function", "")).partition(":")[0]
        if name:
            found |= {root / f"{name.replace('.', '/')}.py" for root in (folder, Path())}
    return {path for path in found if path.is_file()}


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
