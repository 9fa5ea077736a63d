"""The dispatcher: holds the attempts that want a worker, both the backlog and the window of it that the transport has.

Only about twice as many tasks as there are slots are rendered and published; the rest stay as small entries here and in
the journal (PROTOCOL 13). Owns order (priority, then tenants by turns, then age), one window per queue, and which
entries stand aside until a limit has room. Knows nothing of states, journals or what the limits are.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping

import msgspec

from perdure.kernel.address import Address
from perdure.turns import Turns, share_of

_SHARED_SLOTS = 8
"""A queue with fewer slots than this keeps none free for other tenants."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One attempt that wants a worker."""

    address: Address
    queue: str = "default"
    tenant: str = "default"
    priority: int = 0
    limited: bool = False
    """Whether a limit bounds how many such attempts are out at once, or how often they are sent."""


class _Queue:
    __slots__ = ("_by_priority", "_priorities", "name", "of_tenant", "out", "slots", "stopped", "waiting", "window")

    def __init__(self, name: str) -> None:
        self.name = name
        self.window: int | None = None
        """How many entries of this queue may be out at once; None: the dispatcher's default."""
        self.slots: int | None = None
        """How many entries workers can have at once; None: that is not known."""
        self.waiting = 0
        self.out = 0
        self.of_tenant: dict[str, int] = {}
        """How many entries of each tenant are out."""
        self.stopped = ""
        """Why nothing of this queue may be published now; empty: it may."""
        self._by_priority: dict[int, Turns] = {}
        self._priorities: list[int] = []
        """The priorities in use, negated, as a heap."""

    def push(self, entry: Entry, name: str, age: int | None) -> None:
        turns = self._by_priority.get(entry.priority)
        if turns is None:
            turns = self._by_priority[entry.priority] = Turns()
            heapq.heappush(self._priorities, -entry.priority)
        turns.push(entry.tenant, name, age)
        self.waiting += 1

    def pop(self, waiting: Mapping[str, Entry], full: Container[str]) -> str | None:
        """The next entry of a tenant that is not `full`."""
        name, passed = None, []
        while self._priorities and name is None:
            turns = self._by_priority[-self._priorities[0]]
            name = turns.pop(waiting, full)
            if name is None:
                priority = heapq.heappop(self._priorities)
                if turns:
                    passed.append(priority)
                else:
                    del self._by_priority[-priority]
        for priority in passed:
            heapq.heappush(self._priorities, priority)
        if name is not None:
            self.waiting -= 1
        return name

    def enter(self, tenant: str) -> None:
        self.out += 1
        self.of_tenant[tenant] = self.of_tenant.get(tenant, 0) + 1

    def leave(self, tenant: str) -> None:
        self.out -= 1
        self.of_tenant[tenant] -= 1
        if not self.of_tenant[tenant]:
            del self.of_tenant[tenant]

    def left(self) -> None:
        """Count down after a waiting entry was removed; stale places are cleared once no entry waits any more."""
        self.waiting -= 1
        if not self.waiting:
            self._by_priority.clear()
            self._priorities.clear()


class _Aside:
    """The entries that wait for one limit, highest priority first, then oldest."""

    __slots__ = ("heap", "number", "why")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, str]] = []
        self.number = 0
        """How many entries of the heap still wait; the others have left."""
        self.why = ""


