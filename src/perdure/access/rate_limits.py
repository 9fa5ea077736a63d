"""Rate limits and places, in this process alone, in bounded memory.

A bucket holds up to `burst` tokens and gains `rate` a second. A name that has not been seen has a full bucket, so the
one unused for longest can be forgotten.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter, OrderedDict

from perdure.access.errors import RateLimited
from perdure.access.principal import Principal
from perdure.clock import Clock

BURST_SECONDS = 2.0
"""The size of a bucket, in seconds' worth of its rate."""
CAPACITY = 10_000
FAILURES_AT_ONCE = 100.0
"""How many wrong credentials one address may send at once; then only FAILURES_PER_SECOND."""
FAILURES_PER_SECOND = 5.0
FAILURES_SAID_SECONDS = 60.0

logger = logging.getLogger("perdure.access")


class Buckets:
    """Token buckets, one per name. A rate of 0 means no limit."""

    def __init__(self, clock: Clock, rate: float, burst: float | None = None, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = max(1.0, rate * BURST_SECONDS if burst is None else burst)
        self._capacity = capacity
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens, and when there were so many; the name used longest ago comes first."""

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, name: str) -> float:
        """How many seconds until there is a token; 0 if there is one. Nothing is taken."""
        if not self._rate:
            return 0.0
        tokens = self._tokens(name)
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._rate

    def spend(self, name: str) -> None:
        """Spend a token, which `wait` has said to be there."""
        if not self._rate:
            return
        self._buckets[name] = (self._tokens(name) - 1.0, self._clock.monotonic())
        self._buckets.move_to_end(name)
        while len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)

    def _tokens(self, name: str) -> float:
        tokens, at = self._buckets.get(name, (self._burst, self._clock.monotonic()))
        return min(self._burst, tokens + (self._clock.monotonic() - at) * self._rate)


class RateLimiter:
    """Limits per key (or subject of a token) and per tenant; a request refused by one of them costs no token."""

    def __init__(self, clock: Clock, *, per_key: float, per_tenant: float) -> None:
        self._keys = Buckets(clock, per_key)
        self._tenants = Buckets(clock, per_tenant)

    def check(self, principal: Principal) -> None:
        """Count this request, or raise `RateLimited`. Users of the machine itself are not counted."""
        if principal.kind == "local":
            return
        key = name_of(principal)
        key_wait, tenant_wait = self._keys.wait(key), self._tenants.wait(principal.tenant)
        if key_wait or tenant_wait:
            who = f"tenant {principal.tenant}" if tenant_wait > key_wait else principal.name
            wait = max(key_wait, tenant_wait)
            raise RateLimited(f"{who} sends too many requests; try again in {wait:.3g} s", wait)
        self._keys.spend(key)
        self._tenants.spend(principal.tenant)


def name_of(principal: Principal) -> str:
    """The name under which a credential is counted."""
    return principal.key_id or f"{principal.kind} {principal.tenant} {principal.name}"


class Failures:
    """Counts wrong credentials by the address they came from. A credential is checked however many were wrong before
    it: many people share an address, and the holder of a valid one must never be locked out. Beyond the limit the
    answer to a wrong one is 429."""

    def __init__(self, clock: Clock, rate: float = FAILURES_PER_SECOND, burst: float = FAILURES_AT_ONCE) -> None:
        self._buckets = Buckets(clock, rate, burst)
        self._said = Buckets(clock, 1 / FAILURES_SAID_SECONDS, 1)

    def count(self, address: str) -> None:
        """Count one more wrong credential; raises `RateLimited` if there were too many."""
        name = network_of(address)
        if wait := self._buckets.wait(name):
            if not self._said.wait(name):
                self._said.spend(name)
                logger.warning("%s sends many wrong credentials; it is refused until there are fewer", name)
            raise RateLimited(f"too many wrong credentials came from this address; try again in {wait:.3g} s", wait)
        self._buckets.spend(name)


def network_of(address: str) -> str:
    """What an address is counted by: itself; for version 6 its /64 network, since an owner of one such address has 2**64 of
    them. On a socket of both versions one of version 4 is written as one of version 6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


class Places:
    """Counts requests that stay (streams, and waits for the end of a run): so many at once per key and per tenant."""

    def __init__(self, per_key: int, per_tenant: int) -> None:
        self._per_key = per_key
        self._per_tenant = per_tenant
        self._keys: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._keys.total()

    def enter(self, principal: Principal) -> Place:
        """Take a place, or raise `RateLimited` if none is left. It is one step: between a check and taking the place any
        number of others could be let in."""
        key = name_of(principal)
        if self._keys[key] >= self._per_key or self._tenants[principal.tenant] >= self._per_tenant:
            full = self._tenants[principal.tenant] >= self._per_tenant
            who, most = (f"tenant {principal.tenant}", self._per_tenant) if full else (principal.name, self._per_key)
            raise RateLimited(
                f"{who} has {most} streams and waiting requests open, which is the maximum; close one and try again",
                1.0,
            )
        self._keys[key] += 1
        self._tenants[principal.tenant] += 1
        return Place((self._keys, key), (self._tenants, principal.tenant))


class Place:
    """A place that is taken, until it is left: at the end of a `with`, or by the task that the request was handed to."""

    def __init__(self, *counted: tuple[Counter[str], str]) -> None:
        self._counted = counted

    def leave(self) -> None:
        """Leave it; leaving it again changes nothing."""
        counted, self._counted = self._counted, ()
        for counter, name in counted:
            counter[name] -= 1
            if not counter[name]:
                del counter[name]

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
