"""Limits inside one process: dictionaries on one event loop. They die with the process, and so do the attempts that
held them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.clock import Clock, system
from perdure.limits import LEASE_SECONDS, SLICES, Ask, Entered, Full, Limit

Place = tuple[str, str]


class LocalLimits:
    def __init__(self, clock: Clock = system, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.lease_seconds = lease_seconds
        self._clock = clock
        self._slots: dict[Place, dict[str, float]] = {}
        """Owners and when their leases end. A renewed owner moves to the end, so the first lapses first."""
        self._rates: dict[tuple[str, str, float], dict[int, int]] = {}
        """How many attempts passed each rate, by slice of time."""
        self._rooms: list[Callable[[str, str], None]] = []

    async def enter(self, asks: Sequence[Ask]) -> list[Entered | Full]:
        return [self._enter(ask) for ask in asks]

    async def occupy(self, slots: Sequence[tuple[str, Limit]]) -> None:
        for owner, limit in slots:
            self._renew(self._slots.setdefault(_place(limit), {}), owner)

    async def leave(self, slots: Sequence[tuple[str, Limit]]) -> None:
        left = {_place(limit): None for owner, limit in slots if self._leave(owner, limit)}
        for tenant, key in left:
            for room in tuple(self._rooms):
                room(tenant, key)

    def on_room(self, room: Callable[[str, str], None]) -> Callable[[], None]:
        self._rooms.append(room)
        return lambda: self._rooms.remove(room)

    def _enter(self, ask: Ask) -> Entered | Full:
        free: list[int] = []
        new: list[Limit] = []
        for limit in ask.limits:
            if limit.per_seconds is not None:
                answer = self._pass(limit, limit.per_seconds)
            else:
                answer = self._enter_one(limit, ask.owner, new)
            if isinstance(answer, Full):
                for entered in new:
                    self._leave(ask.owner, entered)
                return answer
            free.append(answer)
        return Entered(tuple(free))

    def _enter_one(self, limit: Limit, owner: str, new: list[Limit]) -> int | Full:
        owners = self._slots.setdefault(_place(limit), {})
        now = self._clock.monotonic()
        while owners and next(iter(owners.values())) <= now:
            del owners[next(iter(owners))]
        if owner not in owners:
            if len(owners) >= limit.limit:
                return Full(limit)
            new.append(limit)
        self._renew(owners, owner)
        return max(0, limit.limit - len(owners))

    def _renew(self, owners: dict[str, float], owner: str) -> None:
        owners.pop(owner, None)
        owners[owner] = self._clock.monotonic() + self.lease_seconds

    def _leave(self, owner: str, limit: Limit) -> bool:
        owners = self._slots.get(_place(limit), {})
        was_in = owners.pop(owner, None) is not None
        if not owners:
            self._slots.pop(_place(limit), None)
        return was_in

    def _pass(self, limit: Limit, seconds: float) -> int | Full:
        name, width, now = (limit.tenant, limit.key, seconds), seconds / SLICES, self._clock.monotonic()
        current = int(now // width)
        passed = {one: number for one, number in self._rates.get(name, {}).items() if one >= current - SLICES}
        total = sum(passed.values())
        if total >= limit.limit:
            return Full(limit, max(0.0, (min(passed) + SLICES + 1) * width - now))
        passed[current] = passed.get(current, 0) + 1
        self._rates[name] = passed
        self._tidy(now)
        return limit.limit - total - 1

    def _tidy(self, now: float) -> None:
        """Forget a rate that was not used for its whole length, one per call, so that keys do not pile up."""
        oldest = next(iter(self._rates))
        passed = self._rates.pop(oldest)
        if max(passed) >= int(now // (oldest[2] / SLICES)) - SLICES:
            self._rates[oldest] = passed


def _place(limit: Limit) -> Place:
    return limit.tenant, limit.key
