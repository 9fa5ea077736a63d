"""Tasks as their worker sees them: claimed, and not yet reported.

It owns waiting for a task, and what becomes of an answer that came too late or not at all. A claimer that gives up
waiting takes nothing along: what is given to it afterwards goes back. Tasks given in an answer that got lost are found
again.

Bounds: one small entry per task claimed; results are remembered for RECENT_SECONDS, up to RECENT_BYTES of them. A task
that comes once more, as a copy or because everything in Redis was lost, is not executed again: its result is reported
again.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.transport import Result, Task, TransportUnavailable
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.link import Arguments, Call, Link
from perdure.transports.redis.messages import Messages, fields_of
from perdure.transports.redis.names import ADOPTED, Keys, encode, name_of
from perdure.transports.redis.reader import order_of
from perdure.transports.redis.sent_tasks import TASK_SECONDS, Tasks, task_of
from perdure.transports.redis.wakes import POLL_SECONDS, Ticket, Wakes
from perdure.turns import share_of

RECENT_SECONDS = TASK_SECONDS + 60.0
RECENT_BYTES = 16 * 1024 * 1024
SLACK_SECONDS = 1.0
SHARED_SLOTS = 8
"""A worker with fewer slots than this keeps none free for other tenants."""

Taken = tuple[int, float, Task]
"""Sorted in the order of claiming: minus the priority, when the task was sent, the task."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    worker: str
    queue: str
    entry: bytes
    """The stream entry of this claim: a task that is sent again has another one."""
    tenant: str


class Reported(msgspec.Struct, frozen=True, gc=False):
    at: float
    entry: bytes
    result: Result
    size: int


class _Heads(msgspec.Struct):
    """What one tenant waits for in several queues."""

    turn: float
    """When the tenant had its last turn in one of them."""
    tasks: list[tuple[float, str]]
    """When tasks were sent, and their queues: a heap."""


def _in_turn(classes: dict[float, dict[bytes, _Heads]]) -> Iterator[str]:
    """The queues to take from, one after the other."""
    for _, tenants in sorted(classes.items()):
        line = [(heads.turn, tenant) for tenant, heads in tenants.items()]
        heapq.heapify(line)
        last = max(line)[0]
        while line:
            _, tenant = line[0]
            tasks = tenants[tenant].tasks
            yield heapq.heappop(tasks)[1]
            last += 1.0
            if tasks:
                heapq.heapreplace(line, (last, tenant))
            else:
                heapq.heappop(line)


