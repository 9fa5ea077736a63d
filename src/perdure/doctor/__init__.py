"""The doctor: checks a database by folding every journal and comparing the result with the rows derived from it.

It reads through the port and changes nothing, so it may run beside the process that holds the database: a run that
moves while it is examined is examined again. Findings cite the ids of the invariants.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.clock import Clock, system
from perdure.journal import (
    ApprovalRow,
    DeadLetterRow,
    Journal,
    Page,
    RunRecord,
    RunRow,
    Snapshot,
    StoredEvent,
    TriggerRow,
    partition_of,
)
from perdure.kernel import events as e
from perdure.kernel import snapshot as snapshots
from perdure.kernel.evolve import evolve
from perdure.kernel.state import State
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.projections import approval_row, is_parked, letter_id, row_of
from perdure.runtime.coordinator.triggers.item_letters import find_item_letters
from perdure.runtime.coordinator.triggers.subscriptions import subscriptions_of
from perdure.runtime.coordinator.triggers.trigger_rows import trigger_row

_READ = 2000
_AT_ONCE = 25
"""How many runs are examined side by side: what they read at the same time is read together."""
_TRIES = 5
_EVER = 1e15
_SKEW_SECONDS = 60.0
"""How far the clocks of two machines may be apart without a finding."""
_MOST_TIMERS = 10_000_000
_AFTER_THE_END = {"result.ignored", "run.undelivered", "run.retried", "run.compensating"}
"""Events that may follow a terminal one: audit facts, and what begins a new generation or a rollback (J4)."""


class Finding(msgspec.Struct, frozen=True):
    run_id: str
    invariant: str
    message: str


class Report(msgspec.Struct):
    runs: int = 0
    events: int = 0
    findings: list[Finding] = []
    quarantined: dict[str, str] = {}
    moving: list[str] = []
    """Runs that changed every time they were examined, and about which nothing is known."""

    @property
    def sound(self) -> bool:
        return not self.findings and not self.quarantined

    def add(self, other: Report) -> None:
        self.runs += other.runs
        self.events += other.events
        self.findings += other.findings
        self.quarantined |= other.quarantined
        self.moving += other.moving


class Derived(msgspec.Struct):
    """What the database stores about one run besides its journal."""

    record: RunRecord
    snapshot: Snapshot | None
    approvals: list[ApprovalRow]
    dead_letters: list[DeadLetterRow]


async def examine(
    journal: Journal,
    library: Library,
    progress: Callable[[Report], None] = lambda report: None,
    clock: Clock = system,
) -> Report:
    report = Report()
    doctor = Doctor(journal, library)
    await doctor.look_around()
    cursor = None
    while True:
        page = await journal.list_runs(limit=500, cursor=cursor)
        for start in range(0, len(page.items), _AT_ONCE):
            some = page.items[start : start + _AT_ONCE]
            for one in await asyncio.gather(*map(doctor.examine_run, some)):
                report.add(one)
            progress(report)
        cursor = page.next_cursor
        if cursor is None:
            break
    report.findings += await doctor.look_at_triggers(clock.now())
    return report


class Doctor:
    def __init__(self, journal: Journal, library: Library) -> None:
        self._journal = journal
        self._library = library
        self._timers: dict[str, dict[str, float]] | None = None
        self._asking: set[str] | None = None
        """Runs that have rows of approvals or dead letters, if that is known: most have none to read."""
        self._invariants = _find_invariants()

    async def look_around(self) -> None:
        """Find out which runs have rows that most have not."""
        asking: set[str] = set()
        for list_rows in (self._journal.list_approvals, self._journal.list_dead_letters):
            cursor = None
            while True:
                page: Page[Any] = await list_rows(limit=_READ, cursor=cursor)
                asking.update(row.run_id for row in page.items)
                if (cursor := page.next_cursor) is None:
                    break
        self._asking = asking
        await self._timers_of("", fresh=True)

    async def examine_run(self, record: RunRecord) -> Report:
        run_id = record.run_id
        for _ in range(_TRIES):
            derived = await self._derived(record)
            stored = await self._stored(run_id)
            findings = await self._compare(derived, stored)
            now = await self._journal.find_run(run_id)
            if now is None:  # pruned meanwhile
                return Report(runs=1)
            if (now.seq, now.commit_id) == (record.seq, record.commit_id):
                if findings and self._asking is not None and run_id not in self._asking:  # perhaps it has rows since
                    self._asking.add(run_id)
                    continue
                found = Report(runs=1, events=len(stored), findings=findings)
                if record.quarantined is not None and not await self._is_imported(run_id):  # imported runs should be
                    found.quarantined[run_id] = record.quarantined
                return found
            record = now
        return Report(runs=1, moving=[run_id])

    async def look_at_triggers(self, now: float) -> list[Finding]:
        """Rows of triggers whose runs are gone, and schedules that are ahead of the clock. One that was deleted leaves its row, and
        its run is pruned."""
        findings: list[Finding] = []
        cursor = None
        while True:
            page = await self._journal.list_triggers(limit=_READ, cursor=cursor)
            found = await self._journal.find_seqs([row.head for row in page.items])
            lost = (row for row in page.items if row.head not in found)
            findings += [
                Finding(row.head, "TG11", f"trigger {row.name} has a row, and its run is gone") for row in lost
            ]
            findings += [Finding(row.head, "TG7", said) for row in page.items if (said := _ahead(row, now))]
            if (cursor := page.next_cursor) is None:
                return findings

    async def _is_imported(self, run_id: str) -> bool:
        """Whether the run's first event says that it was imported. An event that cannot be read says nothing."""
        first = await self._journal.read_events(run_id, 0, 1)
        try:
            event = e.decode(first[0].body)
        except (IndexError, e.UnknownEvent, msgspec.MsgspecError):
            return False
        return isinstance(event, e.RunCreated) and bool(event.imported)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _derived(self, record: RunRecord) -> Derived:
        journal, run_id = self._journal, record.run_id
        approvals: list[ApprovalRow] = []
        if self._asking is not None and run_id not in self._asking:
            return Derived(record, await journal.find_snapshot(run_id), [], [])
        cursor = None
        while True:
            page = await journal.list_approvals(run_id=run_id, limit=1000, cursor=cursor)
            approvals += page.items
            if (cursor := page.next_cursor) is None:
                break
        letters: list[DeadLetterRow] = []
        while True:
            rows = await journal.list_dead_letters(run_id=run_id, limit=1000, cursor=cursor)
            letters += rows.items
            if (cursor := rows.next_cursor) is None:
                break
        return Derived(record, await journal.find_snapshot(run_id), approvals, letters)

    async def _stored(self, run_id: str) -> list[StoredEvent]:
        stored: list[StoredEvent] = []
        while page := await self._journal.read_events(run_id, stored[-1].seq if stored else 0, _READ):
            stored += page
        return stored

    async def _timers_of(self, run_id: str, *, fresh: bool) -> dict[str, float]:
        if self._timers is None or fresh:
            self._timers = {}
            for timer in await self._journal.list_due_timers(_EVER, _MOST_TIMERS):
                self._timers.setdefault(timer.run_id, {})[timer.timer_id] = timer.due_at
        return self._timers.get(run_id, {})

    # -- comparing -----------------------------------------------------------------------------------------------------

    async def _compare(self, derived: Derived, stored: list[StoredEvent]) -> list[Finding]:
        record = derived.record
        run_id = record.run_id
        findings = [Finding(run_id, "J2", text) for text in _gaps(stored, record.seq)]
        state = State(run_id=run_id)
        events: list[Any] = []
        try:
            for one in stored:
                event = e.decode(one.body)
                findings += [Finding(run_id, "J5", text) for text in _columns(one, event)]
                findings += [Finding(run_id, "J4", text) for text in _order(state, event)]
                if isinstance(event, e.RunCreated | e.RunPatched) and event.ir not in state.library:
                    state.library[event.ir] = await self._library.get(event.ir)
                evolve(state, event)
                events.append(event)
                kept = derived.snapshot
                if kept is not None and kept.seq == event.seq:
                    findings += [Finding(run_id, "J5", text) for text in _snapshot(state, kept)]
        except Exception as error:  # noqa: BLE001  whatever a damaged journal does to the fold is a finding
            seq = len(events) + 1

            findings.append(Finding(run_id, "J6", f"event {seq} cannot be folded: {type(error).__name__}: {error}"))
            return findings
        if derived.snapshot is not None and derived.snapshot.seq > state.seq:
            findings.append(
                Finding(run_id, "J5", f"its snapshot is of event {derived.snapshot.seq}, beyond the journal")
            )
        if state.irs and not state.imported:  # an imported run is not worked on, and nothing is derived
            count = self._journal.partition_count
            expected = row_of(state, partition_of(run_id, count))
            findings += [Finding(run_id, "J5", text) for text in _row(expected, record.row)]
            findings += [Finding(run_id, "J5", text) for text in _approvals(state, derived.approvals)]
            findings += [Finding(run_id, "J5", text) for text in _dead_letters(state, derived.dead_letters)]
            findings += [Finding(run_id, "TG11", text) for text in await self._compare_trigger(state)]
            findings += [Finding(run_id, "J5", text) for text in await self._compare_subscriptions(state)]
            if record.quarantined is None:
                findings += [Finding(run_id, "J5", text) for text in await self._compare_timers(state)]
        findings += [Finding(run_id, "V7", text) for text in await self._find_gone(events, record.row.tenant)]
        if self._invariants is not None:
            for violation in self._invariants(events, state.library):
                findings.append(Finding(run_id, violation.id, f"event {violation.seq}: {violation.message}"))
        return findings

    async def _find_gone(self, events: list[Any], tenant: str) -> list[str]:
        """The blobs that events name and that do not exist. Their content is not checked: a damaged blob shows when it
        is read."""
        texts: list[str] = []
        known: set[str] = set()
        for event in events:
            for ref in sorted(e.refs_of(event) - known):
                known.add(ref)
                if not await self._library.has_blob(tenant, ref):
                    texts.append(f"event {event.seq} names {ref}, which is not in the blob store")
        return texts

    async def _compare_trigger(self, state: State) -> list[str]:
        expected = trigger_row(state) if state.triggers else None
        if expected is None:
            return []
        found = await self._journal.find_trigger(expected.tenant, expected.name)
        if found is None:
            return [f"trigger {expected.name} has no row"]
        if found.life > expected.life:  # a later trigger has its name
            return []
        return [
            f"trigger {expected.name}: its row says {name} {_short(said)}, its journal {_short(folded)}"
            for name in expected.__struct_fields__
            if (folded := getattr(expected, name)) != (said := getattr(found, name))
        ]

    async def _compare_subscriptions(self, state: State) -> list[str]:
        expected = subscriptions_of(state)
        if not expected and not state.triggers:
            return []
        found = {one.place: one for one in await self._journal.read_subscriptions(state.run_id)}
        if state.continued_as is not None:  # they are left until the next run begins
            return []
        places = sorted(expected.keys() | found.keys())
        return [
            f"subscription {place}: its row says {found.get(place)}, its journal {expected.get(place)}"
            for place in places
            if found.get(place) != expected.get(place)
        ]

    async def _compare_timers(self, state: State) -> list[str]:
        expected = {name: timer.due_at for name, timer in state.timers.items()}
        if await self._timers_of(state.run_id, fresh=False) == expected:
            return []
        found = await self._timers_of(state.run_id, fresh=True)
        texts = [f"timer {name} has no row" for name in sorted(expected.keys() - found.keys())]
        texts += [f"timer {name} has a row but is not set" for name in sorted(found.keys() - expected.keys())]
        for name in sorted(found.keys() & expected.keys()):
            if found[name] != expected[name]:
                texts.append(f"timer {name} is due at {expected[name]:.3f}, its row says {found[name]:.3f}")
        return texts


