"""Limits in Redis: a sorted set of leases for slots, a small hash for a rate, each under the hash tag of its key.

Time is the server's. Losing them costs what the port says: until the next `occupy`, others may be let in, and rates begin
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote

from perdure.limits import LEASE_SECONDS, SLICES, Ask, Entered, Full, Limit
from perdure.transports.redis.link import Arguments, Call, Link
from perdure.transports.redis.names import Keys, encode
from perdure.transports.redis.sent_tasks import batches
from perdure.transports.redis.wakes import Wakes


class RedisLimits:
    def __init__(
        self, link: Link, wakes: Wakes, keys: Keys, *, process: str, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._process = process
        self.lease_seconds = lease_seconds
        self._link = link
        self._wakes = wakes
        self._keys = keys

    async def enter(self, asks: Sequence[Ask]) -> list[Entered | Full]:
        """Ask limit by limit: the first of every ask, then the second of those that were let in, and so on."""
        answers: list[Full | None] = [None] * len(asks)
        free: list[list[int]] = [[] for _ in asks]
        left: list[tuple[str, Limit]] = []
        for place in range(max((len(ask.limits) for ask in asks), default=0)):
            wanted: dict[Limit, list[int]] = {}
            for number, ask in enumerate(asks):
                if answers[number] is None and place < len(ask.limits):
                    wanted.setdefault(ask.limits[place], []).append(number)
            for limit, numbers, let_in, room, retry in await self._ask(asks, wanted):
                for number, may in zip(numbers, let_in, strict=True):
                    if may:
                        free[number].append(room)
                    else:
                        answers[number] = Full(limit, retry)
                        left += [(asks[number].owner, one) for one in asks[number].limits[:place]]
        # Crash here: slots that no attempt uses; they are free again when their leases end.
        await self.leave([(owner, limit) for owner, limit in left if limit.per_seconds is None])
        return [answer or Entered(tuple(some)) for answer, some in zip(answers, free, strict=True)]

    async def _ask(
        self, asks: Sequence[Ask], wanted: dict[Limit, list[int]]
    ) -> list[tuple[Limit, Sequence[int], list[bool], int, float | None]]:
        """For each limit: which asks want in, which are in, how many more could be, and when the next one can."""
        asked = [(limit, some) for limit, numbers in wanted.items() for some in batches(numbers)]
        calls = [self._entering(limit, [asks[number].owner for number in some]) for limit, some in asked]
        found: list[tuple[Limit, Sequence[int], list[bool], int, float | None]] = []
        for (limit, some), reply in zip(asked, await self._link.run_all(calls), strict=True):
            if limit.per_seconds is None:
                taken, *let_in = reply
                found.append((limit, some, [bool(may) for may in let_in], max(0, limit.limit - taken), None))
            else:
                may, more, retry = reply
                found.append((limit, some, [number < may for number in range(len(some))], more, retry / 1000))
        return found

    def _entering(self, limit: Limit, owners: Sequence[str]) -> Call:
        if limit.per_seconds is None:
            return "enter_slots", [self._slots(limit)], [limit.limit, self._lease, *owners]
        length = _milliseconds(limit.per_seconds)
        return (
            "pass_rate",
            [self._keys.rate(limit.tenant, limit.key, length)],
            [limit.limit, length, SLICES, len(owners)],
        )

    async def occupy(self, slots: Sequence[tuple[str, Limit]]) -> None:
        calls: list[Call] = [
            ("occupy_slots", [key], [self._lease, *some])
            for key, (_, owners) in self._by_key(slots).items()
            for some in batches(owners)
        ]
        await self._link.run_all(calls)

    async def leave(self, slots: Sequence[tuple[str, Limit]]) -> None:
        calls: list[Call] = []
        for key, (limit, owners) in self._by_key(slots).items():
            said = f"{self._process}:{encode(limit.tenant)}:{encode(limit.key)}"
            about: Arguments = [limit.limit, self._keys.wake_limits, said]
            calls += [("leave_slots", [key], [*about, *some]) for some in batches(owners)]
        if calls:
            await self._link.run_all(calls)

    def on_room(self, room: Callable[[str, str], None]) -> Callable[[], None]:
        def hear(said: str) -> None:
            process, _, place = said.partition(":")
            if process != self._process:  # the process that left knows already
                tenant, _, key = place.partition(":")
                room(unquote(tenant), unquote(key))

        return self._wakes.on([self._keys.wake_limits], hear)

    @property
    def _lease(self) -> int:
        return _milliseconds(self.lease_seconds)

    def _slots(self, limit: Limit) -> str:
        return self._keys.slots(limit.tenant, limit.key)

    def _by_key(self, slots: Sequence[tuple[str, Limit]]) -> dict[str, tuple[Limit, list[str]]]:
        found: dict[str, tuple[Limit, list[str]]] = {}
        for owner, limit in slots:
            known = found.setdefault(self._slots(limit), (limit, []))
            known[1].append(owner)
        return found


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
