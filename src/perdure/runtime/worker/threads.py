"""Threads for sync handlers: a bounded pool that reports back to one event loop in batches.

It owns the threads. A call cannot be killed, so a thread counts as busy until it returns, whatever became of the
attempt. Threads are daemons: a call that never returns does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Answer = tuple[bool, Any]
"""Whether a call returned, and what it returned or raised."""


class _Job:
    __slots__ = ("answer", "call", "context", "ended", "future")

    def __init__(self, call: Callable[[], Any], ended: Callable[[], None], future: asyncio.Future[Answer]) -> None:
        self.call = call
        self.ended = ended
        self.future = future
        self.context = contextvars.copy_context()
        self.answer: Answer = (False, None)


class ThreadPool:
    def __init__(self, loop: asyncio.AbstractEventLoop, size: int, name: str) -> None:
        self._loop = loop
        self._size = size
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._announced = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._open = 0
        """The number of calls that were submitted and have not ended."""

    @property
    def busy(self) -> int:
        return self._open

    def submit(self, call: Callable[[], Any], ended: Callable[[], None]) -> asyncio.Future[Answer]:
        """Run a call in a thread. `ended` is called on the loop when the thread is free, awaited or not."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._open += 1
        self._jobs.put(_Job(call, ended, future))
        if self._open > len(self._threads) and len(self._threads) < self._size:
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    async def call(self, call: Callable[[], Any]) -> Any:
        """What a call gives that belongs to no attempt."""
        returned, value = await self.submit(call, lambda: None)
        if returned:
            return value
        raise value

    def close(self) -> None:
        """Let threads end when they are free; busy ones are left alone."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)

    def join(self) -> None:
        """Wait until the threads have ended, unless a call is under way: this blocks, but never for a handler."""
        if self._open == 0:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not job.future.cancelled():
                try:
                    job.answer = (True, job.context.run(job.call))
                except BaseException as error:  # noqa: BLE001  the attempt decides what any error means
                    job.answer = (False, error)
            self._announce(job)
            del job  # otherwise the last answer would live as long as the thread is idle

    def _announce(self, job: _Job) -> None:
        """Tell the loop that a call has ended, with one wake-up for all that end before it comes around."""
        with self._lock:
            self._ended.append(job)
            if self._announced:
                return
            self._announced = True
        try:
            self._loop.call_soon_threadsafe(self._collect)
        except RuntimeError:  # the loop is closed, and nothing waits for the answer
            pass

    def _collect(self) -> None:
        with self._lock:
            self._announced = False
            ended = list(self._ended)
            self._ended.clear()
        for job in ended:
            self._open -= 1
            if not job.future.done():
                job.future.set_result(job.answer)
            job.ended()
