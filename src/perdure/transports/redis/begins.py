"""Beginning effects that may happen at most once: a worker wishes to begin, and the coordinator of the run makes the
start durable and answers.

It owns wishes and answers on both sides. A wish has a name of its own, and an answer is to that wish alone: an answer
that comes too late starts nothing. A wish that the server lost is sent again; one that no coordinator answers in time
is withdrawn, and the worker hands the attempt back, certain that nothing was started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from perdure.clock import Clock
from perdure.journal import partition_of
from perdure.transport import BeginRequest, Task, TransportUnavailable, run_of
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.redis.link import Link
from perdure.transports.redis.messages import Answer, Messages, Wish
from perdure.transports.redis.names import BEGIN_SECONDS, Keys
from perdure.transports.redis.reader import number_of
from perdure.transports.redis.wakes import POLL_SECONDS, Ticket, Wakes

PATIENCE_SECONDS = 20.0
"""How long a worker waits for the answer to its wish."""
MOST_ANSWERED = 10_000


class Begins:
    def __init__(
        self,
        link: Link,
        wakes: Wakes,
        keys: Keys,
        messages: Messages,
        clock: Clock,
        *,
        process: str,
        partition_count: int,
    ) -> None:
        self._link = link
        self._wakes = wakes
        self._keys = keys
        self._messages = messages
        self._clock = clock
        self._process = process
        self._count = partition_count
        self._held: set[int] = set()
        self._dirty: dict[int, None] = {}
        """Partitions in which a worker may wish to begin."""
        self._ready: deque[BeginRequest] = deque()
        self._asked: dict[str, tuple[bytes, Wish]] = {}
        """Wishes read and not yet answered, by task."""
        self._answered: dict[str, bytes] = {}
        """The latest answers, by wish: a wish that is read again is answered again, in the same way."""
        self._waiting: set[Ticket] = set()
        wakes.on([keys.wake_begins], self._woken)

    # worker

    async def begin(self, task: Task, worker: str, ask: str = "") -> bool:
        if not await self._is_claimed(task, worker):
            return False
        partition = partition_of(task.run_id, self._count)
        wish = Wish(ask=ask or self._clock.new_id(), process=self._process, worker=worker, task=task)
        value = self._messages.encode_lines("begin", wish, task.tenant)
        ticket = Ticket()
        done = self._wakes.on([self._keys.wake_process(self._process)], ticket.wake)
        give_up_at = self._clock.monotonic() + PATIENCE_SECONDS
        try:
            await self._send(partition, task.task_id, value)
            while True:
                self._link.check_open()
                ticket.clear()
                answer = await self._link.call("GET", self._keys.grant(partition, wish.ask))
                if answer is not None:
                    return self._is_granted(answer, wish)
                if self._clock.monotonic() > give_up_at:
                    raise TransportUnavailable(f"{task.task_id}: no coordinator answered whether it may begin")
                if not await ticket.wait(POLL_SECONDS):
                    await self._send(partition, task.task_id, value)
        finally:
            done()
            keys = [self._keys.begins(partition), self._keys.grant(partition, wish.ask)]
            self._link.try_to_start("withdraw", keys, [task.task_id, value])

    async def _is_claimed(self, task: Task, worker: str) -> bool:
        keys = [self._keys.held(task.queue), self._keys.lanes(task.queue)]
        [answer] = await self._link.run("locate", keys, [self._keys.lane(task.queue), task.task_id])
        return bool(answer.split(b" ", 2)[2:] == [worker.encode()])

    async def _send(self, partition: int, task_id: str, value: bytes) -> None:
        begins = self._keys.begins(partition)
        await self._link.call_all(
            [
                ["HSET", begins, task_id, value],
                ["EXPIRE", begins, BEGIN_SECONDS],
                ["PUBLISH", self._keys.wake_begins, partition],
            ]
        )

    def _is_granted(self, answer: bytes, wish: Wish) -> bool:
        try:
            said: Answer = self._messages.decode_lines("grant", answer)
        except EnvelopeRefused:
            return False
        return said.granted and (said.ask, said.task_id) == (wish.ask, wish.task.task_id)

    # coordinator

    def take_over(self, partitions: Iterable[int]) -> None:
        self._held.update(partitions)
        self._woken("")

    def wake(self) -> None:
        """Let every waiting `receive_begin` look."""
        for ticket in self._waiting:
            ticket.wake()

    def hand_back(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self._held -= gone
        for partition in gone:
            self._dirty.pop(partition, None)
        self._asked = {task_id: one for task_id, one in self._asked.items() if self._partition(task_id) not in gone}
        self._ready = deque(one for one in self._ready if one.task.task_id in self._asked)

    def _woken(self, said: str) -> None:
        """Mark the partition that was named, or all of them for an empty text: something may have been missed."""
        woken = [number_of(said)] if said else self._held
        self._dirty.update((partition, None) for partition in woken if partition in self._held)
        self.wake()

    async def receive_begin(self) -> BeginRequest:
        ticket = Ticket()
        self._waiting.add(ticket)
        try:
            while True:
                self._link.check_open()
                ticket.clear()
                if self._ready:
                    return self._ready.popleft()
                if self._dirty:
                    await self._read()
                elif not await ticket.wait(POLL_SECONDS):
                    self._woken("")
        finally:
            self._waiting.discard(ticket)
            if self._ready or self._dirty:
                self.wake()

    async def _read(self) -> None:
        partitions = list(self._dirty)
        replies = await self._link.call_all([["HGETALL", self._keys.begins(partition)] for partition in partitions])
        for partition in partitions:
            self._dirty.pop(partition, None)
        for partition, reply in zip(partitions, replies, strict=True):
            for name, value in zip(reply[::2], reply[1::2], strict=True):
                try:
                    with self._messages.reading("begin"):
                        task_id, wish = self._believe(partition, name, value)
                except EnvelopeRefused:
                    await self._link.call("HDEL", self._keys.begins(partition), name)
                else:
                    await self._accept(task_id, value, wish)

    def _believe(self, partition: int, name: bytes, value: bytes) -> tuple[str, Wish]:
        """Decode and check a wish. Raises `EnvelopeRefused`, having counted and logged the refusal."""
        task_id = self._messages.text("begin", name)
        known = self._asked.get(task_id)
        if known is not None and known[0] == value:
            return task_id, known[1]
        wish: Wish = self._messages.decode_lines("begin", value)
        if wish.task.task_id != task_id or self._partition(task_id) != partition:
            self._messages.refuse(
                "begin", f"a wish to begin {wish.task.task_id} in the place of {task_id}, partition {partition}"
            )
            raise EnvelopeRefused("it belongs elsewhere")
        return task_id, wish

    async def _accept(self, task_id: str, value: bytes, wish: Wish) -> None:
        known = self._asked.get(task_id)
        if known is not None and known[0] == value:
            return
        said = self._answered.get(wish.ask)
        if said is not None:
            await self._answer(task_id, value, wish, said)
            return
        self._asked[task_id] = (value, wish)
        self._ready.append(BeginRequest(wish.task, wish.worker, wish.ask))

    async def grant_begin(self, task_id: str, granted: bool, ask: str = "") -> None:
        known = self._asked.get(task_id)
        if known is None:
            value = await self._link.call("HGET", self._keys.begins(self._partition(task_id)), task_id)
            if value is None:
                return
            try:
                known = value, self._messages.decode_lines("begin", value)
            except EnvelopeRefused:
                return
        value, wish = known
        if ask and wish.ask != ask:  # the worker gave that wish up, and this one is answered by itself
            return
        self._asked.pop(task_id, None)
        answer = Answer(tenant=wish.task.tenant, ask=wish.ask, task_id=task_id, granted=granted)
        said = self._messages.encode_lines("grant", answer, wish.task.tenant)
        self._answered[wish.ask] = said
        if len(self._answered) > MOST_ANSWERED:
            del self._answered[next(iter(self._answered))]
        # Crash here: the start is durable and the worker hears nothing; it hands the attempt back, not begun.
        await self._answer(task_id, value, wish, said)

    async def _answer(self, task_id: str, value: bytes, wish: Wish, said: bytes) -> None:
        partition = self._partition(task_id)
        keys = [self._keys.begins(partition), self._keys.grant(partition, wish.ask)]
        await self._link.run(
            "grant", keys, [task_id, value, said, BEGIN_SECONDS, self._keys.wake_process(wish.process)]
        )

    def _partition(self, task_id: str) -> int:
        return partition_of(run_of(task_id), self._count)
