"""Results on their way to the coordinator that holds their partition.

It owns which partitions this process holds, what was received and not yet acknowledged, and when to look. Results are
read ahead, a page per partition; a result that was read belongs to this process until it is acknowledged or the
partition is handed back.

Bounds: read ahead at most PAGE results of AT_ONCE partitions beyond what was asked for. Results received and not
acknowledged are at most one per task that was published, plus checkpoints. One turn of the loop decodes TURN_BYTES of
what arrived, or one result that is larger.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.journal import partition_of
from perdure.tempo import Tempo
from perdure.transport import CannotSend, CheckpointsRefused, Delivery, Result, run_of, unreadable
from perdure.transports.envelopes import EnvelopeRefused
from perdure.transports.measured_results import measured
from perdure.transports.redis.checkpoints import Checkpoints, Sent
from perdure.transports.redis.claims import Claims
from perdure.transports.redis.link import Arguments, Call, Link
from perdure.transports.redis.messages import LARGEST_RESULT, Messages, fields_of
from perdure.transports.redis.names import Keys
from perdure.transports.redis.reader import number_of, text_of
from perdure.transports.redis.sent_tasks import Tasks, batches
from perdure.transports.redis.wakes import POLL_SECONDS, Ticket, Wakes

PAGE = 128
AT_ONCE = 32
"""Partitions in one call; in a cluster just one, since each is in a slot of its own."""
START = "0-0"
TURN_BYTES = 256 * 1024


class Received(msgspec.Struct, frozen=True, gc=False):
    partition: int
    entry: str
    task_id: str
    queue: str
    ends: bool
    """Whether the result is the task's last word; a checkpoint is not."""
    tenant: str
    ask: str
    """The name of a checkpoint whose worker waits until it is durable."""
    process: str


class Held(msgspec.Struct):
    """A partition of this process, and where reading it stands."""

    mode: str = "0"
    """`new`, `tidy`, or how many milliseconds ago another process must have received what is taken over now."""
    cursor: str = START


