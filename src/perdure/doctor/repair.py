"""Repair: derives anew the rows that are derived from a journal. The journal itself is never touched.

For a run whose events fold and keep every invariant, rows, timers, approvals, dead letters and the snapshot are written
again in one commit without events, fenced like any other; a run that was quarantined and folds again is released.
Everything else is left as it is and named: only a person can know what a damaged journal meant.
"""

from __future__ import annotations

import msgspec

from perdure.clock import Clock
from perdure.doctor import Doctor, Report
from perdure.journal import Accepted, Commit, DeadLetterRow, Journal, RunRecord, Snapshot, partition_of
from perdure.kernel import snapshot as snapshots
from perdure.kernel.state import State
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import load_from
from perdure.runtime.coordinator.projections import (
    approval_row,
    dead_letter_row,
    is_parked,
    letter_id,
    resolve_letter,
    row_of,
)
from perdure.runtime.coordinator.triggers.item_letters import find_item_letters, resolve_item_letter
from perdure.runtime.coordinator.triggers.subscriptions import subscriptions_of
from perdure.runtime.coordinator.triggers.trigger_rows import trigger_row

_EVER = 1e15
_MOST_TIMERS = 10_000_000
_DERIVED = frozenset({"J5", "TG11"})


class Repaired(msgspec.Struct):
    runs: list[str] = []
    """Runs whose rows were derived anew."""
    released: list[str] = []
    """Runs that are no longer quarantined."""
    left: dict[str, str] = {}
    """Why a run was left as it is."""


async def repair(journal: Journal, library: Library, clock: Clock, report: Report) -> Repaired:
    """Mend what the doctor's report found."""
    done = Repaired()
    found: dict[str, set[str]] = {}
    for finding in report.findings:
        found.setdefault(finding.run_id, set()).add(finding.invariant)
    timers = await _timers(journal) if found else {}
    for run_id in sorted(found.keys() | report.quarantined.keys()):
        wrong = found.get(run_id, set()) - _DERIVED
        record = await journal.find_run(run_id)
        if record is None:
            continue
        if wrong:
            done.left[run_id] = f"its journal breaks {', '.join(sorted(wrong))}"
            continue
        if run_id in found:
            problem = await _derive(journal, library, clock, record, timers.get(run_id, set()))
            if problem:
                done.left[run_id] = problem
                continue
            done.runs.append(run_id)
        if run_id in report.quarantined:  # never an imported run: the doctor does not list those here
            await journal.unquarantine(run_id)
            done.released.append(run_id)
    again = Report(findings=[], quarantined={}, moving=[])
    doctor = Doctor(journal, library)
    for run_id in dict.fromkeys([*done.runs, *done.released]):
        if run_id not in done.left:
            again.add(await doctor.examine_run(await journal.get_run(run_id)))
    for run_id in {*again.quarantined, *(one.run_id for one in again.findings)}:
        done.left[run_id] = "what it was created with cannot be derived from its journal, or differs still"
    return done


async def _timers(journal: Journal) -> dict[str, set[str]]:
    """The stored timers by run: read once, because they cannot be listed for one run."""
    found: dict[str, set[str]] = {}
    for one in await journal.list_due_timers(_EVER, _MOST_TIMERS):
        found.setdefault(one.run_id, set()).add(one.timer_id)
    return found


async def _derive(journal: Journal, library: Library, clock: Clock, record: RunRecord, there: set[str]) -> str:
    """Write a run's derived rows again, and return the problem or an empty text. `there` are the timers stored for
    it."""
    run_id, now = record.run_id, clock.now()
    state = await load_from(journal, library.get, record, None)
    timers = {name: timer.due_at for name, timer in state.timers.items()}
    subscribed = subscriptions_of(state)
    others = {one.place for one in await journal.read_subscriptions(run_id)} - subscribed.keys()
    commit = Commit(
        run_id=run_id,
        expected_seq=state.seq,
        commit_id=clock.new_id(),
        row=row_of(state, partition_of(run_id, journal.partition_count)),
        timers_cleared=tuple(sorted(there - timers.keys())),
        timers_set=tuple(timers.items()),
        snapshot=Snapshot(state.seq, snapshots.SNAPSHOT_VERSION, snapshots.encode(state)),
        approvals=tuple(approval_row(state, name) for name in sorted(state.approvals)),
        dead_letters=await _letters(journal, state, now),
        subscriptions=tuple(subscribed.values()),
        subscriptions_cleared=() if state.continued_as is not None else tuple(sorted(others)),
        triggers=() if (trigger := trigger_row(state)) is None else (trigger,),
    )
    outcome = (await journal.append([commit]))[0]
    return "" if isinstance(outcome, Accepted) else "it changed meanwhile; try again"


async def _letters(journal: Journal, state: State, now: float) -> tuple[DeadLetterRow, ...]:
    parked = {letter_id(state, a): a for a in state.activations.values() if is_parked(a)}
    rows = [dead_letter_row(state, activation, "pending", now) for activation in parked.values()]
    pending = await journal.list_dead_letters(state="pending", run_id=state.run_id, limit=10_000)
    of_items = find_item_letters(state)
    over = [row for row in pending.items if row.dead_letter_id not in parked and row.dead_letter_id not in of_items]
    by_name = {letter_id(state, a): a for a in state.activations.values()}
    resolved = [
        resolve_item_letter(row, state, now)
        if "trigger" in msgspec.json.decode(row.body)
        else resolve_letter(row, by_name.get(row.dead_letter_id), now)
        for row in over
    ]
    return (*rows, *of_items.values(), *resolved)
