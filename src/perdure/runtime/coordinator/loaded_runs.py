"""The runs that a coordinator has in memory: loaded when they are needed, kept while they have something to do.

Owns which runs are in memory and how long they stay. Must not know what is decided or sent for them.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.journal import Journal, JournalCorrupt
from perdure.kernel.lifecycle import IntegrityError
from perdure.kernel.state import State
from perdure.runtime.coordinator.library import Library
from perdure.runtime.coordinator.loaded import Loaded, find_kept, load_from
from perdure.runtime.coordinator.ownership.handled import Blame
from perdure.runtime.coordinator.quarantine import Quarantined
from perdure.runtime.coordinator.tasks.room import look, needs_a_look
from perdure.threads import aside

_SOON = 3
"""How many times `keep_idle` runs stay in memory that are about to be needed: many triggers that are due at once would else be loaded for
their moment, for the workflow that it starts, and for the end of the run."""


class Memory:
    def __init__(self, journal: Journal, library: Library, blame: Blame, keep_idle: int) -> None:
        """`keep_idle` is how many runs stay in memory that have nothing to do."""
        self._journal = journal
        self._library = library
        self._blame = blame
        self._keep_idle = keep_idle
        self.runs: dict[str, Loaded] = {}
        self._pins: dict[str, int] = {}
        """How many tasks the dispatcher has of each run that was dropped from memory because its commit was refused."""
        self._resting: dict[str, None] = {}
        """Runs in memory that have nothing to do, longest at rest first."""
        self._awaiting: dict[str, None] = {}
        """Runs that wait for something that is being fetched, and triggers that wait for the end of a run;
        longest at rest first."""
        self.tenants: set[str] = set()
        """The tenants whose runs have been in memory."""

    async def find(self, run_id: str) -> Loaded | None:
        """The run, loaded if need be. None: there is no such run."""
        found = self.runs.get(run_id)
        if found is None:
            try:
                record = await self._journal.find_run(run_id)
            except JournalCorrupt as error:
                await (
                    self._journal.incarnation()
                )  # raises where nothing can be read; otherwise the damage is this run's alone
                raise IntegrityError(f"run {run_id}: its row cannot be read: {error}") from error
            if record is None:
                return None
            if record.quarantined is not None:
                raise Quarantined(f"run {run_id} is quarantined: {record.quarantined}")
            kept = await find_kept(self._journal, record)
            with self._blame.on(run_id, record.seq):
                state = await load_from(self._journal, self._library.get_now, record, kept)
            if state.imported:  # even if its row does not say so
                raise Quarantined(f"run {run_id} was imported from {state.imported}: to look at, not to run")
            room = await aside(state.tenant, look, state) if needs_a_look(state) else None
            found = Loaded(
                state,
                self._journal.partition_count,
                *((0, 0) if kept is None else (kept.seq, len(kept.body))),
                room=room,
            )
            self.runs[run_id] = found
            found.pins = self._pins.pop(run_id, 0)
        return found

    def make(self, run_id: str) -> Loaded:
        """An empty run that is about to be created. It is not looked up first: if it exists, the append says so."""
        made = self.runs[run_id] = Loaded(State(run_id=run_id), self._journal.partition_count)
        return made

    def drop(self, run_id: str) -> None:
        """Forget a run whose state in memory differs from what is durable; its tasks stay with the dispatcher."""
        dropped = self.runs.pop(run_id, None)
        self._wake(run_id)
        if dropped is not None and dropped.pins:
            self._pins[run_id] = dropped.pins

    def lose(self, run_id: str) -> None:
        """Forget a run for good, with the count of its tasks in the dispatcher."""
        self.drop(run_id)
        self._pins.pop(run_id, None)

    def keep_only(self, holds: Callable[[str], bool]) -> None:
        """Forget the runs that this process no longer holds: other processes decide for them."""
        for run_id in [run_id for run_id in (*self.runs, *self._pins) if not holds(run_id)]:
            self.lose(run_id)

    def unpin(self, run_id: str) -> None:
        """Count down after a task of this run has left the dispatcher."""
        if (loaded := self.runs.get(run_id)) is not None:
            loaded.pins -= 1
        elif (pins := self._pins.pop(run_id, 0)) > 1:
            self._pins[run_id] = pins - 1

    def rest(self, loaded: Loaded) -> None:
        """Let a run leave memory if it has nothing to do: one that ended, or waits for a person or a time, is safe in
        the journal."""
        state, run_id = loaded.state, loaded.state.run_id
        self.tenants.add(state.tenant)
        self._wake(run_id)
        if loaded.busy:
            return
        if state.terminal:
            self.runs.pop(run_id, None)
        elif loaded.awaits or (state.triggers and any(box.open for box in state.triggers.values())):
            self._keep(self._awaiting, run_id, _SOON * self._keep_idle)
        else:
            self._keep(self._resting, run_id, self._keep_idle)

    def _keep(self, resting: dict[str, None], run_id: str, most: int) -> None:
        resting[run_id] = None
        while len(resting) > most:
            oldest = next(iter(resting))
            del resting[oldest]
            idle = self.runs.get(oldest)
            if idle is not None and not idle.busy:
                del self.runs[oldest]

    def _wake(self, run_id: str) -> None:
        if self._resting:
            self._resting.pop(run_id, None)
        if self._awaiting:
            self._awaiting.pop(run_id, None)
