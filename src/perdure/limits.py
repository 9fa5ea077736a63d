"""Limits: how many attempts may be out at once under one key, and how often. This file is the port.

There are two kinds. **Slots**: an attempt enters before it is published and leaves when it is over; never more than
`limit` are in. A slot is a lease that its owner renews by saying so now and then, so that the slot of a vanished owner
becomes free by itself. A **rate** lets `limit` pass in any stretch of `per_seconds`, and takes nothing back.

The rules an adapter keeps:

1. `enter` lets an owner into all the limits it asks for, or into none. One that is in stays in, whatever the limit is.
2. `occupy` renews slots, and enters again what was lost, even beyond the limit: those owners are running, and saying
   otherwise would not stop them. Then no other is let in until there are fewer than `limit`.
3. A lease lasts `lease_seconds` from the last `enter` or `occupy`, by the adapter's own clock.
4. Limits with the same tenant and key share their slots; each lets in by its own `limit`. Rates of different lengths
   are apart.
5. A rate counts in SLICES of its length and forgets whole slices, so what it lets pass comes back after up to a tenth
   more than `per_seconds`, and never earlier. That keeps a count of a million as small as one of ten.

Losing everything costs no more than this: until the owners say `occupy` again, others may be let in beside them, and
rates begin anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from perdure.capacity import EDGES_PER_NODE, MAX_BACKLOG, SANDBOX_MEMORY_MB
from perdure.errors import SettingsInvalid
from perdure.model.ir import IR, SHORTEST_RATE_SECONDS

SLICES = 10
LEASE_SECONDS = 30.0
EVERYBODY = ""
"""The tenant of a limit that all tenants share. No tenant has this name."""


class Limit(msgspec.Struct, frozen=True):
    tenant: str
    key: str
    limit: int
    per_seconds: float | None = None
    """The length of a rate; None: slots."""

    def __post_init__(self) -> None:
        if self.per_seconds is not None and self.per_seconds < SHORTEST_RATE_SECONDS:
            raise ValueError(f"a rate is of at least {SHORTEST_RATE_SECONDS} s, {self.key!r} of {self.per_seconds} s")

    def __str__(self) -> str:
        if self.per_seconds is None:
            return f"concurrency key {self.key!r}"
        return f"rate key {self.key!r} ({self.limit} in {self.per_seconds:g} s)"


class Ask(msgspec.Struct, frozen=True):
    """One attempt that wants to be published, and its limits: slots first, then rates."""

    owner: str
    limits: tuple[Limit, ...]


class Entered(msgspec.Struct, frozen=True):
    free: tuple[int, ...]
    """How many more attempts each limit would let in now."""


class Full(msgspec.Struct, frozen=True):
    limit: Limit
    """The limit that refused."""
    retry_seconds: float | None = None
    """When a rate lets the next attempt pass. None: when another attempt leaves its slot."""


class Limits(Protocol):
    lease_seconds: float

    async def enter(self, asks: Sequence[Ask]) -> list[Entered | Full]:
        """One answer per ask; earlier asks come first."""
        ...

    async def occupy(self, slots: Sequence[tuple[str, Limit]]) -> None:
        """Renew the slots of attempts that are running, as (owner, limit)."""
        ...

    async def leave(self, slots: Sequence[tuple[str, Limit]]) -> None:
        """Free the slots of attempts that are over. An owner that is not in stays out."""
        ...

    def on_room(self, room: Callable[[str, str], None]) -> Callable[[], None]:
        """Call `room(tenant, key)` when another process left a slot, and with two empty texts when that may have been
        missed.

        It only saves time: nothing depends on it. Returns a function that ends this.
        """
        ...


def in_order(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Slots before rates, because what a rate let pass cannot be given back."""
    return tuple(sorted(limits, key=lambda limit: limit.per_seconds is not None))


# -- what settings bound -----------------------------------------------------------------------------------------------

_QUEUE_LIMIT = re.compile(r"([^\s=,/]+)\s*=\s*([1-9]\d{0,6})(?:\s*/\s*(\d*\.?\d+)\s*s?)?\Z")


class Bounds(msgspec.Struct, frozen=True):
    """Bounds on what one process takes on."""

    queues: Mapping[str, Sequence[Limit]] = {}
    """Limits by queue, over all processes."""
    max_backlog: int = MAX_BACKLOG
    """How many tasks may wait here before new runs are refused."""
    sandbox_memory_mb: int = SANDBOX_MEMORY_MB
    """How much memory one Python condition may have at most."""
    max_nodes: int | None = None
    """How large a definition may be; None: as large as the compiler takes."""

    def find_excess(self, ir: IR) -> str | None:
        """Why a definition is too large for this deployment; None if it is not."""
        if self.max_nodes is None:
            return None
        nodes = sum(1 + (node.item is not None) for node in ir.nodes if node is not None)
        if nodes + len(ir.edges) // EDGES_PER_NODE <= self.max_nodes:
            return None
        return (
            f"the workflow has {nodes:,} nodes and {len(ir.edges):,} edges, of which {EDGES_PER_NODE} count as a node; max_nodes is "
            f"{self.max_nodes:,}: use maps and child workflows, or ask the operator for a larger max_nodes"
        )


def read_queue_limits(text: str, where: str = "queue_limits") -> dict[str, list[Limit]]:
    """`gpu=2, mail=100/60s`: two of queue gpu at once, a hundred of queue mail in any 60 seconds."""
    found: dict[str, list[Limit]] = {}
    wrong: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        match = _QUEUE_LIMIT.match(part)
        if match is not None and (match[3] is None or float(match[3]) >= SHORTEST_RATE_SECONDS):
            seconds = None if match[3] is None else float(match[3])
            found.setdefault(match[1], []).append(Limit(EVERYBODY, f"queue:{match[1]}", int(match[2]), seconds))
        elif part:
            wrong.append(repr(part))
    if wrong:
        raise SettingsInvalid(
            f"setting queue_limits from {where}: expected name=number or name=number/seconds, as in 'gpu=2, mail=100/60s', "
            f"got {', '.join(wrong)}"
        )
    return found
