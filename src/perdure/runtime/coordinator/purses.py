"""What budgets over several runs leave for a call that wishes to begin (rule 85), as a coordinator knows it.

The kernel decides; this says what there is. Purses are read from the journal and kept for a second, less what this process has
let begin since; where little is left, they are read anew for each wish. What other coordinators let begin after the read is not
known: by so much a budget may be exceeded.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from typing import Any, NamedTuple

import msgspec

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.expressions.at_hand import Lost
from perdure.expressions.errors import NotAtHand
from perdure.kernel import commands as c
from perdure.kernel.state import State
from perdure.model.money import DIMENSIONS, NOTHING, Budget, Room, Usage
from perdure.purses import BudgetRow, Purse, PurseReader
from perdure.runtime.coordinator.projections import day_of
from perdure.runtime.coordinator.tasks.cache import Cache

KEPT_SECONDS = 1.0
"""How long a purse is believed that has much left."""
LITTLE = 0.1
"""The part of a limit below which it is read anew for each wish."""
_MOST_KEPT = 10_000
_DAY = 86_400.0


class NeedsPurses(NotAtHand):
    code = "needs_purses"

    def __init__(self, workflow: str) -> None:
        super().__init__(f"purses:{workflow}", f"what budgets leave for {workflow!r} must be read first")
        self.workflow = workflow


class Found(NamedTuple):
    purses: tuple[Purse, ...]
    at: float
    """When the read began, by the monotonic clock."""
    day: str
    round: int
    """The batch that was at hand when the read began: it has seen what all before it let begin."""


class Grant(NamedTuple):
    round: int
    workflow: str
    usage: Usage


class Purses:
    def __init__(self, journal: PurseReader, clock: Clock, cache: Cache) -> None:
        self._journal = journal
        self._clock = clock
        self._cache = cache
        self._kept: dict[tuple[str, str], Found] = {}
        self._granted: dict[str, list[Grant]] = {}
        """What this process let begin, by tenant, in the order of batches."""
        self._batch: object = None
        self._round = 0

    def turn(self, batch: object) -> None:
        """Begin another batch: what those before it decided is written."""
        if batch is not self._batch:
            self._batch = batch
            self._round += 1

    def equip(self, state: State, command: c.Command) -> c.Command:
        """The command with the rooms that it is decided with. Raises NeedsPurses."""
        if isinstance(command, c.BeginStep):
            wants = None if command.not_done else command.reserve
        else:
            wants = command.wants if isinstance(command, c.Lapse) else None
        if wants is None:
            return command
        rooms = self._find(state.tenant, state.workflow)
        return msgspec.structs.replace(command, rooms=rooms) if rooms else command

    def note(self, state: State, usage: Usage) -> None:
        """Remember a call that was let begin: no read may have seen it."""
        self._granted.setdefault(state.tenant, []).append(Grant(self._round, state.workflow, usage))

    def _find(self, tenant: str, workflow: str) -> tuple[Room, ...]:
        at_hand, need = self._cache.view(tenant), NeedsPurses(workflow)
        read = at_hand.get(need.key)
        if isinstance(read, Lost):
            raise StoreUnavailable(f"budgets of tenant {tenant} cannot be read: {read.message}")
        found = read or self._kept.get((tenant, workflow))
        if found is None or found.day != day_of(self._clock.now()):
            raise need
        known = self._granted.get(tenant, [])
        since = known[bisect_left(known, (found.round,)) :]
        rooms = tuple(make_room(purse, self._clock.now(), _own(purse, since)) for purse in found.purses)
        roomy = all(_is_roomy(purse, room) for purse, room in zip(found.purses, rooms, strict=True))
        if roomy and (read is not None or self._clock.monotonic() - found.at <= KEPT_SECONDS):
            return rooms
        if read is None or any(grant.round < self._round for grant in since):
            raise need  # a read that begins now sees what was written in between, and counts it once
        return rooms

    async def read(self, tenant: str, need: NeedsPurses) -> Found:
        round_, at, now = self._round, self._clock.monotonic(), self._clock.now()
        day = day_of(now)
        purses = await self._journal.read_purses(tenant, day, f"{day[:8]}01", workflow=need.workflow)
        found = Found(tuple(purses), at, day, round_)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[tenant, need.workflow] = found
        self._forget(tenant, at)
        return found

    def _forget(self, tenant: str, at: float) -> None:
        """Forget grants that every read which is still believed has seen."""
        for key in [key for key, one in self._kept.items() if key[0] == tenant and at - one.at > KEPT_SECONDS]:
            del self._kept[key]
        oldest = min((one.round for key, one in self._kept.items() if key[0] == tenant), default=self._round)
        known = self._granted.get(tenant, [])
        left = known[bisect_left(known, (oldest,)) :]
        if left:
            self._granted[tenant] = left
        else:
            self._granted.pop(tenant, None)


def _own(purse: Purse, grants: list[Grant]) -> Usage:
    mine = (one.usage for one in grants if purse.scope in ("tenant", f"workflow:{one.workflow}"))
    return sum(mine, NOTHING)


def make_room(purse: Purse, now: float, own: Usage = NOTHING) -> Room:
    """What a purse leaves at this moment, if so much was let begin that it does not know of."""
    left: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        limit = getattr(purse, dimension)
        if limit is not None:
            left[dimension] = max(limit - getattr(purse, f"spent_{dimension}"), 0)
            held = max(getattr(purse, f"held_{dimension}"), 0) + own.of(dimension)
            free[dimension] = max(left[dimension] - held, 0)
    return Room(purse.scope, Budget(**left), Budget(**free), end_of_period(purse.per, now), _share(purse))


def _share(purse: BudgetRow) -> Budget | None:
    if purse.share >= 1:
        return None
    limits = {one: getattr(purse, one) for one in DIMENSIONS}
    parts: dict[str, Any] = {of: max(int(limit * purse.share), 1) for of, limit in limits.items() if limit is not None}
    return Budget(**parts)


def _is_roomy(purse: Purse, room: Room) -> bool:
    limits = [(getattr(purse, one), room.free.of(one) or 0) for one in DIMENSIONS if getattr(purse, one) is not None]
    return all(free >= limit * LITTLE for limit, free in limits)


def end_of_period(per: str, now: float) -> float:
    """When the day or the month of this moment ends, in UTC."""
    if per == "day":
        return (now // _DAY + 1) * _DAY
    today = datetime.datetime.fromtimestamp(now, datetime.UTC)
    first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + datetime.timedelta(days=32)).replace(day=1).timestamp()
