"""Places: which caller is next for one of a few processes or threads. Tenants take turns; where several are known, one never has
all places."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from perdure.turns import Turns, share_of


class Places:
    """The places of one pool. Safe to use from several threads."""

    def __init__(self, number: int, *, always_shared: bool = False) -> None:
        """With `always_shared` a tenant leaves places to others also before another was seen."""
        self._free = number
        self._most = share_of(number)
        self._lock = threading.Lock()
        self._turns = Turns()
        self._waiting: dict[str, tuple[str, Callable[[], None]]] = {}
        self._taken: dict[str, int] = {}
        self._asked = 0
        self._first = ""
        self._several = always_shared

    async def wait(self, tenant: str) -> None:
        """Wait for a place, which the caller then must `leave`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()

        def tell() -> None:
            try:
                if asyncio._get_running_loop() is loop:
                    ready.set()
                else:
                    loop.call_soon_threadsafe(ready.set)
            except RuntimeError:  # the loop is closed, and nobody comes
                self.leave(tenant)

        name = self.ask(tenant, tell)
        try:
            await ready.wait()
        except asyncio.CancelledError:
            if not self.give_up(name):
                self.leave(tenant)
            raise

    def ask(self, tenant: str, ready: Callable[[], None]) -> str:
        """Ask for a place. `ready` is called once there is one, perhaps at once and from any thread; the caller then
        must `leave` it. Returns a name for `give_up`."""
        with self._lock:
            self._several = self._several or tenant != (self._first or tenant)
            self._first = tenant
            self._asked += 1
            name = str(self._asked)
            self._waiting[name] = (tenant, ready)
            self._turns.push(tenant, name)
        self._call_up()
        return name

    def give_up(self, name: str) -> bool:
        """Stop waiting for a place; False if the caller had one by then."""
        with self._lock:
            return self._waiting.pop(name, None) is not None

    def leave(self, tenant: str) -> None:
        with self._lock:
            self._free += 1
            self._taken[tenant] -= 1
            if not self._taken[tenant]:
                del self._taken[tenant]
        self._call_up()

    def _call_up(self) -> None:
        while True:
            with self._lock:
                full = [tenant for tenant, taken in self._taken.items() if self._several and taken >= self._most]
                name = self._turns.pop(self._waiting, full) if self._free else None
                if name is None:
                    return
                tenant, ready = self._waiting.pop(name)
                self._free -= 1
                self._taken[tenant] = self._taken.get(tenant, 0) + 1
            ready()
