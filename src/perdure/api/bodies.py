"""Budget of bodies: how many bytes of them are held at one time, all together, by nobody and by each tenant.

A body has a size (`shell.py`); a thousand connections hold a thousand of them. Who shows no credential shares one small budget.
It must not know what bodies say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.api.problems import TooLarge
from perdure.service.errors import Overloaded

HELD = "perdure.held"
"""Where a request has what it holds."""


class Bodies:
    """Of one server. Tenant "" is whoever showed no credential."""

    def __init__(self, public_each: int, public_all: int, tenant_all: int) -> None:
        self.public_each = public_each
        self._public_all = public_all
        self._tenant_all = tenant_all
        self.bytes: Counter[str] = Counter()

    @contextmanager
    def held_by(self, tenant: str) -> Iterator[Held]:
        """For as long as a request lasts: its body lives as long."""
        held = Held(self, tenant)
        try:
            yield held
        finally:
            self.bytes[tenant] -= held.size
            if not self.bytes[tenant]:
                del self.bytes[tenant]

    def add(self, tenant: str, size: int) -> None:
        most = self._tenant_all if tenant else self._public_all
        if self.bytes[tenant] + size > most:
            raise Overloaded(f"requests hold {self.bytes[tenant]} bytes of {most} already; try again in a moment")
        self.bytes[tenant] += size


class Held:
    """What one request holds."""

    def __init__(self, bodies: Bodies, tenant: str) -> None:
        self._bodies = bodies
        self._tenant = tenant
        self.size = 0
        self.data: bytes | None = None
        """The body, when it was read."""

    def expect(self, length: str) -> None:
        """What the request says of itself; whether it is true is seen as it arrives."""
        if length.isdecimal():
            self._check(int(length))

    def take(self, size: int) -> None:
        self._check(self.size + size)
        self._bodies.add(self._tenant, size)
        self.size += size

    def _check(self, size: int) -> None:
        most = self._bodies.public_each
        if not self._tenant and size > most:
            raise TooLarge(f"the body has more than {most} bytes, which is what is taken without a credential")
