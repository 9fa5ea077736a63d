"""What is queued and not yet with a worker: the backlog, and the window of it that the transport holds.

Only about twice as many tasks as there are slots are rendered and published; the rest stay as small entries here and
in the journal (PROTOCOL 13). Owns order (priority, then age) and the window; knows nothing of kernels or journals.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from weft.transport import task_id


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One attempt that wants a worker."""

    run_id: str
    node: str
    scope: tuple[int, ...]
    item: int | None
    attempt: int
    generation: int
    undo: bool

    @property
    def task_id(self) -> str:
        return task_id(self.run_id, self.node, self.scope, self.item, self.attempt, self.undo, self.generation)


class Dispatcher:
    def __init__(self, window: int) -> None:
        self._window = window
        self._heap: list[tuple[int, int, Entry]] = []
        self._waiting: dict[str, Entry] = {}
        self._out: dict[str, Entry] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._out)

    def add(self, entry: Entry, priority: int) -> bool:
        """False when it is known already: a task is never sent twice by the same process."""
        name = entry.task_id
        if name in self._waiting or name in self._out:
            return False
        self._order += 1
        self._waiting[name] = entry
        heapq.heappush(self._heap, (-priority, self._order, entry))
        return True

    def take(self) -> Iterator[Entry]:
        """What the window has room for now; each counts as out until `done`."""
        while self._heap and len(self._out) < self._window:
            _, _, entry = heapq.heappop(self._heap)
            name = entry.task_id
            if self._waiting.get(name) is entry:  # another one: it was withdrawn and came back, further down
                del self._waiting[name]
                self._out[name] = entry
                yield entry

    def adopt(self, entry: Entry) -> bool:
        """A worker has it, though this process did not send it: it counts as out. False when that is known."""
        name = entry.task_id
        if name in self._waiting or name in self._out:
            return False
        self._out[name] = entry
        return True

    def done(self, name: str) -> Entry | None:
        """The attempt is over, whatever came of it."""
        return self._out.pop(name, None) or self._waiting.pop(name, None)

    def withdraw(self, name: str) -> bool:
        """Take back what has not been published yet."""
        return self._waiting.pop(name, None) is not None

    def out(self) -> list[str]:
        return list(self._out)

    def get(self, name: str) -> Entry | None:
        return self._out.get(name) or self._waiting.get(name)
