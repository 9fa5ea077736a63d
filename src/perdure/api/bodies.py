"""The budget of request bodies: how many bytes each tenant, and all callers without a credential, may hold at one time.

The size of one body is limited in `shell.py`, but a thousand connections hold a thousand of them. Callers without a
credential share one small budget. This file must not know what bodies say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.api.problem_details import TooLarge
from perdure.service.errors import Overloaded

BODY = "perdure.body"
"""The key in the ASGI scope of a request's `RequestBody`."""


class Bodies:
    """The bodies that one server holds, in bytes by tenant. Tenant "" stands for callers that showed no credential."""

    def __init__(self, public_each: int, public_all: int, tenant_all: int) -> None:
        self.public_each = public_each
        self._public_all = public_all
        self._tenant_all = tenant_all
        self.bytes: Counter[str] = Counter()

    @contextmanager
    def counted(self, tenant: str) -> Iterator[RequestBody]:
        """Count the body of a request for as long as the request lasts, since the body lives as long."""
        body = RequestBody(self, tenant)
        try:
            yield body
        finally:
            self.bytes[tenant] -= body.size
            if not self.bytes[tenant]:
                del self.bytes[tenant]

    def add(self, tenant: str, size: int) -> None:
        most = self._tenant_all if tenant else self._public_all
        if self.bytes[tenant] + size > most:
            raise Overloaded(
                f"requests under way already take {self.bytes[tenant]} of the {most} bytes they may take together; try again in a moment"
            )
        self.bytes[tenant] += size


class RequestBody:
    """The body that one request holds."""

    def __init__(self, bodies: Bodies, tenant: str) -> None:
        self._bodies = bodies
        self.tenant = tenant
        """Empty: the caller showed no credential."""
        self.size = 0
        self.data: bytes | None = None
        """The body; None until it has been read."""
        self.most = bodies.public_each
        """The most bytes of it, where the caller shows no credential."""

    @property
    def is_public(self) -> bool:
        """Whether the caller showed no credential."""
        return not self.tenant

    def expect(self, length: str) -> None:
        """Check the length that the request declares; the true one is counted by `spend` as the body arrives."""
        if length.isdecimal():
            self._check(int(length))

    def spend(self, size: int) -> None:
        self._check(self.size + size)
        self._bodies.add(self.tenant, size)
        self.size += size

    def _check(self, size: int) -> None:
        if self.is_public and size > self.most:
            raise TooLarge(
                f"the body has more than {self.most} bytes, the maximum without a credential; send a smaller one, or a credential"
            )