class Results:
    def __init__(
        self,
        link: Link,
        wakes: Wakes,
        keys: Keys,
        messages: Messages,
        tasks: Tasks,
        claims: Claims,
        checkpoints: Checkpoints,
        clock: Clock,
        tempo: Tempo,
        *,
        consumer: str,
        partition_count: int,
    ) -> None:
        self._link = link
        self._keys = keys
        self._messages = messages
        self._tasks = tasks
        self._claims = claims
        claims.report_again = self._report_again
        self._checkpoints = checkpoints
        self._clock = clock
        self._consumer = consumer
        self._count = partition_count
        self._tempo = tempo
        self._looked = self._looked_for_stale = clock.monotonic()
        self._held: dict[int, Held] = {}
        self._dirty: dict[int, None] = {}
        """Partitions that may have results to read."""
        self._reading: set[int] = set()
        self._unread: deque[tuple[int, Held, str, list[bytes]]] = deque()
        """What arrived and is not decoded: the rest of a turn, which the next turn of the loop goes on with."""
        self._ready: deque[Delivery] = deque()
        self._received: dict[str, Received] = {}
        self._failure: Exception | None = None
        self._waiting: set[Ticket] = set()
        wakes.on([keys.wake_results], self._woken)

    # partitions

    @property
    def partitions(self) -> Collection[int]:
        return self._held.keys()

    def take_over(self, partitions: Iterable[int]) -> None:
        """Receive for these partitions too, first what others had received and not acknowledged (PROTOCOL 17)."""
        taken = dict.fromkeys(partitions)
        self._drop(taken)
        self._held |= {partition: Held() for partition in taken}
        self._dirty |= taken
        self.wake()

    def hand_back(self, partitions: Iterable[int]) -> None:
        """Receive no more for these partitions: their next holder takes over what is not acknowledged."""
        gone = set(partitions)
        self._drop(gone)
        for partition in gone:
            self._held.pop(partition, None)
            self._dirty.pop(partition, None)

    def _drop(self, partitions: Collection[int]) -> None:
        self._received = {name: one for name, one in self._received.items() if one.partition not in partitions}
        self._ready = deque(delivery for delivery in self._ready if delivery.receipt in self._received)

    def _woken(self, said: str) -> None:
        """Mark the partitions that were named, or all of them for an empty text: something may have been missed."""
        woken = [number_of(one) for one in said.split()] if said else self._held
        self._dirty.update((partition, None) for partition in woken if partition in self._held)
        self.wake()

    def wake(self) -> None:
        """Let every waiting `receive` look."""
        for ticket in self._waiting:
            ticket.wake()

    # receiving

    async def receive(self, limit: int) -> list[Delivery]:
        ticket = Ticket()
        self._waiting.add(ticket)
        try:
            while True:
                self._link.check_open()
                ticket.clear()
                self._look_again()
                if self._ready:
                    return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
                await self._raise_failure()
                if self._dirty and not self._unread:
                    await self._read()
                await ticket.wait(POLL_SECONDS)
        finally:
            self._waiting.discard(ticket)
            if self._ready:  # another waiting `receive` takes what is left
                self.wake()

    async def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            await self._link.mend(failure)

    async def _read(self) -> None:
        """Ask for a page of each partition that may have something. What arrives is kept, even if the caller left."""
        await self._link.connected()
        chosen = [partition for partition in self._dirty if partition not in self._reading][:AT_ONCE]
        size = 1 if self._link.is_cluster else AT_ONCE
        for first in range(0, len(chosen), size):
            some = {partition: self._held[partition] for partition in chosen[first : first + size]}
            for partition in some:
                del self._dirty[partition]
                self._reading.add(partition)
            keys = [self._keys.results(partition) for partition in some]
            arguments: Arguments = [self._consumer, PAGE]
            for held in some.values():
                arguments += (held.mode, held.cursor)
            sent = self._link.start("receive", keys, arguments)
            sent.add_done_callback(functools.partial(self._arrived, some))

    def _arrived(self, asked: dict[int, Held], sent: asyncio.Future[Any]) -> None:
        reply = sent.result()
        self._reading.difference_update(asked)
        if isinstance(reply, Exception):
            self._failure = reply
            for partition, held in asked.items():
                held.mode, held.cursor = "0", START  # perhaps the call was done: what it gave is read again
                if partition in self._held:
                    self._dirty[partition] = None
        else:
            is_under_way = bool(self._unread)
            for (partition, held), (cursor, entries) in zip(asked.items(), reply, strict=True):
                if self._held.get(partition) is held:  # else it was handed back meanwhile, or taken over anew
                    self._accept_page(partition, held, text_of(cursor), entries)
            if not is_under_way:
                self._accept_some()
        self.wake()

    def _accept_some(self) -> None:
        """Decode as much of what arrived as one turn of the loop may take."""
        spent = 0
        while self._unread:
            partition, held, entry, raw = self._unread[0]
            size = sum(map(len, raw))
            if spent and spent + size > TURN_BYTES:
                asyncio.get_running_loop().call_soon(self._accept_some)
                break
            spent += size
            self._unread.popleft()
            if self._held.get(partition) is held:
                self._accept(partition, entry, raw)
        self.wake()

    def _accept_page(self, partition: int, held: Held, cursor: str, entries: list[Any]) -> None:
        if held.mode in {"new", "tidy"}:
            is_over = len(entries) < PAGE
        else:
            is_over = False  # first what was left, then what is new
        if cursor == START:
            held.mode = "new"
        held.cursor = cursor
        if not is_over:
            self._dirty[partition] = None
        self._unread.extend((partition, held, text_of(entry), raw) for entry, raw in entries)

    def _accept(self, partition: int, entry: str, raw: list[bytes]) -> None:
        receipt = f"{partition}:{entry}"
        if receipt in self._received:
            return  # this process is working on it already
        try:
            with self._messages.reading("result"):
                received, result = self._believe(partition, entry, fields_of(raw))
        except EnvelopeRefused:
            # Which task it was about is not known. A task whose worker is done with it and that has no result is found
            # by the sweep.
            for call in self._acknowledging({partition: [entry]}):
                self._link.try_to_start(*call)
            return
        self._received[receipt] = received
        self._ready.append(Delivery(receipt, result))

    def _believe(self, partition: int, entry: str, fields: dict[bytes, bytes]) -> tuple[Received, Result]:
        """Decode and check a result. Raises `EnvelopeRefused`, having counted and logged the refusal."""
        task_id, queue, ask, process = (
            self._messages.text("result", fields.get(name, b"")) for name in (b"task", b"queue", b"ask", b"process")
        )
        result = self._read_result(fields.get(b"message", b""), fields.get(b"signature", b""))
        if result.task_id != task_id or partition_of(result.run_id, self._count) != partition:
            self._messages.refuse("result", f"{task_id}: its result stands in another's place, partition {partition}")
            raise EnvelopeRefused("it belongs elsewhere")
        result = measured(result)
        ends = result.kind != "checkpointed"
        return Received(partition, entry, task_id, queue, ends, result.tenant, ask, process), result

    def _read_result(self, body: bytes, signature: bytes) -> Result:
        """The result, or the failure of the attempt whose own worker wrote what cannot be read: it would report the same
        again, for as long as the sweep asks. Raises `EnvelopeRefused`."""
        try:
            result: Result = self._messages.decode("result", body, signature)
            return result
        except EnvelopeRefused as error:
            head = self._messages.find_head(body, signature)
            if head is None:
                raise
            return unreadable(head, f"its worker reported {error.message}")

    def _look_again(self) -> None:
        """Read every partition now and then: a wake-up may have been lost, and so may a coordinator that had received
        results. This must happen even while wake-ups keep coming, since those may be for other partitions."""
        now = self._clock.monotonic()
        if now - self._looked < POLL_SECONDS:
            return
        self._looked = now
        is_time = now - self._looked_for_stale > self._tempo.look_for_stale_seconds
        if is_time:
            self._looked_for_stale = now
        for partition, held in self._held.items():
            self._dirty[partition] = None
            if held.mode == "new":
                held.mode = str(int(self._tempo.stale_seconds * 1000)) if is_time else "tidy"

    async def tidy(self) -> None:
        """Remove the empty streams of this process's partitions."""
        size = 1 if self._link.is_cluster else AT_ONCE
        names = list(self._held)
        await self._link.run_all(
            [
                ("tidy", [self._keys.results(partition) for partition in names[first : first + size]], [])
                for first in range(0, len(names), size)
            ]
        )

    # acknowledging

    async def acknowledge(self, receipts: Sequence[str], refused: Collection[str] = ()) -> None:
        known = [(receipt, self._received[receipt]) for receipt in receipts if receipt in self._received]
        entries: dict[int, list[str]] = {}
        ended: dict[str, list[str]] = {}
        nowhere: list[str] = []
        for _, one in known:
            entries.setdefault(one.partition, []).append(one.entry)
            if one.ends:
                queue = self._tasks.queue_of(one.task_id) or one.queue  # our own record counts more than the message
                (ended.setdefault(queue, []) if queue else nowhere).append(one.task_id)
        for queue in await self._tasks.queues() if nowhere else ():
            ended.setdefault(queue, []).extend(nowhere)
        if entries:
            # Crash between the two: the result comes again and is acknowledged again.
            await self._link.run_both(self._tasks.settling(ended), self._acknowledging(entries))
        said: list[Arguments] = []
        for receipt, one in known:
            self._received.pop(receipt, None)
            if one.ends:
                self._tasks.over(one.task_id)
            if one.ask:
                kept = not one.ends and receipt not in refused
                said += self._checkpoints.saying(
                    one.partition, one.task_id, one.tenant, one.ask, one.process, kept=kept
                )
        if said:  # Crash here: the worker finds its checkpoint gone and sends it again
            await self._link.call_all(said)

    def _acknowledging(self, entries: dict[int, list[str]]) -> list[Call]:
        size = 1 if self._link.is_cluster else AT_ONCE
        rows = [(partition, some) for partition, names in entries.items() for some in batches(names)]
        calls: list[Call] = []
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            arguments: Arguments = [text for _, some in part for text in (len(some), *some)]
            calls.append(("acknowledge", [self._keys.results(partition) for partition, _ in part], arguments))
        return calls

    # reporting

    async def report(self, results: Sequence[Result]) -> None:
        named = [(result.task_id, result) for result in results]
        commands: list[Arguments] = []
        partitions: set[int] = set()
        waits: dict[int, Sent] = {}
        problems: dict[int, str] = {}
        for number, (task_id, result) in enumerate(named):
            partition = partition_of(result.run_id, self._count)
            partitions.add(partition)
            try:
                fields = self._fields(task_id, result)
            except Exception as error:  # noqa: BLE001  making a message depends on nothing but the result
                problems[number] = f"{type(error).__name__}: {error}"
                continue
            if self._checkpoints.durable and result.kind == "checkpointed":
                waits[number] = self._checkpoints.prepare(partition, task_id, result.answers_to, fields)
                fields = waits[number].fields
            commands.append(["XADD", self._keys.results(partition), "*", *fields])
        if problems:
            raise CannotSend(problems)
        if not commands:
            return
        commands.append(["PUBLISH", self._keys.wake_results, " ".join(map(str, partitions))])
        replies = await self._link.call_all(commands)
        for task_id, result in named:
            if result.kind != "checkpointed":
                self._claims.reported(task_id, result)
        for number, sent in waits.items():
            sent.entry = replies[number]
        if waits:
            refused = await self._checkpoints.wait(list(waits.values()))
            if refused:
                raise CheckpointsRefused(refused)

    def _report_again(self, result: Result) -> None:
        """Report a result once more. If that is lost, the coordinator misses the result and sends the task again."""
        partition = partition_of(result.run_id, self._count)
        self._link.send("XADD", self._keys.results(partition), "*", *self._fields(result.task_id, result))
        self._link.send("PUBLISH", self._keys.wake_results, str(partition))

    def _fields(self, task_id: str, result: Result) -> Arguments:
        claim = self._claims.running.get(task_id)
        queue = "" if claim is None else claim.queue
        body, signature = self._messages.encode("result", result, result.tenant)
        if len(body) > LARGEST_RESULT:
            raise ValueError(f"it has {len(body):,} bytes, and {LARGEST_RESULT:,} can be sent")
        return ["task", task_id, "kind", result.kind, "queue", queue, "message", body, "signature", signature]

    async def find_reported(self, task_ids: Collection[str]) -> set[str]:
        """The tasks whose result is on its way."""
        partitions: dict[int, list[str]] = {}
        for task_id in task_ids:
            partitions.setdefault(partition_of(run_of(task_id), self._count), []).append(task_id)
        found: set[str] = set()
        for partition, names in partitions.items():
            after = START
            while after:
                reply = await self._link.run("list_reported", [self._keys.results(partition)], [after, 1000, *names])
                after, *some = map(text_of, reply)
                found.update(some)
        return found
