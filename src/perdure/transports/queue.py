"""One queue of the in-process transport: highest priority first, first in first out within a priority.

It knows the order of tasks and the claimers that wait; it does not know what a worker is or what becomes of a task.
"""

from __future__ import annotations

from asyncio import Future
from bisect import insort
from collections import deque
from collections.abc import Callable

from perdure.transport import Task


class KeptTask:
    """A task that the transport keeps: queued (`worker` None), claimed, or reported and not yet acknowledged."""

    __slots__ = ("number", "reported", "stopping", "task", "task_id", "withdrawn", "worker")

    def __init__(self, task: Task, task_id: str, number: int) -> None:
        self.task = task
        self.task_id = task_id
        self.number = number
        """The order of arrival, over all queues."""
        self.worker: str | None = None
        self.stopping = False
        self.withdrawn = False
        self.reported = False


class TaskQueue:
    __slots__ = ("_lanes", "_order", "count", "waiters", "withdrawn")

    def __init__(self) -> None:
        self._lanes: dict[int, deque[KeptTask]] = {}
        self._order: list[int] = []
        """Priorities in use, lowest first, so that the lane to take from is the last."""
        self.count = 0
        """Tasks that can be taken."""
        self.withdrawn = 0
        """Tasks that are still in a lane and must not be taken."""
        self.waiters: deque[Future[None]] = deque()

    def put(self, held: KeptTask) -> None:
        priority = held.task.priority
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = deque()
            insort(self._order, priority)
        lane.append(held)
        self.count += 1

    def take(self, limit: int) -> list[KeptTask]:
        taken: list[KeptTask] = []
        while self.count and len(taken) < limit:
            lane = self._lanes[self._order[-1]]
            while lane and len(taken) < limit:
                held = lane.popleft()
                if held.withdrawn:
                    self.withdrawn -= 1
                else:
                    self.count -= 1
                    taken.append(held)
            if not lane:
                del self._lanes[self._order.pop()]
        return taken

    def take_fitting(self, limit: int, fits: Callable[[Task], bool]) -> list[KeptTask]:
        """Like `take`, but passes over tasks that do not fit; those keep their places."""
        taken: list[KeptTask] = []
        for priority in reversed(tuple(self._order)):
            lane, kept = self._lanes[priority], deque[KeptTask]()
            while lane and len(taken) < limit:
                held = lane.popleft()
                if held.withdrawn:
                    self.withdrawn -= 1
                elif fits(held.task):
                    self.count -= 1
                    taken.append(held)
                else:
                    kept.append(held)
            lane.extendleft(reversed(kept))
            if not lane:
                del self._lanes[priority]
                self._order.remove(priority)
            if len(taken) == limit:
                break
        return taken

    def head(self, fits: Callable[[Task], bool] | None = None) -> KeptTask | None:
        """The task that `take`, or `take_fitting`, would give first."""
        if fits is not None:
            lanes = (self._lanes[priority] for priority in reversed(self._order))
            return next((held for lane in lanes for held in lane if not held.withdrawn and fits(held.task)), None)
        while self._order:
            lane = self._lanes[self._order[-1]]
            while lane:
                if not lane[0].withdrawn:
                    return lane[0]
                lane.popleft()
                self.withdrawn -= 1
            del self._lanes[self._order.pop()]
        return None

    def withdraw(self, held: KeptTask) -> None:
        """Mark a task as withdrawn. Lanes are cleaned when most of them is dead, so the cost is constant on average."""
        held.withdrawn = True
        self.count -= 1
        self.withdrawn += 1
        if self.withdrawn > self.count + 64:
            self._clean()

    def wake(self, number: int) -> None:
        """Let up to `number` waiting claimers look again."""
        while number > 0 and self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                number -= 1

    def _clean(self) -> None:
        for priority, lane in list(self._lanes.items()):
            kept = deque(held for held in lane if not held.withdrawn)
            if kept:
                self._lanes[priority] = kept
            else:
                del self._lanes[priority]
                self._order.remove(priority)
        self.withdrawn = 0
