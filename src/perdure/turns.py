"""Turns: which name is next among those that wait with equal right.

Tenants take turns; what one tenant waits for comes in its own order. It owns that rule and nothing else: it holds
names, and is told which of them still count.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Container


class _Line:
    """The names that one tenant waits for."""

    __slots__ = ("names", "returned", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.names: deque[str] = deque()
        self.returned: list[tuple[int, str]] = []
        """Names that had their turn and could not use it, by age: a heap."""

    def pop(self) -> str:
        return heapq.heappop(self.returned)[1] if self.returned else self.names.popleft()


def share_of(places: int) -> int:
    """How many of these places one tenant may have beside others: an eighth, but at least one, is left to them."""
    return places if places < 2 else places - max(1, places // 8)


class Turns:
    """The order of tenants: each turn moves a tenant back by one, the first in line is next. O(log tenants) a turn."""

    __slots__ = ("_heap", "_joined", "_lines", "_now")

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._heap: list[tuple[int, int, _Line]] = []
        self._joined = 0
        self._now = 0

    def push(self, tenant: str, name: str, age: int | None = None) -> None:
        """Add a name. With an `age` it comes back, and is next among its tenant's unless an older one came back too."""
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = _Line(tenant)
            self._joined += 1
            heapq.heappush(self._heap, (self._now, self._joined, line))
        if age is None:
            line.names.append(name)
        else:
            heapq.heappush(line.returned, (age, name))

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self, waiting: Container[str], full: Container[str] = ()) -> str | None:
        """The next name that is in `waiting`; others are forgotten and cost no tenant a turn. Tenants that are `full`
        are passed over, and keep their place."""
        passed: list[tuple[int, int, _Line]] = []
        try:
            return self._pop(waiting, full, passed)
        finally:
            for one in passed:
                heapq.heappush(self._heap, one)

    def _pop(self, waiting: Container[str], full: Container[str], passed: list[tuple[int, int, _Line]]) -> str | None:
        while self._heap:
            due, number, line = self._heap[0]
            if line.tenant in full:
                passed.append(heapq.heappop(self._heap))
                continue
            self._now = due
            while line.names or line.returned:
                name = line.pop()
                if name in waiting:
                    heapq.heapreplace(self._heap, (due + 1, number, line))
                    return name
            # A tenant's line is kept until its turn came, so that a tenant that comes and goes does not get ahead by
            # it.
            heapq.heappop(self._heap)
            del self._lines[line.tenant]
        return None
