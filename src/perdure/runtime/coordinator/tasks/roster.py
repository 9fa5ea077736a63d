"""The roster: which workers there are, and which waiting tasks none of them can take.

A task that no living worker can take is recalled and its node held, so that `explain` can say why it does not run; as
soon as a worker that can take it appears, the node is released. The roster also sizes the window of each queue by its
workers' slots. Owns what is known of workers. The reclaimer decides whether a worker is dead, the kernel what holding
means.

What a worker says of its slots is believed without proof up to `UNPROVEN_SLOTS` for a queue, and beyond that up to twice
as many as tasks of the queue were seen with workers: tenants take turns when tasks are published, so a window that no
worker empties would end the turns.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from perdure.clock import Clock
from perdure.kernel import commands as c
from perdure.kernel.decider import sorted_by_schedule
from perdure.kernel.events import NodeHeld, RunResumed
from perdure.kernel.lifecycle import NodeState
from perdure.kernel.state import State
from perdure.runtime.coordinator.coordinator import Coordinator
from perdure.runtime.coordinator.inbox import Need
from perdure.runtime.coordinator.messages import Asked
from perdure.runtime.coordinator.triggers.poll_tasks import TYPE, custom_source, is_poll_at, queue_of
from perdure.transport import Task, Transport, TransportClosed, TransportUnavailable, WorkerSeen, can_claim

logger = logging.getLogger("perdure.roster")

LEAST_WINDOW = 64
"""How many tasks of a queue are published at least, even if no worker seems to listen: one that comes finds work at
once."""

UNPROVEN_SLOTS = 128
"""How many slots of a queue are believed before workers have been seen to have so many tasks."""


class Roster:
    def __init__(
        self,
        transport: Transport,
        coordinator: Coordinator,
        clock: Clock,
        *,
        dead_seconds: float,
        look_seconds: float = 2.0,
    ) -> None:
        self._transport = transport
        self._coordinator = coordinator
        self._clock = clock
        self._dead_seconds = dead_seconds
        self._look_seconds = look_seconds
        self._out: dict[str, Need] = {}
        """The needs of the tasks that were published and are not done."""
        self._held: dict[Need, dict[str, set[str]]] = {}
        """Nodes held for want of a worker, by need and run."""
        self._untaken: dict[Need, float] = {}
        """By need, since when no worker can take tasks that have it."""
        self.workers: list[WorkerSeen] = []
        """The workers that were alive at the last look."""
        self._lacking: dict[str, set[str]] = {}
        """By function, the workers that found they cannot import it."""
        self._proven: dict[str, int] = {}
        """By queue whose workers say that they have many slots, the most tasks that were seen with them at once."""
        coordinator.handling.has_others = self.has_others
        coordinator.transport.published = self._published
        coordinator.handling.taken = self._note_held

    def _published(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if not task.undo:
                self._out[task.task_id] = Need(task.queue, task.type, task.function)

    def note(self, state: State, events: list[Any]) -> None:
        """Take note of nodes that are held, after events that became durable: those that hold one, and the end of a pause,
        during which a release does nothing."""
        if any(isinstance(event, NodeHeld | RunResumed) for event in events):
            self._note_held(state)

    def count_held(self) -> dict[str, int]:
        """How many nodes are held for want of a worker, by queue."""
        counts: dict[str, int] = {}
        for need, runs in self._held.items():
            counts[need.queue] = counts.get(need.queue, 0) + sum(map(len, runs.values()))
        return counts

    def _note_held(self, state: State) -> None:
        for activation in sorted_by_schedule(state, NodeState.HELD):
            if activation.reason == "no_worker":
                node = state.pinned(activation)
                address = state.address(activation)
                function = self._coordinator.renderer.function_of(node.type, node.config)
                if is_poll_at(state, address):
                    function = custom_source(state.triggers[node.id])
                need = Need(queue_of(state, address, node.queue), node.type, function)
                self._held.setdefault(need, {}).setdefault(state.run_id, set()).add(node.id)

    def has_others(self, need: Need, worker: str) -> bool:
        """Note that this worker cannot import the function, and return whether another worker may: then only those are
        given its tasks."""
        lacking = self._lacking.setdefault(need.function, set())
        lacking.add(worker)
        if worker not in {seen.beat.worker for seen in self.workers}:
            return True  # the worker came after the last look, as others may have: nothing may fail for good yet
        others = [seen for seen in self.workers if seen.beat.worker not in lacking and _can(seen, need)]
        if others:
            self._coordinator.renderer.scarce.add(need.function)
        else:
            # All workers lack it. If it is installed and the run retried, every worker looks for it again.
            self._forget(need.function)
        return bool(others)

    def _forget(self, function: str) -> None:
        self._coordinator.renderer.scarce.discard(function)
        self._lacking.pop(function, None)

    # looking

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except TransportClosed:
                raise
            except TransportUnavailable as error:
                logger.warning("the list of workers cannot be read: %s; trying again", error)
                self._untaken.clear()  # how long no worker was there is unknown
            await self._clock.sleep(self._look_seconds)

    async def look(self) -> None:
        workers = [seen for seen in await self._transport.list_workers() if seen.silent_seconds <= self._dead_seconds]
        self.workers = workers
        living = {seen.beat.worker for seen in workers}
        for function in [name for name, lacking in self._lacking.items() if not lacking & living]:
            self._forget(function)
        await self._size_windows(workers)
        self._release(workers)
        await self._hold_back(workers)

    async def _size_windows(self, workers: list[WorkerSeen]) -> None:
        slots: dict[str, int] = {}
        for seen in workers:
            for queue in seen.beat.queues:
                slots[queue] = slots.get(queue, 0) + seen.beat.slots
        await self._prove({queue for queue, count in slots.items() if count > UNPROVEN_SLOTS})
        for queue, count in slots.items():
            believed = min(count, max(UNPROVEN_SLOTS, 2 * self._proven.get(queue, 0)))
            self._coordinator.publisher.dispatcher.set_window(queue, max(2 * believed, LEAST_WINDOW), believed)

    async def _prove(self, queues: set[str]) -> None:
        """See how many tasks of these queues are with workers. What was seen once counts as long as they say so."""
        claimed = {one.queue: one.claimed for one in await self._transport.list_queues()} if queues else {}
        self._proven = {queue: max(self._proven.get(queue, 0), claimed.get(queue, 0)) for queue in queues}

    def _release(self, workers: list[WorkerSeen]) -> None:
        for need in [need for need in self._held if _is_served(need, workers)]:
            for run_id, nodes in self._held.pop(need).items():
                if self._coordinator.share.holds(run_id):
                    release = c.Release(at=self._clock.now(), nodes=tuple(sorted(nodes)))
                    self._coordinator.put(Asked(run_id, lambda state, release=release: release))  # type: ignore[misc]

    async def _hold_back(self, workers: list[WorkerSeen]) -> None:
        """Recall the tasks that no worker could take for as long as a worker may be silent, and hold their nodes."""
        now = self._clock.monotonic()
        self._out = {
            name: need
            for name, need in self._out.items()
            if self._coordinator.publisher.dispatcher.find(name) is not None
        }
        wanted = set(self._out.values())
        self._untaken = {need: self._untaken.get(need, now) for need in wanted if not _is_served(need, workers)}
        overdue = {need for need, since in self._untaken.items() if now - since >= self._dead_seconds}
        names = [name for name, need in self._out.items() if need in overdue]
        if not names:
            return
        found = await self._transport.recall(names)
        for name in names:
            if found[name] == "claimed":
                continue
            entry = self._coordinator.publisher.dispatcher.find(name)
            self._coordinator.publisher.done(name)
            if entry is not None:
                why = _describe(self._out[name], workers)
                hold_back = c.HoldBack(at=self._clock.now(), address=entry.address, detail=why)
                self._coordinator.put(Asked(entry.address.run_id, lambda state, hold_back=hold_back: hold_back))  # type: ignore[misc]


def _can(seen: WorkerSeen, need: Need) -> bool:
    return can_claim(seen.beat, need.queue, need.type, need.function)


def _is_served(need: Need, workers: list[WorkerSeen]) -> bool:
    return any(_can(seen, need) for seen in workers)


def _describe(need: Need, workers: list[WorkerSeen]) -> str:
    """Which workers lacked what, as shown to people."""
    there = [seen.beat for seen in workers if need.queue in seen.beat.queues]
    if not there:
        return f"nobody worked on queue {need.queue!r}"
    lacked = f"the node type {need.type!r}"
    if need.function and any(need.type in beat.types for beat in there):
        there = [beat for beat in there if need.type in beat.types]
        lacked = f"the {'source' if need.type == TYPE else 'function'} {need.function!r}"
    names = ", ".join(
        f"{beat.worker} (process {beat.pid} on {beat.host})" if beat.host else beat.worker for beat in there[:3]
    )
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    return f"{names}{more} on queue {need.queue!r} lacked {lacked}"
