"""Work reports: which attempts are being executed now, as their workers report it.

Embedded, the worker of this process tells, or the claims of the process that holds the database; distributed, the
workers tell with their beats. Owns the way from these reports to what is shown (`perdure.kernel.readings.seen`). Writes nothing,
and nothing is decided by it. The last report of a dead worker is not shown: the lock of its claims is gone, or it has
been silent too long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from perdure.clock import Clock
from perdure.kernel.address import Address, parse_task_id
from perdure.kernel.lifecycle import N
from perdure.kernel.readings.run_view import read_progress
from perdure.kernel.readings.seen import JOURNAL, Seen, Working
from perdure.kernel.state import Key, State
from perdure.runtime.worker.claim_file import Claims, claim_name
from perdure.runtime.worker.worker import TOLD_SECONDS, Worker
from perdure.transport import TransportUnavailable, WorkerSeen

KEPT_SECONDS = 0.25
"""How long the reports of workers in other processes are kept before they are asked for again."""

Tasks = Mapping[str, Working]
"""What is being executed, by the id of the task or by what `claim_name` makes of it."""


class WorkReports:
    def __init__(
        self,
        clock: Clock,
        dead_seconds: float,
        claims: Path | None,
        worker: Callable[[], Worker | None],
        list_workers: Callable[[], Awaitable[list[WorkerSeen]]] | None,
    ) -> None:
        """`list_workers` is given by a distributed engine, `claims` by an embedded one that keeps such a file."""
        self._clock = clock
        self._dead_seconds = dead_seconds
        self._claims = claims
        self._worker = worker
        self._list_workers = list_workers
        self._kept: tuple[float, list[WorkerSeen], str] | None = None

    async def look(self) -> tuple[Tasks, str]:
        """All tasks that are being executed anywhere; and, where that cannot be known, why."""
        worker = self._worker()
        own: Tasks = {} if worker is None else worker.list_working()
        if self._list_workers is None:
            return (own, "") if worker is not None else self._look_at_claims()
        workers, blind = await self.ask_workers()
        return {**self._read(workers), **own}, blind

    def _look_at_claims(self) -> tuple[Tasks, str]:
        if self._claims is None:
            return {}, "only the process that holds the database knows"
        try:
            live = Claims.read_live(self._claims)
        except OSError as error:
            return {}, f"{self._claims} cannot be read ({error.strerror})"
        if live is None:
            return {}, ""
        owner, running = live
        return {one.name: Working(owner.worker, one.since, owner.host, owner.pid) for one in running}, ""

    async def ask_workers(self) -> tuple[list[WorkerSeen], str]:
        """The latest reports of a distributed engine's workers, a moment old at most; and, where they cannot be asked,
        why."""
        now = self._clock.monotonic()
        if self._kept is None or now - self._kept[0] >= KEPT_SECONDS:
            assert self._list_workers is not None
            try:
                self._kept = (now, await self._list_workers(), "")
            except TransportUnavailable as error:
                self._kept = (now, [], f"workers cannot be asked ({error.message})")
        return self._kept[1], self._kept[2]

    def is_alive(self, seen: WorkerSeen) -> bool:
        return seen.silent_seconds <= self._dead_seconds

    def _read(self, workers: Iterable[WorkerSeen]) -> Tasks:
        tasks: dict[str, Working] = {}
        for seen in filter(self.is_alive, workers):
            beat = seen.beat
            started: Iterable[tuple[str, float | None]] = (
                ((name, None) for name in beat.running) if beat.started is None else beat.started.items()
            )
            for name, since in started:
                progress = beat.progress.get(name, "")
                tasks[name] = Working(beat.worker, since, beat.host, beat.pid, seen.silent_seconds, progress)
        return tasks

    async def of(self, state: State) -> Seen:
        """The activations of this run that are being executed."""
        if state.terminal or not state.tally.get(N.QUEUED):
            return JOURNAL
        tasks, blind = await self.look()
        return Seen(overlay(state, tasks), blind)

    async def list_tasks(self, run_id: str) -> list[dict[str, Any]]:
        """The tasks of a run that workers have been executing for at least a moment. One whose outcome the journal has
        is over, though a worker may name it a moment longer."""
        latest = self._clock.now() - TOLD_SECONDS
        tasks, _ = await self.look()
        begins = f"{run_id}/"
        found = [
            task_view(address, working)
            for name, working in tasks.items()
            if name.startswith(begins)  # at first: each reader of a run goes through the tasks of all
            and (working.since is None or working.since <= latest)
            and (address := parse_task_id(name)) is not None
            and address.run_id == run_id
            and not address.undo
        ]
        return sorted(found, key=lambda one: (one["since"] or 0.0, one["node"], one["scope"], one["item"] or 0))

    async def find_starts(self, run_ids: Iterable[str]) -> dict[str, float]:
        """Since when each of these runs has had a task executed; runs without such a task are left out."""
        wanted = set(run_ids)
        starts: dict[str, float] = {}
        for name, working in (await self.look())[0].items() if wanted else ():
            address = parse_task_id(name)
            if address is not None and address.run_id in wanted and working.since is not None:
                starts[address.run_id] = min(working.since, starts.get(address.run_id, working.since))
        return starts


def overlay(state: State, tasks: Tasks) -> dict[Key, Working]:
    """The activations whose current attempt is among these tasks, without those that the journal says have ended."""
    begins = f"{state.run_id}/"
    if not any(name.startswith(begins) for name in tasks):
        return {}
    found: dict[Key, Working] = {}
    for key, activation in state.activations.items():
        if activation.state is N.QUEUED:
            name = state.address(activation).task_id
            working = tasks.get(name) or tasks.get(claim_name(name))
            if working is not None:
                found[key] = working
    return found


def list_seen(state: State, seen: Seen) -> list[dict[str, Any]]:
    """What is being executed of a run, as a list; `attempt` counts as in its events."""
    return [task_view(state.address(state.activations[key]), working) for key, working in seen.working.items()]


def task_view(address: Address, working: Working) -> dict[str, Any]:
    return {
        "node": address.node,
        "scope": list(address.scope),
        "item": address.item,
        "attempt": address.attempt,
        "worker": working.worker,
        "host": working.host,
        "pid": working.pid,
        "since": working.since,
        "progress": read_progress(working.progress),
    }
