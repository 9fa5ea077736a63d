"""The threads of a process in which everything is done that would hold up the loop: reading large bodies, compiling,
patching, comparing. Tenants take turns, and none has all threads, so that one that sends much keeps no other waiting.

A thread cannot be killed: whatever is done here is bounded by a size or by its budget. Functions of users are never
called here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from perdure.places import Places

P = ParamSpec("P")
T = TypeVar("T")
NUMBER = 8
"""How many threads a process has. Python executes one at a time; more of them would only take longer each."""


class _Starter(Executor):
    """A thread for each call, which ends with it: nothing is left behind, and a process ends without waiting for it."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # it is done whether or not the caller stays

        def do() -> None:
            try:
                future.set_result(work(*args, **more))
            except BaseException as error:  # noqa: BLE001  the caller sees it
                future.set_exception(error)

        threading.Thread(target=do, name="perdure-aside", daemon=True).start()
        return future


class Threads:
    """A few threads at a time. Safe to use from several loops."""

    def __init__(self, number: int = NUMBER) -> None:
        self._places = Places(number, always_shared=True)
        self._starter = _Starter()

    async def call(self, tenant: str, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """What the work gives, done in a thread when it is the tenant's turn."""
        loop = asyncio.get_running_loop()
        await self._places.wait(tenant)

        def do() -> T:
            try:
                return work(*args, **more)
            finally:  # here and not in the loop: the caller may be gone, and its loop with it
                self._places.leave(tenant)

        try:
            doing = loop.run_in_executor(self._starter, do)
        except BaseException:  # no thread could be started, and nobody else leaves its place
            self._places.leave(tenant)
            raise
        return await doing


_threads = Threads()


async def aside(tenant: str, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Do it in a thread of this process, in the tenant's turn."""
    return await _threads.call(tenant, work, *args, **more)
