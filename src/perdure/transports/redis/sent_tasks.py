"""Tasks as their coordinator sees them: sent, taken back, stopped, missed, over. Each queue stands by itself.

It remembers which queue a task of this process is in; for any other task, every queue that had a task lately is asked.
Bound: one small entry per task published and not yet over.

A worker that runs a task adopts it with its next beat if everything in Redis was lost (`check.lua`). Therefore a task
that is missing after such a loss is not sent again at once: `adopt_seconds` pass first, and running work goes on
undisturbed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from perdure.clock import Clock
from perdure.tempo import Tempo
from perdure.transport import QueueSeen, Task, TasksTooLarge, WorkerSeen
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.link import Arguments, Call, Link
from perdure.transports.redis.messages import Messages, fields_of
from perdure.transports.redis.names import ADOPTED, FORGOTTEN_SECONDS, REGISTRY_SECONDS, Keys, lane_of
from perdure.transports.redis.reader import number_of, shown, text_of

BATCH = 200
"""The most tasks in one call of a script, so that no call holds the server up for long."""
BATCH_BYTES = 8 * 1024 * 1024
"""The most bytes in one call of a script that has several tasks."""
LARGEST_TASK = 64 * 1024 * 1024
"""The most bytes of a task: all processes share the server's memory, and it drops a connection that sends it 512 MB at
once."""
MOST_CLAIMS = 10_000
TASK_SECONDS = 900.0
"""How long a sent task may be claimed. One that waits longer is found missing by the sweep and sent anew."""

Found = Literal["withdrawn", "claimed", "unknown"]
Reported = Callable[[Collection[str]], Awaitable[set[str]]]
"""Tells which of these tasks have a result on its way."""


Sending = tuple[int, str, Task, bytes, str]
"""A task on its way: when it was sent, its id, itself, and the message with its signature."""


class Published(msgspec.Struct, frozen=True, gc=False):
    queue: str
    at: float
    """When the task was sent, by the monotonic clock of this process."""


class Tasks:
    def __init__(self, link: Link, keys: Keys, messages: Messages, clock: Clock, tempo: Tempo) -> None:
        self._link = link
        self._keys = keys
        self._messages = messages
        self._clock = clock
        self._adopt_seconds = tempo.heartbeat_seconds + tempo.late_seconds
        """How long, after a loss of everything, tasks that a worker may be running are not yet called missing."""
        self._unlisted_seconds = tempo.dead_seconds
        """How long after its claim a task counts as missing if its worker neither lists it as running nor has reported
        it: the worker may have begun anew under its old name."""
        self._published: dict[str, Published] = {}
        self._empty_since: dict[str, float] = {}
        """Queues in which none of this process's tasks was found, and since when."""
        self._last_sent_at = 0

    # sending and taking back

    async def publish(self, tasks: Sequence[Task]) -> None:
        now = self._clock.monotonic()
        queues: dict[str, list[Sending]] = {}
        too_large: dict[str, int] = {}
        expires_at = self._clock.now() + TASK_SECONDS
        for task in tasks:
            task = msgspec.structs.replace(task, expires_at=expires_at)
            body, signature = self._messages.encode("task", task, task.tenant)
            task_id = task.task_id
            if len(body) > LARGEST_TASK:
                too_large[task_id] = len(body)
                continue
            self._last_sent_at = max(self._last_sent_at + 1, int(self._clock.now() * 1_000_000))
            queues.setdefault(task.queue, []).append((self._last_sent_at, task_id, task, body, signature))
            self._published[task_id] = Published(task.queue, now)
        if queues:
            await self._link.connected()
            self._link.send("SADD", self._keys.queues, *queues)
            self._link.send("EXPIRE", self._keys.queues, REGISTRY_SECONDS)
            calls = [self._publishing(queue, some) for queue, sent in queues.items() for some in _in_calls(sent)]
            await self._link.run_all(calls)
        if too_large:
            raise TasksTooLarge(too_large, LARGEST_TASK)

    def _publishing(self, queue: str, tasks: Sequence[Sending]) -> Call:
        arguments: Arguments = [self._keys.lane(queue), self._keys.wake_queue(queue), len(tasks)]
        arguments += (task_id for _, task_id, _, _, _ in tasks)
        for sent_at, _, task, body, signature in tasks:
            lane = lane_of(task.priority, task.type, task.function, task.tenant)
            arguments += (task.priority, lane, sent_at, body, signature)
        return "publish", [self._keys.held(queue), self._keys.lanes(queue)], arguments

    async def recall(self, task_ids: Sequence[str]) -> dict[str, Found]:
        answers: dict[str, Found] = dict.fromkeys(task_ids, "unknown")
        for task_id, answer in await self._ask("recall", task_ids):
            if answer != "unknown":
                answers[task_id] = answer  # type: ignore[assignment]
            if answer == "withdrawn":
                self.over(task_id)
        return answers

    async def stop(self, task_ids: Sequence[str]) -> set[str]:
        """Mark tasks as stopping; returns the workers that have one of them."""
        calls: list[Call] = [
            ("stop", [self._keys.held(queue)], [self._keys.lane(queue), *some])
            for queue, names in (await self._by_queue(task_ids)).items()
            for some in batches(names)
        ]
        return {shown(worker) for workers in await self._link.run_all(calls) for worker in workers}

    def settling(self, task_ids: dict[str, list[str]]) -> list[Call]:
        """The calls that take these tasks, by queue, away for good."""
        return [
            ("settle", [self._keys.held(queue), self._keys.lanes(queue)], [self._keys.lane(queue), *some])
            for queue, names in task_ids.items()
            for some in batches(names)
        ]

    def over(self, task_id: str) -> None:
        self._published.pop(task_id, None)

    # finding

    def queue_of(self, task_id: str) -> str:
        """The queue a task was sent to; empty if this process did not send it."""
        published = self._published.get(task_id)
        return "" if published is None else published.queue

    async def queues(self) -> set[str]:
        """All queues that had a task lately."""
        found = {one.queue for one in self._published.values()}
        for name in await self._link.call("SMEMBERS", self._keys.queues):
            try:
                found.add(self._messages.text("queue", name))
            except EnvelopeRefused:
                self._link.send("SREM", self._keys.queues, name)
        return found

    async def list_queues(self) -> list[QueueSeen]:
        names = sorted(await self.queues())
        calls: list[Call] = [
            ("list_queues", [self._keys.lanes(name)], [self._keys.lane(name), ADOPTED]) for name in names
        ]
        counts = await self._link.run_all(calls)
        return [QueueSeen(name, *map(int, one)) for name, one in zip(names, counts, strict=True) if any(one)]

    async def find_missing(
        self, task_ids: Collection[str], workers: Callable[[], Awaitable[list[WorkerSeen]]], reported: Reported
    ) -> set[str]:
        """Tasks that Redis no longer holds, and tasks that a worker has claimed but does not run, unless their result
        is on its way: that claim was lost."""
        answers = dict.fromkeys(task_ids, "missing")
        answers |= {name: answer for name, answer in await self._ask("locate", list(task_ids)) if answer != "missing"}
        suspects: dict[str, str] = {}
        for task_id, answer in answers.items():
            if answer.startswith("claimed"):
                _, milliseconds, worker = answer.split(" ", 2)
                if number_of(milliseconds) > self._unlisted_seconds * 1000:
                    suspects[task_id] = worker
        lost: list[str] = []
        if suspects:
            running = {(seen.beat.worker, name) for seen in await workers() for name in seen.beat.running}
            silent = [task_id for task_id, worker in suspects.items() if (worker, task_id) not in running]
            on_their_way = await reported(silent)
            lost = [task_id for task_id in silent if task_id not in on_their_way]
            await self._link.run_all(self.settling(await self._by_queue(lost)))
        missing = [task_id for task_id, answer in answers.items() if answer == "missing"]
        alive = {self._published[name].queue for name in answers.keys() - missing if name in self._published}
        now = self._clock.monotonic()  # one time for all: tasks of one loss are missing at the same moment
        gone = {task_id for task_id in missing if not self._may_be_adopted(task_id, alive, now)} | set(lost)
        for task_id in gone:
            self.over(task_id)
        return gone

    def _may_be_adopted(self, task_id: str, alive: Collection[str], now: float) -> bool:
        """Whether a worker may still have the task: the server was away, or lost everything, after it was sent."""
        published = self._published.get(task_id)
        if published is None:
            return False
        if published.at < self._link.connected_at and now - self._link.connected_at < self._adopt_seconds:
            return True
        if published.queue in alive:
            self._empty_since.pop(published.queue, None)
            return False
        since = self._empty_since.setdefault(published.queue, now)
        if since <= published.at:  # the queue was empty before this task was sent: another loss
            since = self._empty_since[published.queue] = now
        return now - since < self._adopt_seconds

    async def _ask(self, script: str, task_ids: Sequence[str]) -> list[tuple[str, str]]:
        """(task id, answer) from every queue the task may be in."""
        asked = [(queue, some) for queue, names in (await self._by_queue(task_ids)).items() for some in batches(names)]
        replies = await self._link.run_all(
            [
                (script, [self._keys.held(queue), self._keys.lanes(queue)], [self._keys.lane(queue), *some])
                for queue, some in asked
            ]
        )
        return [
            (task_id, shown(answer))
            for (_, some), answers in zip(asked, replies, strict=True)
            for task_id, answer in zip(some, answers, strict=True)
        ]

    async def _by_queue(self, task_ids: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        strange: list[str] = []
        for task_id in task_ids:
            published = self._published.get(task_id)
            if published is None:
                strange.append(task_id)
            else:
                found.setdefault(published.queue, []).append(task_id)
        if strange:
            for queue in await self.queues():
                found.setdefault(queue, []).extend(strange)
        return found

    # the claims of a worker

    async def list_claims(self, queue: str, worker: str) -> list[Any]:
        """Claimed entries as (lane, entry id, fields, milliseconds since the claim)."""
        arguments: Arguments = [self._keys.lane(queue), ADOPTED, worker, MOST_CLAIMS]
        reply: list[Any] = await self._link.run("list_claims", [self._keys.lanes(queue)], arguments)
        return reply

    async def forget(self, worker: str, is_ours: Callable[[str], bool], reported: Reported) -> tuple[list[str], bool]:
        """Take a worker's tasks away. Returns them, and whether it has others, whose runs another coordinator holds."""
        lost: list[str] = []
        has_others = False
        for queue in await self.queues():
            names = [task_of(entry) for entry in await self.list_claims(queue, worker)]
            ours = [name for name in names if is_ours(name)]
            kept = await reported(ours)
            gone = [name for name in ours if name not in kept]
            keys = [self._keys.held(queue), self._keys.lanes(queue), self._keys.forgotten(queue)]
            arguments: Arguments = [self._keys.lane(queue), ADOPTED, worker, FORGOTTEN_SECONDS]
            others, *dropped = await self._link.run("forget", keys, [*arguments, len(gone), *gone, *sorted(kept)])
            has_others = has_others or bool(others)
            lost += map(text_of, dropped)
        for name in lost:
            self.over(name)
        return lost, has_others


def task_of(entry: Any) -> str:
    return shown(fields_of(entry[2]).get(b"task", b""))


def _in_calls(tasks: Sequence[Sending]) -> Iterator[Sequence[Sending]]:
    """The tasks in portions for one call each, bounded in number and in bytes."""
    for some in batches(tasks):
        first, size = 0, 0
        for number, (_, _, _, body, _) in enumerate(some):
            if number > first and size + len(body) > BATCH_BYTES:
                yield some[first:number]
                first, size = number, 0
            size += len(body)
        yield some[first:]


def batches(names: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (names[first : first + BATCH] for first in range(0, len(names), BATCH))