class Dispatcher:
    def __init__(self, window: int) -> None:
        """`window` applies to every queue that is given none of its own."""
        self._window = window
        self._queues: dict[str, _Queue] = {}
        self._waiting: dict[str, Entry] = {}
        self._out: dict[str, Entry] = {}
        self._aside: dict[str, tuple[Entry, Hashable]] = {}
        self._limits: dict[Hashable, _Aside] = {}
        self._ages: dict[str, int] = {}
        """The ages of entries that were taken but not published: they keep their place."""
        self._age = 0
        self._first = ""
        self._several = False
        """Whether tasks of more than one tenant have come here."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._out) + len(self._aside)

    @property
    def backlog(self) -> int:
        """How many entries are not published."""
        return len(self._waiting) + len(self._aside)

    def count_backlog(self) -> dict[str, int]:
        """How many entries are not published, by queue."""
        counts: dict[str, int] = {}
        for entry in (*self._waiting.values(), *(entry for entry, _ in self._aside.values())):
            counts[entry.queue] = counts.get(entry.queue, 0) + 1
        return counts

    def set_window(self, queue: str, size: int | None, slots: int | None = None) -> None:
        """Set how many entries of this queue may be out at once; None: the default window. `slots`: how many of them
        workers can have; without, half of them."""
        found = self._queue(queue)
        found.window, found.slots = size, slots
        self._tidy(found)

    # -- in and out ----------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> bool:
        """Add an entry to its queue. False when it is known already: a process never sends a task twice."""
        name = entry.address.task_id
        if self.knows(name):
            return False
        self._wait(name, entry)
        return True

    def adopt(self, entry: Entry) -> bool:
        """Count as out an entry that a worker has, though this process did not send it. False when it is known
        already."""
        name = entry.address.task_id
        if self.knows(name):
            return False
        self._send(name, entry)
        return True

    def knows(self, name: str) -> bool:
        return name in self._waiting or name in self._out or name in self._aside

    def take(self) -> Iterator[tuple[str, Entry]]:
        """The entries that the windows have room for now; each counts as out until `done`, `put_back` or
        `set_aside`."""
        for queue in list(self._queues.values()):
            window = self._window if queue.window is None else queue.window
            most = self._share(window, queue.slots)
            full = {tenant for tenant, out in queue.of_tenant.items() if most < window and out >= most}
            while queue.waiting and queue.out < window and not queue.stopped:
                name = queue.pop(self._waiting, full)
                if name is None:
                    break
                entry = self._waiting.pop(name)
                self._out[name] = entry
                queue.enter(entry.tenant)
                if entry.limited:
                    self._age_of(name)
                yield name, entry
                # Only now: the caller that took it may have put it back.
                if most < window and queue.of_tenant.get(entry.tenant, 0) >= most:
                    full.add(entry.tenant)

    def done(self, name: str) -> Entry | None:
        """Forget an attempt that is over, whatever its outcome."""
        entry = self._out.pop(name, None)
        if entry is not None:
            queue = self._queues[entry.queue]
            queue.leave(entry.tenant)
            self._tidy(queue)
        else:
            entry = self._remove(name)
        if self._ages:
            self._ages.pop(name, None)
        return entry

    def withdraw(self, name: str) -> bool:
        """Take back an attempt if it has not been published yet."""
        return name not in self._out and self.done(name) is not None

    # -- standing aside ------------------------------------------------------------------------------------------------

    def put_back(self, names: Iterable[str]) -> None:
        """Put back entries that were taken but not published: they are next again, in their former order."""
        for name in names:
            entry = self._return(name)
            if entry is not None:
                self._wait(name, entry, self._age_of(name))

    def set_aside(self, name: str, limit: Hashable, why: str) -> None:
        """Set aside an entry that was taken when `limit` had no room: it waits for room, and delays no other entry."""
        entry = self._return(name)
        if entry is not None:
            self._stand_aside(name, entry, limit, why)

    def add_aside(self, entry: Entry, limit: Hashable, why: str) -> bool:
        """Like `add`, for an entry that must not be taken before `limit` has room."""
        name = entry.address.task_id
        if self.knows(name):
            return False
        self._stand_aside(name, entry, limit, why)
        return True

    def call_up(self, limit: Hashable, number: int) -> int:
        """Make the first `number` entries that stand aside for `limit` next in their queues, and return how many there
        were."""
        aside = self._limits.get(limit)
        names: list[str] = []
        while aside is not None and aside.number and len(names) < number:
            _, _, name = heapq.heappop(aside.heap)
            found = self._aside.get(name)
            if found is not None and found[1] == limit:
                names.append(name)
                aside.number -= 1
                del self._aside[name]
                self._out[name] = found[0]
                self._queue(found[0].queue).enter(found[0].tenant)
        if aside is not None and not aside.number:
            del self._limits[limit]
        self.put_back(names)
        return len(names)

    def has_aside(self, limit: Hashable) -> bool:
        return limit in self._limits

    def list_aside(self, limit: Hashable) -> list[str]:
        return [name for name, (_, found) in self._aside.items() if found == limit] if limit in self._limits else []

    def send(self, name: str) -> None:
        """Count as out an entry that stood aside and turned out to be with a worker."""
        found = self._aside.get(name)
        if found is not None:
            self._remove(name)
            self._send(name, found[0])

    def stop_queue(self, queue: str, why: str) -> None:
        """Publish nothing of this queue until `resume_queue`."""
        self._queue(queue).stopped = why

    def resume_queue(self, queue: str) -> None:
        found = self._queues.get(queue)
        if found is not None:
            found.stopped = ""
            self._tidy(found)

    # -- looking -------------------------------------------------------------------------------------------------------

    def out(self) -> list[str]:
        return list(self._out)

    def count_out(self) -> int:
        return len(self._out)

    def is_out(self, name: str) -> bool:
        return name in self._out

    def entries(self) -> list[Entry]:
        return [*self._out.values(), *self._waiting.values(), *(entry for entry, _ in self._aside.values())]

    def find(self, name: str) -> Entry | None:
        found = self._out.get(name) or self._waiting.get(name)
        if found is None and name in self._aside:
            found = self._aside[name][0]
        return found

    def why(self, name: str) -> str | None:
        """Why an attempt is not published. None: it is published, or unknown here."""
        if name in self._aside:
            return self._limits[self._aside[name][1]].why
        entry = self._waiting.get(name)
        if entry is None:
            return None
        queue = self._queues[entry.queue]
        if queue.stopped:
            return queue.stopped
        window = self._window if queue.window is None else queue.window
        if queue.of_tenant.get(entry.tenant, 0) >= self._share(window, queue.slots) and queue.out < window:
            return f"queue {entry.queue}: {queue.of_tenant[entry.tenant]} tasks of its tenant are with workers, and some room is left to others"
        if queue.out < window:
            return f"queue {entry.queue}: about to be sent"
        if not window:
            return f"queue {entry.queue}: no worker listens"
        return f"queue {entry.queue}: {queue.out} tasks are with its workers or on the way, {queue.waiting} wait"

    # -- inside --------------------------------------------------------------------------------------------------------

    def _share(self, window: int, slots: int | None) -> int:
        """How many entries of one tenant may be out. A tenant that held all slots would keep others from starting, and a
        handler cannot be taken out of its slot."""
        if slots is None or slots < _SHARED_SLOTS:
            slots = window // 2
        return share_of(slots) if self._several and slots >= _SHARED_SLOTS else window

    def _queue(self, name: str) -> _Queue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = _Queue(name)
        return found

    def _wait(self, name: str, entry: Entry, age: int | None = None) -> None:
        self._waiting[name] = entry
        self._several = self._several or entry.tenant != (self._first or entry.tenant)
        self._first = entry.tenant
        self._queue(entry.queue).push(entry, name, age)

    def _send(self, name: str, entry: Entry) -> None:
        self._out[name] = entry
        self._queue(entry.queue).enter(entry.tenant)

    def _return(self, name: str) -> Entry | None:
        entry = self._out.pop(name, None)
        if entry is not None:
            self._queues[entry.queue].leave(entry.tenant)
        return entry

    def _stand_aside(self, name: str, entry: Entry, limit: Hashable, why: str) -> None:
        aside = self._limits.get(limit)
        if aside is None:
            aside = self._limits[limit] = _Aside()
        aside.why = why
        aside.number += 1
        self._aside[name] = (entry, limit)
        heapq.heappush(aside.heap, (-entry.priority, self._age_of(name), name))
        if entry.queue in self._queues:
            self._tidy(self._queues[entry.queue])

    def _age_of(self, name: str) -> int:
        age = self._ages.get(name)
        if age is None:
            self._age += 1
            age = self._ages[name] = self._age
        return age

    def _remove(self, name: str) -> Entry | None:
        """Remove an entry that is not out: one that waits or stands aside."""
        entry = self._waiting.pop(name, None)
        if entry is not None:
            queue = self._queues[entry.queue]
            queue.left()
            self._tidy(queue)
            return entry
        found = self._aside.pop(name, None)
        if found is None:
            return None
        entry, limit = found
        aside = self._limits[limit]
        aside.number -= 1
        if not aside.number:
            del self._limits[limit]
        return entry

    def _tidy(self, queue: _Queue) -> None:
        if not queue.waiting and not queue.out and queue.window is None and not queue.stopped:
            self._queues.pop(queue.name, None)