class Claims:
    def __init__(self, link: Link, wakes: Wakes, keys: Keys, messages: Messages, tasks: Tasks, clock: Clock) -> None:
        self._link = link
        self._wakes = wakes
        self._keys = keys
        self._messages = messages
        self._tasks = tasks
        self._clock = clock
        self.running: dict[str, Claim] = {}
        """Tasks claimed here and not yet reported. The heartbeat's thread reads this, one operation at a time."""
        self._reported: dict[str, Reported] = {}
        self._reported_bytes = 0
        self.report_again: Callable[[Result], None] = lambda result: None
        """Reports the result of a finished task once more; set by `Results`."""
        self._tenants: set[str] = set()
        """The first two tenants whose tasks came here."""
        self._crowded: set[Ticket] = set()
        """The workers that wait and have no room for some tenant: what waits may fit when a slot of that tenant is free again."""
        self._unsure: dict[str, float] = {}
        """Workers with a claim whose answer was lost, and since when."""
        self._sated: dict[str, tuple[Any, ...]] = {}
        """Workers whose last claim was given less than it asked for, with what it asked and how often its queues had said
        something: until they say more, there is nothing to ask for."""

    async def claim(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        types: Collection[str] | None,
        functions: Collection[str],
        lacking: Collection[str],
    ) -> list[Task]:
        fixed = tuple(queues), None if types is None else tuple(types), tuple(functions)
        channels = [self._keys.wake_queue(queue) for queue in queues]
        ticket = Ticket()
        done = self._wakes.on(channels, ticket.wake)
        try:
            said = self._wakes.count_said(channels)
            if said is not None and self._sated.get(worker) == (*fixed, tuple(lacking), said):
                await ticket.wait(POLL_SECONDS)
            while True:
                self._link.check_open()
                ticket.clear()
                said = self._wakes.count_said(channels)
                room = self._room(worker, limit)
                if any(one.startswith("=0@") for one in room):
                    self._crowded.add(ticket)
                else:
                    self._crowded.discard(ticket)
                asked = (*fixed, tuple(lacking), said)
                tasks, given = await self._try(worker, queues, limit, [*_fitting(*asked[1:4]), *room])
                if given < limit and not room:
                    self._sated[worker] = asked
                else:
                    self._sated.pop(worker, None)
                if tasks:
                    return tasks
                await ticket.wait(POLL_SECONDS)
        finally:
            self._crowded.discard(ticket)
            done()

    def reported(self, task_id: str, result: Result) -> None:
        claim = self.running.pop(task_id, None)
        if claim is None:
            return
        for ticket in self._crowded:
            ticket.wake()
        now = self._clock.monotonic()
        self._forget(task_id)
        self._reported[task_id] = Reported(now, claim.entry, result, result.size + 500)
        self._reported_bytes += result.size + 500
        while True:
            oldest, first = next(iter(self._reported.items()))
            if first.at >= now - RECENT_SECONDS and self._reported_bytes <= RECENT_BYTES:
                return
            self._forget(oldest)
            if not self._reported:
                return

    def _forget(self, task_id: str) -> None:
        known = self._reported.pop(task_id, None)
        if known is not None:
            self._reported_bytes -= known.size

    def _find_result(self, task: Task) -> Result | None:
        """The result this process has reported for the very same task, unless it handed the task back undone."""
        known = self._reported.get(task.task_id)
        if known is None or known.result.kind == "handed_back" or known.result.incarnation != task.incarnation:
            return None
        return known.result

    # asking

    async def _try(self, worker: str, queues: Sequence[str], limit: int, fitting: Arguments) -> tuple[list[Task], int]:
        """The tasks, and how many were given out, believable or not; `limit` where more may be had."""
        if worker in self._unsure:
            found = await self._find_lost(worker, queues, limit)
            if found:
                return found, limit
        shares = {queues[0]: limit} if len(queues) == 1 else await self._share(queues, limit, fitting)
        await self._link.connected()
        asked_at = self._clock.monotonic()
        waiting = {
            queue: self._link.start(*self._claiming(queue, worker, share, fitting)) for queue, share in shares.items()
        }
        taken: list[Taken] = []
        given = 0
        try:
            for queue in shares:
                reply = await asyncio.shield(waiting[queue])
                del waiting[queue]
                if isinstance(reply, Exception):
                    given = limit
                    await self._failed(worker, queue, asked_at, reply)
                else:
                    given += len(reply)
                    taken += self._accept(worker, queue, reply)
        except BaseException:
            # The claimer is gone: what was given to it, or will be, goes back.
            self._give_back(worker, taken)
            for queue, future in waiting.items():
                future.add_done_callback(functools.partial(self._too_late, worker, queue))
            raise
        taken.sort(key=lambda one: one[:2])
        return [task for _, _, task in taken], given

    def _room(self, worker: str, free: int) -> list[str]:
        """How many tasks of one tenant may still come. A tenant that had all slots would keep others from starting, and a
        handler cannot be taken out of its slot: once there are several, some are left to the others."""
        if len(self._tenants) < 2:
            return []
        has: dict[str, int] = {}
        for claim in list(self.running.values()):
            if claim.worker == worker:
                has[claim.tenant] = has.get(claim.tenant, 0) + 1
        slots = sum(has.values()) + free
        if slots < SHARED_SLOTS:
            return []
        most = share_of(slots)
        return [f"={most}", *(f"={max(0, most - number)}@{name_of(tenant)}" for tenant, number in has.items())]

    def _claiming(self, queue: str, worker: str, limit: int, fitting: Arguments) -> Call:
        return "claim", [self._keys.lanes(queue)], [self._keys.lane(queue), worker, limit, *fitting]

    async def _share(self, queues: Sequence[str], limit: int, fitting: Arguments) -> dict[str, int]:
        """How many to take from each queue, so that over all of them the most urgent come first, tenants take turns, and
        of each the oldest are first."""
        replies = await self._link.run_all(
            [("peek", [self._keys.lanes(queue)], [self._keys.lane(queue), limit, *fitting]) for queue in queues]
        )
        classes: dict[float, dict[bytes, _Heads]] = {}
        for queue, reply in zip(queues, replies, strict=True):
            for number in range(0, len(reply), 4):
                priority, tenant, turn, sent_at = reply[number : number + 4]
                heads = classes.setdefault(-order_of(priority), {}).setdefault(tenant, _Heads(0.0, []))
                heads.turn = max(heads.turn, order_of(turn))
                heapq.heappush(heads.tasks, (order_of(sent_at), queue))
        shares: dict[str, int] = {}
        for queue in itertools.islice(_in_turn(classes), limit):
            shares[queue] = shares.get(queue, 0) + 1
        return shares

    async def _failed(self, worker: str, queue: str, asked_at: float, error: Exception) -> None:
        try:
            await self._link.mend(error, [self._keys.lanes(queue)])
        except TransportUnavailable:
            self._unsure.setdefault(worker, asked_at)
            raise

    # accepting

    def _accept(self, worker: str, queue: str, entries: list[Any]) -> list[Taken]:
        """The entries that can be believed. The others are discarded, and the sweep sends their tasks again."""
        taken: list[Taken] = []
        discarded: Arguments = []
        for lane, entry, raw, *_ in entries:
            fields = fields_of(raw)
            try:
                with self._messages.reading("task"):
                    task = self._believe(queue, fields)
            except EnvelopeRefused:
                discarded += (lane, entry, fields.get(b"task", b""))
                continue
            self.running[task.task_id] = Claim(worker, queue, entry, task.tenant)
            if len(self._tenants) < 2:
                self._tenants.add(task.tenant)
            taken.append((-task.priority, order_of(fields.get(b"at", b"0")), task))
        if discarded:
            keys = [self._keys.held(queue), self._keys.lanes(queue)]
            self._link.try_to_start("discard", keys, [self._keys.lane(queue), *discarded])
        return taken

    def _believe(self, queue: str, fields: dict[bytes, bytes]) -> Task:
        """Decode and check a task. Raises `EnvelopeRefused`, counted and logged unless this process has done the
        task."""
        task: Task = self._messages.decode("task", fields.get(b"message", b""), fields.get(b"signature", b""))
        if task.task_id.encode() != fields.get(b"task", b"") or task.queue != queue:
            self._messages.refuse("task", f"{task.task_id}: it stands in another's place, in queue {queue!r}")
            raise EnvelopeRefused("it belongs elsewhere")
        if task.expires_at is not None and task.expires_at < self._clock.now():
            self._messages.refuse("task", f"{task.task_id}: it was sent too long ago, or is a copy")
            raise EnvelopeRefused("it has expired")
        if (result := self._find_result(task)) is not None:
            self.report_again(result)
            raise EnvelopeRefused("it is done")
        return task

    def _too_late(self, worker: str, queue: str, future: asyncio.Future[Any]) -> None:
        reply = future.result()
        if isinstance(reply, list):
            self._give_back(worker, self._accept(worker, queue, reply))

    def _give_back(self, worker: str, taken: Sequence[Taken]) -> None:
        """Return tasks to their queues. Crash here: they stay this worker's until it is found dead, or to lack them."""
        queues: dict[str, list[str]] = {}
        for _, _, task in taken:
            if self.running.pop(task.task_id, None) is not None:
                queues.setdefault(task.queue, []).append(task.task_id)
        for queue, names in queues.items():
            arguments: Arguments = [self._keys.lane(queue), self._keys.wake_queue(queue), worker, *names]
            self._link.try_to_start("release", [self._keys.held(queue)], arguments)

    async def _find_lost(self, worker: str, queues: Sequence[str], limit: int) -> list[Task]:
        """Tasks given to this worker in an answer that never arrived."""
        since = self._unsure[worker]
        found: list[Taken] = []
        for queue in queues:
            entries = await self._tasks.list_claims(queue, worker)
            age = self._clock.monotonic() - since + SLACK_SECONDS
            lost = [
                entry
                for entry in entries
                if entry[0] != ADOPTED.encode()
                and entry[3] / 1000 <= age
                and not self._is_known(task_of(entry), entry[1])
            ]
            found += self._accept(worker, queue, lost[: limit - len(found)])
            if len(found) == limit:
                break
        else:
            del self._unsure[worker]
        return [task for _, _, task in found]

    def _is_known(self, task_id: str, entry: bytes) -> bool:
        claim, reported = self.running.get(task_id), self._reported.get(task_id)
        return (claim is not None and claim.entry == entry) or (reported is not None and reported.entry == entry)


@functools.lru_cache(maxsize=64)
def _fitting(types: tuple[str, ...] | None, functions: tuple[str, ...], lacking: tuple[str, ...]) -> Arguments:
    if types is None:
        return [-1]
    return [len(types), *map(encode, types), *map(encode, functions), *("!" + encode(name) for name in lacking)]
