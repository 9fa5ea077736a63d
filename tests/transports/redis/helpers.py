"""What several of these tests need: patience, and a coordinator that is nothing but its promises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from perdure.tempo import TEMPO, Tempo
from perdure.transport import Task, TransportClosed, TransportUnavailable
from perdure.transports.redis import RedisTransport
from tests.conformance.transport.messages import result
from tests.waiting import PATIENCE_SECONDS
from tests.waiting import until_true as wait_until

__all__ = ["wait_until"]

T = TypeVar("T")


async def insist(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """As the runtime does: again, until the transport answers."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await call(*arguments)
            except TransportClosed:
                raise
            except TransportUnavailable:
                await asyncio.sleep(0.005)


async def wait_for_more(things: Sequence[Any], number: int = 1) -> None:
    """Than there are now."""
    before = len(things)
    await wait_until(lambda: len(things) >= before + number, f"there are {number} more")


async def work(transport: RedisTransport, worker: str, done: list[str]) -> None:
    """A worker without slots and handlers: whatever it claims it has done at once."""
    while True:
        for task in await insist(transport.claim, worker, ["default"], 10):
            done.append(task.task_id)
            await insist(transport.report, [result(task, worker=worker)])


class Coordinator:
    """Sends tasks, sends again what is missing, and accepts each result once, as a journal would."""

    def __init__(self, transport: RedisTransport, tasks: Collection[Task], *, window: int = 20) -> None:
        self.transport = transport
        self._backlog = list(tasks)
        self._window = window
        self._out: dict[str, Task] = {}
        self.accepted: list[str] = []
        self.acknowledged: set[str] = set()
        self.repeated: list[str] = []
        """Receipts that came again after they were acknowledged."""

    async def run(self) -> None:
        """Until every task has its result."""
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep())
            while self._backlog or self._out:
                await self._send()
                for delivery in await insist(self.transport.receive, 100):
                    self._accept(delivery.receipt, delivery.result.task_id)
                    await insist(self.transport.acknowledge, [delivery.receipt])
                    self.acknowledged.add(delivery.receipt)
            sweeping.cancel()

    def _accept(self, receipt: str, task_id: str) -> None:
        if receipt in self.acknowledged:
            self.repeated.append(receipt)
        if self._out.pop(task_id, None) is not None:
            self.accepted.append(task_id)

    async def _send(self) -> None:
        new = self._backlog[: self._window - len(self._out)]
        del self._backlog[: len(new)]
        self._out |= {task.task_id: task for task in new}
        await insist(self.transport.publish, new)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            missing = await insist(self.transport.find_missing, list(self._out))
            again = [self._out[task_id] for task_id in sorted(missing) if task_id in self._out]
            await insist(self.transport.publish, again)


def with_tempo(options: dict[str, Any]) -> dict[str, Any]:
    """Each of the transport's own times by its name, as the tempo that leads to it."""
    options = dict(options)
    stale = options.pop("stale_seconds", TEMPO.stale_seconds)
    tempo = Tempo(
        heartbeat_seconds=options.pop("adopt_seconds", TEMPO.heartbeat_seconds + TEMPO.late_seconds),
        late_seconds=0.0,
        dead_seconds=options.pop("unlisted_seconds", 30.0),
        stale_seconds=stale,
        look_for_stale_seconds=stale / 2,
    )
    return options | {"tempo": tempo}
