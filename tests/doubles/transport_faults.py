"""A transport that fails on command: the fault seams of the port, for the simulator.

`plan(operation, n)` is asked before each call, `n` counting the calls of that operation from 1; it answers with a fault or None.
Everything it does is something the port allows: messages may be lost, repeated, late and out of order, calls may fail.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from perdure.clock import Clock, system
from perdure.transport import Result, Task, Transport, TransportUnavailable, WorkerBeat


class FaultKind(enum.Enum):
    LOSE = "lose"
    """publish, report, stop, acknowledge, grant_begin, beat: it looks done, and nobody hears of it."""
    DUPLICATE = "duplicate"
    """publish: workers get it twice. report: it is delivered twice. Others: as usual."""
    HOLD_BACK = "hold_back"
    """publish, report: it looks done, and arrives with the next call of the same operation, after that one's messages."""
    DELAY = "delay"
    """`seconds` pass, then everything is as it should be."""
    FAIL_BEFORE = "fail_before"
    """Nothing is done; `TransportUnavailable`."""
    FAIL_AFTER = "fail_after"
    """It is done; the answer is lost: `TransportUnavailable`."""


class Fault(msgspec.Struct, frozen=True):
    kind: FaultKind
    seconds: float = 0.0


Plan = Callable[[str, int], Fault | None]

# What can be lost without an answer that says so. Losing a claim or a received result is FAIL_AFTER.
_LOSABLE = {"publish", "report", "stop", "acknowledge", "grant_begin"}
_UNTOUCHED = {"close", "on_stop"}


class FaultyTransport:
    """Looks like the transport it wraps. `calls` counts what was asked of it, by operation."""

    def __init__(self, transport: Transport, plan: Plan, clock: Clock = system) -> None:
        self._transport = transport
        self._plan = plan
        self._clock = clock
        self._again: list[Task] = []
        """Claimed a second time by whoever claims next."""
        self._held_back: dict[str, list[Any]] = {"publish": [], "report": []}
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._transport, name)
        if name in _UNTOUCHED or not callable(attribute):
            return attribute

        async def call(*arguments: Any) -> Any:
            fault = self._next_fault(name)
            if fault is not None and fault.kind is FaultKind.LOSE and name in _LOSABLE:
                return None
            return await self._call(name, fault, attribute, arguments)

        return call

    async def publish(self, tasks: Sequence[Task]) -> None:
        fault = self._next_fault("publish")
        if fault is not None and fault.kind is FaultKind.DUPLICATE:
            self._again += tasks
        await self._send("publish", fault, tasks)

    async def report(self, results: Sequence[Result]) -> None:
        fault = self._next_fault("report")
        if fault is not None and fault.kind is FaultKind.DUPLICATE:
            await self._transport.report(results)
        await self._send("report", fault, results)

    def on_result(self, hear: Any) -> None:
        """What is reported at once could not be disturbed."""

    def on_task(self, worker: str, queues: Sequence[str], take: Any) -> None:
        """What is taken at once could not be disturbed."""

    def report_now(self, result: Result) -> bool:
        return False

    async def claim(self, worker: str, queues: Sequence[str], limit: int, *fitting: Any) -> list[Task]:
        fault = self._next_fault("claim")
        again = [task for task in self._again if task.queue in queues][:limit]
        if again:
            self._again = [task for task in self._again if task not in again]
            return again
        return await self._call("claim", fault, self._transport.claim, (worker, queues, limit, *fitting))

    def beat(self, beat: WorkerBeat) -> tuple[str, ...]:
        fault = self._next_fault("beat")
        if fault is None or fault.kind in {FaultKind.DELAY, FaultKind.DUPLICATE, FaultKind.HOLD_BACK}:
            return self._transport.beat(beat)
        if fault.kind is FaultKind.LOSE:
            return ()
        if fault.kind is FaultKind.FAIL_AFTER:
            self._transport.beat(beat)
        raise TransportUnavailable(f"injected: beat {self.calls['beat']}")

    async def _send(self, name: str, fault: Fault | None, messages: Sequence[Any]) -> None:
        late = self._held_back[name]
        if fault is not None and fault.kind is FaultKind.LOSE:
            return
        if fault is not None and fault.kind is FaultKind.HOLD_BACK:
            late += messages
            return
        self._held_back[name] = []
        await self._call(name, fault, getattr(self._transport, name), ([*messages, *late],))

    async def _call(self, name: str, fault: Fault | None, operation: Callable[..., Any], arguments: Any) -> Any:
        where = f"injected: {name} {self.calls[name]}"
        if fault is None:
            return await operation(*arguments)
        match fault.kind:
            case FaultKind.FAIL_BEFORE:
                raise TransportUnavailable(f"{where} failed before it was done")
            case FaultKind.FAIL_AFTER:
                await operation(*arguments)
                raise TransportUnavailable(f"{where} was done, its answer lost")
            case FaultKind.DELAY:
                await self._clock.sleep(fault.seconds)
        return await operation(*arguments)

    def _next_fault(self, name: str) -> Fault | None:
        self.calls[name] += 1
        return self._plan(name, self.calls[name])


def with_transport_faults(transport: Transport, plan: Plan, clock: Clock = system) -> Transport:
    """The same, as the type checker wants it."""
    return cast(Transport, FaultyTransport(transport, plan, clock))