def _find_invariants() -> Callable[[list[Any], dict[str, Any]], list[Any]] | None:
    try:
        module = importlib.import_module("perdure.invariants")
    except ImportError:
        return None
    return getattr(module, "check", None)


def _gaps(stored: list[StoredEvent], seq: int) -> Iterator[str]:
    for expected, one in enumerate(stored, 1):
        if one.seq != expected:
            yield f"event {one.seq} stands where {expected} belongs"
            return
    if len(stored) != seq:
        yield f"its row is at event {seq}, its journal ends with {len(stored)}"


def _columns(one: StoredEvent, event: e.Event) -> Iterator[str]:
    for name in ("seq", "type", "at"):
        if getattr(one, name) != getattr(event, name):
            yield f"event {one.seq} has {name} {getattr(one, name)!r} beside it and {getattr(event, name)!r} inside"


def _order(state: State, event: e.Event) -> Iterator[str]:
    created = isinstance(event, e.RunCreated)
    if created != (event.seq == 1):
        yield f"event {event.seq} is {event.type}; the first is run.created, and only the first"
    if state.seq and state.terminal and event.type not in _AFTER_THE_END:
        yield f"event {event.seq} ({event.type}) follows the end of the run"


def _snapshot(state: State, kept: Snapshot) -> Iterator[str]:
    if kept.version == snapshots.SNAPSHOT_VERSION and snapshots.encode(state) != kept.body:
        yield f"its snapshot of event {kept.seq} differs from the fold of its journal"


