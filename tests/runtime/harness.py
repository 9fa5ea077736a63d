"""A worker on an in-process transport, and short ways to give it work and see what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

from perdure.clock import Clock, system
from perdure.nodes import task as task_type
from perdure.nodes.registry import NodeType, Registry
from perdure.runtime.worker.worker import Worker
from perdure.transport import Result, Task, Transport
from perdure.transports.local import LocalTransport
from tests.waiting import until_true as wait_until

__all__ = ["wait_until"]

T = TypeVar("T")

SOON = 60.0


def make_task(node: str = "n", type: str = "probe", **fields: Any) -> Task:
    return Task(**{"run_id": "r1", "node": node, "type": type, "idempotency_key": f"r1/{node}/do"} | fields)


def call(function: str, node: str = "n", **fields: Any) -> Task:
    """A task of the built-in type."""
    return make_task(node, "task", config={"function": function, "args": fields.pop("args", {})}, **fields)


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, SOON)


class Harness:
    def __init__(self, transport: Transport, worker: Worker) -> None:
        self.transport = transport
        self.worker = worker

    async def publish(self, *tasks: Task) -> None:
        await self.transport.publish(tasks)

    async def result(self) -> Result:
        """The next one, acknowledged."""
        [delivery] = await soon(self.transport.receive(1))
        await self.transport.acknowledge([delivery.receipt])
        return delivery.result

    async def do(self, task: Task) -> Result:
        await self.publish(task)
        return await self.result()

    async def has_nothing(self) -> None:
        """No result is on its way."""
        receiving = asyncio.ensure_future(self.transport.receive(1))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not receiving.done(), receiving.result()
        receiving.cancel()


@contextlib.asynccontextmanager
async def working(
    handler: Callable[..., Any] | None = None,
    *,
    clock: Any = system,
    transport: Transport | None = None,
    **options: Any,
) -> AsyncIterator[Harness]:
    """A running worker that knows `task` and, if a handler is given, the type `probe`."""
    registry = Registry()
    registry.add(task_type.TYPE)
    if handler is not None:
        registry.add(NodeType(name="probe", description="For tests.", handler=cast(Any, handler)))
    transport = transport or LocalTransport(cast(Clock, clock))
    options = dict[str, Any]({"worker_id": "w1", "concurrency": 4, "heartbeat_seconds": 3600.0}) | options
    worker = Worker(transport, registry, clock, **options)
    running = asyncio.ensure_future(worker.run())
    try:
        await wait_until(lambda: worker._seen.is_set() or running.done(), "the worker was seen")
        yield Harness(transport, worker)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await soon(running)
        await transport.close()
