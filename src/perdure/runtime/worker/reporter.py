"""The reporter: delivers results in order; those that are ready together go in one call.

It owns the results that are finished and not yet delivered. While delivery fails it keeps them and says so, and the
worker claims nothing more (PROTOCOL 19). Their number is bounded by the slots, since checkpoints wait for delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from perdure.clock import Clock
from perdure.outcomes import Failure
from perdure.transport import CannotSend, CheckpointsRefused, Result, Transport, TransportClosed, unreadable

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Reporter:
    def __init__(self, transport: Transport, clock: Clock, worker: str) -> None:
        self._transport = transport
        self._clock = clock
        self._worker = worker
        self._ready: list[Result] = []
        self._delivering: list[Result] = []
        self._waiters: list[tuple[asyncio.Future[None], str]] = []
        """Futures that wait for the results that are ready, each with the name that a refusal would have."""
        self._delivery_waiters: list[tuple[asyncio.Future[None], str]] = []
        """Futures that wait for the results that are being delivered, likewise."""
        self._wake: asyncio.Future[None] | None = None
        self.delivered = 0
        """Results, so far."""
        self.failing = False
        self.changed: Callable[[], None] = lambda: None
        """Called when delivery works again."""

    @property
    def count(self) -> int:
        """The number of results not yet delivered."""
        return len(self._ready) + len(self._delivering)

    def add(self, result: Result) -> None:
        """Deliver a result: at once, if none is before it and its coordinator is in this process."""
        if not self._ready and not self._delivering and self._transport.report_now(result):
            self.delivered += 1
            return
        self._ready.append(result)
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    def add_and_wait(self, result: Result) -> asyncio.Future[None]:
        """Add a result. The future is done when everything added so far is delivered, and cancelled if it was a
        checkpoint of an attempt that is no longer current."""
        self.add(result)
        return self.flushed(result.answers_to)

    def flushed(self, name: str = "") -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._ready:
            self._waiters.append((waiter, name))
        elif self._delivering:
            self._delivery_waiters.append((waiter, name))
        else:
            waiter.set_result(None)
        return waiter

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._ready:
                    self._wake = loop.create_future()
                    await self._wake
                self._delivering, self._ready = self._ready, []
                self._delivery_waiters, self._waiters = self._waiters, []
                refused = await self._deliver()
                for waiter, name in self._delivery_waiters:
                    if name in refused:
                        waiter.cancel("its attempt is over: another one is current, or it may not begin")
                    elif not waiter.done():
                        waiter.set_result(None)
        finally:
            for waiter, _ in self._delivery_waiters + self._waiters:
                waiter.cancel()

    async def _deliver(self) -> Collection[str]:
        """Deliver, however long it takes, and give the names of what was refused."""
        pause, refused = FIRST_PAUSE_SECONDS, frozenset[str]()
        while True:
            try:
                await self._transport.report(self._delivering)
            except CheckpointsRefused as found:  # every result was delivered nevertheless
                refused = found.names
            except TransportClosed:
                raise
            except CannotSend as found:
                self._fail(found.problems)
                continue
            except Exception as error:  # noqa: BLE001  whatever an adapter raises, the results must not be lost
                if not self.failing:
                    _log.warning("worker %s cannot deliver results and claims no more: %r", self._worker, error)
                self.failing = True
                await self._clock.sleep(pause * (0.5 + self._clock.random() / 2))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                continue
            # Crash here: results are delivered twice at most, and the second delivery is ignored (T2).
            self.delivered += len(self._delivering)
            self._delivering = []
            if self.failing:
                self.failing = False
                self.changed()
            return refused

    def _fail(self, problems: Mapping[int, str]) -> None:
        """Replace results that no message can hold: trying again would hold up all others for ever. Their attempts fail;
        of a checkpoint the handler is told, and nothing else was lost."""
        left: list[Result] = []
        for place, result in enumerate(self._delivering):
            problem = problems.get(place)
            if problem is None:
                left.append(result)
                continue
            what = "checkpoint" if result.kind == "checkpointed" else "result"
            message = f"the {what} cannot be sent: {problem}"
            _log.error("worker %s: %s: %s", self._worker, result.task_id, message)
            if result.kind != "checkpointed":
                left.append(unreadable(result, message, self._worker))
                continue
            for waiter, name in self._delivery_waiters:
                if name == result.answers_to and not waiter.done():
                    waiter.set_exception(Failure("bad_output", message, retryable=False))
                    waiter.exception()  # a handler that does not wait for its checkpoint has not asked
        self._delivering = left