def _row(expected: RunRow, found: RunRow) -> Iterator[str]:
    for name in RunRow.__struct_fields__:
        folded, said = getattr(expected, name), getattr(found, name)
        if folded != said:
            yield f"its row says {name} {_short(said)}, its journal {_short(folded)}"


def _approvals(state: State, rows: list[ApprovalRow]) -> Iterator[str]:
    found = {row.approval_id: row for row in rows}
    for name in sorted(state.approvals.keys() - found.keys()):
        yield f"approval {name} has no row"
    for name, row in sorted(found.items()):
        if name not in state.approvals:
            yield f"approval {name} has a row but was never requested"
            continue
        expected = approval_row(state, name)
        for field in ("node", "state", "requested_at", "expires_at"):
            folded, said = getattr(expected, field), getattr(row, field)
            if folded != said:
                yield f"approval {name}: its row says {field} {_short(said)}, the journal {_short(folded)}"
        if expected.decided_at is not None and row.decided_at is None:
            yield f"approval {name}: its row says that nobody decided it, the journal that it was decided"
        if not _says_the_same(row.body, expected.body):
            yield f"approval {name}: what its row holds differs from the journal"


def _says_the_same(found: bytes, expected: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(found) == msgspec.json.decode(expected))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _dead_letters(state: State, rows: list[DeadLetterRow]) -> Iterator[str]:
    parked = {letter_id(state, activation) for activation in state.activations.values() if is_parked(activation)}
    parked |= find_item_letters(state).keys()
    pending = {row.dead_letter_id for row in rows if row.state == "pending"}
    for name in sorted(parked - pending):
        yield f"dead letter {name} is parked but has no pending row"
    for name in sorted(pending - parked):
        yield f"dead letter {name} has a pending row but is not parked"


def _ahead(row: TriggerRow, now: float) -> str:
    """What is wrong with a schedule whose moments were decided on up to a time to come: the clock was set back, or was ahead then."""
    if row.kind != "schedule" or row.state != "active":
        return ""
    try:
        cursor = msgspec.json.decode(row.cursor, type=float)
    except msgspec.MsgspecError:  # it was cut, or is none
        return ""
    if cursor <= now + _SKEW_SECONDS:
        return ""
    until = datetime.datetime.fromtimestamp(cursor, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"schedule {row.name} has decided on all moments up to {until}, {cursor - now:,.0f} s ahead of this clock: it starts nothing "
        "until then. Set the clock right, or delete the trigger and apply it again"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
